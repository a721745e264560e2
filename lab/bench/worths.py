"""Whether `weight="auto"` predicts better than weights of 1: the figures at the end of docs/decisions/0018-adapt.md."""

import itertools
import time
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import plait
from lab.harness.sources import SHARED
from lab.harness.table import show
from lab.paper.acts import COUPLED_CP, hidden, judged
from lab.paper.experiment import Lab
from lab.paper.sources import uclaf as acting

CASES = ((0.8, 5), (0.9, 20))  # of UCLAF: missing, rank
SPLITS = range(3)
DRAWN = "X[i,j] = A[i,r] B[j,r]; Y[i,k] = A[i,r] C[k,r]"
SETS = range(9)  # of drawn data of each kind
WEIGHTS = (1.0, "auto")


def compare() -> None:
    """UCLAF, then drawn side relations that share all, half or nothing with the predicted relation."""
    warnings.simplefilter("ignore", plait.PlaitWarning)
    if SHARED.exists():
        _uclaf()
    _drawn()


def _uclaf() -> None:
    """AUC and AP of hidden acts, by what shares a prior."""
    data, rows = acting.load(Lab(False, SHARED, SHARED)), []
    sides = {name: side for name, side in data.relations().items() if name != "acts"}
    for (missing, rank), adapt, run, weight in itertools.product(CASES, ("auto", "factor"), SPLITS, WEIGHTS):
        train, test = hidden(data, missing, run)
        relations = train | {name: replace(side, weight=weight) for name, side in sides.items()}
        began = time.process_time()
        fit = plait.fit(
            COUPLED_CP,
            relations,
            rank=rank,
            adapt_prior=adapt,
            entities=data.entities,
            seed=run,
            threads=1,
            progress=False,
        )
        seconds = time.process_time() - began
        figures = judged(test, fit.predict("acts", test)["mean"].to_numpy())
        shown = " / ".join(f"{figure:.3f}" for figure in figures.values())
        rows.append([f"{missing:.0%}", str(rank), adapt, str(run), _found(fit.settings), shown, f"{seconds:.1f} s"])
        print(*rows[-1], flush=True)
    columns = ["missing", "rank", "adapt", "split", "weights", "AUC / AP", "processor time"]
    show("UCLAF, by weights of visits and features", columns, rows)


def _found(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {weight:g}" for name, weight in settings.get("weights", {}).items()) or "1"


def _drawn() -> None:
    """Poisson log-likelihood of a cell of fresh counts of the same rates."""
    rows = []
    for kind, seed in itertools.product(("shared", "half", "other", "noise"), SETS):
        X, Y, fresh = _draw(kind, seed)
        line = [kind, str(seed)]
        for weight in WEIGHTS:
            data = {"X": X, "Y": plait.Relation(Y, weight=weight)}
            fit = plait.fit(DRAWN, data, rank=6, seed=seed, threads=1, progress=False)
            mean = fit.factors["A"].mean @ fit.factors["B"].mean.T
            line += [_found(fit.settings), f"{(fresh * np.log(mean) - mean).mean():.4f}"]
        rows.append(line)
        print(*line, flush=True)
    show(
        "Drawn side relations", ["Y", "set", "weight", "log-likelihood", "weight", "log-likelihood"], rows,
    )  # fmt: skip


def _draw(kind: str, seed: int) -> tuple[Any, Any, Any]:
    """600 counts of four groups, 5,000 of a side relation, and 600 fresh ones."""
    rng = np.random.default_rng(seed)
    A, B, C, other = (rng.gamma(0.2, 1.0, (size, 4)) for size in (60, 50, 50, 60))
    side_factor = {"shared": A, "half": np.c_[A[:, :2], other[:, 2:]], "other": other, "noise": np.ones((60, 4))}[kind]
    X, Y = A @ B.T, side_factor @ C.T
    return tuple(
        rng.poisson(rates * total / rates.sum()).astype(float) for rates, total in ((X, 600), (Y, 5000), (X, 600))
    )
