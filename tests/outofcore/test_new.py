"""Fold-in and update of fits of blocks equal those in memory; blocks do not change."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import plait
from plait.data.outofcore.block_table import CellsOnDisk
from tests.support.blocks_visits import COUPLED, CP3, FRIENDS, HOW, WAYS, fit_both, friends, relation, tags, visits
from tests.support.command_line import plait_command
from tests.support.problems import assert_same, bits
from tests.support.tuning import SMALL_LEAVES

pytestmark = pytest.mark.filterwarnings("ignore::plait.errors.NoZerosWarning")

NEWCOMERS = pl.DataFrame(
    {"user": [100, 100, 101, 3], "act": [1, 2, 1, 0], "place": [3, 4, 5, 77], "value": [1, 2, 1, 1]}
)
LATER = pl.DataFrame({"user": [0, 1, 2, 200], "act": [0, 1, 2, 3], "place": [0, 20, 21, 5], "value": [2, 1, 1, 3]})
ADDS_UP = ("counts", "listed", "weighed zeros", "weight", "missing")  # values of a cell do


@pytest.fixture(autouse=True)
def finely(tuning):
    tuning(**SMALL_LEAVES, max_leaf_entries=90)


def assert_known_alike(disk, memory):
    for name, known in memory.known.items():
        own = disk.known[name]
        assert len(own) == len(known)
        for word in ("cells", "values", "weights"):
            np.testing.assert_array_equal(getattr(own, word), getattr(known, word))
        cells = np.random.default_rng(0).integers(0, known.shape, (400, len(known.shape)))
        np.testing.assert_array_equal(own.values_at(cells), known.values_at(cells))
        np.testing.assert_array_equal(own.contain(cells), known.contain(cells))
        np.testing.assert_allclose(own.observed.at(cells), known.observed.at(cells), rtol=1e-12)


def assert_alike(disk, memory, *, exact=True):
    assert_known_alike(disk, memory)
    if exact:
        assert bits(disk)[0] == bits(memory)[0]
    assert_same(memory, disk)


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_fold_in_and_update_equal_those_in_memory(tmp_path, way):
    memory, disk = fit_both(tmp_path, relation(way))
    new, later = (table.drop("value") if way == "links" else table for table in (NEWCOMERS, LATER))
    folded, large = memory.fold_in({"visits": new}), disk.fold_in({"visits": new})
    assert_alike(large, folded)
    assert large.objective == folded.objective
    if way not in ADDS_UP:
        with pytest.raises(plait.errors.DataError, match="user=0, act=0, place=0 is already a known link"):
            large.update({"visits": later})
        later = later.filter(pl.col("user") > 0)
    plain = way not in ("listed", "weighed zeros")  # others add up links on disk and new links separately
    assert_alike(disk.update({"visits": later}), memory.update({"visits": later}), exact=plain)
    updated = folded.update({"visits": later})
    large.update({"visits": later}).save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert_alike(loaded, updated, exact=plain)
    again = LATER.with_columns(user=pl.lit(555)).drop(*(["value"] if way == "links" else []))
    assert_alike(loaded.update({"visits": again}), updated.update({"visits": again}), exact=plain)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["counts", "weighed zeros"])
@pytest.mark.parametrize("how", [{"method": "em"}, {"method": "map", "prior": plait.Gamma(1.5, 1.0)}, {"restarts": 2}])
def test_every_method_updates(tmp_path, how, way):
    memory, disk = fit_both(tmp_path, relation(way), **how)
    for a, b in zip(disk.update({"visits": LATER}).members, memory.update({"visits": LATER}).members):
        assert_alike(a, b, exact=way == "counts")


@pytest.mark.parametrize("way", ["counts", "listed"])
def test_undirected_links(tmp_path, way):
    memory, disk = fit_both(
        tmp_path, plait.Relation(friends(), **{"likelihood": "poisson"} | WAYS[way]), FRIENDS, "friends"
    )
    new = {"friends": pl.DataFrame({"user": [70, 71, 5], "friend": [2, 70, 70]})}
    user, friend = friends().row(0)
    again = {"friends": pl.DataFrame({"user": [friend, 70], "friend": [user, 3]})}
    folded, large = memory.fold_in(new), disk.fold_in(new)
    assert_alike(large, folded, exact=way == "counts")
    assert_alike(large.update(again), folded.update(again), exact=False)


def test_answers_after_fold_in_and_update(tmp_path):
    split = plait.train_test_split({"visits": visits()}, "visits", fraction=0.2, model=CP3, seed=0)
    memory, disk = fit_both(tmp_path, split.train["visits"])
    memory, disk = (fit.fold_in({"visits": NEWCOMERS}).update({"visits": LATER}) for fit in (memory, disk))
    disk.save(tmp_path / "run")
    disk = plait.load(tmp_path / "run")
    cells = pl.concat([LATER, NEWCOMERS]).drop("value")
    assert disk.predict("visits", cells).equals(memory.predict("visits", cells))
    for user in (3, 100, 200):
        assert disk.top("visits", 5, given={"user": user}).equals(memory.top("visits", 5, given={"user": user}))
    assert disk.top("visits", 2, per="user").equals(memory.top("visits", 2, per="user"))
    for cell in ({"user": 100, "act": 2, "place": 3}, {"user": 0, "act": 0, "place": 0}):
        assert str(disk.explain("visits", cell)) == str(memory.explain("visits", cell))
    assert str(plait.evaluate(disk, "visits", split.test)) == str(plait.evaluate(memory, "visits", split.test))
    assert disk.surprising("visits").equals(memory.surprising("visits"))
    assert_frame_equal(disk.coupling(), memory.coupling(), rel_tol=1e-10)
    assert_frame_equal(disk.components(), memory.components(), rel_tol=1e-9)


def test_blocks_are_never_read_as_a_whole(tmp_path, monkeypatch):
    _, disk = fit_both(tmp_path, visits())
    read = CellsOnDisk.read

    def some(self, keep=None):
        assert keep is not None
        return read(self, keep)

    monkeypatch.setattr(CellsOnDisk, "read", some)
    found = disk.fold_in({"visits": NEWCOMERS}).update({"visits": LATER})
    found.save(tmp_path / "run")
    assert not pl.read_parquet(next((tmp_path / "run").glob("known*"))).height > len(NEWCOMERS) + len(LATER)
    loaded = plait.load(tmp_path / "run").fold_in({"visits": NEWCOMERS.with_columns(user=pl.lit(7000))})
    assert len(loaded.top("visits", 3, given={"user": 100})) == 3
    assert len(
        loaded.top(
            "visits", 3, given={"user": 8000}, new_entities={"visits": NEWCOMERS.with_columns(user=pl.lit(8000))}
        )
    )


def weighed(zeros):
    """Visits with a weight of each cell, some of them 0; zeros: some values are 0."""
    table, rng = visits(), np.random.default_rng(3)
    table = table.with_columns(w=pl.Series(rng.choice([0.0, 0.2, 1.0, 2.5], len(table))))
    return table.with_columns(value=pl.when(pl.int_range(pl.len()) % 5 == 0).then(0 if zeros else 1).otherwise("value"))


OWN = {
    "links": plait.Relation(weighed(False), weight="w"),
    "listed cells": plait.Relation(weighed(True), weight="w", observed="listed"),
    "links among light zeros": plait.Relation(weighed(False), weight="w", observed=0.3),
    "light zeros that are listed": plait.Relation(weighed(True).drop("w"), observed=0.3),
    "bernoulli": plait.Relation(weighed(False).drop("value"), weight="w", likelihood="bernoulli"),
}


@pytest.mark.thorough
def test_a_bootstrap_of_listed_zeros_equals_that_in_memory(tmp_path):
    memory, disk = fit_both(tmp_path, OWN["light zeros that are listed"], restarts=2, bootstrap=True)
    for a, b in zip(memory.members, disk.members):
        assert_same(a, b)


@pytest.mark.thorough
@pytest.mark.parametrize("way", OWN)
def test_weights_of_cells(tmp_path, way):
    memory, disk = fit_both(tmp_path, OWN[way])
    assert_same(memory, disk)  # to rounding: cells that are no links are cut into leaves with the others
    disk.save(tmp_path / "run")
    disk = plait.load(tmp_path / "run")
    cells = np.concatenate([np.argwhere(np.ones((9, 6, 9))), memory.known["visits"].cells[::7].astype(np.int64)])
    M = memory.known["visits"].observed.at(cells)
    np.testing.assert_allclose(disk.known["visits"].observed.at(cells), M, rtol=1e-12)
    assert_frame_equal(disk.coupling(), memory.coupling(), rel_tol=1e-9)
    assert_frame_equal(disk.surprising("visits"), memory.surprising("visits"), rel_tol=1e-9)
    cell = {"user": 1, "act": 2, "place": 3}
    assert str(disk.explain("visits", cell)) == str(memory.explain("visits", cell))
    later = LATER if way != "bernoulli" else LATER.drop("value").filter(pl.col("user") > 0)
    assert_same(memory.update({"visits": later}), disk.update({"visits": later}))


def test_an_update_samples_many_links_on_disk(tmp_path, tuning):
    memory, disk = fit_both(tmp_path, plait.Relation(visits(), likelihood="negbin"))
    later = {"visits": LATER.filter(pl.col("user") > 0)}
    exact = memory.update(later)
    tuning(update_sample_links=400)
    found = disk.update(later)
    assert found.objective == pytest.approx(exact.objective, rel=1e-4)
    np.testing.assert_allclose(found.factors["P"].mean, exact.factors["P"].mean, rtol=0.05)
    assert bits(found)[0] != bits(exact)[0]


def test_new_entities_of_blocks_and_tables(tmp_path):
    data = {"visits": visits(), "tags": tags()}
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    memory, disk = (plait.fit(COUPLED, data | more, **HOW) for more in ({}, {"visits": tmp_path / "v.blocks"}))
    rows = {"tags": pl.DataFrame({"place": [500, 500], "tag": ["t1", "t2"]})}
    for given in ({"place": 500}, {"user": 3}):
        assert disk.top("visits", 4, given=given, new_entities=rows).equals(
            memory.top("visits", 4, given=given, new_entities=rows)
        )
    cells = pl.DataFrame({"user": [1, 2], "act": [0, 1], "place": [500, 3]})
    assert disk.predict("visits", cells, new_entities=rows).equals(memory.predict("visits", cells, new_entities=rows))


def test_an_update_of_blocks_takes_one_weight(tmp_path):
    _, disk = fit_both(tmp_path, visits())
    rows = LATER.with_columns(weight=pl.Series([1.0, 2.0, 1.0, 1.0]))
    with pytest.raises(
        plait.errors.DataError, match=r"row 1[^$]*the weight is 2[^$]*next to blocks[^$]*Remove the weight"
    ):
        disk.update({"visits": plait.Relation(rows, value="value", weight="weight")})


def test_commands_fold_in_and_update_blocks(tmp_path):
    memory, disk = fit_both(tmp_path, visits())
    disk.save(tmp_path / "run")
    NEWCOMERS.write_csv(tmp_path / "new.csv")
    LATER.write_csv(tmp_path / "later.csv")
    for command in (
        ("fold-in", "run", "new.csv", "-o", "more"),
        ("update", "more", "later.csv", "-o", "more", "--force"),
    ):
        words = [str(tmp_path / word) if n in (1, 2, 4) else word for n, word in enumerate(command)]
        result = plait_command(*words)
        assert result.exit_code == 0, result.output
    assert_alike(plait.load(tmp_path / "more"), memory.fold_in({"visits": NEWCOMERS}).update({"visits": LATER}))
