"""docs/paper.md shows what docs/paper/results says, the full run is complete, and its claims hold."""

import polars as pl
import pytest

from lab.harness.results import read
from lab.paper import NAMES, experiment, lastfm
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


def test_every_stored_plot_is_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for path in (DOCS / "paper").glob("*.svg"):
        assert f"(paper/{path.name})" in text


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_a_report_shows_whatever_is_finished(name):
    report, records = report_of(name), FULL.finished(name)
    for part in (pl.DataFrame(), records.head(1), records[3:5]):
        assert all(len(row) == len(table.columns) for table in report.tables(part) for row in table.rows)
        assert all(plot.startswith(name) for plot in report.figures(part))


# --- claims about Last.fm


def test_rank_and_exposure_are_those_that_the_choice_finds_best():
    tried = FULL.finished("lastfm").filter(part="choice")

    def best(method):
        return tried.filter(method=method).sort("auc_uniform", descending=True).row(0, named=True)

    assert set(tried.filter(method="GCTF-VB")["rank"]) == set(lastfm.RANKS)
    assert set(tried.filter(method="GCTF-VB, exposed")["elsewhere"]) == set(lastfm.ELSEWHERES)
    assert best("GCTF-VB")["rank"] == lastfm.RANK
    assert best("GCTF-VB, exposed")["elsewhere"] == lastfm.ELSEWHERE


def test_starts_from_em_have_a_better_bound_and_share():
    tests = FULL.finished("lastfm").filter(part="test")
    means = tests.group_by("method", "missing").agg(pl.col("bound").mean(), pl.col("auc_share").mean())
    mean = {(method, missing): figures for method, missing, *figures in means.iter_rows()}
    for missing in lastfm.MISSING:
        bound, share = zip(*(mean[m, missing] for m in ("GCTF-VB", "GCTF-VB, from EM", "GCTF-EM")))
        assert bound[0] < bound[1]
        assert share[0] < share[2] < share[1]
        assert mean["PLTF-VB", missing][0] < mean["PLTF-VB, from EM", missing][0]
