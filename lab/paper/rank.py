"""A known rank, found again: how many components have the data?

The paper says that the bound and component-wise priors can tell, and leaves it out. Here data are drawn from a CP model
of known rank, and four ways are tried, none of which knows it:

- bound: fit rank 1, 2, 3, … and take the one with the best bound.
- prune: start with far too many; the loop removes components that explain nothing (`prune=True`).
- prune, best: the same from several starts; the one with the best bound counts.
- drop: prune, then leave out one component at a time, refit the rest, and keep that if the bound did not fall.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import plait
from lab.harness.results import Cell, Figures
from lab.paper.experiment import Experiment, Lab
from lab.paper.settings import engine
from lab.paper.sources.drawn import draw

MODEL = plait.Model("X[i, j, k] = A[i, r] B[j, r] C[k, r]")
SHAPE = (60, 50, 20)
RANKS = (3, 5, 8)
COUNTS = (2_000, 20_000)
RUNS = 5

# A way, and what one prior is learnt for: each factor, each of its components, or entity × component.
WAYS = (
    ("bound", "factor"),
    ("bound", "rank-one"),
    ("prune", "component"),
    ("prune", "rank-one"),
    ("prune, best", "rank-one"),
    ("drop", "component"),
    ("drop", "rank-one"),
)
TOO_MANY = 20  # components to prune from
STARTS = {"bound": 2, "prune, best": 5}
PATIENCE = 2  # ranks in a row that bring no better bound, and the search ends

Refit = Callable[..., plait.Fit]  # takes rank= and perhaps init=, seed=


def cells(lab: Lab) -> list[Cell]:
    """Every way on the same data."""
    ranks, counts, runs = ((2,), (3_000,), 1) if lab.quick else (RANKS, COUNTS, RUNS)
    return [
        {"way": way, "adapt": adapt, "rank": rank, "counts": total, "run": run}
        for run in range(runs)
        for total in counts
        for rank in ranks
        for way, adapt in WAYS
    ]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Draw data, and look for their rank."""
    about = dict[str, Any](cell)
    shape, too_many, sweeps = ((20, 15, 6), 4, 60) if lab.quick else (SHAPE, TOO_MANY, 500)
    data = MODEL.bind(
        {"X": plait.Relation(draw(shape, about["rank"], about["counts"], seed=about["run"]), likelihood="poisson")}
    )
    way = about["way"]
    refit = partial(
        plait.fit,
        MODEL,
        data,
        **engine("vb", starts_at_random=way == "bound") | {"adapt_prior": about["adapt"]},
        prune=way != "bound",
        max_iter=sweeps,
        seed=0,
        progress=False,
    )
    begin = time.perf_counter()
    if way == "bound":
        fit = by_bound(refit, STARTS[way])
    elif way == "drop":
        fit = dropped(refit(rank=too_many), refit)
    else:
        fit = best(refit, too_many, STARTS.get(way, 1))
    return {"found": fit.rank["r"], "bound": fit.objective, "seconds": time.perf_counter() - begin}


def best(refit: Refit, rank: int, starts: int) -> plait.Fit:
    """The fit with the best bound of several starts."""
    return max((refit(rank=rank, seed=seed) for seed in range(starts)), key=lambda fit: fit.objective)


def by_bound(refit: Refit, starts: int) -> plait.Fit:
    """Ranks from 1 upwards, until some in a row bring no better bound."""
    found = best(refit, 1, starts)
    for rank in itertools.count(2):
        fit = best(refit, rank, starts)
        if fit.objective > found.objective:
            found = fit
        elif rank - found.rank["r"] >= PATIENCE:
            return found
    raise AssertionError("the count has no end")


def dropped(fit: plait.Fit, refit: Refit) -> plait.Fit:
    """Leave out one component at a time, the weakest first, as long as the bound does not fall by it.

    Pruning in the loop compares the bound at once, when the other components have not yet taken over what the lost one
    explained. So it keeps splinters of a component, which agree with it in all but one factor. Here they take over
    first: a fit of the rest starts where they stood.
    """
    while (fewer := _without_one(fit, refit)) is not None:
        fit = fewer
    return fit


def _without_one(fit: plait.Fit, refit: Refit) -> plait.Fit | None:
    means = {name: factor.mean for name, factor in fit.factors.items()}
    for component in np.argsort(strength(means)) if fit.rank["r"] > 1 else ():
        rest = {name: np.delete(mean, component, axis=1) for name, mean in means.items()}
        fewer = refit(rank=fit.rank["r"] - 1, init=rest)
        if fewer.objective >= fit.objective:
            return fewer
    return None


def strength(means: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """How much each component amounts to: the product over the factors (entities, components) of its column's sum."""
    return np.asarray(np.prod([mean.sum(axis=0) for mean in means.values()], axis=0))


EXPERIMENT = Experiment("rank", "A known rank, found again", cells, measure)
