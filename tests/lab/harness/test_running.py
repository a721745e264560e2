"""An interrupted run goes on, what fails is said, and what others say has no paths."""

import subprocess

import pytest

from lab.harness.apart import call
from lab.harness.command import ended, parse, parser, places
from lab.harness.packages import ROOT, without_paths
from lab.harness.results import MACHINE, forget, read
from lab.harness.running import Row, Step, Study, run, say_failures, watching
from plait.errors import SettingError

STUDY = Study("bench", "drawn", frozenset({"numpy", "no such package"}))


def row(name, calls, error=None):
    def measured(done):
        calls.append(name)
        if error:
            raise error
        return {"found": name, "before": done({"part": "front", "what": "a"})}

    return Row({"part": "front", "what": name}, measured)


def test_finished_rows_are_kept_and_a_rerun_measures_only_the_others(tmp_path, capsys):
    file, calls = tmp_path / "results.jsonl", []
    failed = run(STUDY, [row("a", calls), row("b", calls, RuntimeError("no luck"))], file, True, "test")
    assert say_failures(failed) == 1
    assert capsys.readouterr().err == "failed: front, b: no luck\n"
    file.write_text(file.read_text() + '{"cell": {"part"', encoding="utf-8")  # cut short
    assert not run(STUDY, [row("a", calls), row("b", calls)], file, True, "test").failures
    assert calls == ["a", "b", "b"]
    assert read(file).get({"part": "front", "what": "b"}) == {"found": "b", "before": {"found": "a", "before": None}}
    forget(file, [], ["front"])
    assert not file.exists()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (subprocess.CalledProcessError(3, ["/somewhere/plait", "check"]), "a process ended with code 3"),
        (subprocess.TimeoutExpired("plait", 5), "not done within 5 s"),
        (ValueError("line one\nno file /home/me/x"), "no file …"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
)
def test_why_a_row_failed_is_said_in_a_few_words(error, words, tmp_path):
    for _ in range(2):  # a rerun tries again, and does not say it twice
        found = run(STUDY, [row("a", [], error)], tmp_path / "results.jsonl", True, "test")
        assert [line["figures"] for line in found.failures] == [{"failed": words}]
    assert len(read(tmp_path / "results.jsonl").failures) == 1


def test_versions_are_kept_of_packages_that_are_there(tmp_path):
    found = run(STUDY, [row("a", [])], tmp_path / "results.jsonl", True, "test").get(MACHINE)
    assert "numpy" in found["versions"]
    assert "no such package" not in found["versions"]
    assert MACHINE not in run(Study("uclaf", "drawn"), [row("a", [])], tmp_path / "other.jsonl", True, "test")


def test_an_interruption_is_not_a_failure(tmp_path, capsys):
    file, calls = tmp_path / "results.jsonl", []
    rows = [row("a", calls), row("b", calls, KeyboardInterrupt())]
    assert ended(lambda: run(STUDY, rows, file, True, "test")) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert len(read(file).lines) == 2
    assert not read(file).failures


def test_a_mistake_is_one_message_and_exit_code_2(capsys):
    def mistaken():
        raise SettingError("this is wrong.\nDo that.")

    assert ended(mistaken) == 2
    assert capsys.readouterr().err == "error: this is wrong.\nDo that.\n"


def test_without_a_terminal_a_line_is_said_every_minute_and_at_the_end(capsys):
    with watching("uclaf") as watch:
        for count, seconds in enumerate((0.0, 30.0, 61.0, 100.0)):
            watch(Step({"run": count}, count, 4, seconds))
        watch(Step(None, 4, 4, 110.0))
    assert capsys.readouterr().err == "uclaf: 2 of 4 cells, 61 s; now 2\nuclaf: 4 of 4 cells, 110 s\n"


def test_quick_runs_and_named_folders_leave_the_docs_alone(tmp_path):
    def found(*arguments):
        return places(parser("lab.paper", "", "paper").parse_args(arguments), "paper")

    assert found() == (ROOT / "docs" / "paper", ROOT / "docs" / "paper.md")
    assert found("--quick") == (ROOT / ".cache" / "paper", ROOT / ".cache" / "paper" / "paper.md")
    assert found("--folder", str(tmp_path)) == (tmp_path, tmp_path / "paper.md")
    assert found("--folder", str(tmp_path), "--page", "a.md")[1].name == "a.md"
    with pytest.raises(SystemExit):
        found("--folder", "")


def test_the_command_is_kept_without_folders_of_this_machine():
    words = ["uclaf", "--only", "/home/me/data", "--folder=/home/me/out put", "--page", "my page.md"]
    given = parse(parser("lab.paper", "", "paper"), words, ["uclaf"])
    assert given.command == "python -m lab.paper uclaf --only … --folder=… --page 'my page.md'"


def test_a_function_is_called_in_a_process_of_its_own():
    found = call("lab.bench.rows.growth:sweep", nonzeros=200, sides=[40, 40], rank=2, threads=1, least=0.0)
    assert found["repeats"] >= 5
    with pytest.raises(RuntimeError, match="AttributeError"):
        call("lab.bench.rows.growth:nothing")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("OSError: [Errno 2] No such file: '/home/me/x.so'", "OSError: [Errno 2] No such file: '…'"),
        ("see https://host.example/simple/x for more", "see https:… for more"),
        (r"bad C:\\Users\\me, and/or 3 GB/s", "bad …, and/or 3 GB/s"),
        ("in build/lib.linux/poismf/a.c: no", "in …: no"),
    ],
)
def test_what_others_say_has_no_paths(text, left):
    assert without_paths(text) == left
