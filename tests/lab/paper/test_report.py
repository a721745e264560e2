"""The report of every experiment: what is shown is what was measured."""

import polars as pl
import pytest

from lab.harness.table import Table
from lab.paper import NAMES, experiment
from lab.paper.report import block, report_of

HEAD = {"quick": False, "source": "UCLAF", "machine": "a machine", "plait": "0", "command": "make paper"}


def test_a_block_links_plots_relative_to_the_page_and_says_what_it_lacks(tmp_path):
    plots = [tmp_path / "docs" / "my paper" / "uclaf-auc.svg"]
    page = tmp_path / "docs" / "paper.md"
    text = block(HEAD | {"quick": True}, (3, 5), [Table("T", ["a"], [["b"]])], plots, page)
    assert "![uclaf auc](my%20paper/uclaf-auc.svg)" in text
    assert "quick" in text
    assert "3 of 5 cells" in text
    assert "`make paper`" in text
    whole = block(HEAD | {"note": "A note."}, (5, 5), [], [], page)
    assert "quick" not in whole
    assert "of 5 cells" not in whole
    assert whole.endswith("A note.")


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_report_that_can_say_that_there_is_nothing_yet(name):
    assert experiment(name).name == name
    report = report_of(name)
    assert all(isinstance(table, Table) for table in report.tables(pl.DataFrame()))
    assert all(plot.startswith(name) for plot in report.figures(pl.DataFrame()))
