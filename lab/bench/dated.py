"""Forecasts of dated links by rolling origins, with chains and without: Digg replies and ICEWS14 (decision 41)."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.table import show

DIGG = {
    "without chains": "a[user] b[to] d[day] + U[user, r] V[to, r] d[day]",
    "with chains": "a[user, day] b[to, day] + U[user, r] V[to, r] c[day]",
}
DIGG_RANK = 4
DIGG_FIRST, DIGG_DAYS = (
    8,
    3,
)  # test days, which begin after the links of a fit; the first and the last day are not whole
HALF_LIFE = {"N": 5.0, "L": 60.0, "M": 20.0}  # days: of a fact, of a fact, of a pair with any relation
EVIDENCE = (
    "w[relation] N[head, relation, tail, day] + v[relation] L[head, relation, tail, day] "
    "+ u[relation] M[head, tail, day]"
)
ICEWS = {
    "recurrence alone": f"b[relation] + {EVIDENCE}",
    "without chains": f"A[head, r] P[relation, r] B[tail, r] + {EVIDENCE}",
    "with chains": f"A[head, r] P[relation, r] B[tail, r] T[day, r] + {EVIDENCE}",
}
ICEWS_RANK = 64
ICEWS_FIRST, ICEWS_DAYS = 334, 31  # the official test


def compare() -> None:
    warnings.simplefilter("ignore", plait.PlaitWarning)
    if not sources.absent("digg_replies"):
        digg()
    if not sources.absent("icews14"):
        icews()


def digg() -> None:
    """Who replies to whom on the next days."""
    table = pl.read_parquet(sources.SHARED / "digg_replies" / "replies.parquet")
    day = (pl.col("time") - pl.col("time").min()) // 86_400
    links = table.with_columns(day=day).filter(pl.col("user") != pl.col("to"), pl.col("day") > 0)
    links = links.group_by("user", "to", "day", maintain_order=True).len("value").sort("day", "user", "to")
    seen, test = _parted(links, DIGG_FIRST, DIGG_DAYS)
    people = sorted({*seen["user"], *seen["to"]})
    relation, shown = plait.Relation(seen, value="value", likelihood="poisson"), []
    for name, text in DIGG.items():
        fit = plait.fit(
            f"replies[user, to, day] = {text}; day: ordered; to: user", {"replies": relation}, rank=DIGG_RANK, seed=0,
            entities={"user": people}, max_iter=60, threads=1, progress=False,
        )  # fmt: skip
        figures = plait.evaluate_forecast(fit, "replies", test, steps=DIGG_DAYS, last=7, half_life=3.0)
        shown += _rows(name, figures, "average_precision")
    show("Digg replies: AP of later days against uniform zeros", HEAD, shown)


def icews(first: int = ICEWS_FIRST, days: int = ICEWS_DAYS) -> None:
    """Heads and tails of the events of each day, from all days before it."""
    parts = [pl.read_parquet(sources.SHARED / "icews14" / f"{part}.parquet") for part in sources.TRIPLES]
    events = pl.concat(parts).unique(maintain_order=True)
    seen, test = _parted(events, first, days)
    entities = {"head": sorted({*events["head"], *events["tail"]}), "relation": sorted(set(events["relation"]))}
    relation, shown = plait.Relation(seen, likelihood="poisson"), []
    fixed = {name: plait.Exposure(rows, default=0) for name, rows in evidence(seen).items()}
    for name, text in ICEWS.items():
        fit = plait.fit(
            f"events[head, relation, tail, day] = {text}; day: ordered; tail: head", {"events": relation},
            rank=ICEWS_RANK if "r]" in text else None, seed=0, entities=entities, fixed=fixed, max_iter=100, threads=1,
            progress=False,
        )  # fmt: skip
        figures = plait.evaluate_forecast(fit, "events", test, target=["head", "tail"], half_life=60.0, fixed=evidence)
        shown += _rows(name, figures, "mrr")
    show("ICEWS14: filtered MRR of heads and tails, single-step", HEAD, shown)


HEAD = ["model", "horizon", "fit", "popularity", "recurrence", "links"]


def evidence(events: pl.DataFrame, periods: Sequence[Any] | None = None) -> dict[str, pl.DataFrame]:
    """Decayed counts of earlier events."""
    facts = {"N": ["head", "relation", "tail"], "L": ["head", "relation", "tail"], "M": ["head", "tail"]}
    found = {}
    for name, fact in facts.items():
        rows = events.select(*fact, "day")
        found[name] = plait.evidence.recurrence(rows, "day", half_life=HALF_LIFE[name], periods=periods, least=0.02)
    return found


def _parted(links: pl.DataFrame, first: int, days: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Links before a day, and those of the next days."""
    return links.filter(pl.col("day") < first), links.filter(pl.col("day").is_between(first, first + days - 1))


def _rows(name: str, figures: pl.DataFrame, metric: str) -> list[list[object]]:
    own = figures.filter(metric=metric).select("horizon", "value", "popularity", "recurrence", "links").rows()
    return [[name, str(h), *(f"{v:.3f}" if np.isfinite(v) else "" for v in vs), str(n)] for h, *vs, n in own]
