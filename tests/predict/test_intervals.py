"""Intervals of counts and of probabilities, at any mean: against sampling, and against closed forms by SciPy."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from plait.answer.predict import independent
from plait.answer.predict.operands import RateTerm, RowTable
from plait.answer.predict.prediction import columns
from plait.run.record import Posterior
from tests.cases import make
from tests.predict.posteriors import (
    all_rows,
    cp_fit,
    cp_rates,
    misplaced,
    random_cp,
    rate_draws,
    scaled,
    with_posteriors,
)

DRAWS = 20_000
CHANCE = 4 * np.sqrt(0.05 * 0.95 / DRAWS)  # what sampling may add to the mass beyond an end
SHAPES = [(1, 1), (1, 3), (2, 1), (2, 10), (3, 1), (3, 3), (3, 20), (3, 50), (4, 2), (5, 1), (5, 5)]


def bernoulli(fit):
    return replace(fit, likelihood={"X": "bernoulli"})


@pytest.mark.parametrize(("factors", "rank"), SHAPES)
def test_ends_and_probability_of_random_cp_cells_are_those_of_sampling_up_to_a_million(factors, rank):
    rng = np.random.default_rng(100 * factors + rank)
    C, E = random_cp(factors, rank, 8, rng, means=(0.0, 6.0))
    fit, rows = cp_fit(factors, C, E)
    found = columns(fit, "X", rows)
    for n in range(len(rows)):
        rate = cp_rates(C[n], E[n], DRAWS, rng)
        x = rng.poisson(rate)
        assert misplaced(found["low"][n], 0.05, x) < 0.015 + CHANCE
        assert misplaced(found["high"][n], 0.95, x) < 0.015 + CHANCE
        some = -np.expm1(-rate)
        assert abs(found["probability"][n] - some.mean()) < 0.01 + 4 * some.std() / np.sqrt(DRAWS)


@pytest.mark.parametrize(("factors", "rank"), SHAPES)
def test_under_bernoulli_sd_and_interval_are_those_of_the_probability(factors, rank):
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
        assert (p < found["low"][n] - near).mean() < 0.05 + 0.03 + CHANCE
        assert (p <= found["low"][n] + near).mean() > 0.05 - 0.03 - CHANCE
        assert (p < found["high"][n] - near).mean() < 0.95 + 0.015 + CHANCE
        assert (p <= found["high"][n] + near).mean() > 0.95 - 0.015 - CHANCE


def test_the_cells_of_the_audit():
    fit, rows = cp_fit(3, np.ones((1, 3, 1)), np.array([[[1e4], [1.0], [1.0]]]))
    found = columns(fit, "X", rows)
    assert found["low"][0] == pytest.approx(32, abs=2)
    assert found["high"][0] == pytest.approx(44028, rel=0.01)
    fit, rows = cp_fit(4, np.full((1, 4, 1), 0.5), np.array([[[1e4], [1.0], [1.0], [1.0]]]))
    assert columns(fit, "X", rows)["probability"][0] == pytest.approx(0.852, abs=0.002)


def test_a_single_gamma_is_a_negative_binomial_at_any_mean():
    C, mean = (grid.ravel() for grid in np.meshgrid(np.geomspace(0.01, 1e3, 26), np.geomspace(1e-6, 1e6, 25)))
    fit, rows = cp_fit(1, C[:, None, None], mean[:, None, None])
    found = columns(fit, "X", rows)
    count = stats.nbinom(C, C / (C + mean))
    np.testing.assert_allclose(found["probability"], -np.expm1(-C * np.log1p(mean / C)), atol=0.003)
    for end, level in (("low", 0.05), ("high", 0.95)):
        assert (count.cdf(found[end] - 1) < level + 0.004).all()
        assert (count.cdf(found[end]) > level - 0.004).all()
    links = columns(bernoulli(fit), "X", rows)
    rate = stats.gamma(C, scale=mean / C)
    none, both = (1 + mean / C) ** -C, (1 + 2 * mean / C) ** -C
    np.testing.assert_allclose(links["sd"], np.sqrt(np.maximum(both - none**2, 0)), atol=0.003)
    for end, level in (("low", 0.05), ("high", 0.95)):
        np.testing.assert_allclose(links[end], -np.expm1(-rate.ppf(level)), atol=0.006)


def test_a_warm_component_is_seen_below_a_cold_one():
    # Most of the mean is a rare jump; without it the rate is that of the warm component. Moments see one wide Gamma.
    C, E = np.array([[[400.0, 0.02]]]), np.array([[[1e3, 1e5]]])
    fit, rows = cp_fit(1, C, E)
    rng = np.random.default_rng(0)
    x = rng.poisson(cp_rates(C[0], E[0], 200_000, rng))
    found = columns(fit, "X", rows)
    assert misplaced(found["low"][0], 0.05, x) < 0.012
    assert misplaced(found["high"][0], 0.95, x) < 0.012


@pytest.mark.parametrize("name", ["tucker", "train", "lone_latent"])
@pytest.mark.parametrize("mean", [3.0, 1e5])
def test_ends_of_every_equation_are_those_of_sampling(name, mean):
    rng = np.random.default_rng(len(name))
    fit = with_posteriors(make(name).fit(sweeps=1), rng, 0.2, 5.0)
    equation = fit.model.equations[0]
    rows = rng.permutation(all_rows(equation))[:3]
    fit = scaled(fit, equation.factors[0], mean / columns(fit, "X", rows, ("mean",))["mean"].mean())
    found, links = columns(fit, "X", rows), columns(bernoulli(fit), "X", rows)
    for n, row in enumerate(rows):
        rate = rate_draws(fit, "X", row, DRAWS, rng)
        x = rng.poisson(rate)
        assert misplaced(found["low"][n], 0.05, x) < 0.02 + CHANCE
        assert misplaced(found["high"][n], 0.95, x) < 0.02 + CHANCE
        assert links["sd"][n] == pytest.approx(np.exp(-rate).std(), rel=0.06, abs=0.01)


def test_the_grid_keeps_the_moments_of_sums_and_products():
    rng = np.random.default_rng(0)
    C, E = np.exp(rng.uniform(np.log(0.3), np.log(3), (4, 3, 12))), rng.gamma(2.0, 1.0, (4, 3, 12))
    parts = [RowTable(str(k), np.arange(4), ("r",), E[:, k], E[:, k] / C[:, k]) for k in range(3)]
    found = {}
    independent.on_grid(
        [RateTerm(parts)], 0.0, lambda lo, hi, masses, mean, warm: found.update(m=masses, mean=mean, warm=warm)
    )
    nodes = found["mean"][:, None] * np.exp(
        independent.grid.LEAST + independent.grid.STEP * np.arange(independent.grid.NODES)
    )
    mean = (found["m"] * nodes).sum(axis=1)
    variance = (found["m"] * nodes**2).sum(axis=1) - mean**2
    exact = E.prod(axis=1) ** 2 * ((1 + 1 / C).prod(axis=1) - 1)
    np.testing.assert_allclose(mean + found["warm"][:, 0], E.prod(axis=1).sum(axis=1), rtol=1e-4)
    np.testing.assert_allclose(variance + found["warm"][:, 1], exact.sum(axis=1), rtol=0.02)


def test_an_impossible_cell_is_0_in_every_column():
    fit, rows = cp_fit(2, np.ones((1, 2, 2)), np.zeros((1, 2, 2)))
    for one in (fit, bernoulli(fit)):
        assert {name: float(values[0]) for name, values in columns(one, "X", rows).items() if values[0]} == {}


def test_certain_entries_beside_uncertain_ones_have_intervals():
    old, rows = cp_fit(2, np.full((1, 2, 3), 0.1), np.full((1, 2, 3), 30.0))
    A = old.factors["A"]
    point = Posterior(A.indices, np.full(A.mean.shape, np.inf), np.zeros(A.mean.shape), A.mean, A.mean)
    found = columns(replace(old, factors=old.factors | {"A": point}), "X", rows)
    rng = np.random.default_rng(0)
    x = rng.poisson(30.0 * rng.gamma(0.1, 300.0, (100_000, 3)).sum(axis=1))
    assert misplaced(found["high"][0], 0.95, x) < 0.01


def test_explain_says_the_interval_of_the_probability_under_bernoulli():
    fit = make("matrix", likelihood="bernoulli").fit(sweeps=3)
    cell = {index: fit.labels[index][0] for index in fit.model.equations[0].indices}
    told = fit.explain("X", cell)
    low, high = (100 * told.prediction[end] for end in ("low", "high"))
    line = str(told).splitlines()[1]
    assert f"(sd {told.prediction['sd']:.3g}); 90 % between {low:.0f} % and {high:.0f} %; rate " in line
