"""Model order: what does a rank that is too large do to the prediction, and can the right one be found?

The paper fits R = 2 and R = 20 and finds that EM falls and VB stays. Here is the whole curve, for the tensor alone
(PLTF) and coupled (GCTF), and what the paper leaves out: R chosen by the bound, by pruning, and by dropping components.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

import plait
from lab.harness.results import Cell, Figures
from lab.paper.acts import BASELINES, COUPLED_CP, CP, baseline, hidden, judged
from lab.paper.experiment import Experiment, Lab
from lab.paper.rank import dropped
from lab.paper.settings import engine
from lab.paper.sources.uclaf import load, source

METHODS = {
    "PLTF-EM": (CP, "em"),
    "PLTF-VB": (CP, "vb"),
    "GCTF-EM": (COUPLED_CP, "em"),
    "GCTF-VB": (COUPLED_CP, "vb"),
}
TIES = ("factor", "component", "rank-one")  # what VB learns one prior for; EM has none
MISSING = (0.4, 0.6, 0.8)
RANKS = (1, 2, 3, 5, 8, 12, 20, 30)
SMALL, LARGE = 2, 20  # the paper's two
RUNS, FEWER_RUNS = 5, 3
SWEEPS, LONG_SWEEPS = 150, 2000
LIGHT = 0.1  # weight of the side relations, where they are not to drown the links


def cells(lab: Lab) -> list[Cell]:
    """Parts: the curve; EM until it converges (long); light side relations; R found by pruning, dropping."""
    runs, missing = (1, (0.6,)) if lab.quick else (RUNS, MISSING)
    ranks = (SMALL, 6) if lab.quick else RANKS
    ends, many = ((SMALL, 6), 4) if lab.quick else ((SMALL, LARGE), LARGE)
    found = []
    for run in range(runs):
        for share in missing:
            case = partial(_case, missing=share, run=run)
            found += [case("baseline", name, rank=0) for name in BASELINES]
            found += [case("curve", *one, rank=rank) for one in tied(METHODS) for rank in ranks if _wanted(rank, run)]
            found += [case("long", method, rank=rank) for method in ("PLTF-EM", "GCTF-EM") for rank in ends]
            found += [case("light", *one, rank=rank) for one in tied(("GCTF-EM", "GCTF-VB")) for rank in ends]
            found += [case("prune", method, tie, many) for method in ("PLTF-VB", "GCTF-VB") for tie in TIES[1:]]
            found += [
                case("drop", method, "component", many // 2) for method in ("PLTF-VB", "GCTF-VB") if _wanted(0, run)
            ]
    return found


def _case(part: str, method: str, adapt: str = "none", rank: int = 0, *, missing: float, run: int) -> Cell:
    return {"part": part, "method": method, "adapt": adapt, "rank": rank, "missing": missing, "run": run}


def _wanted(rank: int, run: int) -> bool:
    return run < FEWER_RUNS or rank in (SMALL, LARGE)


def tied(methods: Sequence[str] | Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every method with every way to learn its priors."""
    return [(method, tie) for method in methods for tie in (TIES if method.endswith("VB") else ("none",))]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Hide cells, fit the rest, and see whether the hidden links are found."""
    data, about = load(lab), dict[str, Any](cell)
    part = about["part"]
    train, test = hidden(data, about["missing"], about["run"])
    if part == "baseline":
        return judged(test, baseline(data, about["method"], test))
    model, method = METHODS[about["method"]]
    if model == COUPLED_CP:
        train = data.relations() | train
    if part == "light":
        train = {name: one if name == "acts" else replace(one, weight=LIGHT) for name, one in train.items()}
    prune = part in ("prune", "drop")
    refit = partial(
        plait.fit,
        model,
        train,
        entities=data.entities,
        method=method,
        max_iter=_sweeps(lab, part),
        tol=1e-9 if part == "long" else 1e-6,
        seed=about["run"],
        progress=False,
        **engine(method, starts_at_random=not prune)
        | ({"adapt_prior": about["adapt"], "prune": prune} if method == "vb" else {}),
    )
    begin = time.perf_counter()
    fit = refit(rank=about["rank"])
    if part == "drop":
        fit = dropped(fit, refit)
    return of_fit(fit, test) | {"found": fit.rank["r"], "seconds": time.perf_counter() - begin}


def _sweeps(lab: Lab, part: str) -> int:
    long, short = (60, 20) if lab.quick else (LONG_SWEEPS, SWEEPS)
    return long if part == "long" else short


def of_fit(fit: plait.Fit, test: pl.DataFrame) -> dict[str, float]:
    """The figures of one fit."""
    metrics = plait.evaluate(fit, "acts", test)
    return {
        "auc": metrics["roc_auc"],
        "ap": metrics["average_precision"],
        "bound": fit.objective,
        "sweeps": fit.history[-1].sweep,
    }


EXPERIMENT = Experiment("order", "Model order: EM and VB as the rank grows", cells, measure, source)
