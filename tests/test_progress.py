"""What a person sees while a fit runs, and what Ctrl-C leaves behind."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import plait
from plait import progress as bars
from plait.model_selection import auto_settings
from tests.support import cli_terminal
from tests.support.problems import make

TEXT = "X[i,j] = A[i,r] B[j,r]"
SCRIPT = """
import numpy, plait
X = numpy.random.default_rng(0).poisson(2.0, (6, 5)).astype(float)
fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, seed=0, max_iter=12, tol=0.0%s)
"""


def interrupting(at):
    """A progress callable that presses Ctrl-C once."""

    def callback(record):
        if record.sweep == at:
            os.kill(os.getpid(), signal.SIGINT)

    return callback


@pytest.fixture
def handler():
    """A handler of the caller's, which every fit must leave in place."""

    def mine(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, mine)
    yield mine
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_returns_the_fit_so_far_when_asked_to(handler):
    case = make("cp3", "missing_cells")
    progress = plait.Progress(bar=False, callback=interrupting(5), interrupt="return")
    fit = case.fit(max_iter=200, progress=progress)
    assert 5 <= fit.history[-1].sweep <= 6
    assert fit.stop.reason == "interrupted"
    assert case.objective(fit) == pytest.approx(fit.objective, rel=1e-10)
    assert fit.history[-1].objective == fit.objective
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_in_a_sweep_leaves_a_consistent_fit(handler):
    """A timer presses Ctrl-C wherever the fit happens to be."""
    case = make("cp5", "missing_cells")
    timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    fit = case.fit(max_iter=100_000, progress=plait.Progress(bar=False, interrupt="return"))
    timer.join()
    assert fit.stop.reason == "interrupted"
    assert case.objective(fit) == pytest.approx(fit.objective, rel=1e-10)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.fixture
def default_handler():
    """Python's own handler, in place whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("progress", ["callable", "Progress"])
def test_by_default_ctrl_c_returns_the_fit_so_far_and_warns(default_handler, progress):
    callback = interrupting(5)
    given = callback if progress == "callable" else plait.Progress(bar=False, callback=callback)
    with pytest.warns(plait.errors.InterruptedWarning) as caught:
        fit = make("cp3").fit(max_iter=200, progress=given)
    assert 5 <= fit.history[-1].sweep <= 6
    assert str(caught[0].message).startswith(f"fit: {fit.stop}\nContinue with `init=fit`.")
    assert not Path(caught[0].filename).is_relative_to(Path(plait.__file__).parent)
    assert len(caught) == 1
    assert signal.getsignal(signal.SIGINT) is default_handler


@pytest.mark.parametrize("interrupt", [None, "return"])
def test_a_second_ctrl_c_raises_at_once(default_handler, interrupt):
    def twice(record):
        if record.sweep == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # the handlers run here at the latest

    with pytest.raises(KeyboardInterrupt):
        make("cp3").fit(max_iter=200, progress=plait.Progress(bar=False, callback=twice, interrupt=interrupt))
    assert signal.getsignal(signal.SIGINT) is default_handler


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_in_an_ensemble_returns_the_started_members(default_handler, threads):
    """With two threads members run side by side, and the third waits for a thread."""
    with pytest.warns(plait.errors.InterruptedWarning):
        fit = make("cp3").fit(max_iter=200, tol=0.0, restarts=3, threads=threads, progress=interrupting(5))
    assert fit.stop.reason == "interrupted"
    assert 1 <= len(fit.members) <= threads
    assert all(member.history[-1].sweep > -50 for member in fit.members)


@pytest.mark.parametrize("rank", ["auto", "elbo"])
def test_ctrl_c_in_a_search_of_ranks_raises(default_handler, monkeypatch, rank):
    def pressed(*arguments, **options):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.0)

    monkeypatch.setattr(auto_settings, "run_fit", pressed)
    X = np.random.default_rng(0).poisson(1.0, (30, 25)).astype(float)
    with pytest.raises(KeyboardInterrupt):
        plait.fit(TEXT, {"X": X}, rank=rank, seed=0, progress=False)
    assert signal.getsignal(signal.SIGINT) is default_handler


@pytest.mark.parametrize("interrupt", [None, "raise"])
def test_ctrl_c_raises_by_option_and_under_a_handler_of_the_program(handler, interrupt):
    progress = plait.Progress(bar=False, callback=interrupting(5), interrupt=interrupt)
    with pytest.raises(KeyboardInterrupt):
        make("cp3").fit(max_iter=200, progress=progress)
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_callers_handler_is_back_after_an_error(handler):
    def broken(record):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make("cp3").fit(progress=plait.Progress(bar=False, callback=broken, interrupt="return"))
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_fit_outside_the_main_thread_leaves_signals_alone(handler):
    progress = plait.Progress(bar=False, interrupt="return")
    with ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(make("cp3").fit, max_iter=3, progress=progress).result().history) == 4
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.mark.budget(3)
def test_nothing_is_printed_in_a_pipe():
    done = subprocess.run([sys.executable, "-c", SCRIPT % ""], capture_output=True, check=True, timeout=60)
    assert done.stdout == done.stderr == b""


def on_a_terminal(script, terminal="xterm-256color", columns=120):
    return cli_terminal.on_a_terminal([sys.executable, "-c", script], {"TERM": terminal, "COLUMNS": str(columns)})


@pytest.mark.thorough
@pytest.mark.parametrize(("option", "shown"), [("", True), (", progress=False", False)])
def test_a_bar_appears_on_a_terminal_unless_unwanted(option, shown):
    seen = on_a_terminal(SCRIPT % option)
    assert (b"sweep" in seen) == shown
    assert (b"12/12" in seen) == shown
    assert (b"objective" in seen) == shown


@pytest.mark.thorough
@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_bar_cuts_no_number(columns):
    seen = on_a_terminal(SCRIPT % "", columns=columns)
    assert b"12/12" in seen
    assert "…".encode() not in seen


@pytest.mark.thorough
@pytest.mark.parametrize(("seconds", "max_iter"), [("5.0", [12]), ("0.0", range(13))])
def test_a_dumb_terminal_gets_plain_lines(seconds, max_iter):
    setting = f"import plait.progress; plait.progress.LINE_SECONDS = {seconds}"
    seen = on_a_terminal(setting + SCRIPT % "", "dumb").decode()
    lines = [line for line in seen.splitlines() if line != "\x1b[0m"]  # numba's, when Python ends
    warm_up = [line for line in lines if re.match(r"warm-up -\d", line)]
    assert lines[: len(warm_up)] == warm_up
    assert len(warm_up) == (0 if seconds == "5.0" else 50)
    own = lines[len(warm_up) :]
    assert [line.split("  objective ")[0] for line in own] == [f"sweep {sweep}/12" for sweep in max_iter]


def test_a_bar_can_be_forced_and_does_not_touch_stdout(capfd):
    X = np.random.default_rng(0).poisson(2.0, (6, 5)).astype(float)
    plait.fit(TEXT, {"X": X}, rank=2, seed=0, max_iter=5, progress=True)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("short", [0.0, 60.0])
def test_a_bar_of_counted_work_appears_where_it_takes_long_only(monkeypatch, tuning, capsys, short):
    tuning(quiet_seconds=short)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with bars.counting("ranking", 10, True) as advance:
        advance(4)
        advance(6)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("ranking" in shown.err) == (short == 0)


def test_counted_work_is_silent_in_a_pipe(tuning, capsys):
    tuning(quiet_seconds=0.0)
    for show in (None, False):
        with bars.counting("ranking", 2, show) as advance:
            advance(2)
    assert capsys.readouterr() == ("", "")
