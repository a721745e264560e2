"""`fit.top`, `explain` and `allocate` where a factor over pairs has rows for pairs that occur, and one for others."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.data import pairs
from plait.execute import Reference


@pytest.fixture(params=["M[i,j] A[i,r] B[j,r]", "M[i,j,z] B[j,z] A[i,r] C[j,r]", "A[i,r] B[j,r] + M[j,i]"])
def fit(request, monkeypatch):
    monkeypatch.setattr(pairs, "DENSE", 0)
    X = np.random.default_rng(0).poisson(0.4, (9, 7))
    rank = dict.fromkeys(plait.Model(f"X[i,j] = {request.param}").latent, 2)
    fit = plait.fit(f"X[i,j] = {request.param}", {"X": X}, rank=rank, seed=0, sweeps=5, executor=Reference())
    assert fit.factors["M"].pairs is not None
    return fit


CELLS = {"i": np.repeat(np.arange(9), 7).tolist(), "j": np.tile(np.arange(7), 9).tolist()}


def test_the_best_cells_have_the_largest_means(fit):
    means = fit.predict("X", CELLS).sort("mean", descending=True)
    np.testing.assert_allclose(fit.top("X", 12, known=True)["mean"], means["mean"][:12], rtol=1e-9)
    each = fit.top("X", 2, each="i", known=True)
    for row in range(9):
        np.testing.assert_allclose(each.filter(each["i"] == row)["mean"], means.filter(means["i"] == row)["mean"][:2])
        best = fit.top("X", 2, given={"i": row}, known=True)
        np.testing.assert_allclose(best["mean"], means.filter(means["i"] == row)["mean"][:2])


def test_pairs_are_explained_and_allocated(fit):
    table = fit.allocate("X", CELLS)
    shares = table.group_by("i", "j").agg(pl.col("share").sum())
    np.testing.assert_allclose(shares["share"], 1.0)
    for cell in ({"i": 0, "j": 0}, {"i": 3, "j": 2}, {"i": 8, "j": 6}):
        e = fit.explain("X", cell)
        assert sum(share.share for share in e.shares) == pytest.approx(1.0)
        assert "M" in e.evidence["factor"].to_list()
    assert fit.coupling()["counts"].min() >= 0
