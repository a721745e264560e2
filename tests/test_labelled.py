"""A fit as a labelled dataset."""

import datetime
import sys

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.problems import make

xarray = pytest.importorskip("xarray", reason="xarray is optional")

VISITS = pl.DataFrame({"user": ["eve", "ann", "bob"], "day": [datetime.date(2024, 1, d) for d in (3, 1, 2)]})


@pytest.fixture(scope="module")
def fit():
    return plait.fit("visits[user,day] = U[user,r] D[r,day]", {"visits": VISITS}, rank=2, seed=4, max_iter=5)


def test_factors_are_found_by_name(fit):
    data = fit.to_xarray()
    row = list(fit.entities["user"]).index("bob")
    np.testing.assert_array_equal(data["U"].sel(user="bob"), fit.factors["U"].mean[row])
    np.testing.assert_array_equal(data["D"].sel(day="2024-01-02", r=1), fit.factors["D"].mean[1, 1])
    assert data["D"].dims == ("r", "day")
    assert data["r"].values.tolist() == [0, 1]


def test_every_part_of_the_posterior_is_there(fit):
    data = fit.to_xarray()
    assert set(data.data_vars) == {f"{n}{p}" for n in "UD" for p in ("", "_sd", "_concentration", "_scale")}
    for name, posterior in fit.factors.items():
        for part in ("sd", "concentration", "scale"):
            np.testing.assert_array_equal(data[f"{name}_{part}"], getattr(posterior, part))


def test_attributes_name_the_fit(fit):
    attrs = fit.to_xarray().attrs
    assert plait.Model(attrs["model"]) == fit.model
    found = (attrs["method"], attrs["objective"], attrs["stop"], attrs["seed"])
    assert found == ("vb", fit.objective, str(fit.stop), 4)


def test_the_dataset_is_a_copy(fit):
    data = fit.to_xarray()
    data["U"][:] = -1.0
    assert (fit.factors["U"].mean > 0).all()


@pytest.mark.parametrize("name", ["tucker_mixed_order", "scalar", "friends_two_names", "two_visible", "coupled_core"])
def test_dimensions_of_any_model(name):
    fit = make(name).fit(max_iter=2)
    data = fit.to_xarray()
    for factor, posterior in fit.factors.items():
        assert data[factor].dims == posterior.indices
        np.testing.assert_array_equal(data[factor], posterior.mean)


def test_points_have_no_spread():
    data = make("matrix").fit("em", max_iter=2).to_xarray()
    assert (data["A_sd"] == 0).all()
    assert np.isinf(data["A_concentration"]).all()


@pytest.mark.parametrize("text", ["X[i,j] = A[i,r] A_sd[j,r]", "X[i,j] = i[i,r] B[j,r]"])
def test_ambiguous_names_are_refused(text):
    fit = plait.fit(text, {"X": np.ones((2, 3))}, rank=2, seed=0, max_iter=1)
    with pytest.raises(plait.errors.ParameterError, match="would be the name of both"):
        fit.to_xarray()


def test_a_missing_xarray_is_named(fit, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(plait.PlaitError, match=r"pip install 'tensorplait\[xarray\]'"):
        fit.to_xarray()
