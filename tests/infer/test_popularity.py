"""The model without latent indices: a bound that is reached and never exceeded, and fits that fall below it."""

import numpy as np
import pytest
from scipy.special import gammaln, xlogy

import plait
from plait.fitting.begin import prepare
from plait.fitting.options import Options
from plait.infer.popularity import popularity_bound
from tests.caught import caught, fitted, one

MATRIX = "X[i, j] = A[i, r] B[j, r]"
NOISE = np.random.default_rng(0).poisson(0.05, (100, 80)).astype(float)


def test_a_fit_below_the_model_without_latent_indices_is_told():
    found = caught(fitted(MATRIX, {"X": NOISE}, rank=10, sweeps=200))
    one(found, plait.BoundWarning, "X: the bound is", "without latent indices", "smaller rank")


def test_a_fit_that_finds_structure_is_no_trap_nor_is_one_that_had_no_time():
    blocks = np.kron(np.eye(4), np.ones((10, 8))) * 2
    assert caught(fitted(MATRIX, {"X": blocks}, rank=4, sweeps=200)) == []
    assert caught(fitted(MATRIX, {"X": NOISE}, rank=10, sweeps=5)) == []


HIDDEN = np.where(np.random.default_rng(5).random(NOISE.shape) < 0.3, np.nan, NOISE)


@pytest.mark.parametrize("adapt", [None, "factor"])
@pytest.mark.parametrize("observed", ["all", "hidden", 0.3])
def test_the_bound_of_popularity_is_that_of_a_fit_of_rank_one_and_never_above(adapt, observed):
    X = plait.Relation(HIDDEN) if observed == "hidden" else plait.Relation(NOISE, observed=observed)
    bound = popularity(MATRIX, {"X": X}, adapt=adapt)
    best = plait.fit(MATRIX, {"X": X}, rank=1, seed=0, sweeps=400, adapt=adapt, progress=False).bound
    assert bound <= best + 1e-6 * abs(best)
    assert bound > best - 0.05 * abs(best)


def test_the_bound_of_popularity_of_links_is_below_that_of_their_fit():
    X = {"X": plait.Relation(np.minimum(NOISE, 1), likelihood="bernoulli")}
    best = plait.fit(MATRIX, X, rank=1, seed=0, sweeps=200, progress=False).bound
    assert best - 0.05 * abs(best) < popularity(MATRIX, X) <= best


def test_the_log_likelihood_of_popularity_has_a_closed_form():
    """Σ x log(row · column / total) − total."""
    x, rows, columns, total = NOISE, NOISE.sum(1), NOISE.sum(0), NOISE.sum()
    expected = xlogy(x, np.outer(rows, columns) / total).sum() - total - gammaln(x + 1).sum()
    assert popularity(MATRIX, {"X": x}, method="em") == pytest.approx(expected, rel=1e-10)


def popularity(text, data, **arguments):
    """As after a fit of rank 4 that made two sweeps."""
    task = prepare(text, data, Options(rank=4, seed=0, **arguments))
    fit = plait.fit(text, data, rank=4, seed=0, sweeps=2, progress=False, **arguments)
    return popularity_bound(task.problem, fit.method, fit.state, task.loop.ties)
