"""The row kernels against SciPy: every pattern of priors and exposures, every layout, doubles and floats."""

import itertools
import math

import numpy as np
import pytest
from scipy import special

from plait.codegen.layout import Layout
from plait.executors import Threads
from plait.inference.gamma import add_up, dot_mean, point, posterior, prior_terms, sum_over_rows
from plait.inference.updates import (
    RowEvidence,
    divergence,
    log_density,
    refresh_em,
    refresh_map,
    refresh_vb,
    update_em,
    update_map,
    update_vb,
)

ROWS = 5000  # enough for two threads
LAYOUTS = {
    "vector": Layout("a", ("i",), ("i",), (), (ROWS,)),
    "number": Layout("c", (), (), (), ()),
    "rank 3": Layout("A", ("i", "r"), ("i",), ("r",), (ROWS, 3)),
    "rank 20": Layout("A", ("i", "r"), ("i",), ("r",), (ROWS, 20)),
    "core": Layout("G", ("p", "q", "r"), (), ("p", "q", "r"), (3, 2, 11)),
    "matrices": Layout("W", ("i", "j", "p", "q"), ("i", "j"), ("p", "q"), (6, 5, 3, 9)),
}
PATTERNS = ["number", "by row", "by column", "by entry"]
MEAN = dict(zip(PATTERNS, ("by entry", "by column", "by row", "number")))  # of B, next to each pattern of A
TOLERANCE = {"float64": 1e-13, "float32": 3e-7}


def small(rng, layout, pattern, low=0.05, high=3.0):
    """A random positive array, inside, that differs in the ways of a pattern."""
    split = len(layout.visible)
    visible = layout.sizes[:split] if pattern in ("by row", "by entry") else (1,) * split
    latent = layout.sizes[split:] if pattern in ("by column", "by entry") else (1,) * len(layout.latent)
    return rng.uniform(low, high, visible + latent)


def stored(rng, layout, dtype="float64", spread=3.0):
    return layout.pack(np.exp(rng.normal(-1.0, spread, layout.sizes))).astype(dtype)


def terms(layout, A, B):
    return prior_terms(layout.spread(A), layout.spread(B))


def kl(C, D, A, rate):
    own = (C - A) * special.psi(C) - special.gammaln(C) + special.gammaln(A)
    return np.sum(own - A * np.log(D * rate) + C * (D * rate - 1.0))


def check_derived(factor, E, log_L, tolerance):
    layout = factor.layout
    peak = log_L.max(axis=tuple(range(len(layout.visible), log_L.ndim)), keepdims=True)
    found = [layout.unpack(a) for a in (factor.mean, factor.log_geomean, factor.exp_mean_log)]
    np.testing.assert_allclose(found[0], E, rtol=tolerance)
    np.testing.assert_allclose(found[1], log_L, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[2], np.exp(log_L - peak), rtol=1e3 * tolerance, atol=tolerance)
    np.testing.assert_allclose(factor.shift, peak.ravel(), rtol=tolerance, atol=tolerance)
    for array in (factor.mean, factor.exp_mean_log, *factor.parameters):
        blank = array.copy()
        layout.unpack(blank)[...] = 0
        assert not blank.any(), "padding must stay 0"


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(("prior", "exposed"), [*itertools.product(PATTERNS, PATTERNS)])
def test_a_vb_update_is_the_formula(name, prior, exposed, dtype):
    rng, layout, tolerance = np.random.default_rng(0), LAYOUTS[name], TOLERANCE[dtype]
    factor = posterior(layout, stored(rng, layout, dtype), stored(rng, layout, dtype))
    gradient, L = stored(rng, layout, dtype), layout.unpack(factor.exp_mean_log).astype(float)
    A, B, exposure = (small(rng, layout, pattern) for pattern in (prior, MEAN[prior], exposed))
    extra = stored(rng, layout) if exposed == "by entry" else None
    counts = layout.unpack(gradient).astype(float) * L + (0.0 if extra is None else layout.unpack(extra))
    evidence = RowEvidence(gradient, extra, layout.spread(exposure))
    found = update_vb(factor, evidence, terms(layout, A, B), Threads(2))
    C, D = np.broadcast_arrays(A + counts, 1.0 / (A / B + exposure))
    np.testing.assert_allclose(layout.unpack(factor.parameters[0]), C, rtol=tolerance)
    np.testing.assert_allclose(layout.unpack(factor.parameters[1]), D, rtol=tolerance)
    check_derived(factor, C * D, special.psi(C) + np.log(D), tolerance)
    assert found == pytest.approx(-kl(C, D, np.broadcast_to(A, C.shape), A / B), rel=1e-11)
    assert factor.version == 1


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("prior", PATTERNS)
def test_without_evidence_the_kl_is_exactly_0(name, prior):
    rng, layout = np.random.default_rng(2), LAYOUTS[name]
    factor = posterior(layout, stored(rng, layout), stored(rng, layout))
    A, B = small(rng, layout, prior, 1e-3, 20.0), small(rng, layout, MEAN[prior])
    evidence = RowEvidence(np.zeros(factor.mean.shape), None, np.zeros((1, 1)))
    assert update_vb(factor, evidence, terms(layout, A, B), Threads(2)) == 0.0
    assert (layout.unpack(factor.parameters[0]) == A).all()


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("prior", PATTERNS)
def test_a_placed_posterior_is_a_new_posterior(name, prior):
    rng, layout = np.random.default_rng(3), LAYOUTS[name]
    factor = posterior(layout, stored(rng, layout), stored(rng, layout))
    C, D = stored(rng, layout), stored(rng, layout)
    A, B = (small(rng, layout, pattern) for pattern in (prior, MEAN[prior]))
    factor.parameters[0][...], factor.parameters[1][...] = C, D
    found = refresh_vb(factor, layout.spread(A), layout.spread(B), Threads(2))
    made = posterior(layout, C, D)
    for placed, new in zip((*factor.parameters, *factor.derived), (C, D, *made.derived)):
        assert placed.tobytes() == new.tobytes()
    inside = layout.unpack(C), layout.unpack(D)
    check_derived(factor, inside[0] * inside[1], special.psi(inside[0]) + np.log(inside[1]), 1e-13)
    assert found == pytest.approx(-kl(*inside, np.broadcast_to(A, layout.sizes), A / B), rel=1e-11)
    assert divergence(factor, layout.spread(A), layout.spread(B)) == pytest.approx(found, rel=1e-12)
    assert factor.version == 1


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("prior", PATTERNS)
def test_a_map_update_is_the_formula(name, prior):
    rng, layout = np.random.default_rng(4), LAYOUTS[name]
    factor = point(layout, stored(rng, layout, spread=1.0))
    A, B = small(rng, layout, prior, 1.1, 4.0), small(rng, layout, MEAN[prior])
    gradient, L = stored(rng, layout, spread=1.0), layout.unpack(factor.exp_mean_log).copy()
    evidence = RowEvidence(gradient, None, np.full((1, 1), 0.4))
    found = update_map(factor, evidence, terms(layout, A, B), Threads(2))
    Z = (A - 1.0 + layout.unpack(gradient) * L) / (A / B + 0.4)
    check_derived(factor, Z, np.log(Z), 1e-13)
    density = (A - 1.0) * np.log(Z) - A * Z / B + A * np.log(A / B) - special.gammaln(A)
    assert found == pytest.approx(np.broadcast_to(density, layout.sizes).sum(), rel=1e-11)
    assert log_density(factor, layout.spread(A), layout.spread(B)) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize("name", LAYOUTS)
def test_em_keeps_zeros_and_what_was_not_observed(name):
    rng, layout = np.random.default_rng(5), LAYOUTS[name]
    start = stored(rng, layout, spread=1.0)
    exposure = layout.spread(np.where(rng.random(layout.sizes) < 0.5, 0.0, 1.5))
    gradient = np.where(rng.random(start.shape) < 0.3, 0.0, 2.0) * (start > 0)
    factor = point(layout, start.copy())
    expected = np.where(exposure > 0, gradient * factor.exp_mean_log / 1.5, start)
    update_em(factor, RowEvidence(gradient, None, exposure), Threads(2))
    np.testing.assert_allclose(factor.mean, expected, rtol=1e-15)
    inside = layout.unpack(factor.mean)
    assert np.isneginf(layout.unpack(factor.log_geomean)[inside == 0]).all()
    np.testing.assert_allclose(layout.unpack(factor.log_geomean)[inside > 0], np.log(inside[inside > 0]), atol=1e-14)


@pytest.mark.parametrize("method", ["em", "map"])
def test_a_placed_point_is_a_new_point(method):
    rng, layout = np.random.default_rng(6), LAYOUTS["rank 20"]
    factor, Z = point(layout, stored(rng, layout)), stored(rng, layout, spread=1.0)
    A, B = np.full((1, 1), 1.5), np.full((1, 1), 2.0)
    factor.mean[...] = Z
    found = refresh_map(factor, A, B, Threads(2)) if method == "map" else refresh_em(factor, Threads(2))
    made = point(layout, Z)
    for placed, new in zip(factor.derived, made.derived):
        assert placed.tobytes() == new.tobytes()
    assert found == (pytest.approx(log_density(made, A, B), rel=1e-13) if method == "map" else None)
    assert factor.version == 1


@pytest.mark.parametrize("made", [posterior, point])
@pytest.mark.parametrize("rank", [None, 24])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sums_of_means_and_their_dots_are_numpys(made, rank, dtype):
    rng, latent = np.random.default_rng(7), () if rank is None else ("r",)
    layout = Layout("A", ("i", *latent), ("i",), latent, (ROWS, *(24 for _ in latent)))
    parameters = [stored(rng, layout, dtype) for _ in range(2 if made is posterior else 1)]
    factor, weights = made(layout, *parameters), rng.normal(size=(ROWS, 1))
    mean = math.prod(parameters).astype(float)
    found = sum_over_rows(factor, "mean", Threads(2), weights)
    np.testing.assert_allclose(found, (weights * mean).sum(axis=0), rtol=1e-9)
    found = sum_over_rows(factor, "log_geomean", Threads(2))
    np.testing.assert_allclose(found, factor.log_geomean.sum(axis=0, dtype=float), rtol=1e-5)
    for columns in {1, layout.columns}:
        other = rng.normal(size=(ROWS, columns))
        assert dot_mean(factor, other, Threads(2)) == pytest.approx((mean * other).sum(), rel=1e-9)


@pytest.mark.parametrize("shapes", [[(ROWS, 80)], [(ROWS, 80), (1, 80), (ROWS, 80)], [(1, 1), (1, 24)], [(1, 24)] * 3])
def test_arrays_are_added_up_whatever_their_size(shapes):
    arrays = [np.random.default_rng(n).normal(size=shape) for n, shape in enumerate(shapes)]
    found = add_up(arrays, Threads(2))
    np.testing.assert_allclose(found, sum(arrays), rtol=1e-12, atol=1e-12)
    assert found.shape == np.broadcast_shapes(*shapes)


def test_means_and_totals_follow_the_updates_of_a_factor():
    rng, layout, threads = np.random.default_rng(8), LAYOUTS["rank 3"], Threads(2)
    factor = posterior(layout, stored(rng, layout), stored(rng, layout))
    before = factor.total("mean", threads).copy()
    factor.parameters[1][...] = stored(rng, layout)
    refresh_vb(factor, np.ones((1, 1)), np.ones((1, 1)), threads)
    assert np.array_equal(factor.mean, factor.parameters[0] * factor.parameters[1])
    np.testing.assert_allclose(factor.total("mean", threads), factor.mean.sum(axis=0), rtol=1e-12)
    assert not np.array_equal(factor.total("mean", threads), before)
