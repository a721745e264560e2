"""Forked processes: calls that need the parent's threads fail at once with a hint, others work."""

import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings

import numpy as np
import polars as pl
import pytest

import plait
from plait.codegen import compiler
from plait.codegen.step import Operand, make_step
from plait.executors import Threads

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

WAIT = 120  # seconds: a hang is what takes longer
TEXT = "X[i, j] = A[i, r] B[j, r]"
TABLE = pl.DataFrame({"i": ["a", "b", "c", "a"], "j": ["x", "y", "x", "y"], "value": [1, 2, 1, 3]})
ARRAY = np.random.default_rng(0).poisson(1.0, (6, 5)).astype(float)
PANDAS = TABLE.to_pandas()
NUMBERS = pl.DataFrame({"i": [0, 1], "j": [2, 3], "value": [1, 0]})


def in_child(call):
    """The outcome of a call in a forked child: "fine", the error, or "hangs"."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of what is tested here
        child = os.fork()
    if child == 0:
        try:
            call()
            said = "fine"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode()[:4000])
        os._exit(0)
    try:
        ready, _, _ = select.select([read], [], [], WAIT)
        return os.read(read, 4000).decode() if ready else "hangs"
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def fitted(data, **settings):
    return plait.fit(TEXT, {"X": data}, rank=2, seed=0, max_iter=2, **settings)


@pytest.fixture(scope="module")
def fits(tmp_path_factory):
    """A fit of a table and one of an array, in a process in which polars has threads; kernels are compiled before."""
    folder = tmp_path_factory.mktemp("runs")
    by_name, by_number = fitted(TABLE), fitted(ARRAY)
    TABLE.unique()
    by_name.save(folder / "run")
    plait.write(TABLE, folder / "table.csv")
    np.save(folder / "array.npy", ARRAY)
    for fit, cells, cell in ((by_name, TABLE, {"i": "a", "j": "x"}), (by_number, NUMBERS, {"i": 1, "j": 2})):
        fit.predict("X", cells.drop("value"))
        fit.top("X", k=2)
        fit.top("X", k=2, given={"i": cell["i"]})
        fit.explain("X", cell)
    return by_name, by_number, folder


NEED_POLARS = {
    "fit of a table": lambda named, numbered, folder: fitted(TABLE),
    "fit of integers": lambda named, numbered, folder: fitted(NUMBERS),
    "fit of pandas": lambda named, numbered, folder: fitted(PANDAS),
    "predict by names": lambda named, numbered, folder: named.predict("X", {"i": ["a"], "j": ["x"]}),
    "predict by numbers": lambda named, numbered, folder: numbered.predict("X", {"i": [1], "j": [2]}),
    "top of a name": lambda named, numbered, folder: named.top("X", k=1, given={"i": "a"}),
    "explain": lambda named, numbered, folder: named.explain("X", {"i": "a", "j": "x"}),
    "a name": lambda named, numbered, folder: "a" in named.entities["i"],
    "train_test_split": lambda named, numbered, folder: plait.train_test_split(TABLE, fraction=0.5, seed=0),
    "evaluate": lambda named, numbered, folder: plait.evaluate(numbered, "X", NUMBERS),
    "save": lambda named, numbered, folder: named.save(folder / "child"),
    "load": lambda named, numbered, folder: plait.load(folder / "run"),
    "read": lambda named, numbered, folder: plait.read(folder / "table.csv"),
    "write": lambda named, numbered, folder: plait.write(TABLE, folder / "child.csv"),
}
NEED_NOTHING = {
    "declared entities": lambda named, numbered, folder: fitted(ARRAY, entities={"i": list("abcdef")}),
    "fit of an array": lambda named, numbered, folder: fitted(ARRAY),
    "factors": lambda named, numbered, folder: named.factors["A"].mean,
    "top": lambda named, numbered, folder: named.top("X", k=2),
    "top of a number": lambda named, numbered, folder: numbered.top("X", k=2, given={"i": 1}),
    "explain numbers": lambda named, numbered, folder: str(numbered.explain("X", {"i": 1, "j": 2})),
    "draws": lambda named, numbered, folder: named.sample(2, seed=0),
    "an array": lambda named, numbered, folder: plait.read(folder / "array.npy"),
    "print": lambda named, numbered, folder: (str(named), named._repr_html_()),
}


@pytest.mark.parametrize("call", NEED_POLARS)
def test_calls_that_need_polars_fail_in_a_forked_process(call, fits):
    said = in_child(lambda: NEED_POLARS[call](*fits))
    assert said.startswith("ForkError: "), said
    assert "forked after polars had started threads" in said
    assert "multiprocessing.get_context('spawn')" in said


@pytest.mark.parametrize("call", NEED_NOTHING)
def test_other_calls_work_in_a_forked_process(call, fits):
    assert in_child(lambda: NEED_NOTHING[call](*fits)) == "fine"


def test_html_in_a_forked_process_has_no_picture(fits):
    pytest.importorskip("vl_convert", reason="pictures need vl-convert: make setup")
    assert "<svg" in fits[0]._repr_html_()
    assert in_child(lambda: "<svg" in fits[0]._repr_html_() and 1 / 0) == "fine"


def test_the_parent_of_a_forked_process_still_works(fits):
    assert in_child(lambda: None) == "fine"
    assert len(fits[0].predict("X", TABLE.drop("value"))) == len(TABLE)


def test_an_executor_starts_threads_in_a_forked_process():
    executor, counts = Threads(3), np.zeros(300_000)

    def work(lo, hi):
        counts[lo:hi] += 1
        return float(hi - lo)

    assert executor.rows(work, len(counts)) == len(counts)
    assert in_child(lambda: executor.rows(work, len(counts))) == "fine"


def test_a_process_forked_during_a_compilation_does_not_hang(monkeypatch):
    begun, kernel = threading.Event(), compiler.Kernel(print, 1, np.dtype(np.float64))

    def build(step, types):
        begun.set()
        time.sleep(0.3)
        return kernel

    step = make_step("linear", ("i",), (Operand(("i",), ("r",)),), {"r": 1}, (0,))
    monkeypatch.setattr(compiler, "_build", build)
    compiler.forget()
    thread = threading.Thread(target=compiler.compiled, args=(step,))
    thread.start()
    begun.wait()
    try:
        assert in_child(lambda: compiler.compiled(step)) == "fine"
    finally:
        thread.join()
        compiler.forget()


def test_a_process_forked_before_polars_has_threads_may_use_it(tmp_path):
    code = textwrap.dedent(f"""
        import multiprocessing, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import polars as pl, plait
        def rows(_):
            return len(plait.read({str(tmp_path / "table.csv")!r}).unique())
        if __name__ == "__main__":
            pl.DataFrame({{"a": [1]}})
            with multiprocessing.get_context("fork").Pool(1) as pool:
                print(pool.map_async(rows, [0]).get({WAIT}))
    """)
    (tmp_path / "table.csv").write_text("i,j\na,x\nb,y\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT)
    assert (done.stdout, done.stderr) == ("[2]\n", "")
