"""Gamma Markov chains, dense and term by term: the oracle's bound of models with ordered axes.

Every auxiliary z has a posterior of its own here, Gamma(2a + 1, rate a (E θ_{t−1} + E θ_t)); nothing is collapsed.
"""

import zlib
from dataclasses import replace

import numpy as np
from scipy.special import gammaln, psi

import plait
from tests.support import oracle
from tests.support.problems import make, state_of


def gamma_entropy(shape, rate):
    return shape - np.log(rate) + gammaln(shape) + (1 - shape) * psi(shape)


def gamma_density(log_x, x, shape, rate, log_rate=None):
    """E[log density] from E[log x] and E[x], for an expected rate and its expected logarithm."""
    log_rate = np.log(rate) if log_rate is None else log_rate
    return shape * log_rate - gammaln(shape) + (shape - 1) * log_x - rate * x


def bound_of_chain(C, D, a, a0, b0, axis):
    """E log p(θ, z) and the entropies, summed."""
    C, D = (np.moveaxis(array, axis, 0) for array in (C, D))
    E, log_E = C * D, psi(C) + np.log(D)
    shape, rate = 2 * a + 1, a * (E[:-1] + E[1:])
    z, log_z = shape / rate, psi(shape) - np.log(rate)
    first = gamma_density(log_E[0], E[0], a0, a0 / b0)
    of_z = gamma_density(log_z, z, a + 1, a * E[:-1], np.log(a) + log_E[:-1])
    of_theta = gamma_density(log_E[1:], E[1:], a, a * z, np.log(a) + log_z)
    parts = first, of_z, of_theta, gamma_entropy(C, 1 / D), gamma_entropy(np.full(rate.shape, shape), rate)
    return float(sum(part.sum() for part in parts))


def density_of_chain(theta, a, a0, b0, axis):
    """log p(θ, z) at the mode of z, summed."""
    theta = np.moveaxis(theta, axis, 0)
    z = 2 / (theta[:-1] + theta[1:])
    parts = (
        gamma_density(np.log(theta[0]), theta[0], a0, a0 / b0),
        gamma_density(np.log(z), z, a + 1, a * theta[:-1]),
        gamma_density(np.log(theta[1:]), theta[1:], a, a * z),
    )
    return float(sum(part.sum() for part in parts))


def ordered_case(name, way, likelihood, index, method="vb"):
    """A case of `support.problems` with an ordered axis, and priors: chains where they are possible."""
    case = make(name, way, likelihood)
    model = plait.Model(f"{case.model}\n{index}: ordered")
    rng = np.random.default_rng(zlib.crc32(f"{name} {index} {method}".encode()))
    priors = {}
    for factor in (factor for factor in model.factors if factor not in (case.fixed or {})):
        start = plait.Gamma(*(rng.uniform(1.2, 2.0, 2) if method == "map" else rng.uniform(0.5, 1.5, 2)))
        one = len(model._ordered_places(factor)) == 1
        priors[factor] = plait.GammaChain(float(rng.uniform(1.5, 30.0)), start) if one else start
    return replace(case, model=model, data=replace(case.data, model=model)), priors


def dense_objective(case, fit):
    """The objective of a fit's state, from scratch; and what tolerances are relative to."""
    chains = {name: prior for name, prior in fit.prior.items() if isinstance(prior, plait.GammaChain)}
    flat = dict.fromkeys(chains, (1.0, 1.0))
    others = {name: (p.concentration, p.mean) for name, p in fit.prior.items() if name not in chains}
    problem, state = replace(case.problem, prior=others | flat), state_of(fit, case.problem.free)
    value = oracle.objective(problem, state, fit.method)
    for name, prior in chains.items():
        factor = case.model.factor(name)
        (axis,) = (n for n, index in enumerate(factor.indices) if case.model.axis(index) in case.model.ordered)
        a0, b0 = (np.moveaxis(np.asarray(a) + np.zeros((1,) * len(factor.indices)), axis, 0)[0]
                  for a in (prior.start.concentration, prior.start.mean))  # fmt: skip
        own = prior.concentration, a0, b0, axis
        if fit.method == "vb":
            value += oracle.kl(1.0, 1.0, *state[name]).sum() + bound_of_chain(*state[name], *own)
        else:
            value += state[name].sum() + density_of_chain(state[name], *own)
    scale = oracle.total_rate(
        problem, (oracle.means(problem, state) if fit.method == "vb" else state | dict(problem.given))
    )
    return value, abs(value) + 2 * scale
