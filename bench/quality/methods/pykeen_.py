"""PyKEEN: embeddings of knowledge graphs by stochastic gradients, both directions of every relation trained."""

import logging
from typing import Any

import numpy as np

from bench.quality.cells import Cells
from bench.quality.data import Seen
from bench.quality.methods.method import Method
from bench.quality.scores import Dense, Scores

BATCH = 512
PIECE = 1024  # queries scored at a time


class ComplEx(Method):
    """Complex embeddings, trilinear."""

    package = "pykeen"
    says = "PyKEEN: complex embeddings, Adam, all tails at once; tried: dimension, loss"
    kinds = ("triples",)
    model = "ComplEx"
    rate = 0.05
    epochs = 60
    settings = tuple({"dimension": d, "loss": loss} for d in (64, 256) for loss in ("crossentropy", "bcewithlogits"))

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
            self.model, triples_factory=factory, embedding_dim=setting["dimension"], loss=setting["loss"],
            random_seed=seed,
        )  # fmt: skip
        optimizer = torch.optim.Adam(model.get_grad_params(), lr=self.rate)
        loop = LCWATrainingLoop(model=model, triples_factory=factory, optimizer=optimizer)
        epochs = 5 if quick else self.epochs
        loop.train(triples_factory=factory, num_epochs=epochs, batch_size=BATCH, use_tqdm=False)
        return Embedded(model, seen.shape)


class Rescal(ComplEx):
    """A matrix for every relation."""

    says = "PyKEEN: a matrix for each relation, Adam, all tails at once; tried: dimension, loss"
    model = "RESCAL"
    settings = tuple({"dimension": d, "loss": loss} for d in (32, 64) for loss in ("crossentropy", "bcewithlogits"))


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
        return torch.cat([predict(part.clone()) for part in pairs.split(PIECE)]).numpy()
