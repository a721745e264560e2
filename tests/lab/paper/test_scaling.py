"""Scaling: the stages of a fit are one fit; near means near; the report shows what there is."""

from pathlib import Path

import polars as pl
import pytest

import plait
from lab.paper import scaling
from lab.paper.experiment import Lab
from lab.paper.report import scaling as report
from lab.paper.sources.cube import draw
from plait.evaluation.metrics import rmse
from tests.cases import own_bounds

# Noise that is not Poisson costs more than the components gain in so few cells.
pytestmark = pytest.mark.filterwarnings("ignore::plait.BoundWarning")

LAB = Lab(True, None, Path("nowhere"))
CELL = {"side": 40, "known": 20_000, "held_out": 1000, "run": 1}


@pytest.fixture(scope="module")
def figures():
    return scaling.measure(LAB, CELL)


def whole(sweeps):
    """The same fit without stages."""
    cube = draw(40, 20_000, 1000, seed=1)
    known = plait.Relation(cube.known, observed="listed")
    fit = plait.fit(
        scaling.MODEL, {"X": known}, rank=5, sweeps=sweeps, tol=0.0, seed=1, labels=scaling.entities(40), progress=False
    )
    return cube, fit


def test_a_fit_in_stages_is_the_fit_that_was_never_stopped(figures):
    for sweeps in (20, 300):
        cube, fit = whole(sweeps)
        truth = cube.held_out["value"].to_numpy()
        expected = rmse(truth, fit.predict("X", cube.held_out)["mean"].to_numpy())
        assert figures[f"rmse_{sweeps}"] == pytest.approx(expected, rel=1e-9)
    assert figures["bound"] == pytest.approx(fit.bound, rel=1e-12)
    assert figures["sweeps"] == 300
    assert figures["rmse"] == figures["rmse_300"]


def test_near_is_the_first_sweep_within_1e4_of_the_last_bound(figures):
    _, fit = whole(300)
    least = fit.bound - 1e-4 * abs(fit.bound)
    near = figures["sweeps_near"]
    bounds = own_bounds(fit)
    assert bounds[near] >= least
    assert bounds[near - 1] < least
    assert 0 < figures["seconds_near"] < figures["seconds"]


def test_the_error_falls_towards_that_of_the_truth(figures):
    assert figures["rmse_truth"] < figures["rmse_300"] < figures["rmse_10"] <= figures["rmse_1"]
    assert figures["rmse_truth"] == pytest.approx(0.2, abs=0.02)


def test_the_full_experiment_has_the_sizes_of_the_paper():
    cells = scaling.cells(Lab(False, None, Path("nowhere")))
    assert {(cell["side"], cell["known"]) for cell in cells} == {(500, 1_250_000), (1000, 12_500_000)}
    assert len(cells) == 20


def test_the_report_shows_whatever_is_finished(figures):
    assert report.tables(pl.DataFrame())[0].rows == []
    assert report.figures(pl.DataFrame()).keys() == {"scaling-rmse"}
    records = pl.DataFrame([{**CELL, **figures}, {**CELL, **figures, "side": 500, "known": 1_250_000}])
    table = report.tables(records)[0]
    assert [row[0] for row in table.rows] == ["20,000 of 40³", "1,250,000 of 500³"]
    assert (table.rows[0][-1], table.rows[1][-1]) == ("", "1000–1300")
    assert table.rows[1][1] == f"{figures['rmse']:.4f}"
    assert f"seconds of {scaling.STOPS[-1]} sweeps" in table.headings
    assert f"within {scaling.NEAR:g}, relatively, of that after {scaling.STOPS[-1]} sweeps" in table.note
    assert "does not state the scale" in table.note
    assert report.figures(records).keys() == {"scaling-rmse"}
