"""A million cells with every column: CP-3 of cold, mixed and warm rows, and a Tucker model; seconds.

Then processor time per cell of one fit, compared with an ensemble of five.
"""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

import plait
from lab.bench import measure
from lab.harness.table import show
from plait.analysis.predict.prediction import columns
from plait.storage.fitted import Posterior

MODELS = {
    "CP-3, R = 10": ("X[i,j,k] = A[i,r] B[j,r] C[k,r]", 10),
    "CP-3, R = 20": ("X[i,j,k] = A[i,r] B[j,r] C[k,r]", 20),
    "Tucker 5×5×5": ("X[i,j,k] = A[i,p] B[j,q] C[k,r] G[p,q,r]", 5),
}
# Concentrations of the entries: what few, some and many links leave.
KINDS = {"cold": (0.05, 1.0), "mixed": (0.05, 1000.0), "warm": (50.0, 1000.0)}


def fit_of(text: str, rank: int, side: int, kind: str, seed: int = 0) -> plait.Fit:
    """A fit with random posteriors whose cells have means about 1, without fitting `side`³ cells."""
    rng = np.random.default_rng(seed)
    tiny = plait.fit(text, {"X": np.ones((2, 2, 2))}, rank=1, max_iter=1, seed=0)
    low, high = KINDS[kind]
    factors, labels = {}, dict(tiny.entities)
    terms = rank if len(tiny.rank) == 1 else rank**3
    for name, old in tiny.factors.items():
        shape = [side if index in "ijk" else rank for index in old.indices]
        C = np.exp(rng.uniform(np.log(low), np.log(high), shape))
        E = rng.gamma(0.5, 2.0, shape) * terms ** (-1 / len(tiny.factors))
        factors[name] = Posterior(old.indices, C, E / C, E, E)
    for index in "ijk":
        labels[index] = type(labels[index]).count(index, side)
    return replace(tiny, rank=dict.fromkeys(tiny.rank, rank), factors=factors, entities=labels)


def compare(cells: int = 1_000_000, side: int = 500) -> None:
    """Seconds for all columns, for the mean only, and for the first call of a process."""
    rows = []
    at = np.random.default_rng(1).integers(0, side, (cells, 3))
    for name, (text, rank) in MODELS.items():
        few = cells // 50 if "Tucker" in name else cells
        for kind in KINDS:
            fit = fit_of(text, rank, side, kind)
            runs = {
                "all": lambda fit=fit, few=few: columns(fit, "X", at[:few]),
                "moments": lambda fit=fit, few=few: columns(fit, "X", at[:few], ("mean", "sd")),
                "mean": lambda fit=fit, few=few: columns(fit, "X", at[:few], ("mean",)),
            }
            times = measure.interleave(runs, repeats=3, warm=1)
            rows.append([name, kind, f"{few:,}", *(times[run].median for run in runs)])
    columns_shown = ["model", "rows", "cells", "all columns", "mean, sd", "mean"]
    show("Prediction: seconds", columns_shown, rows)
    _compare_ensembles(at[: max(1, cells // 500)])


def _compare_ensembles(at: np.ndarray, count: int = 5) -> None:
    """Processor microseconds a cell for all columns: the mean over single fits, their mixture, and the ratio."""
    rows = []
    for name, (text, rank) in MODELS.items():
        some = at[: max(1, len(at) // 20)] if "Tucker" in name else at
        for kind in KINDS:
            fits = [fit_of(text, rank, int(at.max()) + 1, kind, seed) for seed in range(count)]
            for likelihood in ("poisson", "bernoulli"):
                members = [replace(fit, likelihood={"X": likelihood}) for fit in fits]
                whole = SimpleNamespace(likelihood={"X": likelihood}, members=tuple(members))
                one = sum(_microseconds(member, some) for member in members) / count
                mixed = _microseconds(whole, some)
                rows.append([name, kind, likelihood, f"{one:.1f}", f"{mixed:.1f}", f"{mixed / one:.1f}"])
    shown = ["model", "rows", "likelihood", "one fit", f"{count} members", "ratio"]
    show("Ensembles: processor µs a cell, all columns", shown, rows)


def _microseconds(fit: Any, at: np.ndarray) -> float:
    columns(fit, "X", at[:10])
    begin = time.process_time()
    columns(fit, "X", at)
    return (time.process_time() - begin) / len(at) * 1e6
