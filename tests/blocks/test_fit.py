"""A fit of blocks on disk is that of the same tables in memory, to the last bit; and answers as it does."""

import json

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import plait
from plait.answer.explain import coupling
from plait.cli import app
from plait.data.blocks.packed import Packed
from plait.data.blocks.table import CellsOnDisk
from plait.execute import Reference, Threads
from plait.fitting.ranks import rule, side_weights
from plait.report import run
from tests.cases import assert_same, bits
from tests.finely import cut_finely

CP3 = "visits[user, act, place] = U[user, r] A[act, r] P[place, r]"
SUM = "visits[user, act, place] = U[user, r] A[act, r] P[place, r] + b[user] c[place]"
COUPLED = f"{CP3}\ntags[place, tag] = P[place, r] T[tag, r]"
FRIENDS = "friends[user, friend] = U[user, r] U[friend, r]\nfriend: user"
pytestmark = pytest.mark.filterwarnings("ignore::plait.NoZerosWarning")


def visits(seed=0, count=1500, sizes=(60, 6, 25), value=True):
    rng = np.random.default_rng(seed)
    cells = np.unique(np.stack([(rng.random(count) ** 2 * size).astype(int) for size in sizes], axis=1), axis=0)
    table = pl.DataFrame(dict(zip(("user", "act", "place"), cells.T)))
    return table.with_columns(value=pl.Series(rng.poisson(1.0, len(table)) + 1)) if value else table


def tags(seed=1):
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, (25, 9), (90, 2)), axis=0)
    return pl.DataFrame({"place": cells[:, 0], "tag": [f"t{n}" for n in cells[:, 1]]})


@pytest.fixture(autouse=True)
def finely(monkeypatch):
    cut_finely(monkeypatch, 90)


HOW = {"rank": 3, "seed": 5, "sweeps": 6}
WAYS = {
    "counts": {},
    "links": {"likelihood": "bernoulli"},
    "bursts": {"likelihood": "negbin"},
    "amounts": {"likelihood": "amounts"},
    "listed": {"observed": "listed"},
    "weighed zeros": {"observed": 0.3},
    "weight": {"weight": 2.5},
    "missing": {"missing": pl.DataFrame({"user": [3, 4], "place": [1, 2]})},
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [CP3, SUM], ids=["product", "sum"])
def test_a_fit_from_disk_has_the_bits_of_one_in_memory(tmp_path, model, way):
    table = plait.Relation(visits(value=way != "links"), **WAYS[way])
    plait.pack(model, {"visits": table}, tmp_path / "v.blocks", memory="1MB")
    blocks = Packed.open(tmp_path / "v.blocks").relations["visits"].blocks
    assert len(blocks) > 8
    memory = plait.fit(model, {"visits": table}, threads=1, **HOW)
    disk = plait.fit(model, tmp_path / "v.blocks", threads=3, **HOW)
    assert bits(disk) == bits(memory)
    assert disk.bound == memory.bound


@pytest.mark.parametrize("order", ["user, act, place", "place, user, act"])
def test_a_chosen_shape_has_the_bits_of_memory_whatever_the_order_of_indices(tmp_path, order):
    table = visits(seed=1).with_columns(value=pl.Series(np.random.default_rng(1).gamma(3.0, 1.7, len(visits(seed=1)))))
    model = f"visits[{order}] = U[user, r] A[act, r] P[place, r]"
    relation, how = plait.Relation(table, likelihood="amounts"), HOW | {"sweeps": 24}
    plait.pack(model, {"visits": relation}, tmp_path / "v.blocks")
    memory, disk = (plait.fit(model, data, **how) for data in ({"visits": relation}, tmp_path / "v.blocks"))
    assert bits(disk) == bits(memory)
    assert (disk.bound, disk.learnt) == (memory.bound, memory.learnt)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["counts", "links", "amounts", "listed", "weighed zeros"])
def test_bootstrapped_members_see_the_draws_of_memory(tmp_path, way):
    table, how = plait.Relation(visits(value=way != "links"), **WAYS[way]), HOW | {"restarts": 2, "bootstrap": True}
    plait.pack(CP3, {"visits": table}, tmp_path / "v.blocks")
    memory, disk = (plait.fit(CP3, data, **how) for data in ({"visits": table}, tmp_path / "v.blocks"))
    assert bits(disk.members[0]) == bits(memory.members[0])
    assert_same(memory.members[1], disk.members[1])
    assert disk.members[1].bound != disk.members[0].bound
    disk.save(tmp_path / "run")
    resumed = plait.fit(CP3, tmp_path / "v.blocks", init=tmp_path / "run", **how | {"sweeps": 8})
    whole = plait.fit(CP3, tmp_path / "v.blocks", **how | {"sweeps": 8})
    assert bits(resumed.members[1]) == bits(whole.members[1])


EXPOSED = "visits[user, act, place] = U[user, r] A[act, r] P[place, r] V[user] W[place]"
HALF = "visits[user, act, place] = U[user, r] A[act, r] P[place, r] V[user] + b[user] c[place]"
EVIDENCE = "visits[user, act, place] = U[user, r] A[act, r] P[place, r] + w[] N[user, place]"


def given(model):
    """What is given of the factors of a model."""
    rng, table = np.random.default_rng(3), visits()
    sizes = {"V": table["user"].n_unique(), "W": table["place"].n_unique()}
    found = {name: rng.random(size) + 0.1 for name, size in sizes.items() if f" {name}[" in model}
    rows = pl.DataFrame({"user": [1, 2, 3], "place": [1, 2, 0], "value": [1.0, 2.0, 3.0]})
    return found | ({"N": plait.Exposure(rows, default=0)} if "N[" in model else {})


@pytest.mark.parametrize("way", ["counts", "links", "amounts", "listed", "missing"])
@pytest.mark.parametrize("model", [EXPOSED, HALF, EVIDENCE], ids=["vectors", "one term", "table"])
def test_exposures_are_looked_up_when_a_block_is_read(tmp_path, model, way):
    table, how = plait.Relation(visits(value=way != "links"), **WAYS[way]), HOW | {"fixed": given(model)}
    plait.pack(CP3, {"visits": table}, tmp_path / "v.blocks")
    if model == EVIDENCE and way in ("listed", "weighed zeros"):
        with pytest.raises(plait.SettingError, match=r"an exposure for several indices where zeros[^$]*single indices"):
            plait.fit(model, tmp_path / "v.blocks", **how)
        return
    memory, disk = (plait.fit(model, data, **how) for data in ({"visits": table}, tmp_path / "v.blocks"))
    assert bits(disk)[0] == bits(memory)[0]
    assert_same(memory, disk)
    rows = {"visits": pl.DataFrame({"user": [54, 55], "act": [5, 5], "place": [22, 24]})}
    assert_same(memory.update(rows), disk.update(rows))


def test_a_link_on_disk_that_cannot_happen_is_named_as_in_memory(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    fixed = given(EXPOSED)
    fixed["W"][[3, 5]] = 0.0
    said = []
    for data in ({"visits": visits()}, tmp_path / "v.blocks"):
        with pytest.raises(plait.DataError, match="has exposure 0, so it cannot happen") as caught:
            plait.fit(EXPOSED, data, fixed=fixed, **HOW)
        said.append(str(caught.value))
    assert said[0] == said[1]


METHODS = [
    {"method": "em"},
    {"method": "map", "prior": plait.Gamma(1.5, 1.0)},
    {"dtype": "float32"},
    {"accelerate": True, "sweeps": 26},
    {"restarts": 2},
    {"prune": True, "adapt": "component", "sweeps": 15},
]


@pytest.mark.parametrize("how", [{}, {"method": "em"}], ids=str)
@pytest.mark.parametrize("sizes", [(25, 60, 6), (6, 25, 60)])
def test_the_order_of_the_indices_does_not_matter(tmp_path, sizes, how):
    """Trees of tables in memory are then sorted anew, and what is added up over links is so in the order of trees."""
    table = visits(sizes=sizes)
    plait.pack(CP3, {"visits": table}, tmp_path / "v.blocks")
    memory = plait.fit(CP3, {"visits": table}, threads=2, **HOW | how)
    disk = plait.fit(CP3, tmp_path / "v.blocks", threads=2, **HOW | how)
    assert bits(disk) == bits(memory)
    assert [r.bound for r in disk.history] == [r.bound for r in memory.history]


@pytest.mark.parametrize("how", METHODS, ids=str)
def test_every_method_has_the_bits_of_memory(tmp_path, how):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    memory = plait.fit(CP3, {"visits": visits()}, threads=2, **HOW | how)
    assert bits(plait.fit(CP3, tmp_path / "v.blocks", threads=2, **HOW | how)) == bits(memory)


def test_tables_in_memory_go_beside_blocks(tmp_path):
    data = {"visits": visits(), "tags": tags()}
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    memory = plait.fit(COUPLED, data, **HOW)
    mixed = plait.fit(COUPLED, {"visits": tmp_path / "v.blocks", "tags": tags()}, **HOW)
    assert bits(mixed) == bits(memory)
    plait.pack(COUPLED, data, tmp_path / "both.blocks")
    assert bits(plait.fit(COUPLED, tmp_path / "both.blocks", **HOW)) == bits(memory)


def test_entities_that_only_a_table_in_memory_has_come_after_those_of_the_blocks(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    more = pl.concat([tags(), pl.DataFrame({"place": [-7, 900], "tag": ["t1", "t2"]})])
    fit = plait.fit(COUPLED, {"visits": str(tmp_path / "v.blocks"), "tags": more}, **HOW)
    names = list(fit.labels["place"])
    assert names[-2:] == [-7, 900]
    assert names[:-2] == sorted(names[:-2])
    found = fit.predict("visits", {"user": [0], "act": [1], "place": [900]})
    assert np.isfinite(float(found["mean"][0]))


def test_an_axis_that_outgrows_the_root_of_the_blocks_changes_no_number(tmp_path):
    """Blocks stay sorted as they are packed; a table in memory is sorted by the axes that there are now."""
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    more = pl.concat([tags(), pl.DataFrame({"place": np.arange(100, 200), "tag": ["t1"] * 100})])
    mixed = plait.fit(COUPLED, {"visits": tmp_path / "v.blocks", "tags": more}, **HOW)
    assert_same(plait.fit(COUPLED, {"visits": visits(), "tags": more}, **HOW), mixed, 1e-8)


@pytest.mark.parametrize("way", ["counts", "listed", "weighed zeros"])
def test_links_without_a_direction_weigh_what_they_do_in_memory(tmp_path, way):
    rng = np.random.default_rng(0)
    cells = np.unique(np.sort(rng.integers(0, 40, (300, 2)), axis=1), axis=0)
    table = pl.DataFrame({"user": cells[:, 0], "friend": cells[:, 1]}).filter(pl.col("user") != pl.col("friend"))
    data = {"friends": plait.Relation(table, **WAYS[way])}
    plait.pack(FRIENDS, data, tmp_path / "f.blocks")
    assert_same(plait.fit(FRIENDS, data, **HOW), plait.fit(FRIENDS, tmp_path / "f.blocks", **HOW), 1e-8)


def test_the_executor_of_tests_reads_blocks_too(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    kernels = plait.fit(CP3, tmp_path / "v.blocks", executor=Threads(2), **HOW)
    dense = plait.fit(CP3, tmp_path / "v.blocks", executor=Reference(), **HOW)
    assert kernels.bound == pytest.approx(dense.bound, rel=1e-10)


def test_a_saved_run_answers_from_its_blocks_as_one_in_memory_does(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    memory = plait.fit(CP3, {"visits": visits()}, **HOW)
    plait.fit(CP3, tmp_path / "v.blocks", **HOW).save(tmp_path / "run")
    assert not list((tmp_path / "run").glob("known*"))
    loaded = plait.load(tmp_path / "run")
    cells = visits(3).drop("value").unique().sort("user", "act", "place")
    assert loaded.predict("visits", cells).equals(memory.predict("visits", cells))
    assert loaded.top("visits", 5).equals(memory.top("visits", 5))
    assert loaded.top("visits", 2, each="user").equals(memory.top("visits", 2, each="user"))
    cell = {"user": 1, "act": 2, "place": 3}
    assert str(loaded.explain("visits", cell)) == str(memory.explain("visits", cell))
    known = loaded.known["visits"]
    assert len(known) == len(visits())
    rows = visits().to_numpy()
    assert known.values_at(rows[:, :3]).tolist() == rows[:, 3].tolist()


@pytest.mark.parametrize("how", [{}, {"method": "em"}], ids=str)
def test_what_takes_all_links_takes_them_in_pieces(tmp_path, monkeypatch, how):
    plait.pack(COUPLED, {"visits": visits(), "tags": tags()}, tmp_path / "v.blocks")
    memory = plait.fit(COUPLED, {"visits": visits(), "tags": tags()}, **HOW | how)
    disk = plait.fit(COUPLED, tmp_path / "v.blocks", **HOW | how)
    monkeypatch.setattr(coupling, "PIECE", 100)
    monkeypatch.setattr(CellsOnDisk, "read", None)
    assert_frame_equal(disk.coupling(), memory.coupling(), rel_tol=1e-10)
    assert_frame_equal(disk.components(), memory.components(), rel_tol=1e-9)
    assert disk.surprising("visits", 25).equals(memory.surprising("visits", 25))
    assert str(run.relations_table(disk)) == str(run.relations_table(memory))


@pytest.mark.parametrize("observed", ["listed", "all"])
def test_listed_zeros_on_disk_surprise_as_those_in_memory_do(observed, tmp_path):
    table = visits()
    table = table.with_columns(value=pl.when(pl.int_range(pl.len()) % 5 == 0).then(0).otherwise("value"))
    data = {"visits": plait.Relation(table, observed=observed)}
    plait.pack(CP3, data, tmp_path / "v.blocks")
    found = plait.fit(CP3, tmp_path / "v.blocks", **HOW).surprising("visits", 7)
    assert found["kind"].to_list() == ["link"] * 7 + ["zero"] * 7
    assert_frame_equal(found, plait.fit(CP3, data, **HOW).surprising("visits", 7), rel_tol=1e-9)


def test_a_run_finds_its_blocks_beside_itself_and_says_where_they_were(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "a" / "v.blocks")
    plait.fit(CP3, tmp_path / "a" / "v.blocks", **HOW).save(tmp_path / "b" / "run")
    (tmp_path / "a" / "v.blocks").rename(tmp_path / "b" / "v.blocks")
    assert len(plait.load(tmp_path / "b" / "run").known["visits"]) == len(visits())
    (tmp_path / "b" / "v.blocks").rename(tmp_path / "elsewhere")
    with pytest.raises(plait.StoreError, match=r"the blocks that this run was made from are not there.*v\.blocks"):
        plait.load(tmp_path / "b" / "run")


def test_a_resumed_fit_has_the_bits_of_one_that_was_not_interrupted(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    short = plait.fit(CP3, tmp_path / "v.blocks", **HOW | {"sweeps": 3})
    short.save(tmp_path / "run")
    on = plait.fit(CP3, tmp_path / "v.blocks", init=tmp_path / "run", threads=3, rank=3, sweeps=6)
    assert bits(on) == bits(plait.fit(CP3, {"visits": visits()}, **HOW))


def test_what_needs_all_links_in_memory_is_refused_with_a_cure(tmp_path):
    path = tmp_path / "v.blocks"
    plait.pack(CP3, {"visits": visits()}, path)
    with pytest.raises(plait.SettingError, match="a free factor over pairs"):
        plait.fit("visits[user, act, place] = U[user, r] A[act, r] P[place, r] + M[user, place]", path, **HOW)
    with pytest.raises(plait.DataError, match=r"the blocks in .* are of visits\[user, act, place\]"):
        plait.fit("visits[user, place] = U[user, r] P[place, r]", path, **HOW)
    with pytest.raises(plait.DataError, match="are of visits; there is no relation tags"):
        plait.fit(COUPLED, path, **HOW)


@pytest.mark.parametrize("asked", ["auto", "bound"])
def test_a_rank_is_found_as_in_memory(tmp_path, monkeypatch, asked):
    table = plait.Relation(visits(), observed=0.5)
    plait.pack(CP3, {"visits": table}, tmp_path / "v.blocks")
    monkeypatch.setattr(rule, "SIZES", (1, 2, 3, 4, 6, 8))
    how = {"rank": asked, "seed": 5, "sweeps": 3}
    memory, disk = (plait.fit(CP3, data, **how) for data in ({"visits": table}, tmp_path / "v.blocks"))
    assert disk.settings["rank_by"] == memory.settings["rank_by"]
    assert len(disk.settings["rank_by"]["tried"]) > 1
    assert bits(disk) == bits(memory)
    monkeypatch.setattr(rule, "ENTRIES", 1000)
    with pytest.raises(plait.SettingError, match=r"`rank` is to be found, but among 1,180 links none[^$]*`rank=20`"):
        plait.fit(CP3, tmp_path / "v.blocks", **how)


@pytest.mark.parametrize("on_disk", ["visits", "tags"])
def test_a_weight_is_found_as_in_memory(tmp_path, monkeypatch, on_disk):
    monkeypatch.setattr(side_weights, "OTHERS", (0.1, 3.0))
    monkeypatch.setattr(side_weights, "SURE", -9.0)  # any other weight will do
    data = {"visits": visits(), "tags": plait.Relation(tags(), weight="auto")}
    text = CP3 if on_disk == "visits" else COUPLED.splitlines()[1]
    plait.pack(text, {on_disk: data[on_disk]}, tmp_path / "v.blocks", labels={"place": range(25)})
    mixed = data | {on_disk: tmp_path / "v.blocks"}
    memory, disk = (plait.fit(COUPLED, given, labels={"place": range(25)}, **HOW) for given in (data, mixed))
    assert memory.settings["weights"]["tags"] != 1
    assert disk.settings["weights"] == memory.settings["weights"]
    assert_same(memory, disk)
    disk.save(tmp_path / "run")
    np.testing.assert_array_equal(plait.load(tmp_path / "run").known["tags"].weights, memory.known["tags"].weights)


def test_a_block_that_vanishes_or_is_cut_short_during_a_fit_is_named(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    blocks = Packed.open(tmp_path / "v.blocks").relations["visits"].blocks
    victim = tmp_path / "v.blocks" / str(blocks.files[3]["file"])
    kept = victim.read_bytes()

    def spoil(record):
        if record.sweep == 2:
            victim.write_bytes(kept[: len(kept) // 2])

    with pytest.raises(plait.StoreError, match=victim.name):
        plait.fit(CP3, tmp_path / "v.blocks", progress=spoil, start="random", **HOW)
    victim.unlink()
    with pytest.raises(plait.StoreError, match=victim.name):
        plait.fit(CP3, tmp_path / "v.blocks", **HOW)
    victim.write_bytes(kept)
    assert np.isfinite(plait.fit(CP3, tmp_path / "v.blocks", **HOW).bound)


def test_evaluate_asks_a_fit_of_blocks(tmp_path):
    split = plait.hide({"visits": visits()}, "visits", fraction=0.2, model=CP3, seed=0)
    plait.pack(CP3, split.train, tmp_path / "v.blocks")
    disk, memory = (plait.fit(CP3, data, **HOW) for data in (tmp_path / "v.blocks", split.train))
    a, b = (plait.evaluate(fit, "visits", split.test) for fit in (disk, memory))
    assert str(a) == str(b)


def test_the_command_fits_from_blocks(tmp_path):
    visits().write_csv(tmp_path / "visits.csv")
    config = tmp_path / "model.toml"
    config.write_text(
        f'model = "{CP3}"\nrank = 3\n[relations.visits]\nsource = "visits.csv"\n[fit]\nseed = 5\nsweeps = 6\n'
    )

    def run(*arguments):
        result = CliRunner().invoke(app, [*map(str, arguments)])
        assert result.exit_code == 0, result.output
        return result.stdout

    run("pack", config, "-o", tmp_path / "v.blocks")
    run("fit", config, "-o", tmp_path / "one", "--blocks", tmp_path / "v.blocks")
    run("fit", config, "-o", tmp_path / "two")
    (tmp_path / "visits.csv").unlink()
    assert bits(plait.load(tmp_path / "one")) == bits(plait.load(tmp_path / "two"))
    run("resume", tmp_path / "one", "--sweeps", "8")
    assert plait.load(tmp_path / "one").history[-1].sweep == 8
    assert json.loads(run("check", config, "--blocks", tmp_path / "v.blocks", "--json"))["rank"] == {"r": 3}
