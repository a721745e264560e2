"""Posterior draws: their moments, streams and limits."""

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.problems import make

TABLE = pl.DataFrame({"i": [0, 1, 2, 2], "j": [1, 0, 1, 0], "value": [3, 1, 4, 1]})


def fit(text="X[i,j] = A[i,r] B[r,j]", **settings):
    return plait.fit(text, {"X": TABLE}, **{"rank": 2, "seed": 0, "max_iter": 10} | settings)


def test_draws_have_the_mean_and_variance_of_the_posterior():
    found = fit()
    n = 40_000
    draws = found.sample(n, seed=1)
    assert list(draws) == ["A", "B"]
    for name, posterior in found.factors.items():
        assert draws[name].shape == (n, *posterior.mean.shape)
        C, D = posterior.concentration, posterior.scale
        error = np.sqrt(C) * D / np.sqrt(n)
        assert (np.abs(draws[name].mean(axis=0) - C * D) < 5 * error).all()
        spread = np.sqrt((2 + 6 / C) / n)  # relative standard error of a Gamma's sample variance
        assert (np.abs(draws[name].var(axis=0) / (C * D**2) - 1) < 6 * spread).all()


def test_entries_are_drawn_independently():
    draws = fit().sample(20_000, seed=2)
    flat = np.concatenate([d.reshape(len(d), -1) for d in draws.values()], axis=1)
    off = np.corrcoef(flat, rowvar=False) - np.eye(flat.shape[1])
    assert np.abs(off).max() < 6 / np.sqrt(20_000)


def test_equal_seeds_give_equal_draws():
    found = fit()
    few, again, many = found.sample(3, seed=5), found.sample(3, seed=5), found.sample(7, seed=5)
    for name in few:
        assert (few[name] == again[name]).all()
        assert (few[name] == many[name][:3]).all()
        assert (few[name] != found.sample(3, seed=6)[name]).any()
        assert (found.sample(1)[name] != found.sample(1)[name]).any()


def test_names_of_factors_do_not_matter():
    old, new = fit().sample(2, seed=0), fit("X[i,j] = zebra[i,r] B[r,j]").sample(2, seed=0)
    assert (old["A"] == new["zebra"]).all()
    assert (old["B"] == new["B"]).all()


@pytest.mark.parametrize("method", ["em", "map"])
def test_points_repeat_their_value_in_arrays_of_their_own(method):
    prior = {"prior": plait.Gamma(1.5, 1.0)} if method == "map" else {}
    found = fit(method=method, **prior)
    draws = found.sample(np.int64(3), seed=np.int32(0))
    for name, posterior in found.factors.items():
        assert (draws[name] == posterior.mean).all()
    draws["A"][0] = -1.0
    assert (draws["A"][1] == found.factors["A"].mean).all()


def test_given_factors_are_repeated_and_exposures_left_out():
    B = np.array([[1.0, 2.0], [3.0, 4.0]])
    draws = fit(fixed={"B": B}).sample(4, seed=0)
    assert (draws["B"] == B).all()
    assert len(np.unique(draws["A"][:, 0, 0])) == 4
    assert "V" not in make("cp3", exposed=True).fit(max_iter=2).sample(1, seed=0)


@pytest.mark.parametrize("number", [-1, 1.5, "3", True])
def test_n_and_seed_are_whole_numbers(number):
    with pytest.raises(plait.errors.ParameterError, match=r"`n` must be an integer of at least 0, got"):
        fit().sample(number)
    with pytest.raises(plait.errors.ParameterError, match=r"`seed` must be an integer of at least 0, got"):
        fit().sample(1, number)
    assert {name: d.shape for name, d in fit().sample(0).items()} == {"A": (0, 3, 2), "B": (0, 2, 2)}


def test_more_draws_than_memory_holds_are_refused(tuning):
    tuning(memory_bytes=1e6)
    with pytest.raises(
        plait.errors.ParameterError, match=r"10,000,000 draws of all factors need 0\.8 GB; this machine has 0\.0 GB"
    ):
        fit().sample(10_000_000)
    assert fit().sample(100)["A"].shape == (100, 3, 2)
