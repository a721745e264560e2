"""The model without latent indices: a bound that is reached and never exceeded, and fits that fall below it."""

import numpy as np
import pytest
from scipy.special import gammaln, xlogy

import plait
from plait.fitting.options import Options
from plait.fitting.prepare import prepare
from plait.inference.baseline import baseline_objective
from tests.support.caught_warnings import caught, fitted, one

MATRIX = "X[i, j] = A[i, r] B[j, r]"
NOISE = np.random.default_rng(0).poisson(0.05, (100, 80)).astype(float)


def test_a_fit_below_the_model_without_latent_indices_is_warned_of():
    found = caught(fitted(MATRIX, {"X": NOISE}, rank=10, max_iter=200))
    one(found, plait.errors.BelowBaselineWarning, "X: the ELBO is", "without latent indices", "smaller rank")


def test_a_fit_that_finds_structure_or_had_few_sweeps_is_not_warned_of():
    blocks = np.kron(np.eye(4), np.ones((10, 8))) * 2
    assert caught(fitted(MATRIX, {"X": blocks}, rank=4, max_iter=200)) == []
    assert caught(fitted(MATRIX, {"X": NOISE}, rank=10, max_iter=5)) == []


LINKS = plait.Relation(np.minimum(NOISE, 1), likelihood="bernoulli")
HIDDEN = np.where(np.random.default_rng(5).random(NOISE.shape) < 0.3, np.nan, NOISE)


@pytest.mark.parametrize(
    ("adapt_prior", "X"),
    [
        (None, NOISE),
        ("factor", plait.Relation(NOISE)),
        (None, plait.Relation(HIDDEN)),
        ("factor", plait.Relation(HIDDEN)),
        ("factor", plait.Relation(NOISE, observed=0.3)),
        ("factor", LINKS),
    ],
)
def test_the_bound_of_popularity_is_below_that_of_rank_one_and_near_it(adapt_prior, X):
    bound = popularity(MATRIX, {"X": X}, adapt_prior=adapt_prior)
    best = plait.fit(MATRIX, {"X": X}, rank=1, seed=0, max_iter=400, adapt_prior=adapt_prior, progress=False).objective
    assert best - 0.05 * abs(best) < bound <= best + (0.0 if X is LINKS else 1e-6 * abs(best))


def test_the_log_likelihood_of_popularity_has_a_closed_form():
    """Σ x log(row · column / total) − total."""
    x, rows, columns, total = NOISE, NOISE.sum(1), NOISE.sum(0), NOISE.sum()
    expected = xlogy(x, np.outer(rows, columns) / total).sum() - total - gammaln(x + 1).sum()
    assert popularity(MATRIX, {"X": x}, method="em") == pytest.approx(expected, rel=1e-10)


def popularity(text, data, **arguments):
    """As after a fit of rank 4 that made two sweeps."""
    task = prepare(text, data, Options(rank=4, seed=0, **arguments))
    fit = plait.fit(text, data, rank=4, seed=0, max_iter=2, progress=False, **arguments)
    return baseline_objective(task.problem, fit.method, fit.state, task.loop.ties)
