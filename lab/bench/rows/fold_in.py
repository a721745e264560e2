"""Fold-ins: how many iterations they need, what they are worth, and how long one user takes among a million items."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import numpy as np
import polars as pl

import plait
from lab.bench.rows.late import Late, cases, rows_of
from lab.harness.results import Figures
from lab.harness.running import Done, Row

ITERATIONS = (3, 5, 10, 20)
ITEMS, USERS, LINKS, RANK = 1_000_000, 2000, 400_000, 20
TIMES = 30


def rows(quick: bool) -> Iterator[Row]:
    """All data, and one newcomer."""
    yield from rows_of("fold_in", list(cases())[-1 if quick else 0 :], measured)
    yield Row({"part": "fold_in", "what": "newcomer"}, partial(_timed, ITEMS // 100 if quick else ITEMS))


def measured(case: Late) -> Figures:
    """A tenth of the entities comes late; a fifth of their links is judged. In nats a link.

    gaps: by iterations, how far the bound is below that of 40.
    """
    rng = np.random.default_rng(0)
    entities = case.links[case.index].unique().sort()
    new = entities.gather(np.sort(rng.choice(len(entities), len(entities) // 10, replace=False)))
    late = case.links[case.index].is_in(new.implode())
    others = [index for index in case.indices if index != case.index]
    old = case.links.filter(~late)
    rows = case.links.filter(late)
    for index in others:
        rows = rows.filter(pl.col(index).is_in(old[index].unique().implode()))
    judged = pl.Series(rng.random(len(rows)) < 0.2)
    rows, test = rows.filter(~judged), rows.filter(judged)
    test = test.filter(pl.col(case.index).is_in(rows[case.index].unique().implode()))
    fit = fitted(case, old)
    folded = {n: fit.fold_in({"x": rows}, iterations=n) for n in (*ITERATIONS, 40)}
    gaps = {str(n): (folded[40].objective - folded[n].objective) / len(rows) for n in ITERATIONS}
    cells = test.select(case.indices)
    whole = fitted(case, pl.concat([old, rows]))
    return {
        "new": rows[case.index].n_unique(),
        "links": len(rows),
        "gaps": gaps,
        "as the prior": _log_probability(fit.predict("x", cells, handle_unknown="prior")),
        "folded in": _log_probability(folded[10].predict("x", cells)),
        "fitted with": _log_probability(whole.predict("x", cells)),
    }


def _log_probability(found: pl.DataFrame) -> float:
    return float(np.log(found["probability"].to_numpy()).mean())


def fitted(case: Late, links: pl.DataFrame) -> plait.Fit:
    """A fit with the settings of all."""
    relation = plait.Relation(links, likelihood=case.likelihood)
    return plait.fit(case.text, {"x": relation}, rank=case.rank, seed=0, max_iter=150, progress=False)


def _timed(items: int, done: Done) -> Figures:
    """One user with 50 links among many items, rank 20: seconds of fold-ins and of queries with new entities."""
    rng = np.random.default_rng(0)
    cells = pl.DataFrame({"user": rng.integers(0, USERS, LINKS), "item": rng.integers(0, items, LINKS)}).unique()
    fit = plait.fit(
        "x[user, item] = U[user, r] V[item, r]", {"x": plait.Relation(cells, unseen="zero")}, rank=RANK, seed=0,
        entities={"item": np.arange(items)}, max_iter=3, warmup=0, progress=False,
    )  # fmt: skip

    def rows() -> dict[str, pl.DataFrame]:
        return {"x": pl.DataFrame({"user": [10**9] * 50, "item": rng.choice(items, 50, replace=False)})}

    fit.fold_in(rows())  # compiles
    again = plait.Fit(**{name: getattr(fit, name) for name in fit.__dataclass_fields__})
    ask = pl.DataFrame({"user": [10**9] * 100, "item": np.arange(100)})
    known = ask.with_columns(user=pl.lit(7))
    calls = {
        "fold_in": lambda: fit.fold_in(rows()),
        "predict 100 cells of a new entity": lambda: fit.predict("x", ask, new_entities=rows()),
        "predict 100 cells of a known user": lambda: fit.predict("x", known),
        "top 10 of a new entity": lambda: fit.top("x", 10, given={"user": 10**9}, new_entities=rows()),
        "top 10 of a known user": lambda: fit.top("x", 10, given={"user": 7}),
    }
    first = seconds(lambda: again.fold_in(rows()), 1)
    return {"items": items, "fold_in, the first of a fit": first} | {
        name: seconds(call, 5 if name.startswith("top") else TIMES) for name, call in calls.items()
    }


def seconds(call: Callable[[], object], times: int) -> float:
    """The median of some calls."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return median(taken)
