"""Fold-ins: how many iterations they need, what they are worth, and how long one user takes among a million items."""

import time
import warnings
from statistics import median

import numpy as np
import polars as pl

import plait
from lab.bench.late import Late, cases
from lab.harness.table import show

ITERATIONS = (3, 5, 10, 20)
ITEMS, USERS, LINKS, RANK = 1_000_000, 2000, 400_000, 20
TIMES = 30


def compare() -> None:
    """Nats a link that some iterations lack, against 40; hits of what is left of newcomers; and seconds."""
    warnings.simplefilter("ignore", plait.PlaitWarning)
    show(
        "Fold-ins: nats a link less than after 40 iterations; log-probability of a link that is left, in nats",
        ["data", "new", "links", *(f"{n} iterations" for n in ITERATIONS), "as the prior", "folded in", "fitted with"],
        [measured(case) for case in cases()],
    )
    show("One user with 50 links among 1,000,000 items, rank 20", ["what", "milliseconds"], timed())


def measured(case: Late) -> list[str]:
    """One line: a tenth of the entities comes late; a fifth of their links is judged."""
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
    gaps = [(folded[40].bound - folded[n].bound) / len(rows) for n in ITERATIONS]
    cells = test.select(case.indices)
    whole = fitted(case, pl.concat([old, rows]))
    figures = [
        np.log(fit.predict("x", cells, unknown="prior")["probability"].to_numpy()).mean(),
        np.log(folded[10].predict("x", cells)["probability"].to_numpy()).mean(),
        np.log(whole.predict("x", cells)["probability"].to_numpy()).mean(),
    ]
    count = rows[case.index].n_unique()
    return [case.name, f"{count} {case.index}s", f"{len(rows):,}", *(f"{gap:.5f}" for gap in gaps),
            *(f"{figure:.3f}" for figure in figures)]  # fmt: skip


def fitted(case: Late, links: pl.DataFrame) -> plait.Fit:
    """A fit with the settings of all."""
    relation = plait.Relation(links, likelihood=case.likelihood)
    return plait.fit(case.text, {"x": relation}, rank=case.rank, seed=0, sweeps=150, progress=False)


def timed() -> list[list[str]]:
    """The first fold-in, those after it, and guests; medians."""
    rng = np.random.default_rng(0)
    cells = pl.DataFrame({"user": rng.integers(0, USERS, LINKS), "item": rng.integers(0, ITEMS, LINKS)}).unique()
    fit = plait.fit(
        "x[user, item] = U[user, r] V[item, r]", {"x": plait.Relation(cells, universe="model")}, rank=RANK, seed=0,
        labels={"item": np.arange(ITEMS)}, sweeps=3, start="random", progress=False,
    )  # fmt: skip

    def rows() -> dict[str, pl.DataFrame]:
        return {"x": pl.DataFrame({"user": [10**9] * 50, "item": rng.choice(ITEMS, 50, replace=False)})}

    fit.fold_in(rows())  # what is compiled is compiled
    again = plait.Fit(**{name: getattr(fit, name) for name in fit.__dataclass_fields__})
    ask = pl.DataFrame({"user": [10**9] * 100, "item": np.arange(100)})
    return [
        ["fold_in, the first of a fit", seconds(lambda: again.fold_in(rows()), 1)],
        ["fold_in", seconds(lambda: fit.fold_in(rows()), TIMES)],
        ["predict 100 cells of a guest", seconds(lambda: fit.predict("x", ask, new=rows()), TIMES)],
        [
            "predict 100 cells of a known user",
            seconds(lambda: fit.predict("x", ask.with_columns(user=pl.lit(7))), TIMES),
        ],
        ["top 10 of a guest", seconds(lambda: fit.top("x", 10, given={"user": 10**9}, new=rows()), 5)],
        ["top 10 of a known user", seconds(lambda: fit.top("x", 10, given={"user": 7}), 5)],
    ]


def seconds(call: object, times: int) -> str:
    """Milliseconds, the median of some calls."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        call()  # type: ignore[operator]
        taken.append(time.perf_counter() - began)
    return f"{1e3 * median(taken):.1f}"
