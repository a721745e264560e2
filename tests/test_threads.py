"""Many threads that query one fit at once get the answers of one thread."""

import subprocess
import sys
import threading

import numpy as np
import polars as pl
import pytest

import plait
from plait.storage import load as loading
from tests.support.store_runs import assert_equal

THREADS, ROUNDS = 8, 3
TEXT = """
    visits[user, place, hour] = U[user, r] P[place, r] H[hour, r]
    friends[user, friend]     = U[user, r] F[friend, r]
    friend: user
"""
USERS = [f"u{n}" for n in range(30)]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    draw = np.random.default_rng(0)
    cells = draw.choice(30 * 12 * 6, 400, replace=False)
    visits = pl.DataFrame({"user": [USERS[n] for n in cells // 72], "place": cells // 6 % 12, "hour": cells % 6})
    visits = visits.with_columns(value=draw.integers(1, 5, 400))
    pairs = draw.choice(30 * 30, 90, replace=False)
    friends = pl.DataFrame({"user": [USERS[n] for n in pairs // 30], "friend": [USERS[n] for n in pairs % 30]})
    data = {"visits": plait.Relation(visits, likelihood="negbin"), "friends": friends}
    titles = {"place": {n: f"place {n}" for n in range(12)}}
    fit = plait.fit(TEXT, data, rank=3, seed=0, max_iter=10, warmup=0, restarts=2, titles=titles, progress=False)
    fit.save(tmp_path_factory.mktemp("threads") / "run")
    return tmp_path_factory.getbasetemp() / "threads0" / "run"


CELLS = pl.DataFrame({"user": USERS[:10], "place": list(range(10)), "hour": [n % 6 for n in range(10)]})
NEW = pl.DataFrame({"user": ["new", "new"], "place": [1, 3], "hour": [2, 4], "value": [2, 1]})
CELL = {"user": "u1", "place": 3, "hour": 2}
QUESTIONS = {
    "predict": lambda fit: fit.predict("visits", CELLS),
    "top": lambda fit: fit.top("visits", 5),
    "top each": lambda fit: fit.top("friends", 3, per="user"),
    "explain": lambda fit: str(fit.explain("visits", CELL)),
    "similar": lambda fit: fit.similar("user", "u1"),
    "components": lambda fit: str(fit.components()),
    "coupling": lambda fit: fit.coupling(),
    "surprising": lambda fit: fit.surprising("visits"),
    "fold_in": lambda fit: fit.fold_in({"visits": NEW}).predict("visits", CELLS.with_columns(user=pl.lit("new"))),
    "new entities": lambda fit: fit.top("visits", 3, new_entities={"visits": NEW}, given={"user": "new"}),
    "factors": lambda fit: fit.factors["U"].sd.sum() + fit.factors["P"].mean.sum(),
}


def equal(left, right):
    return left.equals(right) if isinstance(left, pl.DataFrame) else left == right


def together(calls):
    """Results of calls that start at once, each on a thread; an exception in place of a result."""
    found, gate = [None] * len(calls), threading.Barrier(len(calls))

    def run(n):
        gate.wait()
        try:
            found[n] = calls[n]()
        except BaseException as error:
            found[n] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(calls))]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return found


@pytest.fixture(scope="module")
def alone(run):
    return {name: ask(plait.load(run)) for name, ask in QUESTIONS.items()}


@pytest.mark.parametrize("name", QUESTIONS)
def test_one_query_from_many_threads(name, run, alone):
    for _ in range(ROUNDS):
        fit = plait.load(run)
        for found in together([lambda fit=fit: QUESTIONS[name](fit)] * THREADS):
            assert equal(found, alone[name]), found


def test_all_queries_at_once_while_the_fit_is_saved(run, alone, tmp_path):
    names = list(QUESTIONS)
    for n in range(ROUNDS):
        fit = plait.load(run)
        order = names[n:] + names[:n]
        calls = [lambda name=name, fit=fit: QUESTIONS[name](fit) for name in order]
        *found, saved, packed = together(
            [*calls, lambda fit=fit: fit.save(tmp_path / "run"), lambda fit=fit: fit.save(tmp_path / "one.plait")]
        )
        assert (saved, packed) == (None, None)
        for name, one in zip(order, found, strict=True):
            assert equal(one, alone[name]), (name, one)
    for place in (tmp_path / "run", tmp_path / "one.plait"):
        assert_equal(plait.load(run), plait.load(place))


@pytest.mark.parametrize("name", ["run", "one.plait"])
def test_one_fit_is_saved_to_one_place_by_many_threads(name, run, tmp_path):
    fit = plait.load(run)
    for _ in range(ROUNDS):
        assert together([lambda: fit.save(tmp_path / name)] * THREADS) == [None] * THREADS
        assert_equal(fit, plait.load(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_one_of_two_fits_saved_to_one_folder_is_refused(run, tmp_path):
    one, other = plait.load(run), plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": np.eye(4)}, rank=1, seed=0, max_iter=1)
    for n in range(ROUNDS):
        place = tmp_path / f"run-{n}"
        found = together([lambda place=place: one.save(place), lambda place=place: other.save(place)])
        assert sorted(map(str, found))[1] == "None"
        refused = found.index(next(error for error in found if error is not None))
        assert str(found[refused]).startswith(f"{place}: this folder already contains a run of another fit.")
        assert plait.load(place).model == (other if refused == 0 else one).model


SAVING = """
import sys, plait
fits = [plait.load(path) for path in sys.argv[2:]]
print("ready", flush=True)
sys.stdin.readline()
for n in range(20):
    fits[n % 2].save(sys.argv[1], replace=True)
"""


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["run", "run.plait"])
def test_a_run_loads_while_another_process_replaces_it(name, run, tmp_path):
    other = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": np.eye(9)}, rank=2, seed=5, max_iter=3, warmup=0)
    other.save(tmp_path / "other")
    fits = {0: plait.load(run), 5: other}  # by seed
    fits[0].save(tmp_path / name)
    command = [sys.executable, "-c", SAVING, str(tmp_path / name), str(run), str(tmp_path / "other")]
    seen = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as saver:
        assert saver.stdout.readline() == "ready\n"
        saver.stdin.write("go\n")
        saver.stdin.flush()
        while saver.poll() is None:
            loaded = plait.load(tmp_path / name)
            assert_equal(loaded, fits[loaded.seed])
            seen.append(loaded.seed)
        assert saver.returncode == 0
    assert seen
    assert_equal(plait.load(tmp_path / name), other)


@pytest.mark.parametrize("name", ["run", "run.plait"])
@pytest.mark.parametrize("moment", [1, 3, 6])
def test_a_run_replaced_during_a_load_is_read_again(moment, name, run, tmp_path, monkeypatch):
    first, other = plait.load(run), plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": np.eye(4)}, rank=1, seed=5, max_iter=1)
    first.save(tmp_path / name)
    calls, intact = [], loading.intact

    def replaced(*arguments):
        found = intact(*arguments)
        calls.append(found)
        if len(calls) == moment:
            other.save(tmp_path / name, replace=True)
        return found

    monkeypatch.setattr(loading, "intact", replaced)
    assert_equal(plait.load(tmp_path / name), other)
