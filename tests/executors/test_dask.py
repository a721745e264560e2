"""Fits on Dask workers have the bits of threads, also if a worker is killed or joins."""

import json
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import plait
from plait.cli import app
from plait.executors import Dask, Threads
from plait.executors import dask as driver
from plait.executors.dask_worker import WorkerBlocks, WorkerLinks
from tests.bits import digest
from tests.support.cluster import in_the_middle, scale
from tests.support.command_line import plait_command

pytest.importorskip("distributed", reason="distributed is not installed: make setup")
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning",  # sockets of workers that were killed
    "ignore:Port .* is already in use:UserWarning",
)

MODEL = plait.Model("X[i,j,k] = A[i,r] B[j,r] C[k,r]; Y[i,j] = A[i,r] B[j,r]")
MATRIX = "X[i,j] = A[i,r] B[j,r]"
SETTINGS = {"rank": 4, "seed": 0, "max_iter": 6, "tol": 0.0, "warmup": 0, "progress": False}


@pytest.fixture(scope="module")
def data():
    """Two relations; the first has many leaves and missing cells."""
    rng = np.random.default_rng(0)
    cells = rng.choice(300 * 30 * 20, 40_000, replace=False)
    i, j, k = np.unravel_index(cells, (300, 30, 20))
    table = pl.DataFrame({"i": i, "j": j, "k": k, "value": rng.poisson(1.0, len(i)) + 1})
    pairs = pl.DataFrame(np.argwhere(rng.random((300, 30)) < 0.4), schema=["i", "j"])
    hidden = pl.DataFrame(np.argwhere(rng.random((300, 30)) < 0.1), schema=["i", "j"])
    table = table.join(hidden, on=["i", "j"], how="anti")
    return MODEL.bind({"X": plait.Relation(table, missing=hidden), "Y": pairs})


@pytest.fixture(scope="module")
def expected(data):
    return digest(plait.fit(MODEL, data, threads=1, **SETTINGS))


def fit(data, client, **settings):
    with Dask(client, threads=1, here=0) as dask:
        return digest(plait.fit(MODEL, data, executor=dask, **SETTINGS | settings))


def fit_matrix(data, **settings):
    return plait.fit(MATRIX, data, **{"rank": 3, "seed": 0, "max_iter": 3, "progress": False} | settings)


# --- the same bits


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_workers_gives_the_bits_of_threads(count, workers, client, data, expected):
    scale(workers, client, count)
    assert fit(data, client) == expected


@pytest.mark.thorough
@pytest.mark.parametrize("wide", [False, True])
def test_a_killed_worker_changes_no_bit(wide, workers, client, data, expected, monkeypatch, tuning):
    scale(workers, client, 2)
    tuning(join_bytes=0 if wide else 1 << 40)
    assert fit(data, client) == expected
    pids = client.run(os.getpid)
    calls = in_the_middle(monkeypatch, 7, lambda: os.kill(next(iter(pids.values())), signal.SIGKILL))
    assert fit(data, client) == expected
    assert calls[0] > 7
    scale(workers, client, 2)  # another one has taken its place


@pytest.mark.thorough
def test_an_added_worker_gets_its_share_and_changes_no_bit(workers, client, data, expected, monkeypatch):
    scale(workers, client, 1)
    first, owners, place = set(client.nthreads()), set(), Dask._place_runs

    def recorded(self, table, **more):
        found = place(self, table, **more)
        owners.update(run.worker for run in found)
        return found

    monkeypatch.setattr(Dask, "_place_runs", recorded)
    in_the_middle(monkeypatch, 7, lambda: scale(workers, client, 2))
    assert fit(data, client) == expected
    assert owners - first


def test_workers_that_are_always_lost_end_the_fit(workers, client, data, monkeypatch):
    def lose(self, tasks):
        raise OSError("no answer")

    monkeypatch.setattr(Dask, "_gather", lose)
    with pytest.raises(plait.errors.FitError, match=r"lost its workers 5 times in a row.*no answer") as caught:
        fit(data, client)
    assert "checkpoint" in caught.value.hint


def test_an_ensemble_in_turn_has_the_bits_of_threads(workers, client, data):
    some = {"max_iter": 2, "restarts": 2}
    assert fit(data, client, **some) == digest(plait.fit(MODEL, data, threads=1, **SETTINGS | some))


def listed_pairs():
    rng = np.random.default_rng(2)
    i, j = np.unravel_index(rng.choice(400 * 60, 12_000, replace=False), (400, 60))
    table = pl.DataFrame({"i": i, "j": j, "value": rng.poisson(1.0, len(i)) + 1})
    return {"X": plait.Relation(table, observed="listed")}


@pytest.mark.budget(5)
def test_workers_read_blocks_themselves(workers, client, tmp_path, monkeypatch, sent):
    monkeypatch.chdir(tmp_path)
    plait.pack(MATRIX, listed_pairs(), "X.blocks")
    with Dask(client, threads=1, here=0) as dask:
        assert digest(fit_matrix("X.blocks", executor=dask)) == digest(fit_matrix(listed_pairs(), threads=1))
    kinds = {type(thing) for thing in sent}
    assert WorkerBlocks in kinds
    assert WorkerLinks not in kinds
    rows = [len(array) for thing in sent if isinstance(thing, dict) for array in thing.values()]
    assert max(rows) < 400  # those of a run only


@pytest.mark.thorough
def test_blocks_that_vanish_are_named(workers, client, tmp_path):
    folder = tmp_path / "X.blocks"
    plait.pack(MATRIX, listed_pairs(), folder)

    def hide(record):
        if record.sweep == 1:
            folder.rename(tmp_path / "hidden")

    with Dask(client, threads=1, here=0) as dask, pytest.raises(plait.PlaitError, match="X\\.blocks"):
        fit_matrix(folder, executor=dask, warmup=0, progress=hide)


# --- errors


@pytest.mark.thorough
def test_a_cluster_without_workers_ends_the_fit(workers, client, data):
    dask = Dask(client, threads=1, here=0, patience=0.2)
    scale(workers, client, 0)
    with pytest.raises(plait.errors.FitError, match=r"no Dask worker has been available for 0\.2 seconds"):
        plait.fit(MODEL, data, executor=dask, **SETTINGS)
    scale(workers, client, 1)


def test_an_error_of_a_task_ends_the_fit(workers, client, data, monkeypatch):
    monkeypatch.setattr(driver, "sum_leaves", _fail)
    with pytest.raises(plait.errors.FitError, match="a sum failed on a Dask worker: ZeroDivisionError"):
        fit(data, client)


def _fail(*given):
    return 1 // 0


def test_a_wrong_client_is_refused(monkeypatch, tuning):
    with pytest.raises(plait.errors.ParameterError, match=r"distributed\.Client, or the address"):
        Dask(3)
    tuning(connect_seconds=0.3)
    with pytest.raises(plait.errors.ParameterError, match=r"no Dask scheduler answers at 'tcp:") as caught:
        Dask("tcp://127.0.0.1:9")
    assert "dask scheduler" in caught.value.hint
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(plait.errors.ParameterError, match="needs distributed") as caught:
        Dask("tcp://127.0.0.1:9")
    assert caught.value.hint == "Install it: pip install 'tensorplait[dask]'."


def test_an_address_is_enough_and_its_client_is_closed(workers, data, expected):
    with Dask(workers.scheduler_address, threads=1, here=0) as dask:
        assert digest(plait.fit(MODEL, data, executor=dask, **SETTINGS)) == expected
    assert dask.client.status == "closed"


def test_importing_plait_does_not_import_distributed():
    code = "import sys, plait, plait.fitting.fit, plait.executors; sys.exit('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --- workers that differ


def test_other_versions_on_workers_give_one_warning(workers, client, monkeypatch):
    here = driver.describe_machine()
    monkeypatch.setattr(client, "run", lambda *_, workers, **__: {one: here | {"numba": "0.1"} for one in workers})
    with pytest.warns(
        plait.errors.WorkerMismatchWarning, match=f"numba is {here['numba']} here and 0.1 on . Dask worker"
    ):
        dask = Dask(client, threads=1)
    dask.workers()  # it was said


def test_a_worker_without_plait_is_named(workers, client, monkeypatch):
    monkeypatch.setattr(client, "run", lambda *_, workers, **__: {one: ImportError("no plait") for one in workers})
    with pytest.raises(plait.errors.FitError, match=r"Dask worker tcp://.* cannot import Plait: no plait") as caught:
        Dask(client, threads=1)
    assert "tensorplait[dask]==" in caught.value.hint


# --- custom likelihoods

NOTEBOOK = """
import math
import numpy as np
from plait.likelihood import Likelihood

def plain_link(x, xhat, log_scale, parameters):
    return x, x * (math.log(xhat) + log_scale), 1.0

class Plain(Likelihood):
    name = "of_a_notebook"
    wanted = "Counts"
    hint = "Round them."
    link = plain_link

    def bad(self, values):
        return values != np.floor(values)

    def bursts(self, state):
        return 1.0, 1.0
"""


def written_in_a_notebook():
    names = {"__name__": "__main__"}
    exec(NOTEBOOK, names)
    return names["Plain"]()


def test_a_likelihood_of_a_notebook_is_sent(workers, client):
    X = np.random.default_rng(1).poisson(1.0, (80, 70)).astype(float)
    data = {"X": plait.Relation(X, likelihood=written_in_a_notebook())}
    with Dask(client, threads=1, here=0) as dask:
        assert digest(fit_matrix(data, executor=dask)) == digest(fit_matrix(data, threads=1))


def test_a_likelihood_that_cannot_be_sent_is_refused(workers, client):
    likelihood = written_in_a_notebook()
    likelihood.lock = threading.Lock()
    data = {"X": plait.Relation(np.ones((80, 70)), likelihood=likelihood)}
    with (
        Dask(client, threads=1, here=0) as dask,
        pytest.raises(plait.errors.ParameterError, match="cannot be sent") as caught,
    ):
        fit_matrix(data, executor=dask)
    assert "of_a_notebook" in str(caught.value)
    assert "locks" in caught.value.hint


# --- the command line

CONFIG = """\
model = "X[i, j] = A[i, r] B[j, r]"
rank = 2
[relations.X]
source = "links.csv"
[fit]
seed = 0
max_iter = 3
threads = 1
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    cells = np.argwhere(np.random.default_rng(0).random((30, 20)) < 0.3)
    pl.DataFrame(cells, schema=["i", "j"]).write_csv(tmp_path / "links.csv")
    (tmp_path / "model.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_plait_fit_and_resume_compute_on_a_cluster(workers, folder, monkeypatch):
    address, sums, run = workers.scheduler_address, [], CliRunner().invoke
    monkeypatch.setattr(Dask, "sum", lambda self, *given: sums.append(self) or Threads(1).sum(*given))
    done = [
        run(app, ["fit", "model.toml", "-o", "alone"]),
        run(app, ["fit", "model.toml", "-o", "run", "--dask", address]),
        run(app, ["resume", "run", "--max-iter", "4", "--dask", address]),
        run(app, ["resume", "alone", "--max-iter", "4"]),
    ]
    assert [one.exit_code for one in done] == [0] * 4, [one.output for one in done]
    assert len(set(sums)) == 2
    assert digest(plait.load("run")) == digest(plait.load("alone"))


def test_plait_check_forecasts_the_cost_on_a_cluster(workers, folder):
    done = plait_command("check", "model.toml", "--json", "--dask", workers.scheduler_address)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["cluster"]
    assert found["workers"] >= 1
    assert found["seconds_per_sweep"] == pytest.approx(found["here"])  # nothing of it is worth sending
    assert not found["pays"]


@pytest.mark.thorough
def test_a_wrong_address_exits_with_2(folder, tuning):
    tuning(connect_seconds=0.3)
    done = plait_command("fit", "model.toml", "-o", "run", "--dask", "tcp://127.0.0.1:9")
    assert done.exit_code == 2
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:9'" in done.stderr
