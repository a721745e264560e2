"""Stored results: finished cells survive an interruption, failures are tried again, different runs are not mixed."""

import subprocess

import pytest

import plait
from lab.harness.apart import call
from lab.harness.command import ended, parse, parser
from lab.harness.packages import without_paths
from lab.harness.results import MACHINE, Results, read
from lab.harness.running import Row, Study, run, say_failures
from plait.errors import ParameterError

CELL = {"method": "visited × activity", "missing": 0.6, "run": 0}
STUDY = Study("bench", "drawn", frozenset({"numpy", "no such package"}))


def opened(path, *, source="UCLAF", quick=False):
    return Results(path, "uclaf", source, quick, "make paper")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "uclaf.jsonl"


def row(name, calls, error=None):
    def measured(done):
        calls.append(name)
        if error:
            raise error
        return {"found": name, "before": done({"part": "front", "what": "a"})}

    return Row({"part": "front", "what": name}, measured)


# --- the file


def test_only_finished_cells_that_are_asked_for_are_records(path):
    results = opened(path)
    results.add(CELL, {"auc": 1})
    results.add(CELL | {"run": 2}, {"auc": 0.5, "seconds": 2.0})
    again = opened(path)
    assert dict(reversed(CELL.items())) in again  # whatever the order of its entries
    assert CELL | {"run": 1} not in again
    asked = [CELL | {"run": run} for run in (2, 0, 5)]
    for found in (again.records(asked), read(path).records(asked)):
        assert found.select("run", "auc", "seconds").rows() == [(2, 0.5, 2.0), (0, 1.0, None)]
    assert read(path.with_name("none")).records([CELL]).is_empty()
    head = read(path).head
    assert (head["experiment"], head["source"], head["quick"]) == ("uclaf", "UCLAF", False)
    assert (head["plait"], head["command"]) == (plait.__version__, "make paper")


def test_a_line_cut_short_is_measured_again_and_harms_no_other(path):
    results = opened(path)
    for run_ in range(3):
        results.add(CELL | {"run": run_}, {"auc": 0.9})
    *lines, last = path.read_bytes().splitlines(keepends=True)
    for length in range(1, len(last)):
        path.write_bytes(b"".join(lines) + last[:length])
        again = opened(path)
        # Without its last character, the line break, the line is whole.
        assert (CELL | {"run": 2} in again) == (length == len(last) - 1)
        if CELL | {"run": 2} not in again:
            again.add(CELL | {"run": 2}, {"auc": 0.9})
        assert read(path).records([CELL | {"run": run_} for run_ in range(3)])["run"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("damaged", ["", "5", '{"cell": {}}'])
def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(path, damaged):
    opened(path).add(CELL, {"auc": 0.9})
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{damaged or second[:20]}\n{second}\n")
    with pytest.raises(plait.errors.DataError, match=r"uclaf\.jsonl, line 2"):
        opened(path)


@pytest.mark.parametrize("other", [{"source": "a stand-in"}, {"quick": True}])
def test_results_of_other_data_or_of_another_size_are_refused_and_left_as_they_are(path, other):
    opened(path).add(CELL, {"auc": 0.9})
    before = path.read_bytes()
    with pytest.raises(plait.errors.ParameterError, match="must not be mixed"):
        opened(path, **other)
    assert path.read_bytes() == before


# --- runs


def test_a_rerun_measures_only_unfinished_and_failed_rows(tmp_path, capsys):
    file, calls = tmp_path / "results.jsonl", []
    failed = run(STUDY, [row("a", calls), row("b", calls, RuntimeError("no luck"))], file, True, "test")
    assert say_failures(failed) == 1
    assert capsys.readouterr().err == "failed: front, b: no luck\n"
    file.write_text(file.read_text() + '{"cell": {"part"', encoding="utf-8")  # cut short
    again = run(STUDY, [row("a", calls), row("b", calls)], file, True, "test")
    assert not again.failures
    assert calls == ["a", "b", "b"]
    assert read(file).get({"part": "front", "what": "b"}) == {"found": "b", "before": {"found": "a", "before": None}}
    versions = again.get(MACHINE)["versions"]
    assert "numpy" in versions
    assert "no such package" not in versions


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (subprocess.CalledProcessError(3, ["/somewhere/plait", "check"]), "a process ended with code 3"),
        (subprocess.TimeoutExpired("plait", 5), "not done within 5 s"),
        (ValueError("line one\nno file /home/me/x"), "no file …"),
        (ZeroDivisionError(), "ZeroDivisionError"),
    ],
)
def test_a_failure_is_stored_once_and_is_no_result(error, words, tmp_path):
    for _ in range(2):
        found = run(STUDY, [row("a", [], error)], tmp_path / "results.jsonl", True, "test")
        assert [line["figures"] for line in found.failures] == [{"failed": words}]
    assert len(read(tmp_path / "results.jsonl").failures) == 1
    assert {"part": "front", "what": "a"} not in read(tmp_path / "results.jsonl")


def test_an_interruption_is_not_a_failure(tmp_path, capsys):
    file, calls = tmp_path / "results.jsonl", []
    rows = [row("a", calls), row("b", calls, KeyboardInterrupt())]
    assert ended(lambda: run(STUDY, rows, file, True, "test")) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert len(read(file).lines) == 2
    assert not read(file).failures


def test_a_mistake_is_one_message_and_exit_code_2(capsys):
    def mistaken():
        raise ParameterError("this is wrong.\nDo that.")

    assert ended(mistaken) == 2
    assert capsys.readouterr().err == "error: this is wrong.\nDo that.\n"


@pytest.mark.thorough
def test_a_function_is_called_in_a_process_of_its_own():
    found = call("lab.bench.rows.growth:sweep", nonzeros=200, sides=[40, 40], rank=2, threads=1, least=0.0)
    assert found["repeats"] >= 5
    with pytest.raises(RuntimeError, match="AttributeError"):
        call("lab.bench.rows.growth:nothing")


# --- places and pages


def test_stored_commands_and_messages_have_no_paths_of_this_machine():
    words = ["uclaf", "--only", "/home/me/data", "--folder=/home/me/out put", "--page", "my page.md"]
    given = parse(parser("lab.paper", "", "paper"), words, ["uclaf"])
    assert given.command == "python -m lab.paper uclaf --only … --folder=… --page 'my page.md'"
    assert without_paths("No such file: '/home/me/x.so', and/or 3 GB/s") == "No such file: '…', and/or 3 GB/s"
