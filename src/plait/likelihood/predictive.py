"""Predictive probabilities and quantiles of a value with uncertain rate, given by equally probable points or two
moments.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plait import special
from plait._typing import Array, Floats

if TYPE_CHECKING:
    from plait.likelihood.interface import Likelihood, State


NODES = 64  # quadrature nodes of the integral over log λ
LEFT, RIGHT = -4.0, 3.0  # its ends: u = mode + sd · sinh s
RELATIVE_TOLERANCE = 1e-9  # of real-valued quantiles
MAX_SUMMED_VALUES = 1 << 14  # integers summed exactly; beyond, a normal with the same moments


def log_mixture(likelihood: "Likelihood", values: Floats, rates: Array, state: "State") -> Array:
    """log of the mean of p(x | λ) over rates (n, points), (n,)."""
    points = rates.shape[1]
    each = likelihood.log_chance(np.repeat(values, points), np.ascontiguousarray(rates).reshape(-1), state)
    each = each.reshape(rates.shape)
    logs = np.full(len(values), -np.inf)
    possible = np.isfinite(each).any(axis=1)
    logs[possible] = special.logsumexp(each[possible], axis=1) - np.log(points)
    return logs


def log_integral(likelihood: "Likelihood", values: Floats, mean: Array, variance: Array, state: "State") -> Array:
    """log ∫ p(x | λ) Gamma(λ; a, b) dλ, (n,), with a b = mean and a b² = variance.

    p(0) = (1 + b)^−a. For x > 0 the integrand in u = log λ has one peak, at λ (1 + 1/b) = a + E[n | x, λ], since Var[n]
    < E[n]. The quadrature has nodes that spread like sinh from the peak to 27 standard deviations below it; the tail
    falls at least like e^(a+1)u.
    """
    wide = (variance > 1e-9 * mean * mean) & (mean > 0)
    logs = likelihood.log_chance(values, np.where(wide, 1.0, mean), state)
    m, x = mean[wide], np.asarray(values[wide], np.float64)
    b = variance[wide] / m
    a = m / b
    own = -a * np.log1p(b)
    some = x > 0
    own[some] = _log_peaked(likelihood, x[some], a[some], b[some], state)
    logs[wide] = own
    return logs


def _log_peaked(likelihood: "Likelihood", x: Array, a: Array, b: Array, state: "State") -> Array:
    u = _mode(likelihood, x, a, b, state)
    expected = likelihood.expect(x, u, state)[0]
    curvature = a + expected - likelihood.variance(x, u, state)
    width = 1.0 / np.sqrt(np.maximum(curvature, 0.1 * (a + 1.0)))
    s = np.linspace(LEFT, RIGHT, NODES)
    at = u[:, None] + width[:, None] * np.sinh(s)
    flat = at.reshape(-1)
    term = likelihood.expect(np.repeat(x, NODES), flat, state)[1].reshape(at.shape)
    logs = a[:, None] * at - np.exp(at) * (1.0 + 1.0 / b)[:, None] + term + np.log(width[:, None] * np.cosh(s))
    total = special.logsumexp(logs, axis=1) + np.log(s[1] - s[0])
    return np.asarray(total - special.gammaln(a) - a * np.log(b) + likelihood.constants(x, state))


def _mode(likelihood: "Likelihood", x: Array, a: Array, b: Array, state: "State") -> Array:
    """log λ at the peak, by Newton's method on log((a + E[n])/(1 + 1/b)) − u, whose slope is negative."""
    total = np.log1p(1.0 / b)
    u = np.log(a + 1.0) - total
    for _ in range(50):
        counts = a + likelihood.expect(x, u, state)[0]
        slope = 1.0 - likelihood.variance(x, u, state) / counts
        step = np.clip((np.log(counts) - total - u) / np.maximum(slope, 1e-3), -5.0, 5.0)
        u = u + step
        if len(u) == 0 or np.abs(step).max() < 1e-6:
            break
    return np.asarray(u)


def summed(likelihood: "Likelihood", values: Array, rates: Array, state: "State") -> Array:
    """P(value ≤ x), (n,), of integers: an exact sum up to 16,384, a normal of equal moments beyond."""
    sums = np.empty(len(values))
    for n, value in enumerate(values):
        if value >= MAX_SUMMED_VALUES:
            sums[n] = _normal(likelihood, value, rates[n], state)
            continue
        counts = np.arange(np.floor(value) + 1.0)
        each = log_mixture(likelihood, counts, np.broadcast_to(rates[n], (len(counts), rates.shape[1])), state)
        sums[n] = min(float(np.exp(each).sum()), 1.0)
    return sums


def _normal(likelihood: "Likelihood", value: float, rates: Array, state: "State") -> float:
    mean, variance = likelihood.moments(rates, np.zeros(len(rates)), state)
    return float(special.ndtr((value + 0.5 - mean) / np.sqrt(np.maximum(variance, 1e-300))).mean())


def quantiles(below: "Short", scale: float, about: Array, level: Floats | float, *, whole: bool) -> Array:
    """Smallest value with P(x ≤ value) ≥ level, (n,): integers, or reals to nine digits.

    `level`: one, or (n,); `below`: P(x ≤ value) by cell; `scale`: of a single event; `about`: first guess, (n,).
    """
    quantiles, levels = np.zeros(len(about)), np.broadcast_to(level, len(about))

    def short(rows: NDArray[np.int64], values: Array) -> Array:
        """Probability missing to the level."""
        return levels[rows] - below(rows, values)

    rows = np.flatnonzero(short(np.arange(len(about)), quantiles) > 0)
    high = np.maximum(about[rows], scale)
    if whole:
        quantiles[rows] = _whole(short, rows, np.ceil(high))
    else:
        quantiles[rows] = _real(short, rows, high)
    return quantiles


Short = Callable[[NDArray[np.int64], Array], Array]


def _bracket(short: Short, rows: NDArray[np.int64], high: Array) -> tuple[Array, Array]:
    """low < quantile ≤ high."""
    low, high = np.zeros(len(rows)), high.copy()
    missing = np.flatnonzero(short(rows, high) > 0)
    while len(missing):
        low[missing], high[missing] = high[missing], 2.0 * high[missing]
        missing = missing[short(rows[missing], high[missing]) > 0]
    return low, high


def _whole(short: Short, rows: NDArray[np.int64], high: Array) -> Array:
    """Bisection over integers."""
    low, high = _bracket(short, rows, high)
    apart = np.flatnonzero(high - low > 1.0)
    while len(apart):
        middle = np.floor((low[apart] + high[apart]) / 2.0)
        less = short(rows[apart], middle) > 0
        low[apart] = np.where(less, middle, low[apart])
        high[apart] = np.where(less, high[apart], middle)
        apart = apart[high[apart] - low[apart] > np.maximum(1.0, 1e-15 * high[apart])]
    return high


def _real(short: Short, rows: NDArray[np.int64], high: Array) -> Array:
    """Regula falsi (Illinois) within the bracket, with bisection every third step."""
    low, high = _bracket(short, rows, high)
    below, above = short(rows, low), short(rows, high)
    apart = np.arange(len(rows))
    for turn in range(200):
        a, b, fa, fb = low[apart], high[apart], below[apart], above[apart]
        share = np.clip(fa / (fa - fb), 1e-3, 1.0 - 1e-3) if turn % 3 != 2 else np.full(len(a), 0.5)
        middle = a + share * (b - a)
        value = short(rows[apart], middle)
        less = value > 0
        low[apart], below[apart] = np.where(less, middle, a), np.where(less, value, fa / 2.0)
        high[apart], above[apart] = np.where(less, b, middle), np.where(less, fb / 2.0, value)
        apart = apart[high[apart] - low[apart] > RELATIVE_TOLERANCE * high[apart]]
        if not len(apart):
            break
    return high
