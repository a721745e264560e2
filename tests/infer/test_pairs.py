"""Free factors over pairs: rows for pairs with links, one for all others of an entity (MATH.md)."""

import numpy as np
import pytest

import plait
from plait.execute import Reference
from tests.pairs import PAIRS, RANKS, SIZES, draw, fit_of, objective, remembered, sparse, state_of, sweep  # noqa: F401

pytestmark = pytest.mark.usefixtures("sparse")

WAYS = ["all", "listed", "missing_cells", "pairs", "slices", "weighted_zeros", "weighted_cells"]


def dense_objective(fit, X, M, likelihood="poisson"):
    return objective(fit.model, state_of(fit), fit.method, fit.prior, X, M, likelihood)


def check_bound(fit, X, M, likelihood="poisson", rtol=1e-9):
    """The bound is that of the factors over all pairs, none of which share anything."""
    wanted, scale = dense_objective(fit, X, M, likelihood)
    assert abs(fit.bound - wanted) <= rtol * scale


@pytest.mark.parametrize("method", ["vb", "em", "map"])
@pytest.mark.parametrize("name", PAIRS)
def test_the_bound_is_that_of_the_same_posterior_over_all_pairs(name, method):
    for likelihood in ("poisson", "bernoulli"):
        model, data, X, M = draw(name, "all", likelihood)
        fit = fit_of(model, data, method)
        assert any(factor.pairs is not None for factor in fit.factors.values())
        check_bound(fit, X, M, likelihood)


@pytest.mark.parametrize("way", WAYS[1:])
@pytest.mark.parametrize("name", PAIRS)
def test_the_bound_is_that_over_all_pairs_whatever_is_observed(name, way):
    for method, likelihood in (("vb", "poisson"), ("map", "bernoulli")):
        model, data, X, M = draw(name, way, likelihood)
        check_bound(fit_of(model, data, method), X, M, likelihood)
