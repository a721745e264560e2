"""Cells put aside from bound data: nothing else tells what they are."""

import numpy as np
import pytest
from scipy import stats

import plait
from plait.fitting.ranks.hidden import log_chance, put_aside

TEXT = "X[i,j] = A[i,r] B[j,r]"
FRIENDS = "X[a,b] = A[a,r] B[b,r]; b: a"
X = np.random.default_rng(0).poisson(0.6, (30, 20)).astype(float)


def aside_of(text, array, fraction=0.2, **options):
    data = plait.Model(text).bind({"X": plait.Relation(array, **options)})
    return data, put_aside(data, "X", fraction, np.random.default_rng(1))


def test_a_fit_of_the_rest_does_not_depend_on_the_values_put_aside():
    _, aside = aside_of(TEXT, X)
    other = X.copy()
    other[tuple(aside.cells.T)] = np.where(aside.values > 0, 9.0, 0.0)
    again = put_aside(plait.Model(TEXT).bind({"X": other}), "X", 0.2, np.random.default_rng(1))
    assert np.array_equal(aside.cells, again.cells)
    fits = [plait.fit(TEXT, one.data, rank=2, seed=0, sweeps=5) for one in (aside, again)]
    assert fits[0].bound == fits[1].bound


def test_putting_aside_is_the_same_as_missing_cells():
    _, aside = aside_of(TEXT, X)
    gaps = X.copy()
    gaps[tuple(aside.cells.T)] = np.nan
    fits = [plait.fit(TEXT, one, rank=2, seed=0, sweeps=20) for one in (aside.data, {"X": gaps})]
    assert fits[0].bound == pytest.approx(fits[1].bound, rel=1e-9)


def test_what_is_put_aside_is_the_fraction_of_links_and_as_many_zeros_as_there_are_for_them():
    data, aside = aside_of(TEXT, X)
    bound = data.relations["X"]
    links = int((aside.values > 0).sum())
    assert links == round(0.2 * len(bound.links))
    assert len(aside.values) - links == min(10 * links, round(0.2 * bound.observed_zeros))
    assert np.array_equal(aside.values, X[tuple(aside.cells.T)])


def test_listed_zeros_alone_are_put_aside_where_other_cells_are_missing():
    listed = np.where(np.random.default_rng(3).random(X.shape) < 0.5, X, np.nan)
    _, aside = aside_of(TEXT, listed)
    assert np.isfinite(listed[tuple(aside.cells.T)]).all()


def test_mirror_images_are_put_aside_together():
    rng = np.random.default_rng(0)
    both = np.triu(rng.random((25, 25)) < 0.2, 1)
    both = (both | both.T).astype(float)
    _, aside = aside_of(FRIENDS, both)
    hidden = {tuple(cell) for cell in aside.cells.tolist()}
    assert all((b, a) in hidden for a, b in hidden)


def test_too_few_links_cannot_be_put_aside():
    one = np.zeros((3, 3))
    one[1, 1] = 1.0
    assert aside_of(TEXT, one)[1] is None


def test_the_score_of_counts_is_a_negative_binomial_of_the_rates_moments():
    fit = plait.fit(TEXT, {"X": X}, rank=2, seed=0, sweeps=20)
    cells, values = np.array([[0, 0], [1, 2], [3, 4]]), np.array([0.0, 1.0, 3.0])
    table = fit.predict("X", {"i": cells[:, 0], "j": cells[:, 1]})
    mean, variance = table["mean"].to_numpy(), table["sd"].to_numpy() ** 2
    wanted = stats.nbinom.logpmf(values, mean**2 / variance, mean / (mean + variance))
    assert log_chance(fit, "X", cells, values) == pytest.approx(wanted, rel=1e-6)


def test_the_score_under_em_is_poisson():
    fit = plait.fit(TEXT, {"X": X}, rank=2, seed=0, sweeps=20, method="em")
    cells, values = np.array([[0, 0], [1, 2], [3, 4]]), np.array([0.0, 1.0, 3.0])
    mean = fit.predict("X", {"i": cells[:, 0], "j": cells[:, 1]})["mean"].to_numpy()
    assert log_chance(fit, "X", cells, values) == pytest.approx(stats.poisson.logpmf(values, mean), abs=1e-9)


def test_the_score_of_several_fits_is_that_of_their_mixture():
    _, aside = aside_of(TEXT, (X > 0).astype(float), likelihood="bernoulli")
    fits = [plait.fit(TEXT, aside.data, rank=2, seed=seed, sweeps=10) for seed in range(2)]
    chance = np.mean([np.exp(aside.score([fit])) for fit in fits], axis=0)
    assert np.exp(aside.score(fits)) == pytest.approx(chance)
    assert np.where(aside.values > 0, aside.chance(fits), 1 - aside.chance(fits)) == pytest.approx(chance)
