"""Workers that own rows of a factor give the bits of threads, whoever is killed or joins; only shared rows travel."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.execute import Dask
from plait.execute.changing import AwayGradient
from plait.execute.keeping import Block
from plait.execute.owned import HOLD
from plait.execute.parts import TreePart
from plait.infer import steps
from tests.bits import digest
from tests.execute.local import in_the_middle, kill, scale
from tests.execute.pretended import Pretended

pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore:Port .* is already in use")

MODEL = plait.Model("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
ROWS = 33_000  # of eight columns: more than are added up in one piece
SETTINGS = {"rank": 4, "seed": 0, "sweeps": 13, "tol": 0.0, "start": "random", "progress": False}


def table(links=60_000):
    """Links of many entities, one of which has as many as some leaves."""
    rng = np.random.default_rng(0)
    i = np.where(rng.random(links) < 0.1, 700, np.arange(links) % ROWS)
    i[:ROWS] = np.arange(ROWS)
    cells = np.unique(np.stack([i, rng.integers(0, 60, links), rng.integers(0, 50, links)], axis=1), axis=0)
    return pl.DataFrame({**dict(zip("ijk", cells.T)), "value": rng.poisson(1.0, len(cells)) + 1})


@pytest.fixture(scope="module")
def data():
    return MODEL.bind({"X": table()})


@pytest.fixture(scope="module")
def expected(data):
    return digest(plait.fit(MODEL, data, threads=1, **SETTINGS))


def fit(data, client, **settings):
    with Dask(client, threads=1, here=0, own=0) as dask:
        return digest(plait.fit(MODEL, data, executor=dask, **SETTINGS | settings))


@pytest.fixture
def backs(monkeypatch):
    """How often a fit went back to a state that was here."""
    found, go_back = [], steps.Moment.go_back
    monkeypatch.setattr(steps.Moment, "go_back", lambda self, error: found.append(self.sweep) or go_back(self, error))
    return found


# --- processes of their own


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_owners_gives_the_bits_of_threads(count, workers, client, data, expected):
    scale(workers, client, count)
    assert fit(data, client) == expected


@pytest.mark.parametrize("number", [9, 12])  # a sum and a change
def test_an_owner_killed_in_the_middle_costs_no_row_and_no_bit(
    number, workers, client, data, expected, backs, monkeypatch
):
    scale(workers, client, 3)
    calls = in_the_middle(monkeypatch, number, lambda: kill(client))
    assert fit(data, client) == expected
    assert calls[0] > number
    assert not backs
    scale(workers, client, 3)


def test_rows_lost_with_all_owners_are_found_again_from_where_they_were_here(
    workers, client, data, expected, backs, monkeypatch
):
    scale(workers, client, 2)
    seen = []
    in_the_middle(monkeypatch, 12, lambda: kill(client, 2))
    watch = {"progress": lambda record: seen.append(record.sweep)}
    assert fit(data, client, **watch) == expected
    assert backs
    assert seen == list(range(SETTINGS["sweeps"] + 1))  # each once
    scale(workers, client, 2)


def test_an_owner_added_in_the_middle_changes_no_bit(workers, client, data, expected, monkeypatch):
    scale(workers, client, 1)
    in_the_middle(monkeypatch, 9, lambda: scale(workers, client, 3))
    assert fit(data, client) == expected


def test_the_scheduler_remembers_no_more_tasks_after_many_sweeps(workers, client, data):
    scale(workers, client, 2)
    found = []

    def count(record):
        found.append(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))

    fit(data, client, progress=count)
    assert max(found[8:]) <= max(found[3:8]) + 8


# --- a cluster in this process


@pytest.mark.parametrize(
    "settings",
    [
        {"start": "em", "sweeps": 33},  # EM first; priors adapt in the end
        {"method": "em"},
        {"method": "map", "prior": plait.Gamma(1.5, 1.0)},
        {"dtype": "float32", "sweeps": 4},
        {"sweeps": 4},
    ],
    ids=lambda settings: next(iter(settings.values())),
)
def test_only_shared_rows_travel(settings, data):
    cluster = Fetching(3)
    found = fit(data, cluster, **settings)
    assert found == digest(plait.fit(MODEL, data, threads=1, **SETTINGS | settings))
    assert {len(thing) for thing, _ in cluster.sent if isinstance(thing, np.ndarray)} == {60, 50}
    sweeps = settings.get("sweeps", SETTINGS["sweeps"]) + (50 if settings.get("start") == "em" else 0)
    assert cluster.fetched <= 8 * (sweeps // HOLD + 3)
    parts = [thing.first for thing, _ in cluster.sent if isinstance(thing, TreePart)]
    assert len(parts) == len(set(parts))  # links are sent once, also where a warm-up comes first


@pytest.mark.parametrize(
    "settings",
    [
        {"accelerate": True},
        {"prune": True, "adapt": "component"},
        {"adapt": {"A": "entity"}},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_what_needs_all_rows_in_each_sweep_has_the_bits_of_threads(settings, data):
    assert fit(data, Pretended(2), **settings) == digest(plait.fit(MODEL, data, threads=1, **SETTINGS | settings))


def test_exposures_that_differ_by_row_bring_rows_home():
    links = table()
    hidden = pl.DataFrame({"i": range(0, ROWS, 3), "j": [0] * len(range(0, ROWS, 3))})
    X = plait.Relation(links.join(hidden, on=["i", "j"], how="anti"), missing=hidden)
    data, some = MODEL.bind({"X": X}, labels={"i": range(ROWS)}), {"sweeps": 3}
    assert fit(data, Pretended(2), **some) == digest(plait.fit(MODEL, data, threads=1, **SETTINGS | some))


def test_a_factor_that_couples_relations_stays_here(data):
    model = plait.Model("X[i,j,k] = A[i,r] B[j,r] C[k,r]; Y[i,j] = A[i,r] B[j,r]")
    both = {"X": table(), "Y": pl.DataFrame({"i": [3, ROWS - 1], "j": [0, 2]})}
    some = SETTINGS | {"sweeps": 3}
    cluster = Pretended(2)
    with Dask(cluster, threads=1, here=0, own=0) as dask:
        found = digest(plait.fit(model, both, executor=dask, **some))
    assert found == digest(plait.fit(model, both, threads=1, **some))


def test_a_checkpoint_has_the_rows_that_workers_own(data, tmp_path):
    with Dask(Pretended(2), threads=1, here=0, own=0) as dask:
        some = SETTINGS | {"executor": dask}
        checkpoint = plait.Checkpoint(tmp_path / "run", sweeps=3)
        plait.fit(MODEL, data, **some | {"sweeps": 5, "checkpoint": checkpoint})
        more = plait.fit(MODEL, data, init=tmp_path / "run", **some | {"sweeps": 8})
    assert digest(more) == digest(plait.fit(MODEL, data, threads=1, **SETTINGS | {"sweeps": 8}))


def test_owners_read_blocks_of_links_themselves(data, tmp_path):
    plait.pack(MODEL, {"X": table()}, tmp_path / "X.blocks")
    cluster, some = Fetching(3), SETTINGS | {"sweeps": 4}
    with Dask(cluster, threads=1, here=0, own=0) as dask:
        found = digest(plait.fit(MODEL, tmp_path / "X.blocks", executor=dask, **some))
    assert found == digest(plait.fit(MODEL, data, threads=1, **some))
    assert {len(thing) for thing, _ in cluster.sent if isinstance(thing, np.ndarray)} == {60, 50}


def test_members_of_an_ensemble_own_rows_in_turn(data):
    some = {"sweeps": 3, "restarts": 2}
    assert fit(data, Pretended(2), **some) == digest(plait.fit(MODEL, data, threads=1, **SETTINGS | some))


def test_workers_lost_again_and_again_change_no_bit(data, expected, backs):
    cluster = Pretended(2, loses=0.06, seed=1)
    assert fit(data, cluster) == expected
    assert cluster.killed > 10
    assert backs


def test_rows_lost_when_the_last_sweep_is_done_are_found_again(data, expected, backs):
    cluster, seen = Pretended(2), []

    def watch(record):
        seen.append(record.sweep)
        if record.sweep == SETTINGS["sweeps"]:
            for worker in list(cluster.alive):
                cluster.kill(worker)

    assert fit(data, cluster, progress=watch) == expected
    assert (seen, backs) == (list(range(SETTINGS["sweeps"] + 1)), [SETTINGS["sweeps"]])


def test_a_fit_that_loses_rows_again_and_again_ends_with_a_cure(data, monkeypatch):
    """The same state is gone back to a few times only."""

    def lose(self, work):
        raise self.owned.gone()

    monkeypatch.setattr(AwayGradient, "change", lose)
    with pytest.raises(plait.FitError, match="rows of a factor were lost") as told:
        fit(data, Pretended(2))
    assert "checkpoint" in told.value.cure


class Fetching(Pretended):
    """Counts blocks of rows that come back."""

    fetched = 0

    def collect(self, goals):
        for name, found in super().collect(goals):
            self.fetched += isinstance(found, Block)
            yield name, found
