"""Probabilities of values whose rate is uncertain, against quadrature and SciPy's distributions."""

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

from plait.likelihood import Bernoulli, Likelihood, Negbin, Poisson, Tweedie

COUNTS = ["poisson", "bernoulli", "negbin", "nearly poisson"]
CASES = {
    "poisson": (Poisson(), {}),
    "bernoulli": (Bernoulli(), {}),
    "negbin": (Negbin(), {"burst": 1.3}),
    "nearly poisson": (Negbin(), {"burst": 1e-10}),
    "tweedie": (Tweedie(), {"shape": 1.4, "scale": 2.0}),
}
MOMENTS = ((0.3, 0.02), (0.3, 1.8), (5.0, 1.0), (0.01, 0.01), (400.0, 900.0))


def integral(likelihood, state, value, mean, variance):
    """∫ p(x|λ) Gamma(λ) dλ over log λ, by brute force."""
    a, b = mean**2 / variance, variance / mean

    u = np.linspace(np.log(mean) - 45.0 / min(a, 1.0), np.log(mean) + 14.0, 100_001)
    with np.errstate(under="ignore"):
        rate = np.exp(u)
        own = likelihood.log_chance(np.full(len(u), value), rate, state)
        return np.log(integrate.simpson(np.exp(own + a * u - rate / b - gammaln(a) - a * np.log(b)), x=u))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("mean", "variance"), MOMENTS)
def test_two_moments_of_the_rate_give_the_integral_over_a_gamma(case, mean, variance):
    likelihood, state = CASES[case]
    values = (0.0, 1.0) if case == "bernoulli" else (0.0, 1.0, 2.0, 9.0, 60.0)
    found = likelihood.log_probability_by_moments(
        np.array(values), np.full(len(values), mean), np.full(len(values), variance), state
    )
    wanted = [integral(likelihood, state, value, mean, variance) for value in values]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("case", CASES)
def test_equally_probable_rates_are_averaged(case):
    likelihood, state = CASES[case]
    rates = np.array([[0.5, 2.0, 0.0], [3.0, 3.0, 3.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    values = np.array([1.0, 0.0, 0.0, 1.0])
    found = likelihood.log_probability(values, rates, state)
    one = np.exp(likelihood.log_chance(np.ones(2), np.array([0.5, 2.0]), state)).sum() / 3
    np.testing.assert_allclose(found, [np.log(one), -3.0, 0.0, -np.inf], rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_a_known_rate_has_no_spread(case):
    likelihood, state = CASES[case]
    values, mean = np.array([0.0, 1.0, 1.0, 0.0]), np.array([2.0, 2.0, 0.0, 0.0])
    found = likelihood.log_probability_by_moments(values, mean, np.zeros(4), state)
    np.testing.assert_allclose(found, likelihood.log_chance(values, mean, state), rtol=1e-12)
    assert found[2] == -np.inf


@pytest.mark.parametrize("case", COUNTS)
def test_probabilities_of_whole_numbers_add_up_to_one(case):
    likelihood, state = CASES[case]
    values = np.arange(2.0 if case == "bernoulli" else 400.0)
    rates = np.broadcast_to(np.random.default_rng(0).gamma(1.0, 3.0, 30), (len(values), 30))
    assert np.exp(likelihood.log_probability(values, rates, state)).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("case", COUNTS)
def test_a_sum_of_probabilities_stands_in_for_a_distribution_function(case):
    likelihood, state = CASES[case]
    rates = np.random.default_rng(1).gamma(1.0, 3.0, (6, 30))
    values = np.array([0.0, 1.0, 2.0, 5.0, 20.0, 50.0])[: 2 if case == "bernoulli" else 6]
    found = Likelihood.below(likelihood, values, rates[: len(values)], state)
    np.testing.assert_allclose(found, likelihood.below(values, rates[: len(values)], state), rtol=1e-7)


def test_large_values_are_summed_by_a_normal():
    negbin, state = CASES["negbin"]
    rates = np.full((1, 2), 20_000.0)
    value = np.array([42_000.0])
    assert Likelihood.below(negbin, value, rates, state) == pytest.approx(negbin.below(value, rates, state), abs=2e-3)


@pytest.mark.parametrize("level", [0.05, 0.95])
def test_quantiles_of_counts_are_scipys(level):
    rate = np.array([[0.01], [0.7], [12.0], [1e5]])
    found = Poisson().quantiles(rate, level, {})
    np.testing.assert_array_equal(found, stats.poisson.ppf(level, rate[:, 0]))


@pytest.mark.parametrize("case", CASES)
def test_moments_are_those_of_the_distribution(case):
    likelihood, state = CASES[case]
    if case == "tweedie":
        mean, variance = likelihood.moments(np.array([2.0]), np.array([0.5]), state)
        assert (mean[0], variance[0]) == pytest.approx((2 * 2.8, 2 * 1.4 * 2.4 * 4 + 0.5 * 2.8**2))
        return
    values = np.arange(2.0 if case == "bernoulli" else 2000.0)
    many = np.full(len(values), 1.0)
    p = np.exp(likelihood.log_probability_by_moments(values, 2.0 * many, 0.5 * many, state))
    mean, variance = likelihood.moments(np.array([2.0]), np.array([0.5]), state)
    assert mean[0] == pytest.approx(p @ values, rel=1e-7)
    assert variance[0] == pytest.approx(p @ values**2 - (p @ values) ** 2, rel=1e-6)
