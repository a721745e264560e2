"""Plait: the obvious equation for each kind of data, everything else left as it is. Only EM tries anything."""

import warnings
from typing import Any

import numpy as np
import polars as pl

import plait
from bench.quality.cells import Cells
from bench.quality.data import Seen
from bench.quality.methods.method import Method
from bench.quality.scores import Scores
from plait.predict.chance import score

EQUATIONS = {
    "triples": "X[h,p,t] = H[h,a] P[a,p,b] T[t,b]",
    "graph": "X[a,b] = A[a,r] B[b,r]\nb: a",
    "matrix": "X[u,i] = U[u,r] I[i,r]",
    "tensor": "X[i,j,k] = A[i,r] B[j,r] C[k,r]",
}
RANK = 20  # of a single fit, whatever the data
SMALL = 2_000_000  # cells; beyond, links are so rare that Poisson and Bernoulli hardly differ, and Poisson is quicker


class Default(Method):
    """One fit."""

    says = f"one fit of rank {RANK}, nothing chosen"

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Fitted(fitted(seen, rank=RANK, seed=seed))


class Five(Method):
    """An ensemble."""

    says = "`restarts=5`, the rank left out, nothing chosen"

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        fit = fitted(seen, restarts=5, seed=seed)
        return Fitted(fit, {"rank": " × ".join(map(str, fit.rank.values()))})


class Em(Method):
    """Maximum likelihood of the same equation."""

    says = 'one fit, `method="em"`; tried: the rank'
    settings = ({"rank": 3}, {"rank": 5}, {"rank": 10}, {"rank": 20})

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        return Fitted(fitted(seen, **setting, seed=seed, method="em"))


def fitted(seen: Seen, **options: Any) -> plait.Fit:
    """A fit of the equation for this kind of data; every entity is there, also one without links."""
    text = EQUATIONS[seen.kind]
    model = plait.Model(text)
    indices = model.equation("X").indices
    tables = [pl.DataFrame(part, schema=list(indices)) for part in (seen.links, seen.closed)]
    likelihood = "bernoulli" if np.prod(seen.shape) <= SMALL else "poisson"
    relation = plait.Relation(
        tables[0], missing=tables[1] if len(seen.closed) else None, universe="model", likelihood=likelihood
    )
    labels = {index: range(size) for index, size in zip(indices, seen.shape) if model.axis(index) == index}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        return plait.fit(model, {"X": relation}, labels=labels, threads=1, progress=False, **options)


class Fitted(Scores):
    """The expected link of a fit."""

    def __init__(self, fit: plait.Fit, found: dict[str, Any] | None = None) -> None:
        super().__init__(tuple(len(fit.labels[index]) for index in fit.model.equation("X").indices), found)
        self.fit = fit

    def cells(self, cells: Cells) -> np.ndarray:
        return score(self.fit, "X", cells)
