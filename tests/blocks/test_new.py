"""New entities and new links beside blocks on disk: as in memory, and what is packed stays where it is."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import plait
from plait.cli import app
from plait.data.blocks.table import CellsOnDisk
from plait.fold import following
from tests.blocks.test_fit import COUPLED, CP3, FRIENDS, HOW, WAYS, tags, visits
from tests.cases import assert_same, bits
from tests.finely import cut_finely

pytestmark = pytest.mark.filterwarnings("ignore::plait.NoZerosWarning")

NEWCOMERS = pl.DataFrame(
    {"user": [100, 100, 101, 3], "act": [1, 2, 1, 0], "place": [3, 4, 5, 77], "value": [1, 2, 1, 1]}
)
LATER = pl.DataFrame({"user": [0, 1, 2, 200], "act": [0, 1, 2, 3], "place": [0, 20, 21, 5], "value": [2, 1, 1, 3]})
ADDS_UP = ("counts", "listed", "weighed zeros", "weight", "missing")  # values of a cell do


@pytest.fixture(autouse=True)
def finely(monkeypatch):
    cut_finely(monkeypatch, 90)


def both(folder, table, model=CP3, name="visits", **how):
    """The same fit in memory and from blocks."""
    plait.pack(model, {name: table}, folder / "v.blocks")
    return (plait.fit(model, data, **HOW | how) for data in ({name: table}, folder / "v.blocks"))


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


def assert_alike(disk, memory, *, to_the_bit=True):
    assert_known_alike(disk, memory)
    if to_the_bit:
        assert bits(disk)[0] == bits(memory)[0]
    assert_same(memory, disk)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("way", WAYS)
def test_fold_ins_and_updates_are_those_of_a_fit_in_memory(tmp_path, way):
    memory, disk = both(tmp_path, plait.Relation(visits(value=way != "links"), **WAYS[way]))
    new, later = (table.drop("value") if way == "links" else table for table in (NEWCOMERS, LATER))
    folded, large = memory.fold_in({"visits": new}), disk.fold_in({"visits": new})
    assert_alike(large, folded)
    assert large.bound == folded.bound
    if way not in ADDS_UP:
        with pytest.raises(plait.DataError, match="user=0, act=0, place=0 is a known link already"):
            large.update({"visits": later})
        later = later.filter(pl.col("user") > 0)
    plain = way not in ("listed", "weighed zeros")  # of these, what is on disk and what is beside it are added up apart
    assert_alike(disk.update({"visits": later}), memory.update({"visits": later}), to_the_bit=plain)
    updated = folded.update({"visits": later})
    large.update({"visits": later}).save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert_alike(loaded, updated, to_the_bit=plain)
    again = LATER.with_columns(user=pl.lit(555)).drop(*(["value"] if way == "links" else []))
    assert_alike(loaded.update({"visits": again}), updated.update({"visits": again}), to_the_bit=plain)


@pytest.mark.parametrize("way", ["counts", "weighed zeros"])
@pytest.mark.parametrize("how", [{"method": "em"}, {"method": "map", "prior": plait.Gamma(1.5, 1.0)}, {"restarts": 2}])
def test_every_method_learns(tmp_path, how, way):
    memory, disk = both(tmp_path, plait.Relation(visits(), **WAYS[way]), **how)
    for a, b in zip(disk.update({"visits": LATER}).members, memory.update({"visits": LATER}).members):
        assert_alike(a, b, to_the_bit=way == "counts")


@pytest.mark.parametrize("way", ["counts", "listed"])
def test_friends_without_a_direction(tmp_path, way):
    rng = np.random.default_rng(0)
    cells = np.unique(np.sort(rng.integers(0, 40, (300, 2)), axis=1), axis=0)
    table = pl.DataFrame({"user": cells[:, 0], "friend": cells[:, 1]}).filter(pl.col("user") != pl.col("friend"))
    memory, disk = both(tmp_path, plait.Relation(table, **WAYS[way]), FRIENDS, "friends")
    new = {"friends": pl.DataFrame({"user": [70, 71, 5], "friend": [2, 70, 70]})}
    again = {"friends": pl.DataFrame({"user": [cells[0, 1], 70], "friend": [cells[0, 0], 3]})}  # the other way round
    folded, large = memory.fold_in(new), disk.fold_in(new)
    assert_alike(large, folded, to_the_bit=way == "counts")
    assert_alike(large.update(again), folded.update(again), to_the_bit=False)


def test_answers_after_a_fold_in_and_an_update(tmp_path):
    split = plait.hide({"visits": visits()}, "visits", fraction=0.2, model=CP3, seed=0)
    memory, disk = both(tmp_path, split.train["visits"])
    memory, disk = (fit.fold_in({"visits": NEWCOMERS}).update({"visits": LATER}) for fit in (memory, disk))
    disk.save(tmp_path / "run")
    disk = plait.load(tmp_path / "run")
    cells = pl.concat([LATER, NEWCOMERS]).drop("value")
    assert disk.predict("visits", cells).equals(memory.predict("visits", cells))
    for user in (3, 100, 200):
        assert disk.top("visits", 5, given={"user": user}).equals(memory.top("visits", 5, given={"user": user}))
    assert disk.top("visits", 2, each="user").equals(memory.top("visits", 2, each="user"))
    for cell in ({"user": 100, "act": 2, "place": 3}, {"user": 0, "act": 0, "place": 0}):
        assert str(disk.explain("visits", cell)) == str(memory.explain("visits", cell))
    assert str(plait.evaluate(disk, "visits", split.test)) == str(plait.evaluate(memory, "visits", split.test))
    assert disk.surprising("visits").equals(memory.surprising("visits"))
    assert_frame_equal(disk.coupling(), memory.coupling(), rel_tol=1e-10)
    assert_frame_equal(disk.components(), memory.components(), rel_tol=1e-9)


def test_blocks_are_never_read_as_a_whole(tmp_path, monkeypatch):
    _, disk = both(tmp_path, visits())
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
    assert len(loaded.top("visits", 3, given={"user": 8000}, new={"visits": NEWCOMERS.with_columns(user=pl.lit(8000))}))


def weighed(zeros):
    """Visits with weights of their own, some of them 0, and zeros among them."""
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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", OWN)
def test_cells_that_weigh_differently(tmp_path, way):
    memory, disk = both(tmp_path, OWN[way])
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


def test_cells_that_weigh_differently_and_are_drawn(tmp_path):
    memory, disk = both(tmp_path, OWN["light zeros that are listed"], restarts=2, bootstrap=True)
    for a, b in zip(memory.members, disk.members):
        assert_same(a, b)


def test_of_many_links_on_disk_some_say_how_old_counts_follow(tmp_path, monkeypatch):
    memory, disk = both(tmp_path, plait.Relation(visits(), likelihood="negbin"))
    later = {"visits": LATER.filter(pl.col("user") > 0)}
    exact = memory.update(later)
    monkeypatch.setattr(following, "CHOSEN", 400)
    for known, count in ((disk.known["visits"], 400), (disk.update(later).known["visits"], 400)):
        (some, each), *beside = following.choose_known(
            disk.model, "visits", known, {"user": 900, "act": 9, "place": 90}
        )
        assert len(some.cells) == count
        assert len(some.cells) * each + sum(len(links.cells) * n for links, n in beside) == pytest.approx(len(known))
        np.testing.assert_array_equal(known.values_at(some.cells), some.values)
    found = disk.update(later)
    assert found.bound == pytest.approx(exact.bound, rel=1e-4)
    np.testing.assert_allclose(found.factors["P"].mean, exact.factors["P"].mean, rtol=0.05)


def test_guests_beside_blocks_and_tables(tmp_path):
    data = {"visits": visits(), "tags": tags()}
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    memory, disk = (plait.fit(COUPLED, data | more, **HOW) for more in ({}, {"visits": tmp_path / "v.blocks"}))
    rows = {"tags": pl.DataFrame({"place": [500, 500], "tag": ["t1", "t2"]})}
    for given in ({"place": 500}, {"user": 3}):
        assert disk.top("visits", 4, given=given, new=rows).equals(memory.top("visits", 4, given=given, new=rows))
    cells = pl.DataFrame({"user": [1, 2], "act": [0, 1], "place": [500, 3]})
    assert disk.predict("visits", cells, new=rows).equals(memory.predict("visits", cells, new=rows))


def test_links_beside_blocks_weigh_what_those_do(tmp_path):
    _, disk = both(tmp_path, visits())
    rows = LATER.with_columns(weight=pl.Series([1.0, 2.0, 1.0, 1.0]))
    with pytest.raises(plait.DataError, match=r"row 1[^$]*the weight is 2[^$]*beside blocks[^$]*Leave the weight out"):
        disk.update({"visits": plait.Relation(rows, value="value", weight="weight")})


def test_the_commands_learn_beside_blocks(tmp_path):
    memory, disk = both(tmp_path, visits())
    disk.save(tmp_path / "run")
    NEWCOMERS.write_csv(tmp_path / "new.csv")
    LATER.write_csv(tmp_path / "later.csv")
    for command in (
        ("fold-in", "run", "new.csv", "-o", "more"),
        ("update", "more", "later.csv", "-o", "more", "--force"),
    ):
        words = [str(tmp_path / word) if n in (1, 2, 4) else word for n, word in enumerate(command)]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, result.output
    assert_alike(plait.load(tmp_path / "more"), memory.fold_in({"visits": NEWCOMERS}).update({"visits": LATER}))
