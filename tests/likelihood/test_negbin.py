"""Negbin: bursts against mpmath, brute force over bursts, its limits and the update of the burst."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from plait.errors import ParameterError
from plait.likelihood import Likelihood, Negbin
from plait.likelihood.negbin import burst_of
from tests.support.likelihood_own import is_brute_force

negbin = Negbin()

P = (1e-12, 1e-6, 0.01, 0.3, 0.9, 0.999, 1 - 1e-9)
LOG_RATES = np.log([1e-300, 1e-100, 1e-16, 1e-8, 1e-3, 0.2, 1.0, 7.0, 300.0, 1e6, 1e12])
VALUES = np.array([1.0, 2, 3, 7, 16, 17, 18, 40, 1000, 1e6])


def exact(x, log_rate, c):
    """E[n] and the term in 80 digits; r may be 1e24, whose ψ agree to as many digits."""
    with mpmath.workdps(80):
        rate, c, x = mpmath.e ** mpmath.mpf(log_rate), mpmath.mpf(c), mpmath.mpf(x)
        r = rate / c
        expected = r * (mpmath.digamma(r + x) - mpmath.digamma(r))
        term = mpmath.loggamma(r + x) - mpmath.loggamma(r) + x * mpmath.log(c)
        return float(expected), float(term)


def every(by):
    """E[n] and term of all values at all rates, by the link or by NumPy; and what they should be."""
    for p in P:
        state = {"burst": -math.log1p(-p)}
        x, log_rate = (grid.reshape(-1) for grid in np.meshgrid(VALUES, LOG_RATES, indexing="ij"))
        found = by(negbin, x, log_rate, state)
        wanted = np.array([exact(*pair, state["burst"]) for pair in zip(x, log_rate)]).T
        yield x, found, wanted


@pytest.mark.parametrize("by", [Likelihood.expect, Negbin.expect], ids=["link", "numpy"])
def test_events_and_term_are_exact_at_any_rate_value_and_burst(by):
    for x, (expected, term), (events, log) in every(by):
        np.testing.assert_allclose(expected, events, rtol=1e-12)
        assert (np.abs(term - log) <= 1e-12 * np.abs(log) + 1e-15 * x + 1e-13).all()


def test_events_rise_with_the_rate_from_one_to_the_value():
    log_rate = np.linspace(-30, 40, 2001)
    for x in (1.0, 2.0, 16.0, 17.0, 5000.0):
        for c in (1e-9, 0.1, 3.0, 20.0):
            expected, term = Likelihood.expect(negbin, np.full(len(log_rate), x), log_rate, {"burst": c})
            assert (np.diff(expected) >= -1e-13 * x).all()
            assert (np.diff(term) > 0).all()
            assert expected.min() >= 1 - 1e-12
            assert expected.max() <= x * (1 + 1e-12)


@pytest.mark.parametrize("by", [Likelihood.expect, Negbin.expect], ids=["link", "numpy"])
@pytest.mark.parametrize("c", [0.0, 1e-12])
def test_without_bursts_it_is_poisson(by, c):
    x, rate = np.array([1.0, 5, 16, 17, 900]), np.array([0.2, 5.0, 1.0, 40.0, 800.0])
    expected, term = by(negbin, x, np.log(rate), {"burst": c})
    np.testing.assert_allclose(expected, x, rtol=1e-9)
    whole = term + negbin.constants(x, {"burst": c}) - rate
    np.testing.assert_allclose(whole, stats.poisson.logpmf(x, rate), rtol=1e-9)
    assert not negbin.variance(x, np.log(rate), {"burst": 0.0}).any()


def by_bursts(x, rate, p):
    """P(n and x) for n = 0 … x: convolutions of the logarithmic series."""
    c = -math.log1p(-p)
    burst = np.array([0.0, *(p**b / (b * c) for b in range(1, x + 1))])
    chance, joint = np.zeros(x + 1), []
    chance[0] = 1.0
    for n in range(x + 1):
        joint.append(stats.poisson.pmf(n, rate) * chance[x])
        chance = np.convolve(chance, burst)[: x + 1]
    return np.array(joint)


@pytest.mark.parametrize(("x", "rate", "p"), [(1, 0.3, 0.5), (4, 2.0, 0.2), (9, 0.05, 0.95), (25, 6.0, 0.7)])
def test_it_is_a_sum_of_bursts(x, rate, p):
    joint, state = by_bursts(x, rate, p), {"burst": -math.log1p(-p)}
    is_brute_force(negbin, state, x, rate, np.arange(x + 1), joint, 1e-12, 1e-9)
    nb = stats.nbinom(rate / state["burst"], 1 - p)
    assert math.log(joint.sum()) == pytest.approx(nb.logpmf(x), rel=1e-9)
    moments = negbin.moments(np.array([rate]), np.zeros(1), state)
    np.testing.assert_allclose(np.concatenate(moments), nb.stats("mv"), rtol=1e-9)


def test_the_variance_is_the_slope_of_the_expected_events():
    log_rate, step = np.linspace(-20, 20, 81), 1e-4
    for x in (1.0, 3.0, 50.0, 1e5):
        for c in (1e-7, 0.5, 10.0):
            values, state = np.full(len(log_rate), x), {"burst": c}
            higher, lower = (negbin.expect(values, log_rate + d, state)[0] for d in (step, -step))
            slope, events = (higher - lower) / (2 * step), negbin.expect(values, log_rate, state)[0]
            assert np.abs(negbin.variance(values, log_rate, state) - slope).max() <= 1e-7 * x
            follow = negbin.follow(values, log_rate, state)
            assert np.abs(follow - slope / events).max() <= 1e-6


def test_the_variance_of_short_bursts_is_exact():
    rate = 1e3
    for ratio in (1e-6, 9.9e-5):  # c x/λ; from 1e-4 on there is no series
        for value in (2.0, 5.0, 40.0, 1000.0):
            c = ratio * rate / value
            with mpmath.workdps(60):
                s = mpmath.mpf(c) / mpmath.mpf(rate)
                wanted = mpmath.fsum(s * k / (1 + s * k) ** 2 for k in range(int(value)))
            found = negbin.variance(np.array([value]), np.log([rate]), {"burst": c})[0]
            assert found == pytest.approx(float(wanted), rel=1e-11)


@pytest.mark.parametrize("p", [1e-12, 1e-9, 1e-5, 1e-3, 0.1, 0.5, 0.99, 1 - 1e-9])
def test_a_mean_burst_is_solved_for(p):
    with mpmath.workdps(50):
        c = -mpmath.log(1 - mpmath.mpf(p))
        mean = (mpmath.e**c - 1) / c
        # The mean is rounded to a double: c cannot be known better than that allows.
        assert burst_of(float(mean)) == pytest.approx(float(c), rel=1e-13, abs=4e-16)


def test_a_burst_of_any_mean_is_finite():
    assert burst_of(1.0) == burst_of(1.0 - 1e-16) == burst_of(0.5) == 0.0
    assert 0 < burst_of(1e300) <= 600
    assert np.isfinite(negbin.bursts({"burst": burst_of(1e300)})[0])


def test_ones_alone_make_it_poisson():
    values = weights = np.ones(7)
    state = negbin.start(negbin.sums(values, weights))
    assert state == {"burst": 0.0}
    assert negbin.update(state, negbin.sums(values, weights), 7.0) == state


def test_each_update_of_the_burst_raises_the_bound_until_it_stays():
    rng = np.random.default_rng(0)
    rate, c = rng.gamma(0.8, 2.0, 4000), 1.7
    x = rng.negative_binomial(rate / c, math.exp(-c)).astype(float)
    some = x > 0
    x, log_rate, weights = x[some], np.log(rate[some]), rng.choice([0.5, 1.0, 3.0], some.sum())
    sums = negbin.sums(x, weights)
    state = negbin.start(sums)
    last = -np.inf
    for _ in range(200):
        expected, term = negbin.expect(x, log_rate, state)
        bound = weights @ term + negbin.constant(sums, state)
        assert bound >= last - 1e-9 * abs(bound)
        last, before = bound, state
        state = negbin.update(state, sums, float(weights @ expected))
    assert state["burst"] == pytest.approx(before["burst"], rel=1e-6)
    assert state["burst"] == pytest.approx(c, rel=0.1)


def test_a_given_burst_is_not_learnt():
    sums = negbin.sums(np.array([3.0, 9.0]), np.ones(2))
    for given, c in ((Negbin(p=0.3), -math.log(0.7)), (Negbin(mean_burst=2.0), burst_of(2.0))):
        state = given.start(sums)
        assert state["burst"] == pytest.approx(c)
        assert given.update(state, sums, 2.5) == state
    assert Negbin(mean_burst=2.0).bursts({"burst": burst_of(2.0)})[0] == pytest.approx(2.0)


@pytest.mark.parametrize("given", [{"p": 1.0}, {"p": -0.1}, {"mean_burst": 0.9}, {"p": 0.5, "mean_burst": 2.0}])
def test_impossible_settings_are_refused(given):
    with pytest.raises(ParameterError, match=r"^`(p|mean_burst)` .*\n(Remove it|Remove one)"):
        Negbin(**given)


def test_counts_are_whole_numbers():
    np.testing.assert_array_equal(negbin.bad(np.array([0.0, 1, 2.5, 1e15, -1, np.nan])), [0, 0, 1, 0, 1, 1])


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_quantiles_are_those_of_the_mixture(level):
    rng, state = np.random.default_rng(1), {"burst": 2.5}
    rates = rng.gamma(0.7, 3.0, (40, 30)) * np.geomspace(1e-3, 1e4, 40)[:, None]
    rates[0] = 0.0
    found = negbin.quantiles(rates, level, state)
    nb = stats.nbinom(np.maximum(rates, 1e-12) / 2.5, math.exp(-2.5))
    assert (nb.cdf(found[:, None]).mean(axis=1) >= level - 1e-9).all()
    assert ((nb.cdf(found[:, None] - 1).mean(axis=1) < level + 1e-9) | (found == 0)).all()
    np.testing.assert_array_equal(found, np.floor(found))
