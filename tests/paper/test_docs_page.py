"""docs/paper.md shows what docs/paper/results says, and the full run is complete."""

from pathlib import Path

import pytest

from plait.paper import NAMES, experiment
from plait.paper.experiment import Lab
from plait.paper.report import report_of, tables_of
from plait.paper.report.page import block
from plait.paper.results import head

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "paper.md"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_what_the_results_say_and_the_full_run_is_complete(name):
    lab = Lab(quick=False, data=None, results=DOCS / "paper" / "results")
    cells, about = experiment(name).cells(lab), head(lab.file(name))
    records = lab.finished(name)
    assert len(records) == len(cells)
    assert not about["quick"]
    plots = [DOCS / "paper" / f"{plot}.svg" for plot in sorted(report_of(name).figures(records))]
    expected = block(about, (len(records), len(cells)), tables_of(name, records), plots, PAGE)
    assert f"<!-- plait paper: {name} -->\n\n{expected}\n\n<!-- end of {name} -->" in PAGE.read_text(encoding="utf-8")
    for svg in plots:
        assert svg.is_file()
        assert svg.with_suffix(".png").is_file()


def test_no_plot_is_left_that_the_page_does_not_show():
    text = PAGE.read_text(encoding="utf-8")
    for path in (DOCS / "paper").glob("*.svg"):
        assert f"(paper/{path.name})" in text
