"""PyKEEN: embeddings of knowledge graphs by stochastic gradients, both directions of every relation trained."""

import logging
from typing import Any

import numpy as np

from lab.quality.cells import Cells
from lab.quality.data import Seen
from lab.quality.methods.method import Method
from lab.quality.scores import Dense, Scores

BATCH, EPOCHS = 512, 30  # more epochs only overfit, by the validation triples of Kinships
INITIALIZER = "xavier_normal_"  # those that PyKEEN takes by itself are so large that they are never forgotten
CHUNK_QUERIES = 1024  # queries scored at a time


class ComplEx(Method):
    """Complex embeddings, trilinear."""

    package = "pykeen"
    says = "PyKEEN: complex embeddings, cross-entropy over all tails, Adam; tried: dimension, regularisation"
    kinds = ("triples",)
    model = "ComplEx"
    rate = 0.02
    lengths = tuple({"epochs": n} for n in (1, 2, 5, 10, 20, EPOCHS))
    settings = tuple({"dimension": size, "regularization": weight} for size in (64, 256) for weight in (0.03, 0.3))

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        import torch
        from pykeen.models import model_resolver
        from pykeen.training import LCWATrainingLoop
        from pykeen.triples import CoreTriplesFactory

        logging.disable(logging.WARNING)
        entities, relations, _ = seen.shape
        factory = CoreTriplesFactory(
            torch.tensor(seen.links), num_entities=entities, num_relations=relations, create_inverse_triples=True
        )
        model = model_resolver.make(
            self.model, triples_factory=factory, embedding_dim=setting["dimension"], loss="crossentropy",
            entity_initializer=INITIALIZER, relation_initializer=INITIALIZER, regularizer="lp",
            regularizer_kwargs={"weight": setting["regularization"], "p": 2.0, "normalize": True}, random_seed=seed,
        )  # fmt: skip
        optimizer = torch.optim.Adam(model.get_grad_params(), lr=self.rate)
        loop = LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
        epochs = setting.get("epochs", 5 if quick else EPOCHS)
        loop.train(triples_factory=factory, num_epochs=epochs, batch_size=BATCH, use_tqdm=False)
        return Embedded(model, seen.shape)


class Rescal(ComplEx):
    """A matrix for every relation."""

    says = "PyKEEN: a matrix for each relation, cross-entropy over all tails, Adam; tried: dimension, regularisation"
    model = "RESCAL"
    rate = 0.01
    settings = tuple({"dimension": size, "regularization": weight} for size in (32, 64) for weight in (0.03, 0.3))


class Embedded(Scores):
    """Tails are scored by the relation, heads by its inverse, single cells by the mean of both."""

    def __init__(self, model: Any, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        heads, relations, tails = shape
        tail = _all(model.predict_t, heads, relations).reshape(shape)
        head = _all(model.predict_h, relations, tails).reshape(relations, tails, heads)
        self.by = {2: Dense(tail), 0: Dense(np.moveaxis(head, -1, 0))}

    def cells(self, cells: Cells) -> np.ndarray:
        return (self.by[0].cells(cells) + self.by[2].cells(cells)) / 2

    def along(self, cells: Cells, axis: int) -> np.ndarray:
        return self.by[axis].along(cells, axis) if axis in self.by else super().along(cells, axis)


def _all(predict: Any, first: int, second: int) -> np.ndarray:
    """The scores (first × second, entities) of all pairs."""
    import torch

    pairs = torch.cartesian_prod(torch.arange(first), torch.arange(second))
    with torch.no_grad():  # PyKEEN writes into what it is given
        return torch.cat([predict(part.clone()) for part in pairs.split(CHUNK_QUERIES)]).numpy()
