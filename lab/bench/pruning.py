"""What pruning leaves, and whether it is the pruning or the start that loses groups: docs/decisions/0025-pruning.md."""

import warnings
from typing import Any

import numpy as np
import polars as pl

import plait
from lab.harness.table import show

TEXT = "X[user, film] = U[user, r] F[film, r]"
SHAPE, LINKS, GROUPS = (943, 1682), 100_000, 20  # as many users, films and ratings as MovieLens 100k has
SHARP = 0.1  # concentration of the Gamma numbers by which users and films belong to groups
START_RANK = 40
SEEDS = range(3)
WAYS: dict[str, dict[str, Any]] = {
    "of 20, warmed up": {"rank": GROUPS},
    "of 40, random start": {"rank": START_RANK, "warmup": 0},
    "pruned from 40, random start": {"rank": START_RANK, "prune": True},
    "pruned from 40, warmed up": {"rank": START_RANK, "prune": True, "warmup": 50},
}
TIES = ("factor", "rank-one")


def compare() -> None:
    """Sparse links of twenty groups: components left, and hidden links found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        train, test = plait.train_test_split(drawn(), "X", fraction=0.2, by="thinned_links", seed=0)
        rows = [
            [word, tie, *_figures(train, test, adapt_prior=tie, **way)] for tie in TIES for word, way in WAYS.items()
        ]
        columns = ["fit", "priors per", "components", "bound", "MRR", "hits at 10"]
        show(f"Drawn links of {GROUPS} groups", columns, rows)


def drawn(seed: int = 0) -> pl.DataFrame:
    """Links of groups that users and films belong to, few of them each; some are much more active than others."""
    rng = np.random.default_rng(seed)
    U, F = (rng.gamma(SHARP, 1.0, (size, GROUPS)) for size in SHAPE)
    rate = (U * rng.gamma(1.0, 1.0, (SHAPE[0], 1))) @ (F * rng.gamma(0.5, 1.0, (SHAPE[1], 1))).T
    user, film = np.nonzero(rng.poisson(rate * (LINKS / rate.sum())))
    return pl.DataFrame({"user": user, "film": film})


def _figures(train: Any, test: pl.DataFrame, **options: Any) -> list[str]:
    """Means over seeds: components left, bound, and how hidden links rank among all films of their user."""
    fits = [plait.fit(TEXT, {"X": train}, seed=seed, threads=1, progress=False, **options) for seed in SEEDS]
    found = [plait.evaluate(fit, "X", test, target="film", seed=0) for fit in fits]
    ranks = ", ".join(str(fit.rank["r"]) for fit in fits)
    bound = np.mean([fit.objective for fit in fits])
    return [ranks, f"{bound:.0f}", *(f"{np.mean([one[k] for one in found]):.4f}" for k in ("mrr", "hits_at_10"))]
