"""docs/paper.md shows what docs/paper/results says, the full run is complete, and its claims hold."""

import pytest

from lab.harness.results import read
from lab.paper import NAMES, experiment
from lab.paper.experiment import Lab
from lab.paper.report import block, report_of, tables_of
from tests.support.lab_data import ROOT

DOCS = ROOT / "docs"
PAGE = DOCS / "paper.md"
FULL = Lab(quick=False, data=None, results=DOCS / "paper" / "results")


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_what_the_results_say_and_the_full_run_is_complete(name):
    cells, found = experiment(name).cells(FULL), read(FULL.file(name))
    records = FULL.finished(name)
    assert len(records) == len(cells)
    assert not found.head["quick"]
    plots = [DOCS / "paper" / f"{plot}.svg" for plot in sorted(report_of(name).figures(records))]
    expected = block(found, (len(records), len(cells)), tables_of(name, records), plots, PAGE)
    assert f"<!-- results: {name} -->\n\n{expected}\n\n<!-- end of {name} -->" in PAGE.read_text(encoding="utf-8")
    for svg in plots:
        assert svg.is_file()
        assert svg.with_suffix(".png").is_file()
