"""Hyperparameters: a cell's prior is the fit's prior, and the concentration matters where the mean does not."""

from pathlib import Path

import polars as pl
import pytest

from lab.paper import hyper
from lab.paper.experiment import Lab
from lab.paper.report.hyper import figures, tables

QUICK, FULL = Lab(True, None, Path()), Lab(False, None, Path())


def cell(method="GCTF-VB", adapt="none", A=0.5, B=10.0, missing=0.6, run=0):
    return {"method": method, "adapt": adapt, "A": A, "B": B, "missing": missing, "run": run}


@pytest.mark.parametrize("lab", [QUICK, FULL])
def test_cells_are_all_different_and_have_the_papers_pairs(lab):
    cells = hyper.cells(lab)
    assert len({tuple(one.items()) for one in cells}) == len(cells)
    fixed = {(one["A"], one["B"]) for one in cells if one["method"] == "GCTF-VB" and one["adapt"] == "none"}
    assert {(0.5, 10.0), (10.0, 10.0), (100.0, 1.0)} <= fixed
    assert all(A < 1 and B > 10 for A, B in hyper.CLAIMED)


def test_a_cell_says_its_prior():
    asked = hyper.prior(cell(A=0.1, B=20.0))
    assert (asked["prior"].concentration, asked["prior"].mean, asked["adapt"]) == (0.1, 20.0, None)
    assert hyper.prior(cell(adapt="rank-one"))["adapt"] == "rank-one"
    assert hyper.prior(cell("GCTF-EM", A=None, B=None)) == {"method": "em"}


@pytest.mark.filterwarnings("ignore::plait.BoundWarning")  # that of A = 100 is far too low
def test_the_concentration_matters_and_the_mean_does_not():
    def auc(**prior):
        runs = [hyper.measure(QUICK, cell(run=run, **prior))["auc"] for run in range(3)]
        return sum(runs) / len(runs)

    sparse, other_mean, dense = auc(A=0.5, B=1.0), auc(A=0.5, B=100.0), auc(A=100.0, B=1.0)
    assert sparse > dense + 0.03
    assert other_mean == pytest.approx(sparse, abs=0.01)


def records(*cells):
    return pl.DataFrame([one | {"auc": 0.9, "ap": 0.4, "seconds": 0.5} for one in cells], infer_schema_length=None)


def test_a_row_for_every_prior_beside_the_baselines():
    first, seconds = tables(records(cell(), cell("GCTF-EM", A=None, B=None), cell("popularity", A=None, B=None)))
    rows = {row[0]: row[1:] for row in first.rows}
    assert rows["(0.5, 10), paper"] == ["–", "0.900 (0.400)", "–"]
    assert rows["no prior: EM"][1] == rows["popularity"][1] == "0.900 (0.400)"
    assert rows["learnt, rank-one"] == ["–", "–", "–"]
    assert "popularity" not in {row[0] for row in seconds.rows}


def test_learnt_priors_are_not_mixed_with_the_fixed_one_they_begin_at():
    learnt = records(cell(adapt="factor"))
    rows = {row[0]: row[1:] for row in tables(learnt)[0].rows}
    assert rows["(0.5, 10), paper"] == ["–", "–", "–"]
    assert rows["learnt, one per factor"][1] == "0.900 (0.400)"


@pytest.mark.parametrize("some", [pl.DataFrame(), records(cell()), records(cell("popularity", A=None, B=None))])
def test_partial_records_are_shown_as_far_as_they_go(some):
    assert len(tables(some)) == 2
    assert set(figures(some)) == {"hyper-priors"}
