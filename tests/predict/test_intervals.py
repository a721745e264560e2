"""Intervals of counts and of probabilities, at any mean: against sampling, and against closed forms by SciPy."""

import numpy as np
import pytest
from scipy import stats

from plait.analysis.predict.prediction import columns
from tests.support.posteriors import (
    all_rows,
    as_points,
    bernoulli,
    cp_fit,
    cp_rates,
    misplaced,
    random_cp,
    scaled,
    with_posteriors,
)
from tests.support.problems import make
from tests.support.sum_posteriors import Rates

DRAWS = 20_000
CHANCE = 4 * np.sqrt(0.05 * 0.95 / DRAWS)  # what sampling may add to the mass beyond an end
SHAPES = [(1, 1), (1, 3), (2, 1), (2, 10), (3, 1), (3, 3), (3, 20), (3, 50), (4, 2), (5, 1), (5, 5)]


@pytest.mark.parametrize(("factors", "rank"), SHAPES)
def test_ends_and_probability_of_cp_cells(factors, rank):
    rng = np.random.default_rng(100 * factors + rank)
    C, E = random_cp(factors, rank, 8, rng, means=(0.0, 6.0))
    fit, rows = cp_fit(factors, C, E)
    found = columns(fit, "X", rows)
    for n in range(len(rows)):
        rate = cp_rates(C[n], E[n], DRAWS, rng)
        x = rng.poisson(rate)
        assert misplaced(found["lower"][n], 0.05, x) < 0.015 + CHANCE
        assert misplaced(found["upper"][n], 0.95, x) < 0.015 + CHANCE
        some = -np.expm1(-rate)
        assert abs(found["probability"][n] - some.mean()) < 0.01 + 4 * some.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize(("factors", "rank"), SHAPES)
def test_sd_and_ends_under_bernoulli(factors, rank):
    rng = np.random.default_rng(100 * factors + rank)
    C, E = random_cp(factors, rank, 6, rng, means=(-6.0, 1.5))
    fit, rows = cp_fit(factors, C, E)
    found = columns(bernoulli(fit), "X", rows)
    for n in range(len(rows)):
        p = -np.expm1(-cp_rates(C[n], E[n], DRAWS, rng))
        noise = 4 * np.sqrt(np.var((p - p.mean()) ** 2) / DRAWS) / (p.std() + 1e-12)
        assert abs(found["sd"][n] - p.std()) < 0.01 + 0.03 * p.std() + noise
        # What is beyond digits that are shown does not count: a low end of 1e-9 is 0.
        near = 1e-4 * p.mean()
        assert (p < found["lower"][n] - near).mean() < 0.05 + 0.03 + CHANCE
        assert (p <= found["lower"][n] + near).mean() > 0.05 - 0.03 - CHANCE
        assert (p < found["upper"][n] - near).mean() < 0.95 + 0.015 + CHANCE
        assert (p <= found["upper"][n] + near).mean() > 0.95 - 0.015 - CHANCE


def test_ends_of_wide_posteriors():
    fit, rows = cp_fit(3, np.ones((1, 3, 1)), np.array([[[1e4], [1.0], [1.0]]]))
    found = columns(fit, "X", rows)
    assert found["lower"][0] == pytest.approx(32, abs=2)
    assert found["upper"][0] == pytest.approx(44028, rel=0.01)
    fit, rows = cp_fit(4, np.full((1, 4, 1), 0.5), np.array([[[1e4], [1.0], [1.0], [1.0]]]))
    assert columns(fit, "X", rows)["probability"][0] == pytest.approx(0.852, abs=0.002)


def test_one_gamma_is_a_negative_binomial():
    C, mean = (grid.ravel() for grid in np.meshgrid(np.geomspace(0.01, 1e3, 26), np.geomspace(1e-6, 1e6, 25)))
    fit, rows = cp_fit(1, C[:, None, None], mean[:, None, None])
    found = columns(fit, "X", rows)
    count = stats.nbinom(C, C / (C + mean))
    np.testing.assert_allclose(found["probability"], -np.expm1(-C * np.log1p(mean / C)), atol=0.003)
    for end, level in (("lower", 0.05), ("upper", 0.95)):
        assert (count.cdf(found[end] - 1) < level + 0.004).all()
        assert (count.cdf(found[end]) > level - 0.004).all()
    links = columns(bernoulli(fit), "X", rows)
    rate = stats.gamma(C, scale=mean / C)
    none, both = (1 + mean / C) ** -C, (1 + 2 * mean / C) ** -C
    np.testing.assert_allclose(links["sd"], np.sqrt(np.maximum(both - none**2, 0)), atol=0.003)
    for end, level in (("lower", 0.05), ("upper", 0.95)):
        np.testing.assert_allclose(links[end], -np.expm1(-rate.ppf(level)), atol=0.006)


def test_ends_of_a_warm_and_a_cold_component():
    # Most of the mean is a rare jump; without it the rate is that of the warm component. Moments see one wide Gamma.
    C, E = np.array([[[400.0, 0.02]]]), np.array([[[1e3, 1e5]]])
    fit, rows = cp_fit(1, C, E)
    rng = np.random.default_rng(0)
    x = rng.poisson(cp_rates(C[0], E[0], 200_000, rng))
    found = columns(fit, "X", rows)
    assert misplaced(found["lower"][0], 0.05, x) < 0.012
    assert misplaced(found["upper"][0], 0.95, x) < 0.012


@pytest.mark.parametrize("name", ["tucker", "train", "lone_latent"])
@pytest.mark.parametrize("mean", [3.0, 1e5])
def test_ends_of_other_equations(name, mean):
    rng = np.random.default_rng(len(name))
    fit = with_posteriors(make(name).fit(max_iter=1), rng, 0.2, 5.0)
    equation = fit.model.equations[0]
    rows = rng.permutation(all_rows(equation))[:3]
    fit = scaled(fit, equation.factors[0], mean / columns(fit, "X", rows, ("mean",))["mean"].mean())
    found, links = columns(fit, "X", rows), columns(bernoulli(fit), "X", rows)
    for n, row in enumerate(rows):
        rate = Rates(fit).rates(row, DRAWS, rng)
        x = rng.poisson(rate)
        assert misplaced(found["lower"][n], 0.05, x) < 0.02 + CHANCE
        assert misplaced(found["upper"][n], 0.95, x) < 0.02 + CHANCE
        assert links["sd"][n] == pytest.approx(np.exp(-rate).std(), rel=0.06, abs=0.01)


def test_an_impossible_cell_is_0_in_every_column():
    fit, rows = cp_fit(2, np.ones((1, 2, 2)), np.zeros((1, 2, 2)))
    for one in (fit, bernoulli(fit)):
        assert {name: float(values[0]) for name, values in columns(one, "X", rows).items() if values[0]} == {}


def test_ends_with_certain_and_uncertain_factors():
    old, rows = cp_fit(2, np.full((1, 2, 3), 0.1), np.full((1, 2, 3), 30.0))
    found = columns(as_points(old, ["A"]), "X", rows)
    rng = np.random.default_rng(0)
    x = rng.poisson(30.0 * rng.gamma(0.1, 300.0, (100_000, 3)).sum(axis=1))
    assert misplaced(found["upper"][0], 0.95, x) < 0.01
