"""Contenders run in processes of their own, and one that fails is a line of the table."""

import subprocess
import sys

import numpy as np
import pytest

from lab.bench import data, plain, team, worker
from lab.bench.engine import Engine
from lab.bench.peers import OTHERS, OURS, find
from lab.bench.peers.peer import Lap, Peer, Restarting
from lab.bench.rows.ends import arrays_of
from lab.bench.rows.growth import scattered
from lab.bench.rows.likelihood import log_likelihood, planted
from lab.harness.packages import wanted

# Of a few listed cells all may be links.
pytestmark = pytest.mark.filterwarnings("ignore::plait.NoZerosWarning")

SMALL = data.cp3(300, 12, 5)


@pytest.mark.slow
def test_plait_and_numpy_compete_and_others_say_why_not(monkeypatch):
    monkeypatch.setattr(team, "REPEATS", 2)
    matrices = data.cp(200, (30, 20), 3, "listed")
    found = team.compete(matrices, ["Plait", "NumPy", "yardstick", "hpfrec"], 1, patience=5.0)
    assert set(found["Plait"]) == {"sweep", "counts", "counts and bound", "peak"}
    assert found["NumPy"]["sweep"]["repeats"] == 2
    assert found["NumPy"]["peak"] > 1e7
    assert found["yardstick"] == {"cannot": "written for CP-3"}
    assert found["hpfrec"]["cannot"].startswith(("no unobserved cells", "not installed", "does not install"))


def test_a_contender_that_dies_or_hangs_is_out():
    for code, reason in (
        ("", "its process ended with code 0"),
        ("import time; time.sleep(60)", "no iteration measured within 1 s"),
    ):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        member = team.Member("someone", process)
        member.tell({"run": True})
        member.answer(limit=1.0 if code else 20.0)
        assert reason in member.figures()["cannot"]
        assert member.process is None


def test_a_case_survives_its_files(tmp_path):
    case = data.cp3(300, 12, 5, "missing")
    copy = worker.load(worker.save(case, tmp_path))
    assert (copy.model, copy.sizes, copy.observed, copy.likelihood) == (case.model, case.sizes, "missing", "poisson")
    np.testing.assert_array_equal(copy.relations["X"].index, case.relations["X"].index)
    np.testing.assert_array_equal(copy.hidden["X"], case.hidden["X"])


def test_every_contender_can_be_asked_without_its_package():
    for name in (*OURS, *OTHERS):
        contender = find(name)
        assert isinstance(contender.refuses(SMALL), str)
        assert contender.refuses(data.digg(4, scale=0.002)) or name in OURS


def test_the_group_names_every_package_that_is_measured():
    names = {requirement.split(">")[0] for requirement in wanted("bench")}
    assert names == {find(name).package for name in OTHERS}


@pytest.mark.parametrize("observed", ["all", "listed", "missing"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_the_sweep_of_the_engine_is_the_plain_one(observed, likelihood):
    """The same likelihood, weights and prior: otherwise the rows compare different work."""
    case = data.cp3(300, 12, 3, observed, likelihood)
    engine, other = Engine(case, 1), plain.Plain(case, plain.start(case))
    other.E = {name: factor.mean[:, :3].copy() for name, factor in engine.problem.factors.items()}
    other.L = {name: np.exp(factor.log_geomean[:, :3]) for name, factor in engine.problem.factors.items()}
    ours, theirs = ([one.sweep() for _ in range(5)][1:] for one in (engine, other))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_memory_is_that_of_arrays_not_of_views():
    array = np.zeros(1000)
    assert (
        sum(found.nbytes for found in arrays_of({"a": array, "b": [array[:10], array.reshape(10, 100)]}).values())
        == 8000
    )


def test_scattered_cells_are_distinct_and_about_as_many():
    case = scattered(5000, (30, 40, 50), 2)
    index = case.relations["X"].index
    assert len(np.unique(index, axis=0)) == len(index)
    assert abs(len(index) - 5000) < 300
    assert tuple(index.max(axis=0) < (30, 40, 50)) == (True, True, True)


def test_the_log_likelihood_is_that_of_the_dense_array():
    case = planted("CP-3", True)
    rng = np.random.default_rng(0)
    factors = [rng.gamma(1.0, 1.0, (20, 3)) for _ in range(3)]
    rate, cells = np.einsum("ir,jr,kr->ijk", *factors), case.relations["X"]
    X = np.zeros(rate.shape)
    X[tuple(cells.index.T)] = cells.x
    assert log_likelihood(case, factors) == pytest.approx((X * np.log(rate) - rate).sum())


def test_setting_up_is_subtracted(monkeypatch):
    clock = 0.0

    class Slow(Restarting):
        setting_up, each = 0.25, 0.0625

        def __init__(self):
            pass

        def run(self, iterations):
            nonlocal clock
            clock += self.setting_up + iterations * self.each

    monkeypatch.setattr("lab.bench.peers.peer.time.perf_counter", lambda: clock)
    slow = Slow()
    lap = slow.laps()["sweep"]
    assert lap.long >= 2 * lap.short
    assert team.timing([lap, slow.laps()["sweep"]])["seconds"] == 0.0625
    Slow.setting_up = 5.0  # takes seconds: one iteration more is all that is waited for
    assert Slow().laps() == {"sweep": Lap(5.125, 5.0625, 1)}


def test_actions_are_timed_in_turn_so_that_a_machine_that_slows_down_slows_all_of_them():
    class Steady(Peer):
        actions = ("sweep", "counts")
        calls = 0

        def __init__(self):
            pass

        def seconds(self, action):
            self.calls += 1
            slow = 1.0 if self.calls < 30 else 1.5
            return slow * {"sweep": 0.004, "counts": 0.002}[action]

    laps = Steady().laps()
    assert laps["sweep"].long == 2 * laps["counts"].long


def test_noise_is_neither_for_nor_against_a_contender():
    """Each pair of runs differs by 2 s, give or take a noise that falls on both runs alike."""
    laps = [Lap(7.0, 5.0, 2), Lap(7.0, 8.0, 2), Lap(10.0, 5.0, 2)]
    assert team.timing(laps)["seconds"] == 1.0
    member = team.Member("someone", laps={"sweep": [Lap(4.0, 5.0, 2)]})
    assert member.figures() == {"cannot": "an iteration is lost in the noise of setting up"}


def test_an_interruption_is_not_hidden(monkeypatch):
    def stop(members, patience):
        raise KeyboardInterrupt

    monkeypatch.setattr(team, "_rounds", stop)
    with pytest.raises(KeyboardInterrupt):
        team.compete(SMALL, ["hpfrec"], 1)
