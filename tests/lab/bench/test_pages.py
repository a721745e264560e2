"""The bench runs part by part in a small setting, and its page says what the stored results say."""

import shutil

import pytest

from lab.bench.__main__ import main
from lab.bench.report import write
from lab.bench.rows import PARTS
from lab.harness import results
from lab.harness.command import NAME
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
