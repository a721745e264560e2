"""Figures of merit: equal to scikit-learn's, and ranks worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.calibration import calibration_curve
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    mean_absolute_error,
    mean_squared_error,
    roc_auc_score,
)

from plait.evaluation import metrics


@st.composite
def scored(draw):
    """Links and scores of few distinct values, so that there are ties; at least one of each kind."""
    n = draw(st.integers(2, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    link = rng.random(n) < draw(st.floats(0.05, 0.95))
    link[:2] = True, False
    levels = draw(st.integers(1, 20))
    return link, rng.integers(0, levels + 1, n) / levels


@given(scored())
@settings(max_examples=200, deadline=None)
def test_ranking_of_cells_is_that_of_scikit_learn(case):
    link, score = case
    assert metrics.roc_auc(link, score) == pytest.approx(roc_auc_score(link, score), abs=1e-12)
    assert metrics.average_precision(link, score) == pytest.approx(average_precision_score(link, score), abs=1e-12)


@given(scored())
@settings(max_examples=200, deadline=None)
def test_probabilities_and_errors_are_judged_as_by_scikit_learn(case):
    link, probability = case
    assert metrics.brier(link, probability) == pytest.approx(brier_score_loss(link, probability), abs=1e-12)
    values = 3.0 * link
    assert metrics.rmse(values, probability) == pytest.approx(np.sqrt(mean_squared_error(values, probability)))
    assert metrics.mae(values, probability) == pytest.approx(mean_absolute_error(values, probability))


def test_rates_too_large_to_be_squared_are_judged_all_the_same():
    mean, values = np.array([1e200, 3e200, 1.0]), np.array([0.0, 0.0, 1.0])
    assert metrics.rmse(values, mean) == pytest.approx(1e200 * np.sqrt(10 / 3))
    assert metrics.rmse(values, values) == 0
    none = np.zeros(3)
    logs = metrics.log_probability(values, mean, none, np.ones(3))
    assert np.isfinite(logs).all()


@given(scored(), st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_calibration_is_that_of_scikit_learn(case, bins):
    link, probability = case
    ours = metrics.calibration(link, probability, bins)
    observed, predicted = calibration_curve(link, probability, n_bins=bins, strategy="uniform")
    np.testing.assert_allclose(ours.observed, observed, atol=1e-12)
    np.testing.assert_allclose(ours.predicted, predicted, atol=1e-12)
    assert ours.cells.sum() == len(link)
    assert ours.error == pytest.approx(np.sum(ours.cells * np.abs(predicted - observed)) / len(link))


def test_a_perfectly_calibrated_forecast_has_no_calibration_error():
    link = np.array([True, False, False, False] * 5 + [True, True, True, False] * 5)
    probability = np.repeat([0.25, 0.75], 20)
    assert metrics.calibration(link, probability).error == pytest.approx(0.0, abs=1e-12)


@given(st.floats(1e-3, 50), st.floats(1e-6, 1e3), st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_a_count_has_the_probability_of_the_negative_binomial_where_p_is_its_closed_form(m, v, x):
    shape = m * m / v
    p = -np.expm1(-shape * np.log1p(v / m))
    ours = metrics.log_probability(np.array([float(x)]), np.array([m]), np.array([v]), np.array([p]))[0]
    assert ours == pytest.approx(stats.nbinom.logpmf(x, shape, 1 / (1 + v / m)), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("variance", [0.0, 1e-18, 1e-9])
@pytest.mark.parametrize("x", [0, 1, 7, 300])
def test_a_certain_rate_gives_poisson_counts(x, variance):
    m = np.array([4.0])
    ours = metrics.log_probability(np.array([float(x)]), m, np.array([variance]), -np.expm1(-m))[0]
    assert ours == pytest.approx(stats.poisson.logpmf(x, 4.0), rel=1e-4)


@pytest.mark.parametrize("p", [0.01, 0.4, 0.97])
def test_probabilities_of_all_counts_add_up_to_1_whatever_p(p):
    x = np.arange(3000.0)
    full = np.full(len(x), 1.0)
    log = metrics.log_probability(x, 2.0 * full, 5.0 * full, p * full)
    assert np.exp(log).sum() == pytest.approx(1.0)
    assert np.exp(log[0]) == pytest.approx(1 - p)


def test_certainty_costs_no_infinity_where_the_rate_is_finite():
    m, one, zero = np.array([800.0]), np.array([1.0]), np.array([0.0])
    assert metrics.log_probability(zero, m, zero, one)[0] == pytest.approx(-800.0)
    assert metrics.log_link(np.array([False]), m, zero, one)[0] == pytest.approx(-800.0)


def test_a_link_where_the_rate_is_0_is_impossible_and_a_zero_certain():
    zero = np.zeros(2)
    np.testing.assert_array_equal(
        metrics.log_probability(np.array([0.0, 2.0]), zero, zero, zero), np.array([0.0, -np.inf])
    )
    np.testing.assert_array_equal(metrics.log_link(np.array([False, True]), zero, zero, zero), [0.0, -np.inf])


# Ranks by hand. Scores of five candidates, the true one, which are removed, and the rank by counting on the fingers.
RANKS = {
    "best": ([9, 1, 2, 3, 4], 0, [], 1),
    "worst": ([9, 1, 2, 3, 4], 1, [], 5),
    "third": ([9, 1, 2, 3, 4], 3, [], 3),
    # Tied with one other at the top: 1 or 2.
    "tied in pair": ([9, 9, 2, 3, 4], 1, [], 1.5),
    # One above, tied with two others: 2, 3 or 4.
    "tied in three": ([9, 5, 5, 5, 4], 2, [], 3),
    # All equal: 1 to 5.
    "all tied": ([7, 7, 7, 7, 7], 4, [], 3),
    # The better one is another link, and does not count.
    "filtered": ([9, 1, 2, 3, 4], 4, [0], 1),
    # One of the two tied is another link.
    "filtered tie": ([5, 5, 5, 3, 4], 2, [0], 1.5),
    # The true one is never removed.
    "itself": ([9, 8, 7, 6, 5], 1, [0, 1], 1),
    # Equal up to rounding is equal.
    "rounding": ([0.3, 0.1 + 0.2, 0.1, 0.1, 0.1], 0, [], 1.5),
    "zeros": ([0, 0, 0, 1, 0], 0, [], 3.5),
}


@pytest.mark.parametrize("name", RANKS)
def test_a_rank_is_what_one_counts_by_hand(name):
    scores, true, out, rank = RANKS[name]
    removed = np.isin(np.arange(5), out)[None, :]
    found = metrics.ranks(np.array([scores], float), np.array([true]), removed if out else None)
    assert found[0] == rank


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_a_rank_is_the_mean_of_the_best_and_the_worst(seed, n, m):
    rng = np.random.default_rng(seed)
    scores, target = rng.integers(0, 4, (n, m)).astype(float), rng.integers(0, m, n)
    removed = rng.random((n, m)) < 0.3
    removed[np.arange(n), target] = False
    for row, rank in enumerate(metrics.ranks(scores, target, removed)):
        left = scores[row][~removed[row]]
        own = scores[row, target[row]]
        assert rank == ((left > own).sum() + 1 + (left >= own).sum()) / 2


def test_ranks_leave_their_arguments_alone():
    removed = np.array([[True, True, False]])
    metrics.ranks(np.array([[1.0, 2.0, 3.0]]), np.array([0]), removed)
    assert removed.tolist() == [[True, True, False]]


def test_rank_figures_by_hand():
    # Ranks 1, 2.5, 4 and 20.
    figures = metrics.rank_figures(np.array([1, 2.5, 4, 20]))
    assert figures == pytest.approx(
        {
            "mrr": (1 + 0.4 + 0.25 + 0.05) / 4,
            "hits_at_1": 0.25,
            "hits_at_3": 0.5,
            "hits_at_10": 0.75,
            "mean_rank": 27.5 / 4,
        }
    )
