"""The interface: names, words, kernel text, Poisson's and Bernoulli's formulae, and a custom likelihood."""

import json
import math
import textwrap

import numpy as np
import pytest
from scipy import stats

from plait import jit
from plait.errors import ParameterError
from plait.likelihood import (
    Bernoulli,
    KernelNames,
    Likelihood,
    Negbin,
    Poisson,
    Tweedie,
    as_likelihood,
    from_words,
    link_of,
)
from tests.support.likelihood_own import Geometric, is_brute_force

EVERY = [Poisson(), Bernoulli(), Negbin(), Negbin(p=0.25), Negbin(mean_burst=3), Tweedie(), Tweedie(shape=2)]


def test_a_name_stands_for_a_likelihood():
    for name, kind in {"poisson": Poisson, "bernoulli": Bernoulli, "negbin": Negbin, "tweedie": Tweedie}.items():
        assert type(as_likelihood(name)) is kind
    own = Negbin(p=0.5)
    assert as_likelihood(own) is own


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("negbim", r"`likelihood` is unknown: 'negbim'\.\nDid you mean 'negbin'\? The likelihoods are poisson|tweedie"),
        (3, r"`likelihood` is unknown: 3"),
        (Negbin, r"`likelihood` must be an object, got the class Negbin\.\nWrite Negbin\(…\)"),
        ("geometric", r"`likelihood` 'geometric' has missing or wrong parameters: none given\.\nIts parameters are "),
    ],
)
def test_an_unknown_likelihood_is_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        as_likelihood(given)


@pytest.mark.parametrize("likelihood", [*EVERY, Geometric(0.4)], ids=repr)
def test_a_likelihood_is_the_same_after_json(likelihood):
    again = from_words(json.loads(json.dumps(likelihood.to_words())))
    assert again == likelihood
    assert hash(again) == hash(likelihood)
    state = likelihood.start(likelihood.sums(np.array([1.0, 2.0, 5.0]), np.ones(3)))
    assert json.loads(json.dumps(state)) == state
    assert likelihood.name in likelihood.describe(state)


def test_likelihoods_differ_by_name_and_settings():
    assert len(set(EVERY)) == len(EVERY)
    assert Negbin(p=0.25) == Negbin(p=0.25) != Negbin(p=0.5)
    assert Negbin() == "negbin" != Negbin(p=0.5)


def test_a_name_of_plaits_own_cannot_be_taken():
    with pytest.raises(ParameterError, match="Choose another name"):
        type("Mine", (Likelihood,), {"name": "poisson", "__module__": "another.module"})
    with pytest.raises(ParameterError, match="letters, digits and _"):
        type("Mine", (Likelihood,), {"name": "two words"})
    assert as_likelihood("poisson") == Poisson()


@pytest.mark.parametrize("likelihood", [Negbin(), Tweedie(), Geometric(0.4)], ids=repr)
def test_text_for_kernels_computes_what_numpy_does(likelihood):
    entry = likelihood.entry(KernelNames("xhat[n]", "entries[n]", "values[n]", "parameters"))
    text = f"{likelihood.preamble()}\ndef run(entries, values, xhat, parameters, out):\n    score = 0.0\n"
    text += "    for n in range(len(values)):\n"
    text += textwrap.indent("\n".join([*entry.lines, entry.score, "out[n] = q"]), " " * 8)
    text += f"\n        score += entries[n] * math.log({entry.logged})\n    return score\n"
    scope = {"math": math}
    exec(text, scope)
    rng = np.random.default_rng(0)
    x, M = rng.poisson(6.0, 200) + 1.0, rng.uniform(0.5, 2.0, 200)
    xhat = np.exp(rng.normal(0.0, 3.0, 200))
    state, out = likelihood.start(likelihood.sums(x, M)), np.empty(200)
    packed = likelihood.packed(state)
    stored = likelihood.stored(x)
    score = jit.uncached(scope["run"])(likelihood.entries(x, M), stored, xhat, packed, out)
    expected, term = likelihood.expect(x, np.log(xhat), state)
    np.testing.assert_allclose(out, M * expected / xhat, rtol=1e-11)
    assert score == pytest.approx(M @ term, rel=1e-11)
    assert packed.flags.c_contiguous
    assert not packed.flags.writeable


def test_a_stamp_changes_with_the_text_of_a_link():
    other = type("Other", (Geometric,), {"name": "other", "link": lambda x, xhat, log_scale, parameters: (x, 0.0, 1.0)})
    assert Geometric(0.4).stamp() != other(0.4).stamp()
    assert link_of("other") is other.link


# --- Poisson and Bernoulli


def test_poisson_is_scipys():
    x, rate = np.array([0.0, 1.0, 7.0, 1000.0]), np.array([0.3, 2.0, 7.0, 900.0])
    np.testing.assert_allclose(Poisson().log_chance(x, rate, {}), stats.poisson.logpmf(x, rate), rtol=1e-12)
    np.testing.assert_array_equal(Poisson().entries(x, np.full(4, 2.0)), 2 * x)
    assert not Poisson().true_scale
    assert not Poisson().bad(np.array([0.0, 0.5, 3.0])).any()


@jit.uncached
def link(xhat, log_scale):
    return jit.bernoulli_link(xhat, log_scale)


def test_bernoulli_agrees_with_the_link_and_with_its_closed_form():
    rate = np.geomspace(1e-12, 1e4, 60)
    ones, log_rate = np.ones(60), np.log(rate)
    expected, term = Bernoulli().expect(ones, log_rate, {})
    with np.errstate(over="ignore"):
        events, follow = rate / -np.expm1(-rate), 1.0 - rate / np.expm1(rate)
    np.testing.assert_allclose(expected, events, rtol=1e-11)
    np.testing.assert_allclose(Bernoulli().follow(ones, log_rate, {}), follow, rtol=1e-6, atol=1e-12)
    for log, mean, own in zip(log_rate, expected, term):
        first, second, miss = link(1.0, log)
        assert first == pytest.approx(mean, rel=1e-12)
        assert second + math.log(miss) == pytest.approx(own, rel=1e-12)


def test_bernoulli_takes_any_rate():
    log_rate = np.array([-1e4, -800.0, -40.0, 40.0, 690.0, 1e4])
    for found in Bernoulli().expect(np.ones(6), log_rate, {}):
        assert np.isfinite(found).all()
    np.testing.assert_array_equal(Bernoulli().bad(np.array([0.0, 1.0, 2.0, 0.5])), [0, 0, 1, 1])
    chance = Bernoulli().log_chance(np.array([1.0, 0.0]), np.array([1e12, 1e12]), {})
    np.testing.assert_array_equal(chance, [0.0, -1e12])


# --- one's own


def geometric_pmf(n, x, rate, g):
    """P(n and x): n bursts, each 1 or more, are x in all."""
    if not 1 <= n <= x:
        return 0.0
    return stats.poisson.pmf(n, rate) * math.comb(x - 1, n - 1) * (1 - g) ** n * g ** (x - n)


@pytest.mark.parametrize(("x", "rate", "g"), [(1, 0.5, 0.3), (6, 2.0, 0.4), (40, 3.0, 0.8), (300, 1e-9, 0.5)])
def test_a_custom_likelihood_is_its_brute_force(x, rate, g):
    own, n = Geometric(g), np.arange(1, x + 1)
    joint = np.array([geometric_pmf(k, x, rate, g) for k in n])
    is_brute_force(own, own.start(own.sums(np.array([float(x)]), np.ones(1))), x, rate, n, joint)


def test_a_custom_likelihood_predicts():
    own, state = Geometric(0.5), {"g": 0.5}
    rates = np.random.default_rng(0).gamma(1.0, 4.0, (3, 30))
    low, high = (own.quantiles(rates, level, state) for level in (0.05, 0.95))
    rng = np.random.default_rng(1)
    for n, row in enumerate(rates):
        events = rng.poisson(np.repeat(row, 2000))
        x = events + rng.negative_binomial(np.maximum(events, 1), 0.5) * (events > 0)
        assert (x <= high[n]).mean() >= 0.945
        assert (x < high[n]).mean() <= 0.955
        assert (x < low[n]).mean() <= 0.055
    mean, variance = own.moments(np.array([3.0]), np.array([0.0]), state)
    assert (mean[0], variance[0]) == pytest.approx((6.0, 18.0))
