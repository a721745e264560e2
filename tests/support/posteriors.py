"""Fits with chosen posteriors, and exact draws of a cell's rate from them."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

import plait
from plait import Posterior
from plait.data.encoding.names import Labels
from tests.support.models import SIZES

EQUATIONS = {
    1: "X[i] = A[i,r]",
    2: "X[i,j] = A[i,r] B[j,r]",
    3: "X[i,j,k] = A[i,r] B[j,r] C[k,r]",
    4: "X[i,j,k,l] = A[i,r] B[j,r] C[k,r] D[l,r]",
    5: "X[i,j,k,l,m] = A[i,r] B[j,r] C[k,r] D[l,r] F[m,r]",
}


def cp_fit(factors, C, E):
    """A CP fit whose cell (n, n, …) has the posteriors C[n, k, :], E[n, k, :] in factor k, and these cells."""
    text = EQUATIONS[factors]
    tiny = plait.fit(
        text, {"X": plait.Relation(np.ones((2,) * factors), likelihood="poisson")}, rank=1, max_iter=1, seed=0
    )
    posteriors = {
        name: Posterior(old.indices, C[:, k], E[:, k] / C[:, k], E[:, k], E[:, k])
        for k, (name, old) in enumerate(tiny.factors.items())
    }
    labels = {index: Labels.count(index, len(C)) for index in tiny.entities}
    fit = replace(tiny, rank={"r": C.shape[2]}, factors=posteriors, entities=labels)
    return fit, np.repeat(np.arange(len(C))[:, None], factors, axis=1)


def random_cp(factors, rank, cells, rng, means=(-6.0, 6.0)):
    """Concentrations 0.01–1000 and means of the entries of random cells, (cells, factors, rank); rates 10^means."""
    C, E = np.empty((cells, factors, rank)), np.ones((cells, factors, rank))
    for n in range(cells):
        low = 10 ** rng.uniform(-2, 1)
        high = 1e3 if rng.random() < 0.5 else 3 * low
        C[n] = np.exp(rng.uniform(np.log(low), np.log(high), (factors, rank)))
        E[n, 0] = 10 ** rng.uniform(*means) * (rng.dirichlet(np.full(rank, rng.choice([0.1, 1, 10]))) + 1e-12)
    return C, E


def cp_rates(C, E, draws, rng):
    """Draws of the rate of one cell of `cp_fit`: C, E (factors, rank) -> (draws,)."""
    return rng.gamma(C, E / C, (draws, *C.shape)).prod(axis=1).sum(axis=1)


def misplaced(end, level, draws):
    """By how much mass an end misses being a quantile of the draws: 0 where P(x < end) ≤ level ≤ P(x ≤ end)."""
    return max(0.0, (draws < end).mean() - level, level - (draws <= end).mean())


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
    new = Posterior(old.indices, old.concentration, old.scale * by, old.mean * by, old.exp_mean_log * by)
    return replace(fit, factors=fit.factors | {name: new})


def all_rows(equation):
    """Every cell of an equation of tests.support.models, as row numbers."""
    shape = tuple(SIZES[index] for index in equation.indices)
    return np.indices(shape).reshape(len(shape), -1).T.astype(np.int64) if shape else np.zeros((1, 0), np.int64)


def ensemble(fits):
    """What answers as the mixture of some fits of one model."""
    return SimpleNamespace(**vars(fits[0]) | {"members": tuple(fits)})


def bernoulli(fit):
    return replace(fit, likelihood={"X": "bernoulli"})


def as_points(fit, names=None):
    """The fit with the means of some factors, or of all, as points, as EM and MAP have them."""
    factors = dict(fit.factors)
    for name in names or factors:
        old = factors[name]
        factors[name] = Posterior(old.indices, np.full(old.mean.shape, np.inf), 0 * old.mean, old.mean, old.mean)
    return replace(fit, factors=factors)
