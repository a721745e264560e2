"""Tables, plots and the page: what is shown is what was measured; prose around it stays."""

import math
import statistics
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from plait.paper import NAMES, experiment
from plait.paper.report import report_of
from plait.paper.report.page import block, fill
from plait.paper.report.plots import panels, points, save
from plait.paper.report.table import Table, auc_and_ap, chosen, mean_sd, spread

HEAD = {"quick": False, "source": "UCLAF", "machine": "a machine", "plait": "0", "command": "plait paper uclaf"}


@pytest.mark.parametrize(
    ("values", "text"),
    [([], "–"), ([0.5], "0.500"), ([None, 0.5], "0.500"), ([1, 3], "2.000 ± 1.414"), ([math.nan], "–")],
)
def test_mean_and_sd(values, text):
    assert mean_sd(values) == text


def test_the_sd_is_that_of_a_sample():
    values = [0.91, 0.95, 0.92, 0.99]
    assert mean_sd(values, 6) == f"{statistics.mean(values):.6f} ± {statistics.stdev(values):.6f}"


def test_auc_and_average_precision_stand_together():
    records = pl.DataFrame({"auc": [0.9, 0.8], "ap": [0.5, 0.4], "auc_one": [0.7, 0.7]})
    assert auc_and_ap(records) == "0.850 ± 0.071 (0.450)"
    assert auc_and_ap(records.clear()) == "–"
    assert auc_and_ap(records, "auc_one", "ap_one") == "0.700 ± 0.000"


def test_spread_uses_only_the_records_asked_for():
    records = pl.DataFrame({"method": ["a", "a", "b"], "missing": [0.6, 0.6, 0.6], "auc": [0.4, 0.6, 0.9]})
    assert spread(records, "auc", 1, method="a", missing=0.6) == "0.5 ± 0.1"
    assert spread(records, "auc", method="c") == "–"
    assert spread(records, "nothing", method="a") == "–"
    assert chosen(records, absent=1).is_empty()


def test_a_table_as_markdown():
    table = Table("T", ["a|b", "n"], [["x", "1"]], note="Why.")
    assert table.markdown() == "**T**\n\n| a\\|b | n |\n| --- | --: |\n| x | 1 |\n\nWhy."


def test_rows_and_columns_of_which_nothing_is_measured_are_left_out():
    table = Table("T", ["", "a", "paper", "b"], [["x", "1", "0.5", "–"], ["y", "–", "", "–"]])
    assert table.measured() == Table("T", ["", "a", "paper"], [["x", "1", "0.5"]])


def test_the_page_keeps_its_prose_and_gets_new_figures(tmp_path):
    page = tmp_path / "paper.md"
    first, second = (experiment(name) for name in ("uclaf", "hyper"))
    fill(page, {"uclaf": "one", "hyper": "two"}, [first, second])
    page.write_text(page.read_text().replace("## ", "Prose.\n\n## ") + "\nThe end.\n")
    fill(page, {"uclaf": "new \\1"}, [first])
    text = page.read_text()
    assert "new \\1" in text
    assert "one" not in text.split("## ", 1)[1]
    assert "two" in text
    assert text.count("Prose.") == 2
    assert text.endswith("The end.\n")
    assert first.title in text
    assert [p.name for p in tmp_path.iterdir()] == ["paper.md"]


def test_a_block_links_plots_relative_to_the_page_and_says_what_it_lacks(tmp_path):
    plots = [tmp_path / "docs" / "my paper" / "uclaf-auc.svg"]
    page = tmp_path / "docs" / "paper.md"
    text = block(HEAD | {"quick": True}, (3, 5), [Table("T", ["a"], [["b"]])], plots, page)
    assert "![uclaf auc](my%20paper/uclaf-auc.svg)" in text
    assert "quick" in text
    assert "3 of 5 cells" in text
    assert "`plait paper uclaf`" in text
    whole = block(HEAD | {"note": "A note."}, (5, 5), [], [], page)
    assert "quick" not in whole
    assert "of 5 cells" not in whole
    assert whole.endswith("A note.")


def test_a_plot_is_saved_as_svg_and_png_the_same_every_time(tmp_path):
    records = pl.DataFrame({"missing": [0.6, 0.6, 0.8], "auc": [0.9, 0.8, 0.7]})

    def drawn(folder):
        figure, axes = panels(2)
        points(axes[0, 0], records, "missing", "auc", "PLTF-VB")
        points(axes[0, 1], records.clear(), "missing", "auc", "PLTF-EM")
        return save(figure, folder, "plot")

    svg, png = drawn(tmp_path / "a")
    assert ET.fromstring(svg.read_text()).tag.endswith("svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert drawn(tmp_path / "b")[0].read_bytes() == svg.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_has_a_report_that_can_say_that_there_is_nothing_yet(name):
    assert experiment(name).name == name
    report = report_of(name)
    assert all(isinstance(table, Table) for table in report.tables(pl.DataFrame()))
    assert all(plot.startswith(name) for plot in report.figures(pl.DataFrame()))
