"""Updates on other data and splits than those of the bench: behind docs/decisions/0028-new-data.md."""

import warnings
from collections.abc import Iterator
from functools import partial

import numpy as np
import polars as pl

import plait
from lab.bench.rows.late import MATRIX, TUCKER, Late
from lab.bench.rows.update import ITERATIONS, measured
from lab.harness import sources
from lab.harness.table import show

CP = "x[user, tag, item] = U[user, r] W[tag, r] V[item, r]"
TWICE = "x[user, tag, item] = U[user, p] G[p, tag, q] U[item, q]\nitem: user"
SPLITS = range(2)


def compare() -> None:
    """The held-out gain of updates as a share of that of 20 warm sweeps, and that gain in nats."""
    warnings.simplefilter("ignore", plait.PlaitWarning)
    lines = []
    for case in cases():
        for split in SPLITS:
            found = measured(case, split)
            shares = [f"{100 * found['shares'][str(n)]:.0f} %" for n in ITERATIONS]
            lines.append(
                [case.name, str(split), f"{found['links']:,}", f"{found['full'] - found['before']:.4f}", *shares]
            )
    show(
        "Updates by 20 % of the links: share of the held-out gain of 20 warm full sweeps",
        ["data", "split", "old links", "gain, nats", *(f"{n} iterations" for n in ITERATIONS)], lines,
    )  # fmt: skip


def cases() -> Iterator[Late]:
    """Knowledge graphs, graphs as matrices, and drawn ratings with a heavy tail."""
    for name, rank in (("nations", 5), ("kinships", 10), ("umls", 10)):
        if not sources.absent(name):
            yield Late(f"{name}, with a core", TUCKER, partial(_triples, name), "bernoulli", "user", rank)
            yield Late(f"{name}, CP", CP, partial(_triples, name), "bernoulli", "user", 2 * rank)
    if not sources.absent("umls"):
        yield Late("umls, U G U", TWICE, _others_only, "bernoulli", "user", 10)
    if not sources.absent("graphs"):
        for name in ("usair", "celegans"):
            yield Late(name, MATRIX, partial(_pairs, name), "bernoulli", "user", 10)
    yield Late("drawn, skewed", MATRIX, skewed, "negbin", "user", 10)


def _triples(name: str) -> pl.DataFrame:
    cells = np.concatenate(list(sources.triples(name).parts.values()))
    return pl.DataFrame(cells, schema=["user", "tag", "item"]).unique(maintain_order=True)


def _others_only() -> pl.DataFrame:
    return _triples("umls").filter(pl.col("user") != pl.col("item"))


def _pairs(name: str) -> pl.DataFrame:
    return pl.DataFrame(sources.graph(name)[1], schema=["user", "item"])


def skewed(links: int = 60_000, rank: int = 8) -> pl.DataFrame:
    """Ratings of 1 to 5 of a few popular items by a few busy users."""
    rng = np.random.default_rng(5)
    U = rng.gamma(0.5, 1, (900, rank)) * rng.lognormal(0, 1, (900, 1))
    V = rng.gamma(0.3, 1, (600, rank)) * rng.lognormal(0, 1.3, (600, 1))
    rate = U @ V.T
    counts = rng.poisson(rate * links / rate.sum())
    cells = np.nonzero(counts)
    return pl.DataFrame({"user": cells[0], "item": cells[1], "value": np.minimum(counts[cells], 5)})
