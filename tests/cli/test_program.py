"""The program in a shell: exit codes, colours, pipes, Ctrl-C and unexpected errors."""

import errno
import json
import os
import re
import signal
import subprocess
import time

import pytest

import plait
from plait.cli.program import verdict
from plait.inference.steps import sweep_once
from tests.support.cli_world import PLAIT
from tests.support.manifests import manifest


def shell(world, arguments):
    """A real process."""
    command, pipe = [*PLAIT, *arguments.split()], subprocess.PIPE
    return subprocess.Popen(command, cwd=world.folder, text=True, stdout=pipe, stderr=pipe)


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


@pytest.mark.budget(5)
def test_ctrl_c_saves_the_run_and_names_resume(scratch):
    scratch.write("model.toml", f"{scratch.read('model.toml')}tol = 0\nwarmup = 0\n")
    process = shell(scratch, "fit model.toml -o stopped --max-iter 1000000")
    wait_for_sweeps(scratch.folder / "stopped")
    process.send_signal(signal.SIGINT)
    code, out, err = finished(process)
    sweeps = int(re.search(r"ended       interrupted after (\d+) sweeps; the result is the fit so far.\n", out)[1])
    assert (code, err) == (1, "reading …\nbinding …\nfit …\nsaving …\n")
    assert out.endswith("saved       stopped\n\nNext:\n  plait resume stopped\n")
    assert manifest(scratch.folder / "stopped")["members"][0]["history"][-1][0] == sweeps
    assert scratch.plait(f"resume stopped --max-iter {sweeps + 2}").exit_code == 0
    assert plait.load(scratch.folder / "stopped").history[-1].sweep == sweeps + 2


def test_a_run_interrupted_in_the_warm_up_is_resumed(scratch, monkeypatch):
    def interrupted(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        sweep_once(*arguments)

    monkeypatch.setattr(plait.inference.steps, "sweep_once", interrupted)
    result = scratch.plait("fit model.toml -o stopped")
    monkeypatch.undo()
    assert (result.exit_code, result.stderr) == (1, "")
    assert "\nended       interrupted in the warm-up; the result is the" in result.stdout
    assert result.stdout.endswith("saved       stopped\n\nNext:\n  plait resume stopped\n")
    assert "interrupted in the warm-up" in scratch.stdout("info stopped")
    assert scratch.json("info stopped")["sweeps"] == 0
    scratch.stdout("top stopped visits")
    assert scratch.plait("resume stopped").exit_code == 0
    resumed, whole = (plait.load(scratch.folder / name) for name in ("stopped", "run"))
    assert [record.objective for record in resumed.history] == [record.objective for record in whole.history]


def test_ctrl_c_while_files_are_read_saves_nothing(scratch, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr("plait.config.Config.data", interrupted)
    scratch.refuse("fit model.toml -o new", "interrupted.\nNothing is saved.", code=1)
    assert not (scratch.folder / "new").exists()
    scratch.refuse("check model.toml", "interrupted.", code=1)


def test_a_second_ctrl_c_names_the_last_checkpoint(scratch, monkeypatch):
    def once(problem, loop, watch, keep, begun):
        record = plait.inference.state.Record(0, 0.0, float("inf"), 0.0, {"r": 2})
        keep(lambda: problem.state([record], 0, plait.inference.state.MomentumState()))
        raise KeyboardInterrupt

    monkeypatch.setattr("plait.fitting.ensemble.run", once)
    result = scratch.plait("fit model.toml -o new")
    assert (result.exit_code, "plait resume new" in result.stderr) == (1, True)


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", ["info run", "info run --json", "--help"])
def test_a_pipe_that_closes_is_no_error(world, arguments):
    process = shell(world, arguments)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(100) == 0


@pytest.mark.budget(3)
@pytest.mark.quick(arguments=["info run"])
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
@pytest.mark.parametrize("arguments", ["info run", "top run visits -k 1"])  # the second one compiles, with numba
def test_a_terminal_without_colours_gets_none(world, arguments, environment):
    assert b"\x1b[" not in world.on_a_terminal(arguments, environment)


@pytest.mark.budget(3)
def test_a_terminal_gets_bold_headings_and_narrow_tables(world):
    out = world.on_a_terminal("info run", {"TERM": "xterm-256color"})
    assert b"\x1b[1m" in out
    plain = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.decode())
    tables = [line for line in plain.splitlines() if line.startswith("─")]
    assert tables
    assert max(map(len, tables)) <= 80


@pytest.mark.budget(3)
def test_a_pipe_gets_no_colours_and_json_is_one_document(world):
    code, out, err = finished(shell(world, "info run --json"))
    assert (code, err) == (0, "")
    assert json.loads(out)["method"] == "vb"
    assert "\x1b" not in out


DISK = {
    PermissionError(errno.EACCES, "Permission denied", "/root/x"): (1, "permission denied (/root/x).\n"),
    OSError(errno.ENOSPC, "No space left", "x"): (1, "the disk is full (x).\n"),
    OSError(errno.EIO, "Input/output error"): (1, "Input/output error."),
    FileNotFoundError(errno.ENOENT, "No such file", "x.csv"): (2, "the file 'x.csv' does not exist.\n"),
    MemoryError(): (1, "not enough memory.\n"),
    plait.errors.FitError("the bound is nan."): (1, "the bound is nan."),
    plait.errors.StorageError("run: damaged."): (2, "run: damaged."),
    plait.errors.DataError("x.csv: empty."): (2, "x.csv: empty."),
}


@pytest.mark.parametrize("error", DISK, ids=lambda error: type(error).__name__)
def test_exit_codes_and_messages(error):
    code, words = DISK[error]
    found, parts = verdict(error)
    assert found == code
    assert parts["text"].startswith(words)
    assert parts["hint"] is None or parts["hint"] in parts["text"]


def test_a_full_disk_is_no_mistake_of_the_user():
    def write():
        try:
            raise OSError(errno.ENOSPC, "No space left on device")
        except OSError:
            raise plait.errors.DataError("x.csv: the disk is full.") from None

    with pytest.raises(plait.errors.DataError) as caught:
        write()
    code, parts = verdict(caught.value)
    assert (code, parts["kind"], parts["message"]) == (1, "DataError", "x.csv: the disk is full.")


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [["info", "run"], ["info", "run", "--json"]])
def test_a_full_disk_ends_a_command_with_exit_code_1(world, arguments):
    if not os.path.exists("/dev/full"):
        pytest.skip("this machine has no /dev/full")
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [*PLAIT, *arguments], cwd=world.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=100
        )
    assert process.returncode == 1
    text = process.stderr if "--json" not in arguments else json.loads(process.stderr)["error"]["text"]
    assert text.removeprefix("error: ").startswith("the disk is full.\nFree some space")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("fit model.toml -o /proc/plait/run", 1, "the run cannot be saved: No such file or directory"),
        ("predict run visits cells.csv -o /proc/x.csv", 1, "the file cannot be written: No such file or directory"),
        ("predict run visits cells.csv -o model.toml/x.csv", 2, "'model.toml' is a file, not a folder"),
    ],
)
def test_exit_code_of_a_place_that_cannot_be_written(world, arguments, code, words):
    if not os.path.isdir("/proc/self"):
        pytest.skip("this machine has no /proc")
    world.refuse(arguments, words, code=code)


def test_a_bug_shows_its_traceback_on_request_only(world, monkeypatch):
    def broken(*arguments):
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("plait.cli.link_commands.named_cell", broken)
    monkeypatch.delenv("PLAIT_DEBUG", raising=False)
    world.refuse("top run visits", "a bug in Plait: ZeroDivisionError: division by zero", "PLAIT_DEBUG=1", code=1)
    monkeypatch.setenv("PLAIT_DEBUG", "1")
    assert "Traceback (most recent call last)" in world.plait("top run visits").stderr
