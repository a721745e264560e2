"""Models and checks of the laws that every fit obeys."""

import numpy as np
import pytest

import plait
from plait.executors import Reference
from tests.support.models import DOUBLED, SUMS
from tests.support.problems import own_bounds
from tests.support.ways_of_observing import WAYS

PRODUCTS = (
    "matrix", "cp5", "cp3_weighted", "cp3_mixed_order", "tucker_mixed_order", "train", "bias", "two_visible",
    "lone_latent", "disconnected_vector", "sums_only", "coupled_paper", "coupled_tucker", "friends_two_names",
)  # fmt: skip
NAMES = (*PRODUCTS, *SUMS, *DOUBLED)
BOTH_LIKELIHOODS = pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
METHODS = {"vb": {}, "em": {}, "map": {"prior": plait.Gamma(1.2, 1.0)}}
DENSE = {"executor": Reference()}  # kernels equal it (tests/codegen), and cost a second each


def dense_sums(name):
    """The settings of a fit: sums of products are fitted by dense sums."""
    return {} if name in PRODUCTS else DENSE


def parse_strategy(name, number=0):
    """Spread the ways of observing over the models."""
    return list(WAYS)[(NAMES.index(name) + number) % len(WAYS)]


def rises(case, fit):
    """No sweep lowers the bound by more than rounding."""
    falls = -np.diff([record.objective for record in fit.history])
    assert falls.max() <= 1e-9 * case.slack(fit), f"sweep {falls.argmax() + 1} lowers the bound by {falls.max():.3g}"


def own_bounds_rise(fit, rtol=1e-9):
    """No sweep after the warm-up lowers the bound by more than rounding."""
    bounds = own_bounds(fit)
    assert np.diff(bounds).min() >= -rtol * np.abs(bounds).max()


def finite(fit):
    """Nothing in a fit is NaN or infinite, except the concentration of a point."""
    for name, factor in fit.factors.items():
        words = ("mean", "exp_mean_log", "sd", "scale", *(("concentration",) if fit.method == "vb" else ()))
        for word in words:
            values = getattr(factor, word)
            assert np.isfinite(values).all(), f"{word} of {name}"
            assert (values >= 0).all(), f"{word} of {name}"
    for name, prior in fit.prior.items():
        assert np.isfinite(prior.concentration).all(), name
        assert np.isfinite(prior.mean).all(), name
    assert all(np.isfinite(record.objective) for record in fit.history)
    warm_up = [record.objective for record in fit.history if record.warm_up]
    for bounds in (warm_up, own_bounds(fit)):
        assert -np.diff(bounds).min(initial=0.0) <= 1e-7 * (1 + np.abs(bounds).max(initial=0.0))
    return fit
