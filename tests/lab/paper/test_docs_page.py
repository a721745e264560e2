"""docs/paper.md shows what docs/paper/results says, and the full run is complete."""

from pathlib import Path

import pytest

from lab.harness.results import read
from lab.paper import NAMES, experiment
from lab.paper.experiment import Lab
from lab.paper.report import block, report_of, tables_of

DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "paper.md"


@pytest.mark.parametrize("name", NAMES)
def test_the_page_is_what_the_results_say_and_the_full_run_is_complete(name):
    lab = Lab(quick=False, data=None, results=DOCS / "paper" / "results")
    cells, about = experiment(name).cells(lab), read(lab.file(name)).head
    records = lab.finished(name)
    assert len(records) == len(cells)
    assert not about["quick"]
    plots = [DOCS / "paper" / f"{plot}.svg" for plot in sorted(report_of(name).figures(records))]
    expected = block(about, (len(records), len(cells)), tables_of(name, records), plots, PAGE)
    assert f"<!-- results: {name} -->\n\n{expected}\n\n<!-- end of {name} -->" in PAGE.read_text(encoding="utf-8")
    for svg in plots:
        assert svg.is_file()
        assert svg.with_suffix(".png").is_file()


def test_no_plot_is_left_that_the_page_does_not_show():
    text = PAGE.read_text(encoding="utf-8")
    for path in (DOCS / "paper").glob("*.svg"):
        assert f"(paper/{path.name})" in text
