"""Standard errors against published formulas, the bootstrap and repeated draws of tests."""

import numpy as np
import pytest

from plait.evaluation import estimates, metrics


def drawn(seed=0, links=120, others=400, levels=None):
    rng = np.random.default_rng(seed)
    link = np.arange(links + others) < links
    score = rng.normal(size=len(link)) + 1.2 * link
    return link, score if levels is None else np.round(score * levels) / levels


def bootstrap(link, function, count=1500, seed=0):
    """The standard deviation of a figure over resampled links and non-links; function takes the chosen units."""
    rng, kinds = np.random.default_rng(seed), (np.flatnonzero(link), np.flatnonzero(~link))
    return np.std([function(np.concatenate([rng.choice(own, len(own)) for own in kinds])) for _ in range(count)])


@pytest.mark.parametrize("levels", [None, 3])
def test_the_error_of_the_auc_is_delongs(levels):
    link, score = drawn(levels=levels)
    x, y = score[link], score[~link]
    psi = (x[:, None] > y) + 0.5 * (x[:, None] == y)  # every pair, as in the paper
    variance = psi.mean(1).var(ddof=1) / len(x) + psi.mean(0).var(ddof=1) / len(y)
    found = estimates.roc_auc(link, score)
    assert found.value == pytest.approx(psi.mean())
    assert found.error == pytest.approx(np.sqrt(variance))


@pytest.mark.parametrize("levels", [None, 3])
def test_the_error_of_average_precision_is_that_of_the_bootstrap(levels):
    link, score = drawn(levels=levels)
    found = estimates.average_precision(link, score)
    assert found.value == metrics.average_precision(link, score)
    assert found.error == pytest.approx(
        bootstrap(link, lambda own: metrics.average_precision(link[own], score[own])), rel=0.08
    )


@pytest.mark.parametrize("figure", ["roc_auc", "average_precision"])
def test_errors_of_differences_are_those_of_the_paired_bootstrap(figure):
    link, score = drawn()
    other = score + 0.4 * np.random.default_rng(1).normal(size=len(score))
    a, b = (getattr(estimates, figure)(link, one) for one in (score, other))
    of = getattr(metrics, figure)
    expected = bootstrap(link, lambda own: of(link[own], score[own]) - of(link[own], other[own]))
    error = estimates.norm(a.shares - b.shares)
    assert error == pytest.approx(expected, rel=0.08)
    assert error < 0.7 * np.hypot(a.error, b.error)  # what is hard for one is hard for the other


@pytest.mark.parametrize("figure", ["roc_auc", "average_precision"])
def test_errors_are_the_spread_over_new_tests(figure):
    found = [getattr(estimates, figure)(*drawn(seed)) for seed in range(400)]
    spread = np.std([one.value for one in found])
    assert np.mean([one.error for one in found]) == pytest.approx(spread, rel=0.12)


def test_links_and_their_own_corruptions_are_one_unit():
    # A query's effect is common to its link and its corruption: taken for independent, the error would be too large.
    def figure(seed):
        rng = np.random.default_rng(seed)
        query = 2 * rng.normal(size=200)
        score = np.concatenate([query + rng.normal(size=200) + 0.5, query + rng.normal(size=200)])
        return estimates.roc_auc(np.arange(400) < 200, score)

    found = [figure(seed) for seed in range(400)]
    spread = np.std([one.value for one in found])
    unit = np.tile(np.arange(200), 2)
    assert np.mean([one.by_unit(unit).error for one in found]) == pytest.approx(spread, rel=0.12)
    assert np.mean([one.error for one in found]) > 1.3 * spread


def test_means_and_sums_have_the_textbook_error():
    values = np.random.default_rng(0).gamma(2.0, size=50)
    error = values.std(ddof=1) / np.sqrt(50)
    assert estimates.mean(values).error == pytest.approx(error)
    assert estimates.total(values).error == pytest.approx(50 * error)
    assert estimates.total(values).value == pytest.approx(values.sum())


def test_the_error_of_the_rmse_is_that_of_new_tests():
    def figure(seed):
        return estimates.root_mean_square(np.zeros(300), np.random.default_rng(seed).normal(size=300))

    found = [figure(seed) for seed in range(400)]
    assert np.mean([one.error for one in found]) == pytest.approx(np.std([one.value for one in found]), rel=0.12)


def test_the_error_of_the_calibration_is_that_of_new_outcomes():
    # Too sure by 0.1 on one side and by 0.2 on the other, far from where the absolute value bends.
    probability = np.repeat([0.1, 0.9], 1500)

    def figure(seed):
        link = np.random.default_rng(seed).random(3000) < np.repeat([0.2, 0.7], 1500)
        return estimates.calibration_error(metrics.calibration(link, probability), link, probability)

    found = [figure(seed) for seed in range(300)]
    assert np.mean([one.value for one in found]) == pytest.approx(0.15, abs=0.002)
    # The probabilities are the same each time, so the shares' part that is due to them does not vary here.
    assert np.mean([one.error for one in found]) == pytest.approx(np.std([one.value for one in found]), rel=0.15)


def test_the_mean_over_axes_counts_a_link_once():
    rng = np.random.default_rng(0)
    a = rng.random(40)
    once, twice = estimates.mean(a), estimates.together([estimates.mean(a), estimates.mean(a)])
    assert (twice.value, twice.error) == pytest.approx((once.value, once.error))


@pytest.mark.parametrize("link", [[True, False, False], [True, True, False]])
def test_one_link_or_non_link_has_no_error(link):
    link, score = np.array(link), np.array([3.0, 1.0, 2.0])
    assert estimates.roc_auc(link, score).error is None
    assert estimates.average_precision(link, score).error is None
    assert estimates.mean(score[:1]).error is None
    assert estimates.together([estimates.mean(score[:1])]).error is None


def test_errors_of_rates_too_large_to_be_squared_are_finite():
    assert np.isfinite(estimates.mean(np.array([1e200, 3e200, 1.0])).error)
    assert np.isfinite(estimates.root_mean_square(np.zeros(3), np.array([1e200, 3e200, 1.0])).error)
