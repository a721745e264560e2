"""Figures of merit: equal to scikit-learn's, and ranks worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import (
    average_precision_score,
    roc_auc_score,
)

from plait.evaluation import metrics
from plait.evaluation.ranking import count_rivals
from plait.likelihood import Bernoulli, Poisson


@st.composite
def scored(draw):
    """Links and scores of few distinct values, so that there are ties; at least one of each kind."""
    n = draw(st.integers(2, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    link = rng.random(n) < draw(st.floats(0.05, 0.95))
    link[:2] = True, False
    levels = draw(st.integers(1, 20))
    return link, rng.integers(0, levels + 1, n) / levels


def test_rates_too_large_to_be_squared_have_finite_metrics():
    mean, values = np.array([1e200, 3e200, 1.0]), np.array([0.0, 0.0, 1.0])
    assert metrics.rmse(values, mean) == pytest.approx(1e200 * np.sqrt(10 / 3))
    assert metrics.rmse(values, values) == 0
    none = np.zeros(3)
    logs = metrics.log_probability(values, mean, none, np.ones(3), Poisson(), {})
    assert np.isfinite(logs).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 15), st.integers(15, 80))
@settings(max_examples=100, deadline=None)
def test_calibration_without_ties_has_bins_of_equal_size(seed, bins, n):
    rng = np.random.default_rng(seed)
    probability, link = rng.permutation(np.arange(n) / n), rng.random(n) < 0.3
    ours = metrics.calibration(link, probability, bins)
    assert len(ours.cells) == bins
    assert np.ptp(ours.cells) <= 1
    parts = np.split(np.argsort(probability), np.cumsum(ours.cells)[:-1])
    np.testing.assert_allclose(ours.predicted, [probability[part].mean() for part in parts])
    np.testing.assert_allclose(ours.observed, [link[part].mean() for part in parts])
    np.testing.assert_array_equal(ours.low, [probability[part].min() for part in parts])
    np.testing.assert_array_equal(ours.high, [probability[part].max() for part in parts])
    assert ours.error == pytest.approx(sum(abs((probability - link)[part].sum()) for part in parts) / n)


@given(scored(), st.integers(1, 15))
@settings(max_examples=200, deadline=None)
def test_equal_probabilities_stay_in_one_bin_of_the_calibration(case, bins):
    link, probability = case
    ours = metrics.calibration(link, probability, bins)
    assert ours.cells.sum() == len(link)
    assert (ours.low[1:] > ours.high[:-1]).all()
    for value in np.unique(probability):
        assert len(np.unique(ours.place[probability == value])) == 1
    inside = [(probability >= low) & (probability <= high) for low, high in zip(ours.low, ours.high)]
    np.testing.assert_allclose(ours.observed, [link[own].mean() for own in inside])
    np.testing.assert_allclose(ours.predicted, [probability[own].mean() for own in inside])


@pytest.mark.thorough
@given(scored(), st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_metrics_within_groups_equal_scikit_learn(case, groups, seed):
    link, score = case
    group = np.random.default_rng(seed).integers(0, groups, len(link))
    auc, precision = metrics.within(link, score, group)
    both = [g for g in range(groups) if 0 < link[group == g].sum() < (group == g).sum()]
    mine = [(link[group == g], score[group == g]) for g in both]
    np.testing.assert_allclose(auc, [roc_auc_score(*own) for own in mine], atol=1e-12)
    np.testing.assert_allclose(precision, [average_precision_score(*own) for own in mine], atol=1e-12)


@given(st.floats(1e-3, 50), st.floats(1e-6, 1e3), st.integers(0, 30))
@settings(max_examples=200, deadline=None)
def test_a_count_has_the_probability_of_the_negative_binomial(m, v, x):
    shape = m * m / v
    p = -np.expm1(-shape * np.log1p(v / m))
    ours = metrics.log_probability(np.array([float(x)]), np.array([m]), np.array([v]), np.array([p]), Poisson(), {})[0]
    assert ours == pytest.approx(stats.nbinom.logpmf(x, shape, 1 / (1 + v / m)), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("variance", [0.0, 1e-18, 1e-9])
@pytest.mark.parametrize("x", [0, 1, 7, 300])
def test_a_certain_rate_gives_poisson_counts(x, variance):
    m = np.array([4.0])
    ours = metrics.log_probability(np.array([float(x)]), m, np.array([variance]), -np.expm1(-m), Poisson(), {})[0]
    assert ours == pytest.approx(stats.poisson.logpmf(x, 4.0), rel=1e-4)


@pytest.mark.parametrize("p", [0.01, 0.4, 0.97])
def test_probabilities_of_all_counts_add_up_to_1_whatever_p(p):
    x = np.arange(3000.0)
    full = np.full(len(x), 1.0)
    log = metrics.log_probability(x, 2.0 * full, 5.0 * full, p * full, Poisson(), {})
    assert np.exp(log).sum() == pytest.approx(1.0)
    assert np.exp(log[0]) == pytest.approx(1 - p)


def test_certainty_costs_no_infinity_where_the_rate_is_finite():
    m, one, zero = np.array([800.0]), np.array([1.0]), np.array([0.0])
    assert metrics.log_probability(zero, m, zero, one, Poisson(), {})[0] == pytest.approx(-800.0)
    assert metrics.log_probability(zero, m, zero, one, Bernoulli(), {})[0] == pytest.approx(-800.0)


def test_a_link_where_the_rate_is_0_is_impossible_and_a_zero_certain():
    zero = np.zeros(2)
    np.testing.assert_array_equal(
        metrics.log_probability(np.array([0.0, 2.0]), zero, zero, zero, Poisson(), {}), np.array([0.0, -np.inf])
    )
    np.testing.assert_array_equal(
        metrics.log_probability(np.array([0.0, 1.0]), zero, zero, zero, Bernoulli(), {}), [0.0, -np.inf]
    )


def counted(scores, target, removed):
    """Ranks of one candidate in each row, by the kernel that counts its rivals."""
    rows, found = np.arange(len(scores)), np.zeros((len(scores), 4), np.int64)
    count_rivals(np.asarray(scores, float), np.asarray(removed), rows, np.asarray(target), metrics.TIE_TOLERANCE, found)
    return metrics.ranks(found[:, 0], found[:, 1]), metrics.ranks(found[:, 2], found[:, 3])


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_a_rank_is_the_mean_of_the_best_and_the_worst(seed, n, m):
    rng = np.random.default_rng(seed)
    scores, target = rng.integers(0, 4, (n, m)).astype(float), rng.integers(0, m, n)
    removed = rng.random((n, m)) < 0.3
    removed[np.arange(n), target] = False
    for row, (filtered, raw) in enumerate(zip(*counted(scores, target, removed))):
        own = scores[row, target[row]]
        for rank, left in ((filtered, scores[row][~removed[row]]), (raw, scores[row])):
            assert rank == ((left > own).sum() + 1 + (left >= own).sum()) / 2
