"""Mean and variance of the rate, against the sum over pairs of latent settings."""

from dataclasses import replace

import numpy as np
import pytest

import plait
from plait.analysis.predict.moments import mean_rate, moments, rates_along
from plait.data.sparse import parallel
from tests.support.models import EXPOSED, MODELS, ONLY_EXPOSED, SIZES
from tests.support.posteriors import all_rows, scaled, with_posteriors
from tests.support.problems import make
from tests.support.sum_posteriors import Rates


@pytest.mark.quick(name=["matrix", "cp3", "tucker", "bias"])
@pytest.mark.parametrize("name", MODELS)
def test_moments_by_enumeration(name):
    rng = np.random.default_rng(1)
    fit = with_posteriors(make(name).fit(max_iter=1), rng, 0.1, 20.0)
    for equation in fit.model.equations:
        rows = all_rows(equation)
        mean, variance = moments(fit, equation.relation, rows)
        np.testing.assert_allclose(mean_rate(fit, equation.relation, rows), mean, rtol=1e-12)
        for n in range(0, len(rows), max(1, len(rows) // 3)):
            m, v = Rates(fit, relation=equation.relation).moments(rows[n])
            np.testing.assert_allclose([mean[n], variance[n]], [m, v], rtol=1e-9)


@pytest.mark.quick(name=["matrix"])
@pytest.mark.parametrize("name", [*list(EXPOSED)[::5], *ONLY_EXPOSED])
def test_moments_under_an_exposure(name):
    rng = np.random.default_rng(3)
    if name in EXPOSED:
        fit = with_posteriors(make(name, exposed=True).fit(max_iter=1), rng, 0.5, 5.0)
    else:
        model = plait.Model(ONLY_EXPOSED[name])
        shape = {o.factor: [SIZES.get(i) for i in o.indices] for o in model.equations[0].occurrences}
        X = rng.poisson(1.0, [SIZES[i] for i in model.equations[0].indices])
        settings = {"fixed": {"V": rng.gamma(2.0, 1.0, shape["V"])}, "max_iter": 1, "seed": 0}
        fit = with_posteriors(plait.fit(model, {"X": X}, rank=2 if model.latent else None, **settings), rng, 0.5, 5.0)
    equation = fit.model.equations[0]
    rows = all_rows(equation)[::7]
    mean, variance = moments(fit, equation.relation, rows)
    V = fit.exposures.at(equation.relation, 0, rows)
    assert V is not None
    assert np.ptp(V) > 0
    for n in (0, len(rows) - 1):
        m, v = Rates(fit, relation=equation.relation).moments(rows[n])
        np.testing.assert_allclose([mean[n], variance[n]], [V[n] * m, V[n] ** 2 * v], rtol=1e-9)


@pytest.mark.parametrize("name", ["cp3", "tucker"])
@pytest.mark.parametrize("method", ["em", "map"])
def test_points_have_no_variance_even_if_rates_are_too_large_to_be_squared(name, method):
    fit = make(name).fit(method, max_iter=2)
    rows = all_rows(fit.model.equations[0])
    for by in (1.0, 1e200):
        mean, variance = moments(scaled(fit, "A", by), "X", rows)
        assert (mean > 0).all()
        assert np.isfinite(mean).all()
        assert (variance == 0).all()


@pytest.mark.parametrize("text", ["X[i,j] = A[i,r] B[j,r]", "X[i,j] = A[i,p] G[p,q] B[j,q]"])
def test_a_given_factor_has_no_variance(text):
    rng = np.random.default_rng(4)
    fixed = {"A": rng.gamma(1.0, 1.0, (4, 2))}
    fit = plait.fit(text, {"X": rng.poisson(2.0, (4, 5))}, rank=2, fixed=fixed, max_iter=2, seed=0)
    row = np.array([[1, 3]])
    np.testing.assert_allclose(np.stack(moments(fit, "X", row))[:, 0], Rates(fit).moments(row[0]), rtol=1e-10)


def test_a_tiny_variance_is_not_lost():
    fit = make("cp3").fit(max_iter=1)
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


@pytest.mark.parametrize(
    ("name", "exposed"), [*((n, False) for n in list(MODELS)[::2]), ("two_visible_mixed_order", False), ("cp3", True)]
)
def test_rates_along_an_index_are_the_rates_of_its_cells(name, exposed):
    fit = make(name, exposed=exposed).fit(max_iter=1)
    for equation in fit.model.equations:
        rows = all_rows(equation)[::11]
        for place, index in enumerate(equation.indices):
            found = rates_along(fit, equation.relation, rows, index)
            assert found.shape == (len(rows), SIZES[index])
            for entity in range(SIZES[index]):
                cells = rows.copy()
                cells[:, place] = entity
                np.testing.assert_allclose(found[:, entity], mean_rate(fit, equation.relation, cells), rtol=1e-11)


@pytest.mark.parametrize("name", ["cp3", "tucker", "disconnected"])
def test_threads_change_no_bit(name, tuning):
    fit = with_posteriors(make(name).fit(max_iter=1), np.random.default_rng(5), 0.1, 20.0)
    cells = all_rows(fit.model.equations[0])
    rows = np.tile(cells, (40_000 // len(cells), 1))
    found = np.stack(moments(fit, "X", rows))
    tuning(processors=3)
    np.testing.assert_array_equal(found, np.stack(moments(fit, "X", rows)))
    np.testing.assert_allclose(found[:, : len(cells)], np.stack(moments(fit, "X", cells)), rtol=1e-12)


def test_an_error_on_a_thread_is_raised(tuning):
    tuning(processors=2)
    with pytest.raises(ZeroDivisionError):
        parallel.in_pieces(lambda lo, hi: 1 // (lo < 50), 100, 10)
