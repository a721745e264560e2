"""Plait: the obvious equation for each kind of data, everything else left as it is. Only EM tries anything."""

import warnings
from typing import Any

import numpy as np
import polars as pl

import plait
from lab.quality.cells import Cells
from lab.quality.data import Seen
from lab.quality.methods.method import Method
from lab.quality.scores import Scores
from plait.analysis.predict.moments import mean_rate, rates_along
from plait.analysis.predict.order import order_scores

EQUATIONS = {
    "triples": "X[h,p,t] = H[h,a] P[a,p,b] T[t,b]",
    "graph": "X[a,b] = A[a,r] B[b,r]\nb: a",
    "matrix": "X[u,i] = U[u,r] I[i,r]",
    "tensor": "X[i,j,k] = A[i,r] B[j,r] C[k,r]",
}
RANK = 20  # of a single fit of any data
MAX_BERNOULLI_CELLS = (
    2_000_000  # cells; beyond, links are so rare that Poisson and Bernoulli hardly differ, and Poisson is quicker
)


class Default(Method):
    """One fit."""

    large = True

    says = f"one fit of rank {RANK}, nothing chosen"
    # The first sweeps of a fit are those of EM.
    lengths = (
        *({"method": "em", "max_iter": n} for n in (2, 5, 10, 20, 50)),
        *({"max_iter": n} for n in (2, 10, 30, 100)),
        {},
    )

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Fitted(fitted(seen, rank=RANK, seed=seed, **setting))


class Five(Method):
    """An ensemble."""

    large = True

    says = "`restarts=5`, the rank left out, nothing chosen"

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        fit = fitted(seen, restarts=5, seed=seed)
        return Fitted(fit, _found(fit))


class Evidence(Method):
    """One fit with the evidence that it takes itself; ends of one kind have one factor."""

    says = 'one fit, `evidence="auto"`, the rank left out'
    large = True
    restarts = 1

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        fit = fitted(seen, SHARED[seen.kind], evidence="auto", restarts=self.restarts, seed=seed)
        return Fitted(fit, _found(fit) | {"evidence": _evidence(fit)})


class EvidenceFive(Evidence):
    """An ensemble."""

    says = "the same with `restarts=5`"
    restarts = 5


class Rules(Method):
    """One fit with neighbours and rules."""

    kinds = ("triples",)
    large = True
    says = f'one fit of rank {RANK}, `evidence=("neighbours", "rules")`'

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Fitted(fitted(seen, SHARED[seen.kind], evidence=("neighbours", "rules"), rank=RANK, seed=seed))


class Em(Method):
    """Maximum likelihood of the same equation."""

    says = 'one fit, `method="em"`; tried: the rank'
    settings = ({"rank": 3}, {"rank": 5}, {"rank": 10}, {"rank": 20})

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Fitted(fitted(seen, **setting, seed=seed, method="em"))


class Other(Method):
    """An ensemble of another equation."""

    text = ""

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        fit = fitted(seen, self.text, fixed=self.given(seen), restarts=5, seed=seed)
        return Fitted(fit, _found(fit))

    def given(self, seen: Seen) -> dict[str, Any] | None:
        """Factors that are given."""
        return None


class Symmetric(Other):
    """One factor twice: an edge is one cell."""

    kinds = ("graph",)
    text = "X[a,b] = U[a,r] U[b,r]\nb: a"
    says = f"five fits of `{text.splitlines()[0]}`"


class SymmetricPaths(Other):
    """The same with what common neighbours say."""

    kinds = ("graph",)
    text = "X[a,b] = U[a,r] U[b,r] + w[] N[a,b]\nb: a"
    says = f"five fits of `{text.splitlines()[0]}`, N by `plait.evidence.paths`"

    def given(self, seen: Seen) -> dict[str, Any]:
        links = pl.DataFrame(seen.links, schema=["a", "b"])
        return {"N": plait.Exposure(plait.evidence.paths(links, length=2), default=0)}


class Shared(Other):
    """Heads and tails are the same entities, which have one factor."""

    kinds = ("triples",)
    text = "X[h,p,t] = A[h,a] G[a,p,b] A[t,b]\nt: h"
    says = f"five fits of `{text.splitlines()[0]}`"


class Pairwise(Other):
    """Components of pairs of indices, next to those of all three."""

    kinds = ("tensor",)
    text = "X[i,j,k] = A[i,r] B[j,r] C[k,r] + D[i,s] E[k,s] + F[j,q] G[k,q]"
    says = f"five fits of `{text}`"


class Remembered(Pairwise):
    """The same, and a memory of the pairs themselves."""

    text = f"{Pairwise.text} + M[j,k] + N[i,k]"
    says = f"five fits of `{text}`"


SHARED = EQUATIONS | {"triples": Shared.text, "graph": Symmetric.text}


def _found(fit: plait.Fit) -> dict[str, Any]:
    """The rank of each latent index."""
    return {"rank": " × ".join(map(str, fit.rank.values()))}


def _evidence(fit: plait.Fit) -> str:
    """The kinds of evidence that a fit took."""
    return " and ".join(kind for kind in ("neighbours", "paths", "rules") if kind in fit.model.factors) or "none"


def fitted(seen: Seen, text: str = "", **options: Any) -> plait.Fit:
    """A fit of an equation, the obvious one for this kind of data if none is given; every entity is there."""
    model = plait.Model(text or EQUATIONS[seen.kind])
    indices = model.equation("X").indices
    tables = [pl.DataFrame(part, schema=list(indices)) for part in (seen.links, seen.closed)]
    likelihood = "bernoulli" if np.prod(seen.shape) <= MAX_BERNOULLI_CELLS else "poisson"
    closed = len(seen.closed) and not model.equation("X").doubled  # where the diagonal is missing anyway
    relation = plait.Relation(tables[0], missing=tables[1] if closed else None, unseen="zero", likelihood=likelihood)
    labels = {index: range(size) for index, size in zip(indices, seen.shape) if model.axis(index) == index}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        return plait.fit(model, {"X": relation}, entities=labels, threads=1, progress=False, **options)


class Fitted(Scores):
    """How probable links are by a fit: by the mean rate or, for Bernoulli, in the order of `plait.evaluate`."""

    def __init__(self, fit: plait.Fit, found: dict[str, Any] | None = None) -> None:
        super().__init__(tuple(len(fit.entities[index]) for index in fit.model.equation("X").indices), found)
        self.fit = fit

        self.is_plain = fit.likelihood["X"].plain

    def cells(self, cells: Cells) -> np.ndarray:
        return (mean_rate if self.is_plain else order_scores)(self.fit, "X", cells)

    def along(self, cells: Cells, axis: int) -> np.ndarray:
        if not self.is_plain:
            return super().along(cells, axis)
        return rates_along(self.fit, "X", cells, self.fit.model.equation("X").indices[axis])
