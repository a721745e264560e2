"""Fits of blocks on disk are bitwise identical to fits of the same tables in memory."""

import json

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import plait
from plait.data.outofcore.block_table import CellsOnDisk
from plait.data.outofcore.packed import Packed
from plait.executors import Reference, Threads
from plait.report import run_summary
from tests.support.blocks_visits import COUPLED, CP3, FRIENDS, HOW, WAYS, fit_both, friends, relation, tags, visits
from tests.support.command_line import plait_command
from tests.support.problems import assert_same, bits
from tests.support.tuning import SMALL_LEAVES

SUM = f"{CP3} + b[user] c[place]"
EXPOSED = f"{CP3} V[user] W[place]"
HALF = f"{CP3} V[user] + b[user] c[place]"
EVIDENCE = f"{CP3} + w[] N[user, place]"
pytestmark = pytest.mark.filterwarnings("ignore::plait.errors.NoZerosWarning")


@pytest.fixture(autouse=True)
def finely(tuning):
    tuning(**SMALL_LEAVES, max_leaf_entries=90)


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", [CP3, SUM], ids=["product", "sum"])
def test_every_way_of_observing_has_the_bits_of_memory(tmp_path, model, way):
    plait.pack(model, {"visits": relation(way)}, tmp_path / "v.blocks", memory="1MB")
    assert len(Packed.open(tmp_path / "v.blocks").relations["visits"].blocks) > 8
    memory = plait.fit(model, {"visits": relation(way)}, threads=1, **HOW)
    disk = plait.fit(model, tmp_path / "v.blocks", threads=3, **HOW)
    assert bits(disk) == bits(memory)
    assert disk.objective == memory.objective


METHODS = [
    {},
    {"method": "em"},
    {"method": "map", "prior": plait.Gamma(1.5, 1.0)},
    {"dtype": "float32"},
    {"accelerate": True, "max_iter": 26},
    {"restarts": 2},
    {"prune": True, "adapt_prior": "component", "max_iter": 15},
]


@pytest.mark.parametrize("how", METHODS, ids=str)
def test_every_method_has_the_bits_of_memory(tmp_path, how):
    memory, disk = fit_both(tmp_path, visits(), threads=2, **how)
    assert bits(disk) == bits(memory)


@pytest.mark.parametrize("how", [{}, {"method": "em"}], ids=str)
@pytest.mark.parametrize("sizes", [(25, 60, 6), (6, 25, 60)])
def test_any_order_of_the_axes_has_the_bits_of_memory(tmp_path, sizes, how):
    memory, disk = fit_both(tmp_path, visits(sizes=sizes), threads=2, **how)
    assert bits(disk) == bits(memory)


@pytest.mark.parametrize("order", ["user, act, place", "place, user, act"])
def test_a_learnt_shape_has_the_bits_of_memory(tmp_path, order):
    table = visits(seed=1)
    table = table.with_columns(value=pl.Series(np.random.default_rng(1).gamma(3.0, 1.7, len(table))))
    model = f"visits[{order}] = U[user, r] A[act, r] P[place, r]"
    memory, disk = fit_both(tmp_path, plait.Relation(table, likelihood="tweedie"), model, max_iter=24)
    assert bits(disk) == bits(memory)
    assert (disk.objective, disk.likelihood_params) == (memory.objective, memory.likelihood_params)


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["counts", "links", "tweedie", "listed", "weighed zeros"])
def test_a_bootstrap_draws_the_weights_of_memory(tmp_path, way):
    how = HOW | {"restarts": 2, "bootstrap": True}
    memory, disk = fit_both(tmp_path, relation(way), **how)
    assert bits(disk.members[0]) == bits(memory.members[0])
    assert_same(memory.members[1], disk.members[1])
    assert disk.members[1].objective != disk.members[0].objective
    disk.save(tmp_path / "run")
    resumed = plait.fit(CP3, tmp_path / "v.blocks", init=tmp_path / "run", **how | {"max_iter": 8})
    whole = plait.fit(CP3, tmp_path / "v.blocks", **how | {"max_iter": 8})
    assert bits(resumed.members[1]) == bits(whole.members[1])


def given(model):
    rng, table = np.random.default_rng(3), visits()
    sizes = {"V": table["user"].n_unique(), "W": table["place"].n_unique()}
    found = {name: rng.random(size) + 0.1 for name, size in sizes.items() if f" {name}[" in model}
    rows = pl.DataFrame({"user": [1, 2, 3], "place": [1, 2, 0], "value": [1.0, 2.0, 3.0]})
    return found | ({"N": plait.Exposure(rows, default=0)} if "N[" in model else {})


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["counts", "links", "tweedie", "listed", "missing"])
@pytest.mark.parametrize("model", [EXPOSED, HALF, EVIDENCE], ids=["vectors", "one term", "table"])
def test_exposures_apply_to_blocks(tmp_path, model, way):
    if model == EVIDENCE and way == "listed":
        with pytest.raises(
            plait.errors.ParameterError, match=r"an exposure over several indices with[^$]*single indices"
        ):
            fit_both(tmp_path, relation(way), model, packed=CP3, fixed=given(model))
        return
    memory, disk = fit_both(tmp_path, relation(way), model, packed=CP3, fixed=given(model))
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
        with pytest.raises(plait.errors.DataError, match="has exposure 0, so its probability is 0") as caught:
            plait.fit(EXPOSED, data, fixed=fixed, **HOW)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.thorough
def test_blocks_and_tables_fit_together(tmp_path):
    data = {"visits": visits(), "tags": tags()}
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    memory = plait.fit(COUPLED, data, **HOW)
    mixed = plait.fit(COUPLED, {"visits": tmp_path / "v.blocks", "tags": tags()}, **HOW)
    assert bits(mixed) == bits(memory)
    plait.pack(COUPLED, data, tmp_path / "both.blocks")
    assert bits(plait.fit(COUPLED, tmp_path / "both.blocks", **HOW)) == bits(memory)


def test_entities_of_a_table_follow_those_of_the_blocks(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    more = pl.concat([tags(), pl.DataFrame({"place": [-7, 900], "tag": ["t1", "t2"]})])
    fit = plait.fit(COUPLED, {"visits": str(tmp_path / "v.blocks"), "tags": more}, **HOW)
    names = list(fit.entities["place"])
    assert names[-2:] == [-7, 900]
    assert names[:-2] == sorted(names[:-2])
    found = fit.predict("visits", {"user": [0], "act": [1], "place": [900]})
    assert np.isfinite(float(found["mean"][0]))


def test_an_axis_may_outgrow_the_root_of_the_blocks(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    more = pl.concat([tags(), pl.DataFrame({"place": np.arange(100, 200), "tag": ["t1"] * 100})])
    mixed = plait.fit(COUPLED, {"visits": tmp_path / "v.blocks", "tags": more}, **HOW)
    assert_same(plait.fit(COUPLED, {"visits": visits(), "tags": more}, **HOW), mixed, 1e-8)


@pytest.mark.parametrize("way", ["counts", "listed", "weighed zeros"])
def test_undirected_links_weigh_what_they_do_in_memory(tmp_path, way):
    table = plait.Relation(friends(), **WAYS[way])
    assert_same(*fit_both(tmp_path, table, FRIENDS, "friends"), 1e-8)


@pytest.mark.thorough
def test_kernels_on_blocks_equal_the_dense_reference(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    kernels = plait.fit(CP3, tmp_path / "v.blocks", executor=Threads(2), **HOW)
    dense = plait.fit(CP3, tmp_path / "v.blocks", executor=Reference(), **HOW)
    assert kernels.objective == pytest.approx(dense.objective, rel=1e-10)


def test_a_saved_run_of_blocks_answers_as_one_in_memory(tmp_path):
    memory, disk = fit_both(tmp_path, visits())
    disk.save(tmp_path / "run")
    assert not list((tmp_path / "run").glob("known*"))
    loaded = plait.load(tmp_path / "run")
    cells = visits(3).drop("value").unique().sort("user", "act", "place")
    assert loaded.predict("visits", cells).equals(memory.predict("visits", cells))
    assert loaded.top("visits", 5).equals(memory.top("visits", 5))
    assert loaded.top("visits", 2, per="user").equals(memory.top("visits", 2, per="user"))
    cell = {"user": 1, "act": 2, "place": 3}
    assert str(loaded.explain("visits", cell)) == str(memory.explain("visits", cell))
    known = loaded.known["visits"]
    assert len(known) == len(visits())
    rows = visits().to_numpy()
    assert known.values_at(rows[:, :3]).tolist() == rows[:, 3].tolist()


@pytest.mark.parametrize("how", [{}, {"method": "em"}], ids=str)
def test_answers_about_all_links_read_them_in_chunks(tmp_path, monkeypatch, tuning, how):
    plait.pack(COUPLED, {"visits": visits(), "tags": tags()}, tmp_path / "v.blocks")
    memory = plait.fit(COUPLED, {"visits": visits(), "tags": tags()}, **HOW | how)
    disk = plait.fit(COUPLED, tmp_path / "v.blocks", **HOW | how)
    tuning(coupling_chunk=100)
    monkeypatch.setattr(CellsOnDisk, "read", None)
    assert_frame_equal(disk.coupling(), memory.coupling(), rel_tol=1e-10)
    assert_frame_equal(disk.components(), memory.components(), rel_tol=1e-9)
    assert disk.surprising("visits", 25).equals(memory.surprising("visits", 25))
    assert str(run_summary.relations_table(disk)) == str(run_summary.relations_table(memory))


@pytest.mark.thorough
@pytest.mark.parametrize("observed", ["listed", "all"])
def test_listed_zeros_surprise_as_in_memory(observed, tmp_path):
    table = visits()
    table = table.with_columns(value=pl.when(pl.int_range(pl.len()) % 5 == 0).then(0).otherwise("value"))
    memory, disk = fit_both(tmp_path, plait.Relation(table, observed=observed))
    found = disk.surprising("visits", 7)
    assert found["kind"].to_list() == ["link"] * 7 + ["zero"] * 7
    assert_frame_equal(found, memory.surprising("visits", 7), rel_tol=1e-9)


def test_a_block_of_zeros_alone_is_fitted_as_in_memory(tmp_path):
    table = visits().with_columns(value=pl.when(pl.col("user") < 6).then(0).otherwise(1))
    memory, disk = fit_both(tmp_path, plait.Relation(table, likelihood="bernoulli", observed="listed"), warmup=0)
    blocks = Packed.open(tmp_path / "v.blocks").relations["visits"].blocks
    assert any(not tree.entries.any() for tree in blocks)
    assert_same(memory, disk)  # to rounding: memory does not store the zeros, so its leaves differ


def test_a_run_finds_blocks_in_its_parent_folder(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "a" / "v.blocks")
    plait.fit(CP3, tmp_path / "a" / "v.blocks", **HOW).save(tmp_path / "b" / "run")
    (tmp_path / "a" / "v.blocks").rename(tmp_path / "b" / "v.blocks")
    assert len(plait.load(tmp_path / "b" / "run").known["visits"]) == len(visits())
    (tmp_path / "b" / "v.blocks").rename(tmp_path / "elsewhere")
    with pytest.raises(plait.errors.StorageError, match=r"the blocks of this run are missing.*v\.blocks"):
        plait.load(tmp_path / "b" / "run")


def test_a_fit_of_blocks_resumes(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    short = plait.fit(CP3, tmp_path / "v.blocks", **HOW | {"max_iter": 3})
    short.save(tmp_path / "run")
    on = plait.fit(CP3, tmp_path / "v.blocks", init=tmp_path / "run", threads=3, rank=3, max_iter=6)
    assert bits(on) == bits(plait.fit(CP3, {"visits": visits()}, **HOW))


def test_a_model_that_blocks_cannot_serve_is_refused(tmp_path):
    path = tmp_path / "v.blocks"
    plait.pack(CP3, {"visits": visits()}, path)
    with pytest.raises(plait.errors.ParameterError, match="a free factor over pairs"):
        plait.fit("visits[user, act, place] = U[user, r] A[act, r] P[place, r] + M[user, place]", path, **HOW)
    with pytest.raises(
        plait.errors.DataError, match=r"the blocks in .* have other indices: visits\[user, act, place\]"
    ):
        plait.fit("visits[user, place] = U[user, r] P[place, r]", path, **HOW)
    with pytest.raises(plait.errors.DataError, match="do not contain the relation tags"):
        plait.fit(COUPLED, path, **HOW)


@pytest.mark.thorough
@pytest.mark.parametrize("rank", ["auto", "elbo"])
def test_a_rank_is_found_as_in_memory(tmp_path, tuning, rank):
    table = plait.Relation(visits(), observed=0.5)
    tuning(rank_sizes=(1, 2, 3, 4, 6, 8))
    how = {"rank": rank, "seed": 5, "max_iter": 3}
    memory, disk = fit_both(tmp_path, table, **how)
    assert disk.settings["rank_by"] == memory.settings["rank_by"]
    assert len(disk.settings["rank_by"]["tried"]) > 1
    assert bits(disk) == bits(memory)
    tuning(max_sweep_products=1000)
    with pytest.raises(plait.errors.ParameterError, match=r"`rank` cannot be chosen from 1,180 links[^$]*`rank=20`"):
        plait.fit(CP3, tmp_path / "v.blocks", **how)


@pytest.mark.thorough
@pytest.mark.parametrize("on_disk", ["visits", "tags"])
def test_a_weight_is_found_as_in_memory(tmp_path, tuning, on_disk):
    tuning(side_weights=(0.1, 3.0), min_gain_errors=-9.0)  # any other weight will do
    data = {"visits": visits(), "tags": plait.Relation(tags(), weight="auto")}
    text = CP3 if on_disk == "visits" else COUPLED.splitlines()[1]
    plait.pack(text, {on_disk: data[on_disk]}, tmp_path / "v.blocks", entities={"place": range(25)})
    mixed = data | {on_disk: tmp_path / "v.blocks"}
    memory, disk = (plait.fit(COUPLED, given, entities={"place": range(25)}, **HOW) for given in (data, mixed))
    assert memory.settings["weights"]["tags"] != 1
    assert disk.settings["weights"] == memory.settings["weights"]
    assert_same(memory, disk)
    disk.save(tmp_path / "run")
    np.testing.assert_array_equal(plait.load(tmp_path / "run").known["tags"].weights, memory.known["tags"].weights)


def test_a_block_damaged_during_a_fit_is_named(tmp_path):
    plait.pack(CP3, {"visits": visits()}, tmp_path / "v.blocks")
    blocks = Packed.open(tmp_path / "v.blocks").relations["visits"].blocks
    victim = tmp_path / "v.blocks" / str(blocks.files[3]["file"])
    kept = victim.read_bytes()

    def spoil(record):
        if record.sweep == 2:
            victim.write_bytes(kept[: len(kept) // 2])

    with pytest.raises(plait.errors.StorageError, match=victim.name):
        plait.fit(CP3, tmp_path / "v.blocks", progress=spoil, warmup=0, **HOW)
    victim.unlink()
    with pytest.raises(plait.errors.StorageError, match=victim.name):
        plait.fit(CP3, tmp_path / "v.blocks", **HOW)
    victim.write_bytes(kept)
    assert np.isfinite(plait.fit(CP3, tmp_path / "v.blocks", **HOW).objective)


def test_the_command_fits_from_blocks(tmp_path):
    visits().write_csv(tmp_path / "visits.csv")
    config = tmp_path / "model.toml"
    config.write_text(
        f'model = "{CP3}"\nrank = 3\n[relations.visits]\nsource = "visits.csv"\n[fit]\nseed = 5\nmax_iter = 6\n'
    )

    def run(*arguments):
        result = plait_command(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    run("pack", config, "-o", tmp_path / "v.blocks")
    run("fit", config, "-o", tmp_path / "one", "--blocks", tmp_path / "v.blocks")
    run("fit", config, "-o", tmp_path / "two")
    (tmp_path / "visits.csv").unlink()
    assert bits(plait.load(tmp_path / "one")) == bits(plait.load(tmp_path / "two"))
    run("resume", tmp_path / "one", "--max-iter", "8")
    assert plait.load(tmp_path / "one").history[-1].sweep == 8
    assert json.loads(run("check", config, "--blocks", tmp_path / "v.blocks", "--json"))["rank"] == {"r": 3}
