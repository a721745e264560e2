"""How the program behaves in a shell: exit codes, colours, pipes, Ctrl-C, and what it says about the unexpected."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import plait
from plait.cli.program import verdict
from plait.infer.steps import sweep_once
from plait.run.folder import manifest

PLAIT = [sys.executable, "-c", "from plait.cli import app; app()"]
ENDLESS = "--sweeps 1000000"


def shell(world, arguments, **settings):
    """A real process, as a shell would start it."""
    environment = {**os.environ, **settings.pop("environment", {})}
    return subprocess.Popen(
        [*PLAIT, *arguments.split()], cwd=world.folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings,
    )  # fmt: skip


def finished(process):
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def wait_for_sweeps(run):
    """Until the first checkpoint of a fit is there, and it is in its loop."""
    for _ in range(1000):
        if (run / "manifest.json").exists():
            return time.sleep(0.3)
        time.sleep(0.1)
    raise AssertionError("the fit has not begun")


def test_ctrl_c_saves_the_run_and_says_how_to_go_on(scratch):
    config = (scratch.folder / "model.toml").read_text()
    scratch.write("model.toml", f'{config}tol = 0\nstart = "random"\n')
    process = shell(scratch, f"fit model.toml -o stopped {ENDLESS}")
    wait_for_sweeps(scratch.folder / "stopped")
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    sweeps = int(re.search(r"ended  interrupted after (\d+) sweeps; this is the fit so far.\n", out)[1])
    assert (code, err) == (1, "")
    assert out.endswith("saved  stopped\n\nNext:\n  plait resume stopped\n")
    assert manifest(scratch.folder / "stopped")["members"][0]["history"][-1][0] == sweeps
    assert scratch.plait(f"resume stopped --sweeps {sweeps + 2}").exit_code == 0
    assert plait.load(scratch.folder / "stopped").history[-1].sweep == sweeps + 2


def test_ctrl_c_in_the_warm_up_is_told_and_a_run_goes_on_from_there(scratch, monkeypatch):
    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        sweep_once(*arguments)

    monkeypatch.setattr(plait.infer.steps, "sweep_once", interrupted)
    result = scratch.plait("fit model.toml -o stopped")
    monkeypatch.undo()
    assert (result.exit_code, result.stderr) == (1, "")
    assert re.search(
        r"\nbound  \S+ in the warm-up, \S+ s\nended  interrupted in the warm-up; this is the", result.stdout
    )
    assert result.stdout.endswith("saved  stopped\n\nNext:\n  plait resume stopped\n")
    assert "interrupted in the warm-up" in scratch.stdout("info stopped")
    assert json.loads(scratch.plait("info stopped --json").stdout)["sweeps"] == 0
    assert scratch.plait("top stopped visits").exit_code == 0
    assert scratch.plait("resume stopped").exit_code == 0
    resumed, whole = (plait.load(scratch.folder / name) for name in ("stopped", "run"))
    assert [record.bound for record in resumed.history] == [record.bound for record in whole.history]


def test_ctrl_c_while_files_are_read_saves_nothing(scratch, monkeypatch):
    from plait.config import Config

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Config, "data", interrupted)
    result = scratch.plait("fit model.toml -o new")
    assert (result.exit_code, result.stderr) == (1, "error: interrupted.\nNothing was saved.\n")
    assert not (scratch.folder / "new").exists()
    result = scratch.plait("check model.toml")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "error: interrupted.\n")


def test_a_second_ctrl_c_names_the_last_checkpoint(scratch, monkeypatch):
    from plait.fitting import members

    def interrupted(*arguments):
        raise KeyboardInterrupt

    def once(problem, loop, watch, keep, begun):
        record = plait.infer.state.Record(0, 0.0, float("inf"), 0.0, {"r": 2})
        keep(lambda: problem.state([record], 0, plait.infer.state.Trail()))
        interrupted()

    monkeypatch.setattr(members, "run", once)
    result = scratch.plait("fit model.toml -o new")
    assert (result.exit_code, result.stderr) == (
        1, "error: interrupted.\nGo on from the last checkpoint: plait resume new.\n",
    )  # fmt: skip


@pytest.mark.parametrize("arguments", ["info run", "info run --json", "--help"])
def test_a_pipe_that_closes_is_no_error(world, arguments):
    process = shell(world, arguments)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(100) == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("arguments", ["info run", "top run visits -k 1"])  # the second one compiles, with numba
def test_a_terminal_without_colours_gets_none(world, arguments, environment):
    assert b"\x1b[" not in on_a_terminal(world, arguments, environment)


def test_a_terminal_gets_bold_headings_and_nothing_wider_than_itself(world):
    out = on_a_terminal(world, "info run", {"TERM": "xterm-256color"})
    assert b"\x1b[1m" in out
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.decode())
    tables = [line for line in plain.splitlines() if line.startswith("─")]
    assert tables
    assert max(map(len, tables)) <= 80


def on_a_terminal(world, arguments, environment):
    """What a command writes to a terminal of 80 columns."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    process = subprocess.Popen(
        [*PLAIT, *arguments.split()], cwd=world.folder, stdout=theirs, stderr=subprocess.PIPE,
        env={**settings, "COLUMNS": "80", **environment},
    )  # fmt: skip
    os.close(theirs)
    found = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other side has closed
            break
        if not piece:
            break
        found += piece
    os.close(ours)
    _, err = process.communicate(timeout=100)
    assert (process.returncode, err) == (0, b"")
    return found


def test_a_pipe_gets_no_colours_and_json_is_one_document(world):
    code, out, err = finished(shell(world, "info run --json"))
    assert (code, err) == (0, "")
    assert json.loads(out)["method"] == "vb"
    assert "\x1b" not in out


def test_heavy_libraries_are_not_imported_for_help(world):
    code = "import sys; from plait.cli import app; app(['--help'], standalone_mode=False); "
    heavy = "print(sorted({'numba', 'polars', 'scipy', 'rich', 'narwhals'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code + heavy], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


DISK = {
    PermissionError(errno.EACCES, "Permission denied", "/root/x"): (
        1, "permission denied (/root/x).\nChoose another place, or change the permissions."
    ),
    OSError(errno.ENOSPC, "No space left", "x"): (
        1, "the disk is full (x).\nFree some space, or choose another place."
    ),
    OSError(errno.EIO, "Input/output error"): (1, "Input/output error."),
    FileNotFoundError(errno.ENOENT, "No such file", "x.csv"): (2, "there is no file 'x.csv'.\nCheck the path."),
    MemoryError(): (1, "there is not enough memory.\nUse a smaller rank, fewer threads or less data."),
    plait.FitError("the bound is nan."): (1, "the bound is nan."),
    plait.StoreError("run: damaged."): (2, "run: damaged."),
    plait.DataError("x.csv: empty."): (2, "x.csv: empty."),
}  # fmt: skip


@pytest.mark.parametrize("error", DISK, ids=lambda error: type(error).__name__)
def test_exit_codes_and_messages(error):
    code, parts = verdict(error)
    assert (code, parts["text"]) == DISK[error]


def test_a_full_disk_is_no_mistake_of_the_user_whoever_says_it():
    def write():
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise plait.DataError("x.csv: the disk is full.") from None

    with pytest.raises(plait.DataError) as caught:
        write()
    code, parts = verdict(caught.value)
    assert (code, parts["kind"], parts["message"]) == (1, "DataError", "x.csv: the disk is full.")


@pytest.mark.parametrize("arguments", [["info", "run"], ["info", "run", "--json"]])
def test_a_full_disk_ends_a_command_with_exit_code_1(world, arguments):
    if not os.path.exists("/dev/full"):
        pytest.skip("this machine has no /dev/full")
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [*PLAIT, *arguments], cwd=world.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100
        )
    assert process.returncode == 1
    message = "the disk is full.\nFree some space, or choose another place."
    if "--json" not in arguments:
        assert process.stderr == f"error: {message}\n"
        return
    error = json.loads(process.stderr)["error"]
    assert (error["kind"], error["text"]) == ("OSError", message)
    assert [error["message"], error["hint"]] == message.split("\n")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("fit model.toml -o /proc/plait/run", 1, "the run cannot be saved: No such file or directory"),
        ("predict run visits cells.csv -o /proc/x.csv", 1, "the file cannot be written: No such file or directory"),
        ("predict run visits cells.csv -o model.toml/x.csv", 2, "'model.toml' is a file, not a folder"),
    ],
)
def test_a_place_that_cannot_be_written_to_is_no_mistake_in_the_data(world, arguments, code, words):
    if not os.path.isdir("/proc/self"):
        pytest.skip("this machine has no /proc")
    result = world.plait(arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr


def test_the_unexpected_is_called_a_bug_and_shows_its_traceback_on_request(world, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("plait.cli.links.named_cell", broken)
    monkeypatch.delenv("PLAIT_DEBUG", raising=False)
    result = world.plait("top run visits")
    assert (result.exit_code, result.stdout, result.stderr) == (
        1, "", "error: this is a bug in Plait: ZeroDivisionError: division by zero\n"
        "Please report it, with the traceback that PLAIT_DEBUG=1 shows.\n",
    )  # fmt: skip
    monkeypatch.setenv("PLAIT_DEBUG", "1")
    assert "Traceback (most recent call last)" in world.plait("top run visits").stderr
