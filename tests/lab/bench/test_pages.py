"""The bench runs part by part in a small setting, and its page says what the stored results say."""

import json
import shutil

import pytest

from lab.bench.__main__ import main
from lab.bench.report import page, targets, write
from lab.bench.rows import PARTS, rows
from lab.harness import results
from lab.harness.command import NAME
from lab.harness.results import Found
from tests.support.lab_data import ROOT

KEPT = ROOT / "docs" / "benchmarks" / NAME

# A few rows of each part.
FEWER = {
    "sweep": ["--only", "listed"],
    "quality": ["--only", "matrix"],
    "front": ["--only", "estimate"],
    "growth": ["--only", "rank"],
    "large": ["--nonzeros", "20000"],
    "dask": ["--only", "bytes"],
}


def found(*lines):
    return Found({"quick": False}, [{"cell": cell, "figures": figures} for cell, figures in lines])


@pytest.mark.thorough
@pytest.mark.parametrize("part", PARTS)
def test_every_part_is_measured_in_a_small_setting(part, tmp_path):
    file = tmp_path / "page.md"
    assert main([part, "--quick", "--folder", str(tmp_path), "--page", str(file), *FEWER.get(part, [])]) == 0
    found = results.read(tmp_path / NAME)
    assert found.part(part)
    assert not found.failures
    assert str(tmp_path) not in file.read_text()


@pytest.mark.thorough
@pytest.mark.skipif(not KEPT.exists(), reason="nothing is measured yet: make bench")
def test_the_page_is_made_from_its_results(tmp_path):
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    shutil.copy(KEPT, folder)
    write(folder / NAME, tmp_path / "benchmarks.md", folder)
    kept = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert (tmp_path / "benchmarks.md").read_text(encoding="utf-8") == kept
    assert {path.name for path in folder.iterdir()} == {path.name for path in KEPT.parent.iterdir()}


def test_a_page_says_what_is_missing_or_failed(tmp_path):
    assert "Nothing is measured yet." in page.text(results.read(tmp_path / "none"), tmp_path, tmp_path / "page.md")
    assert {row[-1] for row in targets.table(found()).rows} == {"not measured"}
    failed = found(({"part": "front", "what": "estimate"}, {"failed": "no luck"}))
    assert "| front, estimate | no luck |" in page.text(failed, tmp_path, tmp_path / "page.md")


@pytest.mark.parametrize("quick", [True, False])
def test_every_row_has_a_different_name(quick):
    names = [json.dumps(row.about, sort_keys=True) for part in PARTS for row in rows(part, quick)]
    assert len(set(names)) == len(names)


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["sweeep"])
    assert "unknown part sweeep" in capsys.readouterr().err


def test_a_target_that_is_missed_is_shown_as_missed():
    kills = {"part": "dask", "what": "kills"}, {"killed": 100, "sweeps": 201, "seconds": 1.0, "same": False}
    verdicts = {row[0]: row[-1] for row in targets.table(found(kills)).rows}
    assert verdicts["100 workers killed and added in one fit: the same bits"] == "**no**"
