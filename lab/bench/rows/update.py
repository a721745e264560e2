"""Updates: how much of what 20 warm sweeps over all data gain on cells that are left, a few iterations gain."""

import time
from collections.abc import Iterator

import numpy as np
import polars as pl

import plait
from lab.bench.rows.late import Late, cases, rows_of
from lab.harness.results import Figures
from lab.harness.running import Row

ITERATIONS = (1, 2, 5, 10)


def rows(quick: bool) -> Iterator[Row]:
    """All data, each once."""
    chosen = [case for case in cases() if not case.name.endswith("artists")]
    yield from rows_of("update", chosen[-1 if quick else 0 :], measured)


def measured(case: Late, split: int = 0) -> Figures:
    """A tenth of the links and as many zeros are hidden and judged, a fifth of the others comes late.

    before, full: log-probability of the judged, before and after 20 warm sweeps over all; shares: of that gain.
    """
    rng = np.random.default_rng(split)
    part = rng.random(len(case.links))
    links = case.links.filter(pl.Series(part >= 0.1))
    test = cells_to_judge(case, case.links.filter(pl.Series(part < 0.1)), rng)
    if ":" in case.text:  # users and items are the same entities, who have no links with themselves
        test = test.filter(pl.col("user") != pl.col("item"))
    is_late = pl.Series(rng.random(len(links)) < 0.2)
    known = links.filter(~is_late)
    new = links.filter(is_late)
    for index in case.indices:
        new = new.filter(pl.col(index).is_in(known[index].unique().implode()))
        test = test.filter(pl.col(index).is_in(known[index].unique().implode()))
    hidden = test.select(case.indices)
    fit = plait.fit(case.text, data(case, known, hidden), rank=case.rank, seed=0, max_iter=150, progress=False)
    before = judged(fit, test, case)
    began = time.perf_counter()
    both = data(case, pl.concat([known, new]), hidden)
    whole = plait.fit(case.text, both, rank=case.rank, init=fit, max_iter=20, tol=0, progress=False)
    full = time.perf_counter() - began
    gain = judged(whole, test, case) - before
    shares, spent = {}, {}
    for n in ITERATIONS:
        began = time.perf_counter()
        updated = fit.update({"x": new}, iterations=n)
        spent[str(n)] = time.perf_counter() - began
        shares[str(n)] = (judged(updated, test, case) - before) / gain
    about = {"links": len(known), "new": len(new), "before": before, "full": before + gain}
    return about | {"shares": shares, "seconds": spent | {"full": full}}


def data(case: Late, links: pl.DataFrame, hidden: pl.DataFrame) -> dict[str, plait.Relation]:
    return {"x": plait.Relation(links, likelihood=case.likelihood, hidden=hidden)}


def cells_to_judge(case: Late, links: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Links, and ten times as many cells without one; a column says which."""
    found = links.select(case.indices).with_columns(link=pl.lit(True))
    zeros = pl.DataFrame(
        {i: case.links[i].unique().sort().gather(rng.integers(0, case.links[i].n_unique(), 10 * len(links)))
         for i in case.indices}
    ).unique()  # fmt: skip
    zeros = zeros.join(case.links.select(case.indices), on=case.indices, how="anti").with_columns(link=pl.lit(False))
    return pl.concat([found, zeros])


def judged(fit: plait.Fit, test: pl.DataFrame, case: Late) -> float:
    """Log-probability of what became of a cell, in nats."""
    p = fit.predict("x", test.select(case.indices))["probability"].to_numpy()
    link = test["link"].to_numpy()
    return float(np.mean(np.log(np.maximum(np.where(link, p, 1 - p), 1e-12))))
