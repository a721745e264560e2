"""Hyperparameters: which prior, if it is not learnt?

Every entry of every factor has a Gamma prior of concentration A and mean B. The paper's three pairs, its claim that A
below 1 with B above 10 does better, and priors that are learnt from the data; coupled, R = 2.
"""

import time
from typing import Any

import plait
from lab.harness.results import Cell, Figures
from lab.paper.acts import BASELINES, COUPLED_CP, baseline, hidden, judged
from lab.paper.experiment import Experiment, Lab
from lab.paper.order import MISSING, TIES, of_fit
from lab.paper.settings import engine
from lab.paper.sources.uclaf import load, source

RANK = 2
RUNS = 10
SWEEPS = 300
PUBLISHED = ((0.5, 10.0), (10.0, 10.0), (100.0, 1.0))  # best first, says the paper
CLAIMED = ((0.5, 20.0), (0.5, 100.0), (0.3, 100.0), (0.1, 20.0), (0.1, 100.0))  # A < 1 and B > 10
OTHERS = ((0.5, 0.1), (0.5, 1.0), (1.0, 10.0), (2.0, 10.0))  # which of the two, A or B, is it?
PRIORS = PUBLISHED + CLAIMED + OTHERS


def cells(lab: Lab) -> list[Cell]:
    """Priors that stay as given (adapt "none"), priors that are learnt, and EM, which has none."""
    runs, missing = (1, (0.6,)) if lab.quick else (RUNS, MISSING)
    fixed = [("GCTF-VB", "none", A, B) for A, B in PRIORS]
    learnt = [("GCTF-VB", tie, *PUBLISHED[0]) for tie in TIES]  # A and B are where learning begins
    without = [(method, "none", None, None) for method in ("GCTF-EM", *BASELINES)]
    return [
        {"method": method, "adapt": adapt, "A": A, "B": B, "missing": share, "run": run}
        for run in range(runs)
        for share in missing
        for method, adapt, A, B in [*fixed, *learnt, *without]
    ]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Hide cells, fit the rest under one prior, and see whether the hidden links are found."""
    data, about = load(lab), dict[str, Any](cell)
    train, test = hidden(data, about["missing"], about["run"])
    if about["method"] in BASELINES:
        return judged(test, baseline(data, about["method"], test))
    begin = time.perf_counter()
    fit = plait.fit(
        COUPLED_CP,
        data.relations() | train,
        entities=data.entities,
        rank=RANK,
        max_iter=20 if lab.quick else SWEEPS,
        seed=about["run"],
        progress=False,
        **engine("em" if about["method"] == "GCTF-EM" else "vb") | prior(about),
    )
    return of_fit(fit, test) | {"seconds": time.perf_counter() - begin}


def prior(about: dict[str, Any]) -> dict[str, Any]:
    """How the prior of a cell is said to plait.fit."""
    if about["method"] == "GCTF-EM":
        return {"method": "em"}
    adapt = None if about["adapt"] == "none" else about["adapt"]
    return {"prior": plait.Gamma(concentration=about["A"], mean=about["B"]), "adapt_prior": adapt}


EXPERIMENT = Experiment("hyper", "Hyperparameters: the prior", cells, measure, source)
