"""Cells held out of bound data: no other cell gives them away."""

import numpy as np
import pytest
from scipy import stats

import plait
from plait.data.held_out import hold_out
from plait.model_selection.rank_search import link_probability, log_probability, log_score

TEXT = "X[i,j] = A[i,r] B[j,r]"
FRIENDS = "X[a,b] = A[a,r] B[b,r]; b: a"
X = np.random.default_rng(0).poisson(0.6, (30, 20)).astype(float)


def held_out_of(text, array, fraction=0.2, **options):
    data = plait.Model(text).bind({"X": plait.Relation(array, **options)})
    return data, hold_out(data, "X", fraction, np.random.default_rng(1))


def test_a_fit_does_not_depend_on_held_out_values():
    _, held_out = held_out_of(TEXT, X)
    other, gaps = X.copy(), X.copy()
    other[tuple(held_out.cells.T)] = np.where(held_out.values > 0, 9.0, 0.0)
    gaps[tuple(held_out.cells.T)] = np.nan
    again = held_out_of(TEXT, other)[1]
    assert np.array_equal(held_out.cells, again.cells)
    fits = [
        plait.fit(TEXT, data, rank=2, seed=0, max_iter=20, warmup=0)
        for data in (held_out.data, again.data, {"X": gaps})
    ]
    assert fits[0].objective == fits[1].objective
    assert fits[0].objective == pytest.approx(fits[2].objective, rel=1e-9)


def test_a_fraction_of_links_and_of_zeros_is_held_out():
    data, held_out = held_out_of(TEXT, X)
    bound = data.relations["X"]
    links = int((held_out.values > 0).sum())
    assert links == round(0.2 * len(bound.links))
    assert len(held_out.values) - links == min(10 * links, round(0.2 * bound.observed_zeros))
    assert np.array_equal(held_out.values, X[tuple(held_out.cells.T)])


def test_held_out_links_can_become_zeros_which_leaves_the_weights():
    data = plait.Model(TEXT).bind({"X": X})
    bound = data.relations["X"]
    held_out = hold_out(data, "X", 0.2, np.random.default_rng(1), as_zeros=True)
    rest = held_out.data.relations["X"]
    links = held_out.cells[held_out.values > 0]
    assert len(links) == round(0.2 * len(bound.links))
    assert rest.weights is bound.weights
    assert np.array_equal(rest.values_at(links), np.zeros(len(links)))
    assert len(rest.links) + len(links) == len(bound.links)
    few = hold_out(data, "X", 0.2, np.random.default_rng(1), as_zeros=True, max_links=10)
    assert (few.values > 0).sum() == 10


def test_missing_cells_are_not_held_out():
    listed = np.where(np.random.default_rng(3).random(X.shape) < 0.5, X, np.nan)
    _, held_out = held_out_of(TEXT, listed)
    assert np.isfinite(listed[tuple(held_out.cells.T)]).all()


def test_mirror_images_are_held_out_together():
    rng = np.random.default_rng(0)
    both = np.triu(rng.random((25, 25)) < 0.2, 1)
    both = (both | both.T).astype(float)
    _, held_out = held_out_of(FRIENDS, both)
    hidden = {tuple(cell) for cell in held_out.cells.tolist()}
    assert all((b, a) in hidden for a, b in hidden)


def test_too_few_links_cannot_be_held_out():
    one = np.zeros((3, 3))
    one[1, 1] = 1.0
    assert held_out_of(TEXT, one)[1] is None


@pytest.mark.parametrize("method", ["vb", "em"])
def test_the_score_of_counts_is_a_negative_binomial_of_the_rates_moments_and_under_em_poisson(method):
    fit = plait.fit(TEXT, {"X": X}, rank=2, seed=0, max_iter=20, method=method)
    cells, values = np.array([[0, 0], [1, 2], [3, 4]]), np.array([0.0, 1.0, 3.0])
    table = fit.predict("X", {"i": cells[:, 0], "j": cells[:, 1]})
    mean, variance = table["mean"].to_numpy(), table["sd"].to_numpy() ** 2
    found = log_probability(fit, "X", cells, values)
    if method == "em":
        assert found == pytest.approx(stats.poisson.logpmf(values, mean), abs=1e-9)
    else:
        wanted = stats.nbinom.logpmf(values, mean**2 / variance, mean / (mean + variance))
        assert found == pytest.approx(wanted, rel=1e-6)


def test_the_score_of_several_fits_is_that_of_their_mixture():
    _, held_out = held_out_of(TEXT, (X > 0).astype(float), likelihood="bernoulli")
    fits = [plait.fit(TEXT, held_out.data, rank=2, seed=seed, max_iter=10) for seed in range(2)]
    chance = np.mean([np.exp(log_score(held_out, [fit])) for fit in fits], axis=0)
    assert np.exp(log_score(held_out, fits)) == pytest.approx(chance)
    link = link_probability(held_out, fits)
    assert np.where(held_out.values > 0, link, 1 - link) == pytest.approx(chance)
