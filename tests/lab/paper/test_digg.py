"""Digg: on drawn links VB is better than EM and coupled better than single; the report shows what there is."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import plait
from lab.paper import digg
from lab.paper.experiment import Lab
from lab.paper.report import digg as report
from lab.paper.sources.digg import load
from plait.evaluation.baselines import popularity

LAB = Lab(True, None, Path("nowhere"))


@pytest.fixture(scope="module")
def records():
    """All quick cells."""
    return pl.DataFrame([{**cell, **digg.measure(LAB, cell)} for cell in digg.cells(LAB)])


@pytest.mark.parametrize("task", ["comment", "digg"])
def test_vb_is_above_em_coupled_above_single_and_the_truth_above_all(records, task):
    auc = dict(records.filter(task=task).select("method", "auc_uniform").iter_rows())
    assert auc["PLTF-EM"] + 0.05 < auc["PLTF-VB"] < auc["GCTF-VB"] < auc["truth"]
    assert auc["GCTF-EM"] < auc["GCTF-VB"]
    assert auc["popularity"] < auc["PLTF-VB"]
    pairs = dict(records.filter(task=task).select("method", "auc_pair").iter_rows())
    assert max(pairs, key=pairs.get) == "truth"
    assert pairs["PLTF-EM"] < pairs["PLTF-VB"]


def test_a_cell_gives_the_same_figures_again(records):
    cell = digg.cells(LAB)[2]
    again = digg.measure(LAB, cell)
    first = records.row(2, named=True)
    assert {name: again[name] for name in again if name != "seconds"} == {
        name: first[name] for name in again if name != "seconds"
    }


def hidden(data, fraction):
    relation = plait.Relation(data.links["diggs"], universe="model")
    return plait.hide(relation, "diggs", fraction=fraction, by="thin", seed=0)


def test_rank_1_by_em_is_popularity():
    data = load(LAB, 0)
    train, test = hidden(data, 0.6)
    fit = digg.fitted(data, "digg", "popularity", train, seed=0, sweeps=20)
    ours, counted = fit.predict("diggs", test)["mean"].to_numpy(), popularity(fit, "diggs", test)
    # Known links weigh 1 and all other cells 0.4, so it differs a little from plain products.
    assert np.corrcoef(ours, counted)[0, 1] > 0.99


def test_of_stories_without_a_known_link_nothing_is_given_away():
    data = load(LAB, 0)
    train, test = hidden(data, 0.9)
    fit = digg.fitted(data, "digg", "PLTF-VB", train, seed=0, sweeps=20)
    cold = test.join(train.data.filter(pl.col("value") > 0), on="story", how="anti").select(pl.col("story").unique())
    user = test["user"][0]
    rates = fit.predict("diggs", cold.select(pl.lit(user).alias("user"), "story"))["mean"].to_numpy()
    assert len(cold) > 100
    assert np.ptp(rates) <= 1e-12 * rates.mean()


def test_without_the_truth_there_is_no_cell_of_it(tmp_path):
    for name, text in {
        "user_comment_story.m": "1 1 1",
        "story_keyword_topic.m": "1 1 1",
        "user_story.m": "1 1",
    }.items():
        (tmp_path / name).write_text(text)
    assert {cell["method"] for cell in digg.cells(Lab(False, tmp_path, Path("nowhere")))} == set(digg.METHODS)


@pytest.mark.parametrize("rows", [0, 1, 7, 12])
def test_the_report_shows_whatever_is_finished(records, rows):
    tables = report.tables(records.head(rows) if rows else pl.DataFrame())
    assert len(tables) == 5
    for table in tables:
        assert all(len(row) == len(table.headings) for row in table.rows)
    assert report.figures(records.head(rows) if rows else pl.DataFrame()).keys() == {"digg-auc"}


def test_the_paper_stands_beside_our_figures(records):
    first = report.tables(records)[0]
    vb = next(row for row in first.rows if row[0] == "GCTF-VB")
    ours = records.filter(task="comment", method="GCTF-VB", missing=0.6)["auc_uniform"][0]
    assert vb[1].startswith(f"{ours:.3f} (")
    assert vb[2] == "0.928"
    assert first.headings == ["", "60 % hidden", "paper, 60 %"]  # of other shares nothing is measured


def test_the_report_says_drawn_and_truth_only_where_there_is_a_truth(records):
    drawn, original = records, records.filter(pl.col("method") != "truth")
    notes = [" ".join(table.note for table in report.tables(found)) for found in (drawn, original)]
    titles = [report.figures(found)["digg-auc"].axes[3].get_title(loc="left") for found in (drawn, original)]
    assert "not with ours" in notes[0]
    assert "*truth*" in notes[0]
    assert not any(word in notes[1] for word in ("drawn from", "truth", "not with ours"))
    assert titles == ["the paper, on the real data", "the paper"]


def test_the_seconds_are_those_of_the_sweeps_that_were_done(records):
    seconds = report.tables(records)[-1]
    assert "No fit took more than 20 sweeps." in seconds.note
    assert seconds.headings == ["", "comment, 60 %", "digg, 60 %"]
    assert seconds.rows[-1] == ["paper, GCTF-VB", "1251", "538"]
