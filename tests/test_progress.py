"""What a person sees while a fit runs, and what Ctrl-C leaves behind."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import plait
from tests.cases import make

TEXT = "X[i,j] = A[i,r] B[j,r]"
SCRIPT = """
import numpy, plait
X = numpy.random.default_rng(0).poisson(2.0, (6, 5)).astype(float)
fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, seed=0, sweeps=12, tol=0.0%s)
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
    fit = case.fit(sweeps=200, progress=progress)
    sweep = fit.history[-1].sweep
    assert 5 <= sweep <= 6
    assert str(fit.stop) == f"interrupted after {sweep} sweeps; this is the fit so far."
    assert case.objective(fit) == pytest.approx(fit.bound, rel=1e-10)
    assert fit.history[-1].bound == fit.bound
    assert signal.getsignal(signal.SIGINT) is handler


def test_ctrl_c_in_the_middle_of_a_sweep_never_cuts_an_update_in_two(handler):
    """A timer presses Ctrl-C wherever the fit happens to be."""
    case = make("cp5", "missing_cells")
    timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    fit = case.fit(sweeps=100_000, progress=plait.Progress(bar=False, interrupt="return"))
    timer.join()
    assert fit.stop.reason == "interrupted"
    assert case.objective(fit) == pytest.approx(fit.bound, rel=1e-10)
    assert signal.getsignal(signal.SIGINT) is handler


@pytest.fixture
def default_handler():
    """Python's own handler, in place whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield signal.default_int_handler
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("progress", ["callable", "Progress"])
def test_by_default_ctrl_c_returns_the_fit_so_far_and_warns_at_the_callers_line(default_handler, progress):
    callback = interrupting(5)
    given = callback if progress == "callable" else plait.Progress(bar=False, callback=callback)
    with pytest.warns(plait.InterruptedWarning) as caught:
        fit = make("cp3").fit(sweeps=200, progress=given)
    sweep = fit.history[-1].sweep
    assert 5 <= sweep <= 6
    assert str(fit.stop) == f"interrupted after {sweep} sweeps; this is the fit so far."
    assert str(caught[0].message).startswith(f"fit: {fit.stop}\nGo on: `init=fit`.")
    assert "plait" not in os.path.relpath(caught[0].filename, os.path.dirname(plait.__file__)).split(os.sep)[0]
    assert len(caught) == 1
    assert signal.getsignal(signal.SIGINT) is default_handler


def test_a_second_ctrl_c_raises_by_default_too(default_handler):
    def twice(record):
        if record.sweep == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # the handlers run here at the latest

    with pytest.raises(KeyboardInterrupt):
        make("cp3").fit(sweeps=200, progress=twice)
    assert signal.getsignal(signal.SIGINT) is default_handler


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_in_an_ensemble_returns_the_members_that_have_begun(default_handler, threads):
    """With two threads members run side by side, and the third waits for a thread."""
    with pytest.warns(plait.InterruptedWarning):
        fit = make("cp3").fit(sweeps=200, tol=0.0, restarts=3, threads=threads, progress=interrupting(5))
    assert fit.stop.reason == "interrupted"
    assert 1 <= len(fit.members) <= threads
    assert all(member.history[-1].sweep > -50 for member in fit.members)


@pytest.mark.parametrize("rank", ["auto", "bound"])
def test_ctrl_c_while_ranks_are_tried_raises_for_there_is_no_fit_yet(default_handler, monkeypatch, rank):
    from plait.fitting.ranks import settle

    def pressed(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1.0)

    monkeypatch.setattr(settle, "fit_quietly", pressed)
    X = np.random.default_rng(0).poisson(1.0, (30, 25)).astype(float)
    with pytest.raises(KeyboardInterrupt):
        plait.fit(TEXT, {"X": X}, rank=rank, seed=0, progress=False)
    assert signal.getsignal(signal.SIGINT) is default_handler


@pytest.mark.parametrize("interrupt", [None, "raise"])
def test_ctrl_c_raises_where_that_is_asked_for_or_the_program_handles_it(handler, interrupt):
    progress = plait.Progress(bar=False, callback=interrupting(5), interrupt=interrupt)
    with pytest.raises(KeyboardInterrupt):
        make("cp3").fit(sweeps=200, progress=progress)
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_ctrl_c_raises_at_once(handler):
    def twice(record):
        if record.sweep == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.01)  # the handlers run here at the latest

    with pytest.raises(KeyboardInterrupt):
        make("cp3").fit(sweeps=200, progress=plait.Progress(bar=False, callback=twice, interrupt="return"))
    assert signal.getsignal(signal.SIGINT) is handler


def test_the_callers_handler_is_back_after_an_error(handler):
    def broken(record):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make("cp3").fit(progress=plait.Progress(bar=False, callback=broken, interrupt="return"))
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_fit_outside_the_main_thread_leaves_signals_alone(handler):
    found = []
    case = make("cp3")

    def work():
        found.append(case.fit(sweeps=3, progress=plait.Progress(bar=False, interrupt="return")))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert len(found[0].history) == 4


def test_nothing_is_printed_in_a_pipe():
    done = subprocess.run([sys.executable, "-c", SCRIPT % ""], capture_output=True, check=True, timeout=60)
    assert done.stdout == done.stderr == b""


def on_a_terminal(script, terminal, columns=120):
    """What a script writes to a terminal of this kind."""
    mine, theirs = pty.openpty()
    environment = os.environ | {"TERM": terminal, "COLUMNS": str(columns)}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen, deadline = b"", time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([mine], [], [], 1.0)
        try:
            piece = os.read(mine, 65536) if ready else b""
        except OSError:  # Linux: the other side is closed
            break
        seen += piece
        if ready and not piece:
            break
    os.close(mine)
    assert process.wait(timeout=10) == 0
    return seen


@pytest.mark.parametrize(("option", "shown"), [("", True), (", progress=False", False)])
def test_a_bar_appears_on_a_terminal_unless_unwanted(option, shown):
    seen = on_a_terminal(SCRIPT % option, "xterm-256color")
    assert (b"sweep" in seen) == shown
    assert (b"12/12" in seen) == shown
    assert (b"bound" in seen) == shown


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_a_narrow_bar_cuts_no_number(columns):
    seen = on_a_terminal(SCRIPT % "", "xterm-256color", columns)
    assert b"12/12" in seen
    assert "…".encode() not in seen


@pytest.mark.parametrize(("seconds", "sweeps"), [("5.0", [12]), ("0.0", range(13))])
def test_a_terminal_that_cannot_move_gets_plain_lines_every_so_often(seconds, sweeps):
    seen = on_a_terminal(
        f"import plait.fitting.progress; plait.fitting.progress.SECONDS = {seconds}" + SCRIPT % "", "dumb"
    ).decode()
    lines = [line for line in seen.splitlines() if line != "\x1b[0m"]  # numba's, when Python ends
    warm_up = [line for line in lines if re.match(r"warm-up -\d", line)]
    assert lines[: len(warm_up)] == warm_up
    assert len(warm_up) == (0 if seconds == "5.0" else 50)
    own = lines[len(warm_up) :]
    assert [line.split("  bound ")[0] for line in own] == [f"sweep {sweep}/12" for sweep in sweeps]


def test_a_bar_can_be_forced_and_does_not_touch_stdout(capfd):
    X = np.random.default_rng(0).poisson(2.0, (6, 5)).astype(float)
    plait.fit(TEXT, {"X": X}, rank=2, seed=0, sweeps=5, progress=True)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("short", [0.0, 60.0])
def test_a_bar_of_counted_work_appears_where_it_takes_long_only(monkeypatch, capsys, short):
    from plait.fitting import progress

    monkeypatch.setattr(progress, "SHORT", short)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress.counting("ranking", 10, True) as advance:
        advance(4)
        advance(6)
    said = capsys.readouterr()
    assert said.out == ""
    assert ("ranking" in said.err) == (short == 0)


def test_counted_work_says_nothing_in_a_pipe(monkeypatch, capsys):
    from plait.fitting import progress

    monkeypatch.setattr(progress, "SHORT", 0.0)
    for show in (None, False):
        with progress.counting("ranking", 2, show) as advance:
            advance(2)
    assert capsys.readouterr() == ("", "")
