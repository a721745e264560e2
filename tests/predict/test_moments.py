"""Mean and variance of the rate: against sampling, and against the sum over pairs of latent settings."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

import plait
from plait.answer.predict import pieces
from plait.answer.predict.loops import multiply_moments
from plait.answer.predict.moments import mean_rate, moments, rates_along
from tests.cases import make
from tests.models import EXPOSED, MODELS, ONLY_EXPOSED, SIZES
from tests.predict.posteriors import all_rows, rate_draws, scaled, with_posteriors


def by_pairs(fit, relation, row):
    """E[Xhat] and Var[Xhat] = Σ_{l,l'} Π_α E[Z_α(l) Z_α(l')] − E[Xhat]², by enumeration."""
    equation = fit.model.equation(relation)
    occurrences = [o for o in equation.occurrences if o.factor in fit.factors]
    sizes = {i: s for o in occurrences for i, s in zip(o.indices, fit.factors[o.factor].mean.shape)}
    latent = [index for index in equation.latent if index in sizes]
    where = dict(zip(equation.indices, map(int, row)))
    first = second = 0.0
    places = [
        where | dict(zip(latent, setting)) for setting in itertools.product(*(range(sizes[index]) for index in latent))
    ]
    for here in places:
        first += np.prod([fit.factors[o.factor].mean[tuple(here[i] for i in o.indices)] for o in occurrences])
        for there in places:
            product = 1.0
            for o in occurrences:
                factor = fit.factors[o.factor]
                a, b = (tuple(place[i] for i in o.indices) for place in (here, there))
                product *= factor.mean[a] * factor.mean[b] + factor.sd[a] ** 2 * (a == b)
            second += product
    return first, second - first**2


@pytest.mark.sampled(18)
@pytest.mark.parametrize("name", MODELS)
def test_moments_are_those_of_the_sum_over_pairs_of_latent_settings(name):
    rng = np.random.default_rng(1)
    fit = with_posteriors(make(name).fit(sweeps=1), rng, 0.1, 20.0)
    for equation in fit.model.equations:
        rows = all_rows(equation)
        mean, variance = moments(fit, equation.relation, rows)
        np.testing.assert_allclose(mean_rate(fit, equation.relation, rows), mean, rtol=1e-12)
        for n in range(0, len(rows), max(1, len(rows) // 3)):
            m, v = by_pairs(fit, equation.relation, rows[n])
            np.testing.assert_allclose([mean[n], variance[n]], [m, v], rtol=1e-9)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("name", MODELS)
def test_moments_are_those_of_posterior_draws(name):
    rng = np.random.default_rng(2)
    fit = with_posteriors(make(name).fit(sweeps=1), rng, 1.0, 20.0)
    equation = fit.model.equations[0]
    row = all_rows(equation)[-1:]
    mean, variance = moments(fit, equation.relation, row)
    count = 200_000
    draws = rate_draws(fit, equation.relation, row[0], count, rng)
    assert abs(draws.mean() - mean[0]) < 5 * np.sqrt(variance[0] / count)
    squares = (draws - draws.mean()) ** 2
    assert abs(squares.mean() - variance[0]) < 6 * squares.std() / np.sqrt(count)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [*list(EXPOSED)[::5], *ONLY_EXPOSED])
def test_an_exposure_multiplies_the_mean_and_its_square_the_variance(name):
    rng = np.random.default_rng(3)
    if name in EXPOSED:
        fit = with_posteriors(make(name, exposed=True).fit(sweeps=1), rng, 0.5, 5.0)
    else:
        model = plait.Model(ONLY_EXPOSED[name])
        shape = {o.factor: [SIZES.get(i) for i in o.indices] for o in model.equations[0].occurrences}
        X = rng.poisson(1.0, [SIZES[i] for i in model.equations[0].indices])
        settings = {"fixed": {"V": rng.gamma(2.0, 1.0, shape["V"])}, "sweeps": 1, "seed": 0}
        fit = with_posteriors(plait.fit(model, {"X": X}, rank=2 if model.latent else None, **settings), rng, 0.5, 5.0)
    equation = fit.model.equations[0]
    rows = all_rows(equation)[::7]
    mean, variance = moments(fit, equation.relation, rows)
    V = fit.exposures.at(equation.relation, 0, rows)
    assert V is not None
    assert np.ptp(V) > 0
    for n in (0, len(rows) - 1):
        m, v = by_pairs(fit, equation.relation, rows[n])
        np.testing.assert_allclose([mean[n], variance[n]], [V[n] * m, V[n] ** 2 * v], rtol=1e-9)


@pytest.mark.parametrize("name", ["cp3", "tucker"])
@pytest.mark.parametrize("method", ["em", "map"])
def test_points_have_no_variance(name, method):
    fit = make(name).fit(method, sweeps=2)
    mean, variance = moments(fit, "X", all_rows(fit.model.equations[0]))
    assert mean.min() > 0
    assert (variance == 0).all()


@pytest.mark.parametrize("name", ["cp3", "tucker"])
def test_rates_too_large_to_be_squared_have_no_variance_either(name):
    fit = make(name).fit("em", sweeps=2)
    fit = scaled(fit, "A", 1e200)  # a long EM fit comes to such rates where it overfits
    rows = all_rows(fit.model.equations[0])
    mean, variance = moments(fit, "X", rows)
    assert (mean > 1e190).all()
    assert (variance == 0).all()
    table = fit.predict("X", {i: rows[:, k] for k, i in enumerate(fit.model.equations[0].indices)})
    assert np.isfinite(table["mean"].to_numpy()).all()
    assert (table["sd"].to_numpy() == 0).all()


@pytest.mark.parametrize("text", ["X[i,j] = A[i,r] B[j,r]", "X[i,j] = A[i,p] G[p,q] B[j,q]"])
def test_a_given_factor_has_no_variance_of_its_own(text):
    rng = np.random.default_rng(4)
    fixed = {"A": rng.gamma(1.0, 1.0, (4, 2))}
    fit = plait.fit(text, {"X": rng.poisson(2.0, (4, 5))}, rank=2, fixed=fixed, sweeps=2, seed=0)
    row = np.array([[1, 3]])
    np.testing.assert_allclose(np.stack(moments(fit, "X", row))[:, 0], by_pairs(fit, "X", row[0]), rtol=1e-10)


def test_a_variance_sixteen_digits_below_the_mean_is_not_lost():
    fit = make("cp3").fit(sweeps=1)
    tiny = {
        n: replace(f, concentration=np.full(f.mean.shape, 1e18), scale=f.mean / 1e18) for n, f in fit.factors.items()
    }
    fit = replace(fit, factors=tiny)
    rows = all_rows(fit.model.equations[0])
    _, variance = moments(fit, "X", rows)
    A, B, C = (fit.factors[name].mean for name in "ABC")
    # To first order each factor adds 1/C of the square of a component.
    wanted = 3e-18 * np.einsum("ir,jr,kr->ijk", A**2, B**2, C**2).ravel()
    np.testing.assert_allclose(variance, wanted, rtol=1e-9)


@given(
    st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(0.0, 1e6)), min_size=1, max_size=5),
)
@examples(max_examples=60, deadline=None)
def test_moments_of_a_product_do_not_depend_on_the_order_of_its_factors(entries):
    def product(order):
        m, v = np.ones((1, 1)), np.zeros((1, 1))
        for mean, scale in order:
            multiply_moments(np.zeros(1, np.int64), np.array([[mean]]), np.array([[scale]]), m, v)
        return m[0, 0], v[0, 0]

    forth, back = product(entries), product(entries[::-1])
    np.testing.assert_allclose(forth, back, rtol=1e-12)
    assert forth[1] >= 0


@pytest.mark.parametrize("name", [*list(MODELS)[::2], "two_visible_mixed_order"])
def test_rates_along_an_index_are_the_rates_of_its_cells(name):
    fit = make(name).fit(sweeps=1)
    for equation in fit.model.equations:
        rows = all_rows(equation)[::11]
        for place, index in enumerate(equation.indices):
            found = rates_along(fit, equation.relation, rows, index)
            assert found.shape == (len(rows), SIZES[index])
            for entity in range(SIZES[index]):
                cells = rows.copy()
                cells[:, place] = entity
                np.testing.assert_allclose(found[:, entity], mean_rate(fit, equation.relation, cells), rtol=1e-11)


def test_rates_along_an_index_include_the_exposure():
    fit = make("cp3", exposed=True).fit(sweeps=1)
    rows = all_rows(fit.model.equations[0])[:3]
    found = rates_along(fit, "X", rows, "k")
    cells = np.repeat(rows, SIZES["k"], axis=0)
    cells[:, 2] = np.tile(np.arange(SIZES["k"]), 3)
    np.testing.assert_allclose(found.ravel(), mean_rate(fit, "X", cells), rtol=1e-11)


@pytest.mark.parametrize("name", ["cp3", "tucker", "disconnected"])
def test_pieces_and_threads_do_not_change_a_bit(name, monkeypatch):
    fit = with_posteriors(make(name).fit(sweeps=1), np.random.default_rng(5), 0.1, 20.0)
    cells = all_rows(fit.model.equations[0])
    rows = np.tile(cells, (40_000 // len(cells), 1))
    mean, variance = moments(fit, "X", rows)
    monkeypatch.setattr(pieces, "processors", lambda: 3)
    again = moments(fit, "X", rows)
    alone = moments(fit, "X", cells)
    np.testing.assert_array_equal(mean, again[0])
    np.testing.assert_array_equal(variance, again[1])
    np.testing.assert_allclose(mean[: len(cells)], alone[0], rtol=1e-13)
    np.testing.assert_allclose(variance[: len(cells)], alone[1], rtol=1e-12)


def test_an_error_on_another_thread_is_not_swallowed(monkeypatch):
    monkeypatch.setattr(pieces, "processors", lambda: 2)

    def work(lo, hi):
        if lo >= 50:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        pieces.in_pieces(work, 100, 10)


@given(st.integers(0, 300), st.integers(0, 40))
@examples(max_examples=40, deadline=None)
def test_pieces_cover_every_cell_once(count, piece):
    seen = np.zeros(count, int)

    def work(lo, hi):
        assert 0 < hi - lo <= max(piece, 1)
        seen[lo:hi] += 1

    pieces.in_pieces(work, count, piece)
    assert (seen == 1).all()
