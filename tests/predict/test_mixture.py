"""Predictions of an ensemble, the equally weighted mixture of its members: against sampling, and against SciPy."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from plait.analysis.predict import count_quantiles, intervals
from plait.analysis.predict.moments import mean_rate, moments, rates_along
from plait.analysis.predict.prediction import columns
from tests.support.posteriors import (
    all_rows,
    as_points,
    bernoulli,
    cp_fit,
    cp_rates,
    ensemble,
    misplaced,
    random_cp,
    scaled,
    with_posteriors,
)
from tests.support.problems import make
from tests.support.sum_posteriors import Rates

DRAWS = 24_000
CHANCE = 4 * np.sqrt(0.05 * 0.95 / DRAWS)  # what sampling may add to the mass beyond an end
OFF = 0.02  # of mass, at an end
SHAPES = [(1, 1), (2, 5), (3, 10), (5, 2)]
DECADES = [(-3.0, 0.0), (0.0, 2.5), (2.5, 5.0)]


def cp_members(factors, rank, members, apart, means, rng, cells=6):
    """CP fits whose rates are up to `apart` times each other's; their posteriors; the cells."""
    C, E = random_cp(factors, rank, cells, rng, means=means)
    posteriors, fits = [], []
    for _ in range(members):
        mine = C * np.exp(rng.normal(0.0, 0.5 if apart > 1 else 0.0, C.shape)), E.copy()
        mine[1][:, 0] *= apart ** rng.uniform(-0.5, 0.5, (cells, 1))
        fit, rows = cp_fit(factors, *mine)
        posteriors.append(mine)
        fits.append(fit)
    return fits, posteriors, rows


def check_counts(found, n, rates, rng):
    x = rng.poisson(rates)
    assert misplaced(found["lower"][n], 0.05, x) < OFF + CHANCE
    assert misplaced(found["upper"][n], 0.95, x) < OFF + CHANCE
    p = -np.expm1(-rates)
    assert abs(found["probability"][n] - p.mean()) < 0.01 + 4 * p.std() / np.sqrt(DRAWS)


def check_links(found, n, rates):
    p = -np.expm1(-rates)
    noise = 4 * np.sqrt(np.var((p - p.mean()) ** 2) / DRAWS) / (p.std() + 1e-12)
    assert abs(found["sd"][n] - p.std()) < 0.01 + 0.03 * p.std() + noise
    near = 1e-3 * p.mean()  # what is beyond digits that are shown does not count
    for end, level in (("lower", 0.05), ("upper", 0.95)):
        assert (p < found[end][n] - near).mean() < level + OFF + CHANCE
        assert (p <= found[end][n] + near).mean() > level - OFF - CHANCE


def both_columns(fits, rows):
    """The columns of the mixture as counts, and as links."""
    return columns(ensemble(fits), "X", rows), columns(ensemble([bernoulli(fit) for fit in fits]), "X", rows)


@pytest.mark.quick(rank=[2], apart=[10.0])
@pytest.mark.parametrize(("factors", "rank"), SHAPES)
@pytest.mark.parametrize("means", DECADES)
@pytest.mark.parametrize("apart", [1.0, 10.0])
def test_ends_and_sd_of_cp_cells(factors, rank, means, apart):
    rng = np.random.default_rng(int(100 * factors + rank + apart))
    fits, posteriors, rows = cp_members(factors, rank, 3, apart, means, rng)
    found, links = both_columns(fits, rows)
    for n in range(len(rows)):
        rates = np.concatenate([cp_rates(C[n], E[n], DRAWS // 3, rng) for C, E in posteriors])
        check_counts(found, n, rates, rng)
        check_links(links, n, rates)


@pytest.mark.parametrize(("name", "mean"), [("tucker", 0.5), ("tucker", 1e5), ("train", 0.5), ("train", 1e5), ("V", 1)])
def test_ends_and_sd_of_other_equations(name, mean):
    rng = np.random.default_rng(len(name))
    one = make("matrix", exposed=True).fit(max_iter=1) if name == "V" else make(name).fit(max_iter=1)
    equation = one.model.equations[0]
    rows = rng.permutation(all_rows(equation))[:3]
    fits = [with_posteriors(one, rng, 0.2, 5.0) for _ in range(3)]
    fits = [
        scaled(fit, equation.factors[0], mean * by / mean_rate(fit, "X", rows).mean())
        for fit, by in zip(fits, (1, 3, 0.3))
    ]
    V = one.exposures.terms["X"].at(rows) if name == "V" else np.ones(3)
    found, links = both_columns(fits, rows)
    for n, row in enumerate(rows):
        rates = V[n] * np.concatenate([Rates(fit).rates(row, DRAWS // 3, rng) for fit in fits])
        check_counts(found, n, rates, rng)
        check_links(links, n, rates)


def test_mean_and_variance_are_those_of_the_mixture():
    rng = np.random.default_rng(0)
    fits, _, rows = cp_members(2, 3, 4, 10.0, (0.0, 2.0), rng)
    each = [moments(fit, "X", rows) for fit in fits]
    m, v = np.array([mean for mean, _ in each]), np.array([variance for _, variance in each])
    found = columns(ensemble(fits), "X", rows, ("mean", "rate", "variance", "sd"))
    np.testing.assert_allclose(found["mean"], m.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(found["variance"], v.mean(axis=0) + m.var(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(found["sd"], np.sqrt(found["variance"]))
    np.testing.assert_array_equal(found["rate"], found["mean"])
    np.testing.assert_array_equal(moments(ensemble(fits), "X", rows), (found["mean"], found["variance"]))
    np.testing.assert_array_equal(mean_rate(ensemble(fits), "X", rows), found["mean"])


def test_probability_and_rates_along_an_index_are_means_over_members():
    rng = np.random.default_rng(1)
    fits, _, rows = cp_members(3, 2, 3, 10.0, (-2.0, 1.0), rng)
    for members in (fits, [bernoulli(fit) for fit in fits]):
        each = np.array([columns(fit, "X", rows)["probability"] for fit in members])
        np.testing.assert_allclose(columns(ensemble(members), "X", rows)["probability"], each.mean(axis=0), rtol=1e-13)
    along = np.array([rates_along(fit, "X", rows, "j") for fit in fits])
    np.testing.assert_allclose(rates_along(ensemble(fits), "X", rows, "j"), along.mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize("mean", [1e-3, 0.3, 5.0, 40.0, 3e3, 1e5, 1e200])
def test_points_are_mixtures_of_poissons(mean):
    sizes = mean * np.array([0.1, 1.0, 10.0])
    fits = [as_points(cp_fit(2, np.ones((1, 2, 1)), np.array([[[size], [1.0]]]))[0]) for size in sizes]
    rows = np.zeros((1, 2), np.int64)
    found, links = both_columns(fits, rows)
    assert links["lower"][0] == pytest.approx(-np.expm1(-sizes[0]))
    assert links["upper"][0] == pytest.approx(-np.expm1(-sizes[-1]))
    assert links["sd"][0] == pytest.approx(np.expm1(-sizes).std())
    if mean == 1e200:
        assert (found["lower"][0], found["upper"][0]) == (count_quantiles.MAX_COUNT, count_quantiles.MAX_COUNT)
        return
    assert found["sd"][0] == pytest.approx(sizes.std())
    for end, level in (("lower", 0.05), ("upper", 0.95)):
        assert stats.poisson.cdf(found[end][0] - 1, sizes).mean() < level + 0.003
        assert stats.poisson.cdf(found[end][0], sizes).mean() > level - 0.003


def test_gammas_are_mixtures_of_negative_binomials():
    C, mean = (grid.ravel() for grid in np.meshgrid(np.geomspace(0.01, 1e7, 19), np.geomspace(1e-3, 1e6, 19)))
    sizes = [mean, mean * 3, mean * 10]
    fits = [cp_fit(1, C[:, None, None], size[:, None, None])[0] for size in sizes]
    rows = np.arange(len(C))[:, None]
    found, links = both_columns(fits, rows)
    for end, level in (("lower", 0.05), ("upper", 0.95)):
        below, upto = (np.mean([stats.nbinom(C, C / (C + m)).cdf(found[end] - k) for m in sizes], 0) for k in (1, 0))
        assert (below < level + 0.01).all()
        assert (upto > level - 0.01).all()
        rate = -np.log1p(-np.minimum(links[end], 1 - 1e-13))
        shown = (links[end] > 1e-4) & (links[end] < 0.9999)
        mass = np.mean([stats.gamma(C, scale=m / C).cdf(rate) for m in sizes], axis=0)
        assert np.abs(mass - level)[shown].max() < 0.01


def test_an_interval_begins_at_0_if_0_is_probable():
    rng = np.random.default_rng(3)
    for factors, rank in SHAPES:
        fits, _, rows = cp_members(factors, rank, 2, 10.0, (-2.0, 2.0), rng, cells=100)
        found = columns(ensemble(fits), "X", rows)
        nothing = 1 - found["probability"]
        np.testing.assert_array_equal(found["lower"] == 0, nothing >= 0.05)
        np.testing.assert_array_equal(found["upper"] == 0, nothing >= 0.95)
        assert (found["lower"] <= found["upper"]).all()


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_chunks_change_no_answer(likelihood, tuning):
    fits, _, rows = cp_members(2, 3, 3, 10.0, (-1.0, 3.0), np.random.default_rng(7), cells=40)
    whole = ensemble([replace(fit, likelihood={"X": likelihood}) for fit in fits])
    before = columns(whole, "X", rows)
    tuning(mixture_points=7 * 3 * intervals.STRATA, predict_cells=33)
    for some in (slice(None), slice(3, 4), slice(0)):
        for name, values in columns(whole, "X", rows[some]).items():
            np.testing.assert_allclose(values, before[name][some], rtol=1e-9)
            assert values.dtype == before[name].dtype


@pytest.mark.thorough
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_a_million_cells_need_little_memory(likelihood):
    C, E = np.full((50, 2, 2), 300.0), np.full((50, 2, 2), 1.0)
    fits = [replace(cp_fit(2, C, E * by)[0], likelihood={"X": likelihood}) for by in (0.5, 1.0)]
    rows = np.random.default_rng(8).integers(0, 50, (1_000_000, 2))
    columns(ensemble(fits), "X", rows[:100])
    tracemalloc.start()
    found = columns(ensemble(fits), "X", rows)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    answers = sum(values.nbytes for values in found.values())
    assert most < answers + 250e6  # points of all cells at once would be 480 MB
