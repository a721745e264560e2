"""Quantiles of the negative binomial and of Poisson, against SciPy's."""

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from plait.analysis.predict.count_quantiles import count_ends

Z = 1.6448536269514722


def closed(mean, variance):
    ratio = np.where(mean > 0, variance / np.where(mean > 0, mean, 1), 0)
    return np.where(ratio > 1e-12, mean * np.log1p(ratio) / np.where(ratio > 1e-12, ratio, 1), mean)


def quantiles(mean, variance, miss=None):
    mean, variance = np.broadcast_arrays(np.asarray(mean, float), np.asarray(variance, float))
    mean, variance = mean.ravel().copy(), variance.ravel().copy()
    low, high = np.empty(mean.size, np.int64), np.empty(mean.size, np.int64)
    miss = closed(mean, variance) if miss is None else miss
    for ends, level, z in ((low, 0.05, -Z), (high, 0.95, Z)):
        count_ends(mean, variance, miss, np.full(mean.size, level), np.full(mean.size, z), ends)
    return mean, variance, low, high


def test_intervals_of_poisson():
    mean, _, low, high = quantiles([0.0, 1e-9, *np.geomspace(1e-3, 100, 400)], 0.0)
    np.testing.assert_array_equal(low, stats.poisson.ppf(0.05, mean).clip(0))
    np.testing.assert_array_equal(high, stats.poisson.ppf(0.95, mean).clip(0))
    mean, _, low, high = quantiles(np.geomspace(100, 1e9, 60), 0.0)
    assert (np.abs(low - stats.poisson.ppf(0.05, mean)) <= np.maximum(1, 1e-3 * np.sqrt(mean))).all()
    assert (np.abs(high - stats.poisson.ppf(0.95, mean)) <= np.maximum(1, 1e-3 * np.sqrt(mean))).all()


def test_intervals_of_the_negative_binomial():
    mean, relative = np.meshgrid(np.geomspace(1e-3, 1e6, 40), np.geomspace(1e-4, 1e2, 25))
    mean, variance, low, high = quantiles(mean, relative * mean**2)
    s, p = mean**2 / variance, mean / (mean + variance)
    sd = np.sqrt(mean + variance)
    for found, level in ((low, 0.05), (high, 0.95)):
        wanted = stats.nbinom.ppf(level, s, p)
        off = np.abs(found - wanted)
        assert (off[mean <= 100] == 0).all()
        assert (off <= np.maximum(1, 1e-3 * sd)).all()


def test_extreme_moments_have_ordered_ends():
    mean, relative = np.meshgrid(np.geomspace(1e-150, 1e150, 61), [0.0, 1e-12, 1e-3, 1.0, 1e3, 1e6])
    _, _, low, high = quantiles(mean, relative * mean**2)
    assert (low >= 0).all()
    assert (high >= low).all()
    mean, C = np.meshgrid(np.geomspace(1e-9, 1e15, 97), np.geomspace(1e-6, 1e9, 31))
    _, _, low, high = quantiles(mean, mean**2 / C)
    assert (low <= high).all()


def test_the_interval_agrees_with_the_probability_of_zero():
    mean, variance = np.full(3, 3.0), np.full(3, 900.0)
    miss = -np.log([0.97, 0.5, 0.03])
    _, _, low, high = quantiles(mean, variance, miss)
    assert low.tolist()[:2] == [0, 0]
    assert low[2] >= 1
    assert high[0] == 0
    assert (high[1:] >= 1).all()


@given(st.floats(-12, 12), st.floats(-6, 6))
@example(np.log10(1000.5), np.log10(0.0137284557))
@example(12.0, -1.0)  # log-gammas of counts of 1e13 have no digits left
@example(12.0, -1.25)
@settings(max_examples=300, deadline=None)
def test_the_search_for_a_quantile_ends(log_mean, log_concentration):
    # The audit's example never returned: from a mean that is no whole number the search did not move.
    mean, C = 10**log_mean, 10**log_concentration
    _, _, low, high = quantiles(mean, mean**2 / C)
    count = stats.nbinom(C, C / (C + mean))
    for end, level in ((low[0], 0.05), (high[0], 0.95)):
        assert count.cdf(end - 1) < level + 0.003
        assert count.cdf(end) > level - 0.003
