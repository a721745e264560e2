"""Tweedie: its series against mpmath, brute force over the number of amounts, units, the choice of its shape."""

import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from plait.errors import ParameterError
from plait.likelihood import Likelihood, Tweedie, series
from plait.likelihood.tweedie import SHAPE_GRID
from tests.support.likelihood_own import is_brute_force

tweedie = Tweedie()
SHAPED = (0.05, 0.3, 1.0, 2.5, 10.0, 50.0)


def exact(log_z, shape):
    """E[n], log Σ w_n, Var[n] in 40 digits: term by term about the largest; None where that are too many."""
    with mpmath.workdps(40):
        t, k = mpmath.mpf(log_z), mpmath.mpf(shape)
        N = mpmath.e ** ((t - k * mpmath.log(k)) / (1 + k))
        around = 14 * mpmath.sqrt(N / (1 + k)) + 40
        n = range(max(1, int(N - around)), int(N + around))
        if len(n) > 2500:
            return None
        logs = [m * t - mpmath.loggamma(m + 1) - mpmath.loggamma(m * k) for m in n]
        top = max(logs)
        w = [mpmath.e ** (log - top) for log in logs]
        total = sum(w)
        mean = sum(m * v for m, v in zip(n, w)) / total
        variance = sum((m - mean) ** 2 * v for m, v in zip(n, w)) / total
        return float(mean), float(top + mpmath.log(total)), float(variance)


def points(shape):
    """log z from 1e-30 to 1e14, through the table, and where its pieces meet."""
    packed = series.table(shape)
    begin, end = packed[series.BEGIN], packed[series.END]
    inside = np.random.default_rng(0).uniform(begin, end, 25)
    meet = [begin - 1e-9, begin, begin + 1e-9, begin + 1 / 8, np.nextafter(end, 0.0), end, end + 1.0, end + 5.0]
    return np.concatenate([np.log([1e-30, 1e-8, 1.0, 1e4, 1e8, 1e14]), inside, meet])


@pytest.mark.parametrize("shape", SHAPED)
def test_the_series_is_exact_at_any_z(shape):
    t = points(shape)
    wanted = [exact(log_z, shape) for log_z in t]
    known = np.array([value is not None for value in wanted])
    mean, log, variance = np.array([value for value in wanted if value is not None]).T
    E, S, slope = (found[known] for found in series.expected(t, series.table(shape)))
    np.testing.assert_allclose(E, mean, rtol=1e-11)
    np.testing.assert_allclose(S, log, rtol=1e-14, atol=1e-11)
    np.testing.assert_allclose(slope, variance, rtol=1e-9, atol=1e-10)


def test_the_series_of_shape_one_is_a_bessel_function():
    # Σ zⁿ/(n! (n−1)!) = √z I₁(2√z), also where the sums have millions of terms
    t = np.log(np.geomspace(1e-30, 1e14, 45))
    E, S, _ = series.expected(t, series.table(1.0))
    for log_z, mean, log in zip(t, E, S):
        with mpmath.workdps(40):
            root = mpmath.e ** (mpmath.mpf(log_z) / 2)
            first, zeroth = mpmath.besseli(1, 2 * root), mpmath.besseli(0, 2 * root)
            assert log == pytest.approx(float(mpmath.log(root * first)), rel=1e-14, abs=1e-11)
            assert mean == pytest.approx(float(root * zeroth / first), rel=1e-11)


@pytest.mark.parametrize("shape", SHAPED)
def test_the_link_agrees_with_numpy(shape):
    state = {"shape": shape, "scale": 3.0}
    x = np.exp(points(shape) / shape) if shape < 10 else np.exp(points(shape) / shape - 2.0)
    x = np.clip(x, 1e-280, 1e280)
    for log_rate in (-600.0, -3.0, 0.0, 20.0, 900.0):
        found = Likelihood.expect(tweedie, x, np.full(len(x), log_rate), state)
        for link, reference in zip(found, tweedie.expect(x, np.full(len(x), log_rate), state)):
            np.testing.assert_allclose(link, reference, rtol=1e-12, atol=1e-11)
            assert np.isfinite(link).all()


@pytest.mark.parametrize("shape", [0.05, 1.0, 50.0])
def test_events_rise_with_the_rate(shape):
    packed = series.table(shape)
    t = np.linspace(packed[series.BEGIN] - 2.0, packed[series.END] + 4.0, 20_001)
    E, S, _ = series.expected(t, packed)
    assert (np.diff(E) >= -1e-12).all()
    assert (np.diff(S) > 0).all()
    assert E.min() >= 1.0 - 1e-13


def by_amounts(x, rate, shape, scale):
    """Density of n amounts that add up to x, for n = 1 … 200."""
    n = np.arange(1, 201)
    return n, stats.poisson.pmf(n, rate) * stats.gamma.pdf(x, n * shape, scale=scale)


@pytest.mark.parametrize(
    ("x", "rate", "shape", "scale"), [(0.7, 0.1, 0.5, 2.0), (30.0, 6.0, 2.0, 1.5), (1e-3, 20, 1, 9)]
)
def test_it_is_a_sum_of_gammas(x, rate, shape, scale):
    n, joint = by_amounts(x, rate, shape, scale)
    is_brute_force(tweedie, {"shape": shape, "scale": scale}, x, rate, n, joint, 1e-10, 1e-7)


def test_the_unit_does_not_matter():
    rng = np.random.default_rng(2)
    x, weights, log_rate = rng.gamma(2.0, 5.0, 500), rng.uniform(0.5, 2.0, 500), rng.normal(0, 2, 500)
    small, large = (tweedie.start(tweedie.sums(unit * x, weights)) for unit in (1.0, 100.0))
    for _ in range(5):
        one, other = (tweedie.expect(u * x, log_rate, s) for u, s in ((1.0, small), (100.0, large)))
        np.testing.assert_allclose(one[0], other[0], rtol=1e-11)
        assert large["scale"] == pytest.approx(100.0 * small["scale"], rel=1e-12)
        bounds = [
            weights @ term + tweedie.constant(tweedie.sums(u * x, weights), s)
            for u, (_, term), s in ((1.0, one, small), (100.0, other, large))
        ]
        assert bounds[0] - bounds[1] == pytest.approx(weights.sum() * math.log(100.0), rel=1e-9)
        small = tweedie.update(small, tweedie.sums(x, weights), float(weights @ one[0]))
        large = tweedie.update(large, tweedie.sums(100.0 * x, weights), float(weights @ other[0]))


def drawn(rng, rate, shape, scale):
    n = rng.poisson(rate)
    x = np.where(n > 0, rng.gamma(np.maximum(n, 1) * shape, scale), 0.0)
    return x[x > 0], np.log(rate[x > 0])


def test_updates_and_choices_never_lower_the_bound():
    rng = np.random.default_rng(3)
    x, log_rate = drawn(rng, rng.gamma(0.5, 2.0, 5000), 2.0, 3.0)
    log_rate = log_rate + rng.normal(0, 0.5, len(x))  # as in a fit, the rates are not the true ones
    weights = rng.choice([0.5, 1.0, 2.0], len(x))
    sums, last = tweedie.sums(x, weights), -np.inf
    state = {"shape": 10.0, "scale": 0.1}
    for turn in range(30):
        expected, term = tweedie.expect(x, log_rate, state)
        bound = weights @ term + tweedie.constant(sums, state)
        assert bound >= last - 1e-9 * abs(bound)
        last = bound
        if turn % 5 == 4:
            state = tweedie.choose(state, x, weights, log_rate)
        else:
            state = tweedie.update(state, sums, float(weights @ expected))


@pytest.mark.parametrize(("shape", "count"), [(0.2, 20_000), (1.0, 20_000), (5.0, 100_000)])
def test_the_shape_of_drawn_amounts_is_found(shape, count):
    rng = np.random.default_rng(4)
    x, log_rate = drawn(rng, rng.gamma(1.0, 2.0, count), shape, 0.01)
    weights = np.ones(len(x))
    sums = tweedie.sums(x, weights)
    state = tweedie.start(sums)
    for _ in range(3):
        state = tweedie.choose(state, x, weights, log_rate)
        state = tweedie.update(state, sums, float(tweedie.expect(x, log_rate, state)[0].sum()))
    assert state["shape"] == shape
    assert state["scale"] == pytest.approx(0.01, rel=0.1)


def test_a_given_shape_is_not_learnt():
    given = Tweedie(shape=3.0)
    x = np.array([1.0, 2.0, 40.0])
    state = given.start(tweedie.sums(x, np.ones(3)))
    assert state["shape"] == given.choose(state, x, np.ones(3), np.zeros(3))["shape"] == 3.0
    assert state["shape"] * state["scale"] == pytest.approx(x.mean())
    with pytest.raises(ParameterError, match=r"from 0\.01 to 100, got 0\.001"):
        Tweedie(shape=0.001)


def test_a_single_amount_starts_at_its_gamma():
    x = np.random.default_rng(6).gamma(5.0, 2.0, 5000)
    assert tweedie.start(tweedie.sums(x, np.ones(len(x)))) == {"shape": 5.0, "scale": pytest.approx(2.0, rel=0.05)}
    assert tweedie.start(tweedie.sums(np.ones(3), np.ones(3)))["shape"] == max(SHAPE_GRID)  # all equal
    assert tweedie.start(tweedie.sums(np.zeros(0), np.zeros(0))) == {"shape": 1.0, "scale": 1.0}


@pytest.mark.parametrize("level", [0.05, 0.5, 0.95])
def test_quantiles_are_those_of_draws(level):
    rng, state = np.random.default_rng(7), {"shape": 0.8, "scale": 3.0}
    rates = rng.gamma(1.5, 1.0, (12, 30)) * np.geomspace(1e-3, 300.0, 12)[:, None]
    rates[0] = 0.0
    found = tweedie.quantiles(rates, level, state)
    for value, own in zip(found, rates):
        n = rng.poisson(np.repeat(own, 4000))
        x = np.where(n > 0, rng.gamma(np.maximum(n, 1) * 0.8, 3.0), 0.0)
        if value == 0:
            assert (x == 0).mean() >= level - 0.01
        else:
            assert (x <= value).mean() == pytest.approx(level, abs=0.005)


@pytest.mark.parametrize("shape", [0.1, 1.0, 20.0])
def test_large_rates_are_nearly_a_shifted_gamma(shape):
    rate = np.full((3, 1), 60.0)
    x = 60.0 * shape * np.array([0.75, 1.0, 1.3])
    n = np.arange(1, 400)
    exactly = stats.poisson.pmf(n, 60.0) @ stats.gamma.cdf(x, (n * shape)[:, None])
    state = {"shape": shape, "scale": 1.0}
    np.testing.assert_allclose(tweedie.below(x, rate, state), exactly, atol=1e-9)
    np.testing.assert_allclose(tweedie.below(x, rate * (1 + 1e-9), state), exactly, atol=1e-3)
