"""Workers in processes of their own give the bits of threads, also where one is killed or joins in the middle."""

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
from plait.execute import Dask, Threads
from plait.execute import dask as driver
from plait.execute.dask import differences
from plait.execute.remote import LinksInMemory, LinksOnDisk
from tests.bits import digest
from tests.execute.local import in_the_middle, scale

pytest.importorskip("distributed", reason="distributed is not installed: make setup")
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning",  # sockets of workers that were killed
    "ignore:Port .* is already in use:UserWarning",
)

MODEL = plait.Model("X[i,j,k] = A[i,r] B[j,r] C[k,r]; Y[i,j] = A[i,r] B[j,r]")
SETTINGS = {"rank": 4, "seed": 0, "sweeps": 6, "tol": 0.0, "start": "random", "progress": False}


@pytest.fixture(scope="module")
def data():
    """Links enough for many leaves in one relation; some cells are hidden, so that exposures are sums over tables."""
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


# --- the same bits


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_workers_gives_the_bits_of_threads(count, workers, client, data, expected):
    scale(workers, client, count)
    assert fit(data, client) == expected


def test_sums_joined_by_workers_have_the_bits_of_threads(workers, client, data, expected, monkeypatch):
    scale(workers, client, 2)
    monkeypatch.setattr(driver, "JOIN_BYTES", 0)
    assert fit(data, client, sweeps=6) == expected


@pytest.mark.parametrize("wide", [False, True])
def test_a_worker_killed_in_the_middle_changes_no_bit(wide, workers, client, data, expected, monkeypatch):
    scale(workers, client, 2)
    monkeypatch.setattr(driver, "JOIN_BYTES", 0 if wide else 1 << 40)
    pids = client.run(os.getpid)
    calls = in_the_middle(monkeypatch, 7, lambda: os.kill(next(iter(pids.values())), signal.SIGKILL))
    assert fit(data, client) == expected
    assert calls[0] > 7
    scale(workers, client, 2)  # another one has taken its place


def test_a_worker_added_in_the_middle_changes_no_bit_and_gets_its_share(workers, client, data, expected, monkeypatch):
    scale(workers, client, 1)
    first, owners, place = set(client.nthreads()), set(), Dask._place

    def recorded(self, table, **more):
        found = place(self, table, **more)
        owners.update(run.worker for run in found)
        return found

    monkeypatch.setattr(Dask, "_place", recorded)
    in_the_middle(monkeypatch, 7, lambda: scale(workers, client, 2))
    assert fit(data, client) == expected
    assert owners - first


def test_workers_that_are_always_lost_end_the_sum_with_a_cure(workers, client, data, monkeypatch):
    def lose(self, tasks):
        raise OSError("no answer")

    monkeypatch.setattr(Dask, "_gather", lose)
    with pytest.raises(plait.FitError, match=r"lost 5 times in a row .*no answer") as told:
        fit(data, client)
    assert "checkpoint" in told.value.hint


def test_an_ensemble_in_turn_has_the_bits_of_threads(workers, client, data):
    some = {"sweeps": 2, "restarts": 2}
    assert fit(data, client, **some) == digest(plait.fit(MODEL, data, threads=1, **SETTINGS | some))


def counted_pairs():
    rng = np.random.default_rng(2)
    i, j = np.unravel_index(rng.choice(400 * 60, 12_000, replace=False), (400, 60))
    return pl.DataFrame({"i": i, "j": j, "value": rng.poisson(1.0, len(i)) + 1})


def test_workers_read_blocks_themselves(workers, client, tmp_path, monkeypatch):
    """A folder is known by its path, also to a worker that is at work elsewhere."""
    table = counted_pairs()
    model, some = plait.Model("X[i,j] = A[i,r] B[j,r]"), {"rank": 3, "seed": 0, "sweeps": 3, "progress": False}
    monkeypatch.chdir(tmp_path)
    plait.pack(model, {"X": plait.Relation(table, observed="listed")}, "X.blocks")
    sent, scatter = [], Dask._scatter
    monkeypatch.setattr(
        Dask, "_scatter", lambda self, things: sent.extend(thing for _, thing in things) or scatter(self, things)
    )
    with Dask(client, threads=1, here=0) as dask:
        two = plait.fit(model, "X.blocks", executor=dask, **some)
    one = plait.fit(model, {"X": plait.Relation(table, observed="listed")}, threads=1, **some)
    assert digest(one) == digest(two)
    kinds = {type(thing) for thing in sent}
    assert LinksOnDisk in kinds
    assert LinksInMemory not in kinds
    rows = [len(array) for thing in sent if isinstance(thing, dict) for array in thing.values()]
    assert max(rows) < 400  # those of a run only


def test_blocks_that_a_worker_does_not_see_are_named(workers, client, tmp_path):
    """Workers read blocks when they sum: a folder that goes away in the middle is an error at once."""
    model, folder = plait.Model("X[i,j] = A[i,r] B[j,r]"), tmp_path / "X.blocks"
    plait.pack(model, {"X": plait.Relation(counted_pairs(), observed="listed")}, folder)

    def hide(record):
        if record.sweep == 1:
            folder.rename(tmp_path / "hidden")

    with Dask(client, threads=1, here=0) as dask, pytest.raises(plait.PlaitError, match="X\\.blocks"):
        plait.fit(model, folder, executor=dask, rank=2, seed=0, sweeps=3, start="random", progress=hide)


# --- what cannot be


def test_no_worker_for_long_ends_the_fit_with_a_cure(workers, client, data):
    dask = Dask(client, threads=1, here=0, patience=0.2)
    scale(workers, client, 0)
    with pytest.raises(plait.FitError, match=r"no Dask worker for 0\.2 seconds"):
        plait.fit(MODEL, data, executor=dask, **SETTINGS)
    scale(workers, client, 1)


def test_what_a_task_raises_is_told_and_not_tried_again(workers, client, data, monkeypatch):
    monkeypatch.setattr(driver, "sum_leaves", _fail)
    with pytest.raises(plait.FitError, match="a sum failed on a Dask worker: ZeroDivisionError"):
        fit(data, client)


def _fail(*given):
    return 1 // 0


def test_an_address_without_a_scheduler_is_refused(monkeypatch):
    monkeypatch.setattr(driver, "CONNECT_SECONDS", 0.3)
    with pytest.raises(plait.SettingError, match=r"no Dask scheduler at 'tcp://127\.0\.0\.1:9'") as told:
        Dask("tcp://127.0.0.1:9")
    assert "dask scheduler" in told.value.hint


def test_a_client_is_a_client_or_an_address():
    with pytest.raises(plait.SettingError, match=r"distributed\.Client, or the address"):
        Dask(3)


def test_without_distributed_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(plait.SettingError, match="needs distributed") as told:
        Dask("tcp://127.0.0.1:9")
    assert told.value.hint == "Install it: pip install 'tensorplait[dask]'."


def test_an_address_is_enough_and_its_client_is_closed(workers, data, expected):
    with Dask(workers.scheduler_address, threads=1, here=0) as dask:
        assert digest(plait.fit(MODEL, data, executor=dask, **SETTINGS)) == expected
    assert dask.client.status == "closed"


def test_importing_plait_does_not_import_distributed():
    code = "import sys, plait, plait.fitting.fit, plait.execute; sys.exit('distributed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --- workers that differ


def test_other_versions_on_workers_are_said_once(workers, client, monkeypatch):
    here = driver.describe_machine()
    monkeypatch.setattr(client, "run", lambda *_, workers, **__: {one: here | {"numba": "0.1"} for one in workers})
    with pytest.warns(plait.UnlikeWorkersWarning, match=f"numba is {here['numba']} here and 0.1 on . Dask worker"):
        dask = Dask(client, threads=1)
    dask.workers()  # it was said


def test_a_worker_without_plait_is_named(workers, client, monkeypatch):
    monkeypatch.setattr(client, "run", lambda *_, workers, **__: {one: ImportError("no plait") for one in workers})
    with pytest.raises(plait.FitError, match=r"Dask worker tcp://.* cannot import Plait: no plait") as told:
        Dask(client, threads=1)
    assert "tensorplait[dask]==" in told.value.hint


def test_differences_are_counted():
    here = {"numba": "0.61", "processor": "x86_64 znver3"}
    there = {"a": here, "b": here | {"numba": "0.60"}, "c": here | {"numba": "0.60", "processor": "x86_64 skylake"}}
    assert differences(here, {"a": here}) == ""
    assert differences(here, there) == (
        "numba is 0.61 here and 0.60 on 2 Dask workers; "
        "processor is x86_64 znver3 here and x86_64 skylake on 1 Dask worker"
    )


# --- likelihoods of one's own

NOTEBOOK = """
import math
import numpy as np
from plait.likelihood import Likelihood

def plain_link(x, xhat, log_scale, parameters):
    return x, x * (math.log(xhat) + log_scale), 1.0

class Plain(Likelihood):
    name = "of_a_notebook"
    wanted = "Counts"
    cure = "Round them."
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


def test_a_likelihood_from_a_notebook_travels(workers, client):
    rng, likelihood = np.random.default_rng(1), written_in_a_notebook()
    data = {"X": plait.Relation(rng.poisson(1.0, (80, 70)).astype(float), likelihood=likelihood)}
    some = {"rank": 3, "seed": 0, "sweeps": 3, "progress": False}
    one = plait.fit("X[i,j] = A[i,r] B[j,r]", data, threads=1, **some)
    with Dask(client, threads=1, here=0) as dask:
        two = plait.fit("X[i,j] = A[i,r] B[j,r]", data, executor=dask, **some)
    assert digest(one) == digest(two)


def test_a_likelihood_that_cannot_travel_is_refused(workers, client):
    likelihood = written_in_a_notebook()
    likelihood.lock = threading.Lock()
    data = {"X": plait.Relation(np.ones((80, 70)), likelihood=likelihood)}
    with (
        Dask(client, threads=1, here=0) as dask,
        pytest.raises(plait.SettingError, match="of_a_notebook cannot be sent") as told,
    ):
        plait.fit("X[i,j] = A[i,r] B[j,r]", data, rank=2, executor=dask, progress=False)
    assert "locks" in told.value.hint


# --- the command line

CONFIG = """\
model = "X[i, j] = A[i, r] B[j, r]"
rank = 2
[relations.X]
source = "links.csv"
[fit]
seed = 0
sweeps = 3
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
    address, asked, run = workers.scheduler_address, [], CliRunner().invoke
    monkeypatch.setattr(Dask, "sum", lambda self, *given: asked.append(self) or Threads(1).sum(*given))
    done = [
        run(app, ["fit", "model.toml", "-o", "alone"]),
        run(app, ["fit", "model.toml", "-o", "run", "--dask", address]),
        run(app, ["resume", "run", "--sweeps", "4", "--dask", address]),
        run(app, ["resume", "alone", "--sweeps", "4"]),
    ]
    assert [one.exit_code for one in done] == [0] * 4, [one.output for one in done]
    assert len(set(asked)) == 2
    assert digest(plait.load("run")) == digest(plait.load("alone"))


def test_plait_check_asks_a_cluster_what_it_would_cost(workers, folder):
    done = CliRunner().invoke(app, ["check", "model.toml", "--json", "--dask", workers.scheduler_address])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)["cluster"]
    assert found["workers"] >= 1
    assert found["seconds_per_sweep"] == pytest.approx(found["here"])  # nothing of it is worth sending
    assert not found["pays"]


def test_an_address_that_is_wrong_is_a_users_mistake(folder, monkeypatch):
    monkeypatch.setattr(driver, "CONNECT_SECONDS", 0.3)
    done = CliRunner().invoke(app, ["fit", "model.toml", "-o", "run", "--dask", "tcp://127.0.0.1:9"])
    assert done.exit_code == 2
    assert "no Dask scheduler at 'tcp://127.0.0.1:9'" in done.stderr
