"""Fits with chosen posteriors, and exact draws of a cell's rate from them."""

from dataclasses import replace

import numpy as np

from plait.result import Posterior
from tests.models import SIZES


def with_posteriors(fit, rng, low, high):
    """The fit with random posteriors: concentrations between low and high, means about 1."""
    factors = {}
    for name, old in fit.factors.items():
        C = np.exp(rng.uniform(np.log(low), np.log(high), old.mean.shape))
        E = rng.gamma(2.0, 0.5, old.mean.shape)
        factors[name] = Posterior(old.indices, C, E / C, E, E)
    return replace(fit, factors=factors)


def scaled(fit, name, by):
    """The fit with one factor multiplied by a number."""
    old = fit.factors[name]
    new = Posterior(old.indices, old.concentration, old.scale * by, old.mean * by, old.geomean * by)
    return replace(fit, factors=fit.factors | {name: new})


def all_rows(equation):
    """Every cell of an equation of tests.models, as row numbers."""
    shape = tuple(SIZES[index] for index in equation.indices)
    return np.indices(shape).reshape(len(shape), -1).T.astype(np.int64) if shape else np.zeros((1, 0), np.int64)


def rate_draws(fit, relation, row, draws, rng):
    """Draws of Xhat at one cell: every factor's entries drawn from their Gammas, then the equation."""
    equation = fit.model.equation(relation)
    letters, inputs = {}, []
    for occurrence in equation.occurrences:
        if occurrence.factor not in fit.factors:  # an exposure
            continue
        factor = fit.factors[occurrence.factor]
        at = tuple(
            int(row[equation.indices.index(i)]) if i in equation.indices else slice(None) for i in occurrence.indices
        )
        C, D = factor.concentration[at], factor.scale[at]
        latent = [index for index in occurrence.indices if index not in equation.indices]
        inputs += [rng.gamma(C, D, (draws, *np.shape(C)))]
        inputs += [[0, *(letters.setdefault(index, len(letters) + 1) for index in latent)]]
    return np.einsum(*inputs, [0], optimize=True)
