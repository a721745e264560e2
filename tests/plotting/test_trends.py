"""Trends of components: their levels, bands and forecasts are those of the factors."""

import numpy as np
import pytest
from scipy.stats import gamma

import plait
from plait.plotting.trends_chart import draw, trends

QUICK = {"rank": 2, "seed": 0, "warmup": 0, "max_iter": 5, "tol": 0.0, "threads": 1}


@pytest.fixture(scope="module")
def drifting():
    X = np.random.default_rng(0).poisson(1.5, (6, 5, 5)).astype(float)
    model = "visits[user, place, month] = U[user, r] P[place, r] T[month, r]; month: ordered"
    return plait.fit(model, {"visits": X}, **QUICK)


def test_levels_are_those_of_the_factor(drifting):
    found, T = trends(drifting, component=1, steps=2), drifting.factors["T"]
    (one,) = found
    unit = T.mean[:, 1].mean()
    np.testing.assert_allclose([row["level"] for row in one.rows], T.mean[:, 1] / unit)
    high = gamma.ppf(0.95, T.concentration[:, 1], scale=T.scale[:, 1] / unit)
    np.testing.assert_allclose([row["upper"] for row in one.rows], high)
    assert [row["period"] for row in one.rows + one.later] == [0, 1, 2, 3, 4, 4, 5, 6]
    widths = [row["upper"] - row["lower"] for row in one.later]
    assert widths == sorted(widths)
    assert len({row["level"] for row in one.later}) == 1


@pytest.mark.thorough
def test_charts_are_valid(drifting):
    chart = drifting.plot.trends()
    assert type(chart).from_dict(chart.to_dict()).to_dict() == chart.to_dict()
    assert len(draw(trends(drifting))["concat"]) == 2


def test_what_has_no_trends_is_refused(drifting, fit):
    with pytest.raises(plait.errors.ParameterError, match="no factor changes along an ordered axis"):
        fit.plot.trends()
    with pytest.raises(plait.errors.ParameterError, match="no component 2"):
        drifting.plot.trends(2)
