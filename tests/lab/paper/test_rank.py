"""Finding a known rank: each way does what it says, and dropping finds what pruning does not."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import plait
from lab.paper import rank
from lab.paper.experiment import Lab
from lab.paper.report.rank import figures, tables
from lab.paper.sources.drawn import draw

QUICK, FULL = Lab(True, None, Path()), Lab(False, None, Path())


@pytest.fixture(scope="module")
def refit():
    data = rank.MODEL.bind({"X": draw((30, 25, 10), 3, 5000, seed=0)})
    return partial(plait.fit, rank.MODEL, data, adapt="component", prune=True, sweeps=150, seed=0, progress=False)


@pytest.fixture(scope="module")
def pruned(refit):
    return refit(rank=8)


def test_dropping_finds_the_rank_where_pruning_stops_above_it(refit, pruned):
    fit = rank.dropped(pruned, refit)
    assert pruned.rank["r"] > 3
    assert fit.rank["r"] == 3
    assert fit.bound > pruned.bound


def test_strength_is_the_total_rate_of_a_component(pruned):
    means = {name: factor.mean for name, factor in pruned.factors.items()}
    expected = np.einsum("ir,jr,kr->r", *(means[name] for name in "ABC"))
    np.testing.assert_allclose(rank.strength(means), expected)


def fake(bounds, asked):
    """A stand-in for plait.fit whose bound depends on rank and seed as told."""

    def refit(rank, seed=0, init=None):
        asked.append((rank, seed))
        return SimpleNamespace(rank={"r": rank}, bound=bounds(rank, seed))

    return refit


def test_the_best_bound_wins_whichever_start_it_comes_from():
    asked = []
    refit = fake(lambda rank, seed: -abs(rank - 4) + (0.5 if seed == 1 else 0.0), asked)
    found = rank.by_bound(refit, 2)
    assert (found.rank["r"], found.bound) == (4, 0.5)
    assert asked == [(r, seed) for r in range(1, 7) for seed in range(2)]  # two more ranks brought nothing


def test_a_single_rank_that_brings_nothing_does_not_end_the_search():
    bounds = {1: 0.0, 2: 3.0, 3: 2.0, 4: 5.0, 5: 1.0, 6: 1.0}
    assert rank.by_bound(fake(lambda rank, seed: bounds[rank], []), 1).rank["r"] == 4


def test_the_last_component_is_never_dropped():
    alone = SimpleNamespace(rank={"r": 1}, bound=0.0, factors={"A": SimpleNamespace(mean=np.ones((3, 1)))})
    asked = []
    assert rank.dropped(alone, fake(lambda rank, seed: 1.0, asked)) is alone
    assert asked == []


@pytest.mark.parametrize("lab", [QUICK, FULL])
def test_every_way_meets_the_same_data(lab):
    cells = rank.cells(lab)
    assert len({tuple(cell.items()) for cell in cells}) == len(cells)
    data = {tuple(cell[name] for name in ("rank", "counts", "run")) for cell in cells}
    assert len(cells) == len(data) * len(rank.WAYS)


@pytest.mark.parametrize(("way", "adapt"), [("prune", "rank-one"), ("drop", "component")])
def test_a_cell_is_measured_alike_twice(way, adapt):
    cell = {"way": way, "adapt": adapt, "rank": 2, "counts": 1000, "run": 0}
    first, again = (dict(rank.measure(QUICK, cell)) for _ in range(2))
    assert first.pop("seconds") > 0
    assert again.pop("seconds") > 0
    assert first == again


def records(found):
    head = {"way": "drop", "adapt": "component", "rank": 3, "counts": 2000}
    return pl.DataFrame([head | {"run": run, "found": r, "seconds": 1.0} for run, r in enumerate(found)])


def test_the_table_counts_runs_that_found_exactly_the_rank():
    first, seconds = tables(records([3, 3, 4]))
    row = next(row for row in first.rows if row[:2] == ["drop", "component"])
    assert row[2] == "2 of 3 (3.3)"
    assert next(row for row in first.rows if row[0] == "bound")[2] == "–"
    assert next(row for row in seconds.rows if row[:2] == ["drop", "component"])[2] == "1.0 ± 0.0"


@pytest.mark.parametrize("some", [pl.DataFrame(), records([3]), records([3, 5]).drop("seconds")])
def test_partial_records_are_shown_as_far_as_they_go(some):
    assert len(tables(some)) == 2
    assert set(figures(some)) == {"rank-found"}
