"""Estimates of `plait check`: the peak of memory, and a cluster."""

import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

MODEL = "X[i, j] = A[i, r] B[j, r]"


@pytest.mark.thorough
@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process holds")
def test_the_estimated_peak_is_that_of_a_fit(tmp_path, accelerate):
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"i": rng.permutation(400_000), "j": rng.integers(0, 60_000, 400_000)})
    table.write_parquet(tmp_path / "x.parquet")
    config = f'model = "{MODEL}"\nrank = 16\n[relations.X]\nsource = "x.parquet"\n[fit]\nseed = 0\nmax_iter = 25\n'
    config += f"accelerate = {str(accelerate).lower()}\n"
    (tmp_path / "model.toml").write_text(config)

    def run(*words):
        show = "import sys, plait.cli, plait.machine\ntry:\n    plait.cli.app()\nfinally:\n"
        show += "    print(plait.machine.resident()[1], file=sys.stderr)"
        command = [sys.executable, "-c", show, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, env=dict(os.environ))
        return done.stdout, int(done.stderr.split()[-1])

    # The first compiles, which takes memory of its own.
    estimated = [json.loads(run("check", "model.toml", "--json", timed)[0]) for timed in ("--time", "--no-time")]
    _, measured = run("fit", "model.toml", "-o", "run", "--json")
    assert [0.8 < cost["peak_bytes"] / measured < 1.2 for cost in estimated] == [True, True]


def test_a_cluster_is_estimated(world):
    text = world.stdout("check model.toml --dask 8")
    assert "The cluster is not faster: this machine takes about" in text
    assert "this is an estimate, not a measurement" in text
    assert "8 workers of " in text
    found = world.json("check model.toml --dask 8")["cluster"]
    assert (found["workers"], found["pays"]) == (8, False)
    assert found["seconds_per_sweep"] == pytest.approx(found["here"])
