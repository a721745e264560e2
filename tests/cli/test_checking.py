"""The memory that check reports: bytes counted by hand, and the peak of a process of its own."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import plait
from plait.cli.checking import Cost
from plait.compile.step import padded
from plait.data.cells import trees
from plait.fitting.begin import prepare
from plait.fitting.options import Options
from plait.machine import resident

MODEL = "X[i, j] = A[i, r] B[j, r]"


def cost(observed, columns=("i", "j"), accelerate=False, method="vb"):
    rng = np.random.default_rng(0)
    cells = rng.permutation(300 * 20)[:2000]
    table = pl.DataFrame({columns[0]: cells // 20, columns[1]: cells % 20, "value": 1 + cells % 3})
    data = plait.Model(MODEL).bind({"X": plait.Relation(table, observed=observed)})
    task = prepare(MODEL, data, Options(rank=3, seed=0, threads=1, method=method, accelerate=accelerate))
    return Cost.of(task, measure=False), data


@pytest.fixture
def narrowed(monkeypatch):
    """Small trees in as few bytes as large ones."""
    monkeypatch.setattr(trees, "FEW_ENTRIES", 0)


def test_data_and_trees_are_counted_once(narrowed):
    """A link takes a byte for its column, one for its value, which is the tree's entry; a row with links 2 + 4."""
    everything, data = cost("all")
    fibres = 2000 + 2 * 300 + 4 * 301
    assert data.sizes["i"] == 300
    assert everything.data == fibres + 2000 + 8  # all weigh 1
    assert everything.trees == 0
    listed, _ = cost("listed")
    assert listed.data == everything.data
    assert listed.trees == 2000


def test_a_tree_in_another_order_is_counted_too(narrowed):
    turned, _ = cost("all", ("j", "i"))
    fibres = 2 * 2000 + 20 + 4 * 21, 2000 + 2 * 300 + 4 * 301
    assert turned.data == fibres[0] + 2000 + 8
    assert turned.trees == fibres[1] + 2000 + 4 * 2000  # entries, and their permutation


@pytest.mark.parametrize(("method", "again"), [("vb", 2), ("em", 1)])
def test_what_an_accelerated_fit_remembers_is_counted(method, again):
    """C and D of both factors once more, or Z."""
    plain, fast = (cost("all", accelerate=accelerate, method=method)[0] for accelerate in (False, True))
    assert fast.factors - plain.factors == again * 8 * padded(3) * (300 + 20)
    assert fast.total - plain.total == fast.factors - plain.factors


@pytest.mark.sampled(1)
@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.skipif(resident() is None, reason="this system does not say what a process holds")
def test_the_peak_foretold_is_that_of_the_process_that_fits(tmp_path, accelerate):
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"i": rng.permutation(400_000), "j": rng.integers(0, 60_000, 400_000)})
    table.write_parquet(tmp_path / "x.parquet")
    config = f'model = "{MODEL}"\nrank = 16\n[relations.X]\nsource = "x.parquet"\n[fit]\nseed = 0\nsweeps = 25\n'
    config += f"accelerate = {str(accelerate).lower()}\n"
    (tmp_path / "model.toml").write_text(config)

    def run(*words):
        show = "import sys, plait.cli, plait.machine\ntry:\n    plait.cli.app()\nfinally:\n"
        show += "    print(plait.machine.resident()[1], file=sys.stderr)"
        command = [sys.executable, "-c", show, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=dict(os.environ))
        return done.stdout, int(done.stderr.split()[-1])

    # The first compiles, which takes memory of its own.
    foretold = [json.loads(run("check", "model.toml", "--json", timed)[0]) for timed in ("--time", "--no-time")]
    _, measured = run("fit", "model.toml", "-o", "run", "--json")
    assert [0.8 < cost["peak_bytes"] / measured < 1.2 for cost in foretold] == [True, True]


def test_a_cluster_of_machines_like_this_one_is_foretold(world):
    text = world.stdout("check model.toml --dask 8")
    assert "A cluster does not pay: this machine takes about" in text
    assert "a forecast, not a measurement" in text
    assert "8 workers of " in text
    found = json.loads(world.stdout("check model.toml --dask 8 --json"))["cluster"]
    assert (found["workers"], found["pays"]) == (8, False)
    assert found["seconds_per_sweep"] == pytest.approx(found["here"])


@pytest.mark.parametrize(
    ("options", "said"),
    [("--dask 8 --no-time", "--dask needs a measured sweep"), ("--dask 0", "--dask is 0")],
)
def test_a_forecast_that_cannot_be_is_refused(options, said, world):
    result = world.plait(f"check model.toml {options}")
    assert result.exit_code == 2
    assert said in result.stderr
