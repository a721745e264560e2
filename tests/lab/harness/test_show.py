"""Tables, plots and the page: what is shown is what was measured; prose around it stays."""

import math
import statistics
import xml.etree.ElementTree as ET

import polars as pl
import pytest

from lab.harness.page import fill
from lab.harness.plots import panels, points, save
from lab.harness.table import Table, auc_and_ap, chosen, mean_sd, spread


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
    for name, content in (("uclaf", "one"), ("hyper", "two")):
        fill(page, name, content, "# Title\n", f"About {name}")
    page.write_text(page.read_text().replace("## ", "Prose.\n\n## ") + "\nThe end.\n")
    fill(page, "uclaf", "new \\1", "# Another title\n", "")
    text = page.read_text()
    assert "new \\1" in text
    assert "one" not in text.split("## ", 1)[1]
    assert "two" in text
    assert text.count("Prose.") == 2
    assert text.endswith("The end.\n")
    assert text.startswith("# Title\n\nProse.\n\n## About uclaf\n")
    assert [p.name for p in tmp_path.iterdir()] == ["paper.md"]


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
