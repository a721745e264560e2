"""The results file: finished cells survive, others are measured again, nothing is mixed."""

import json
from pathlib import Path

import pytest

import plait
from lab.harness.results import Found, Results, forget, read

CELL = {"method": "visited × activity", "missing": 0.6, "run": 0}


def opened(path, *, source="UCLAF", quick=False):
    return Results(path, "uclaf", source, quick, "make paper")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "results" / "uclaf.jsonl"


def test_a_finished_cell_is_known_after_reopening_and_an_unfinished_one_is_not(path):
    opened(path).add(CELL, {"auc": 0.97, "seconds": 0.5})
    again = opened(path)
    assert dict(reversed(CELL.items())) in again, "the order of a cell's entries does not matter"
    assert CELL | {"run": 1} not in again
    assert again.records([CELL, CELL | {"run": 1}]).to_dicts() == [CELL | {"auc": 0.97, "seconds": 0.5}]
    assert read(path).records([CELL]).equals(again.records([CELL]))


def test_cells_that_are_no_longer_asked_for_are_left_out(path):
    results = opened(path)
    for run in range(3):
        results.add(CELL | {"run": run}, {"auc": run / 10})
    asked = [CELL | {"run": run} for run in (2, 0, 5)]
    assert results.records(asked)["run"].to_list() == [2, 0]
    assert read(path).records(asked)["run"].to_list() == [2, 0]


def test_a_line_cut_short_is_measured_again_and_harms_no_other(path):
    results = opened(path)
    for run in range(3):
        results.add(CELL | {"run": run}, {"auc": 0.9})
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(1, len(lines[-1])):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:length])
        again = opened(path)
        # Without its last character, the line break, the line is whole.
        assert (CELL | {"run": 2} in again) == (length == len(lines[-1]) - 1)
        if CELL | {"run": 2} not in again:
            again.add(CELL | {"run": 2}, {"auc": 0.9})
        assert read(path).records([CELL | {"run": run} for run in range(3)])["run"].to_list() == [0, 1, 2]


@pytest.mark.parametrize("damaged", ["", "5", '{"cell": {}}'])
def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(path, damaged):
    opened(path).add(CELL, {"auc": 0.9})
    first, second = path.read_text().splitlines()
    path.write_text(f"{first}\n{damaged or second[:20]}\n{second}\n")
    with pytest.raises(plait.DataError, match=r"uclaf\.jsonl, line 2: this is no line of results"):
        opened(path)


@pytest.mark.parametrize("other", [{"source": "a stand-in"}, {"quick": True}])
def test_results_of_other_data_or_of_another_size_are_refused_and_left_as_they_are(path, other):
    opened(path).add(CELL, {"auc": 0.9})
    before = path.read_bytes()
    with pytest.raises(plait.SettingError, match="must not be mixed"):
        opened(path, **other)
    assert path.read_bytes() == before


def test_the_first_line_says_what_was_measured_on_what(path):
    opened(path)
    found = read(path).head
    assert (found["experiment"], found["source"], found["quick"]) == ("uclaf", "UCLAF", False)
    assert found["plait"] == plait.__version__
    assert "Python" in found["machine"]
    assert found["command"] == "make paper"


def test_a_run_that_went_on_elsewhere_names_both_places(path, monkeypatch):
    opened(path).add(CELL, {"auc": 0.9})
    before = read(path).head["machine"]
    opened(path)
    assert read(path).head["machine"] == before
    monkeypatch.setattr("lab.harness.results.machine", lambda: "another machine")
    assert CELL in opened(path)
    assert read(path).head["machine"] == f"{before}; another machine"


def test_cells_with_different_figures_make_one_table(path):
    results = opened(path)
    results.add(CELL, {"auc": 1})
    results.add(CELL | {"run": 1}, {"auc": 0.5, "seconds": 2.0, "note": None})
    found = results.records([CELL, CELL | {"run": 1}])
    assert found["auc"].to_list() == [1.0, 0.5]
    assert found["seconds"].to_list() == [None, 2.0]


def test_an_experiment_that_was_not_run_has_no_records(tmp_path):
    assert read(tmp_path / "none.jsonl").records([CELL]).is_empty()


def test_lines_are_plain_json(path):
    opened(path).add(CELL, {"auc": 0.9})
    assert json.loads(path.read_text().splitlines()[1]) == {"cell": CELL, "figures": {"auc": 0.9}}


def test_a_failure_is_no_result_and_is_forgotten_when_the_file_is_opened_again(path):
    results = opened(path)
    results.add(CELL, {"auc": 0.9})
    results.add(CELL | {"run": 1}, {"failed": "no luck"})
    found = read(path)
    assert CELL | {"run": 1} not in found
    assert [line["figures"] for line in found.failures] == [{"failed": "no luck"}]
    assert len(found.records([CELL, CELL | {"run": 1}])) == 1
    assert not opened(path).failures
    assert not read(path).failures
    assert CELL in read(path)


def test_forgetting_cells_leaves_the_others_and_the_machine(path):
    results = opened(path)
    for part, what in (("machine", ""), ("front", "a"), ("front", "b"), ("growth", "a"), ("growth", "b")):
        results.add({"part": part} | ({"what": what} if what else {}), {})

    def left():
        return ["".join(line["cell"].values()) for line in read(path).lines]

    forget(path, [])
    assert left() == ["machine", "fronta", "frontb", "growtha", "growthb"]
    forget(path, [{"part": "front", "what": "a"}])
    assert left() == ["machine", "frontb", "growtha", "growthb"]
    forget(path, [], ["growth"])
    assert left() == ["machine", "frontb"]
    forget(path, [{"part": "front", "what": "b"}])
    assert not path.exists()


def test_a_part_is_found_by_any_of_its_properties():
    cells = [{"part": "sweep", "sides": [5, 5], "rank": rank} for rank in (2, 3)] + [{"part": "growth", "rank": 2}]
    found = Found({}, [{"cell": cell, "figures": {"n": n}} for n, cell in enumerate(cells)])
    assert [figures["n"] for _, figures in found.part("sweep")] == [0, 1]
    assert [figures["n"] for _, figures in found.part("sweep", rank=3)] == [1]
    assert [figures["n"] for _, figures in found.part("sweep", sides=[5, 5], rank=2)] == [0]


KEPT = sorted((Path(__file__).parents[3] / "docs").glob("**/*.jsonl"))


@pytest.mark.parametrize("file", KEPT, ids=lambda file: "-".join(file.parts[-3:]))
def test_results_of_earlier_versions_are_read_whole(file):
    head, *lines = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    found = read(file)
    assert found.head == head
    assert found.lines + found.failures == lines
    assert all(found.get(line["cell"]) == line["figures"] for line in found.lines)
