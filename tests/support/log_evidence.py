"""Log evidence, exact or by quadrature, of tiny models."""

import numpy as np
from scipy.special import gammaln, logsumexp, xlogy
from scipy.stats import gamma

from tests.support.oracle import (
    Array,
    Problem,
    cell_terms,
    factor_shapes,
    log_rate,
    logs_of,
    prior_of,
)


def repeated(problem: Problem, times: int) -> Problem:
    """The problem with one more visible index, "*", in front of everything: dense evaluation at many points at once."""
    return Problem(
        [(nu, ("*", *v), [(f, ("*", *i)) for f, i in occurrences]) for nu, v, occurrences in problem.equations],
        {nu: np.broadcast_to(x, (times, *np.shape(x))) for nu, x in problem.X.items()},
        M={nu: np.asarray(m)[None] for nu, m in problem.M.items()},
        V={nu: np.asarray(v)[None] for nu, v in problem.V.items()},
        likelihood=problem.likelihood,
        given={factor: np.broadcast_to(z, (times, *np.shape(z))) for factor, z in problem.given.items()},
    )


def gamma_poisson_log_evidence(x: Array, v: Array, A: float, B: float) -> float:
    """log p(x) for x_n ~ Poisson(v_n z), z ~ Gamma(A, mean B), exactly; for one x and v = 1 a log negative binomial."""
    x, v = np.asarray(x, dtype=float), np.asarray(v, dtype=float)
    rate, C = A / B, A + x.sum()
    data = float(np.sum(xlogy(x, v) - gammaln(x + 1)))
    return float(data + A * np.log(rate) - gammaln(A) + gammaln(C) - C * np.log(rate + v.sum()))


def log_evidence(problem: Problem, sizes: dict[str, int], *, nodes: int) -> float:
    """log p(X) by brute force: the trapezoid rule in the log of every entry of every factor, ``nodes`` points each.

    Costs ``nodes`` to the number of entries, so up to four of these. In the logs the integrand is smooth and vanishes
    at both ends, which makes the rule accurate to many digits once the nodes resolve it.
    """
    shapes = {factor: factor_shapes(problem.equations, sizes)[factor] for factor in problem.free}
    entries = [(factor, at) for factor, shape in shapes.items() for at in np.ndindex(shape)]
    assert nodes ** len(entries) <= 4_000_000, "too many entries for brute force"
    grids, log_weights = [], []
    for factor, at in entries:
        A, B = (value[at] for value in prior_of(problem, factor, shapes[factor]))
        prior = gamma(A, scale=B / A)
        u = np.linspace(np.log(prior.ppf(1e-11)), np.log(prior.isf(1e-14)) + 0.5, nodes)
        grids.append(u)
        log_weights.append(prior.logpdf(np.exp(u)) + u + np.log(u[1] - u[0]))
    mesh = np.meshgrid(*grids, indexing="ij")
    log_w = sum(np.meshgrid(*log_weights, indexing="ij")).ravel()
    # Every grid point is a value of one more visible index, so one dense evaluation does them all.
    logs = {factor: np.empty((log_w.size, *shape)) for factor, shape in shapes.items()}
    for (factor, at), values in zip(entries, mesh):
        logs[factor][(slice(None), *at)] = values.ravel()
    many = repeated(problem, log_w.size)
    logs |= logs_of(many, {})
    log_p = np.zeros(log_w.size)
    for terms in cell_terms(many, logs).values():
        log_p += terms.reshape(log_w.size, -1).sum(axis=1)
    for nu, log_lambda in log_rate(many, logs).items():
        log_p -= (many.weights(nu) * np.exp(log_lambda)).reshape(log_w.size, -1).sum(axis=1)
    return float(logsumexp(log_p + log_w))
