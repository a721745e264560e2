"""Intervals of predictions: of the count under Poisson, of the probability under Bernoulli, else of the value.

There are three methods. A rate hardly more skewed than a Gamma with its mean and variance is taken as one; the count is
then negative binomial. A narrow rate is expanded about a normal from three cumulants. All others go to a logarithmic
grid (`log_grid`, `grid_quantiles`). The same methods represent a rate by equally probable points for mixtures
(`mixture`).
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait import special
from plait._typing import Array, Rows
from plait.analysis.predict import count_quantiles, cp_distribution, grid_quantiles, monte_carlo
from plait.analysis.predict.moments import sum_moments
from plait.analysis.predict.operands import RateTerm, terms
from plait.data.sparse.parallel import in_pieces
from plait.storage.calibration import Curve
from plait.storage.fitted import Fitted

Marks = NDArray[np.bool_]
Levels = tuple[Array, Array]

LEVEL = 0.95  # of the upper end of the interval; the lower end has 1 − LEVEL
NORMAL_QUANTILE = 1.6448536269514722  # of LEVEL
MAX_LEVEL, MAX_NORMAL = 1 - 1e-8, 6.0  # of quantiles that calibration asks for, and of their normal quantiles
EXCESS = (
    0.2  # skewness beyond that of a Gamma: moves a twentieth of the mass by 0.006 at most, from one end to the other
)
MIN_WIDE_VARIANCE = 0.5  # relative; beyond, two moments do not give the low quantile
MAX_NARROW_VARIANCE = 1 / 8  # relative; below, a rate may be too narrow for the grid
MAX_NORMAL_SKEWNESS = 1.2  # up to which the expansion about a normal is good
CHUNK_CELLS = 1 << 13  # that a thread takes at a time
SLOW_CHUNK_CELLS = 1 << 7  # the same where each takes long
STRATA = (
    30  # points of a rate, at (j + ½)/STRATA: 1 − LEVEL and LEVEL are among them, so members that agree lose nothing
)
MIN_EXPONENT, MAX_EXPONENT = 0, 14  # of the table over C, in powers of two; beyond, a Gamma is nearly normal


def levels_of(miss: Array, calibration: Curve) -> Levels:
    """Levels (n,) at which the fit has the quantiles 1 − LEVEL and LEVEL of a calibrated value.

    Calibration replaces p = P(x > 0) by p' and keeps x | x > 0, so P'(x > q) = 1 − L where P(x > q) = (1 − L) p / p'.
    `miss`: −log P(x = 0) of the fit.
    """
    if calibration.is_identity:
        return np.full(len(miss), 1 - LEVEL), np.full(len(miss), LEVEL)
    links = -np.expm1(-miss)
    share = links / np.maximum(-np.expm1(-calibration.apply(miss)), 1e-300)
    low, high = (np.clip(1 - (1 - level) * share, 0.0, MAX_LEVEL) for level in (1 - LEVEL, LEVEL))
    return low, high


def normal_quantiles(levels: Levels, calibration: Curve) -> Levels:
    """Normal quantiles (n,) of `levels_of`."""
    if calibration.is_identity:
        return np.full(len(levels[0]), -NORMAL_QUANTILE), np.full(len(levels[1]), NORMAL_QUANTILE)
    low, high = (np.asarray(np.maximum(special.ndtri(level), -MAX_NORMAL)) for level in levels)
    return low, high


def calibrated(sd: Array, low: Array, high: Array, miss: Array, calibration: Curve) -> tuple[Array, Array, Array]:
    """Standard deviation and ends of the interval of a calibrated probability, (n,) each.

    `sd`: that of 1 − e^−λ; `low`, `high`: quantiles of λ, which transform as Λ = `miss` does. The standard deviation is
    to first order, and at most that of a link.
    """
    if not calibration.is_identity:
        nothing = np.exp(-calibration.apply(miss))
        sd = np.minimum(sd * calibration.probability_slope(miss), np.sqrt(nothing * (1 - nothing)))
        low, high = calibration.apply(low), calibration.apply(high)
    return sd, -np.expm1(-low), -np.expm1(-high)


def of_counts(
    fit: Fitted, relation: str, rows: Rows, mean: Array, variance: Array, miss: Array, calibration: Curve
) -> tuple[Rows, Rows]:
    """Quantiles 1 − LEVEL and LEVEL of the count at cells given by row numbers, integers (n,).

    `miss`: −log P(x = 0) of the fit, which decides where both are 0 once it is calibrated.
    """
    low, high = np.zeros(len(mean), np.int64), np.zeros(len(mean), np.int64)
    levels = levels_of(miss, calibration)
    z = normal_quantiles(levels, calibration)
    nothing = np.exp(-calibration.apply(miss))
    some = np.flatnonzero(nothing < LEVEL)
    like_gamma, narrow, others, skewed = _sorted(fit, relation, rows[some], mean[some], variance[some], noise=1.0)
    at = some[like_gamma]
    low[at], high[at] = _of_negative_binomials(mean[at], variance[at], miss[at], _at(levels, at), _at(z, at))
    at = some[narrow]
    for end, real in zip((low, high), _narrow(mean[at], variance[at], skewed[narrow], 1.0, _at(z, at))):
        end[at] = np.ceil(np.minimum(real, count_quantiles.MAX_COUNT) - 0.5).astype(np.int64)
    at = some[others]
    low[at], high[at] = _on_grid(terms(fit, relation, rows[at]), 1.0, _at(levels, at))[2:]
    low[some], high[some] = np.maximum(low[some], 1), np.maximum(high[some], 1)
    low[nothing >= 1 - LEVEL] = 0
    return low, high


def of_values(
    fit: Fitted, relation: str, rows: Rows, mean: Array, variance: Array, miss: Array, calibration: Curve
) -> tuple[Any, Any]:
    """Quantiles 1 − LEVEL and LEVEL of a value that is a sum over events, (n,); arguments as in `of_counts`."""
    likelihood, state = fit.likelihood[relation], fit.likelihood_params[relation]

    def quantiles_at(cells: Rows, level: Array) -> Array:
        points = link_strata(fit, relation, rows[cells], mean[cells], variance[cells])[0]
        quantiles = np.empty(len(cells))

        def work(lo: int, hi: int) -> None:
            quantiles[lo:hi] = likelihood.quantiles(points[lo:hi], level[lo:hi], state)

        in_pieces(work, len(cells), SLOW_CHUNK_CELLS)
        return quantiles

    levels = levels_of(miss, calibration)
    return value_ends(np.exp(-calibration.apply(miss)), levels, quantiles_at, whole=likelihood.whole)


def value_ends(
    nothing: Array, levels: Levels, quantiles_at: Callable[[Rows, Array], Array], *, whole: bool
) -> tuple[Any, Any]:
    """Quantiles of values, (n,); `nothing`: P(x = 0), which decides where they are 0; `levels`: elsewhere."""
    low, high = np.zeros(len(nothing)), np.zeros(len(nothing))
    for end, level, own in ((low, 1 - LEVEL, levels[0]), (high, LEVEL, levels[1])):
        cells = np.flatnonzero(nothing < level)
        end[cells] = np.maximum(quantiles_at(cells, own[cells]), 1.0 if whole else 0.0)
    return (low.astype(np.int64), high.astype(np.int64)) if whole else (low, high)


def of_links(fit: Fitted, relation: str, rows: Rows, mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Standard deviation of the probability 1 − e^−λ, and quantiles 1 − LEVEL and LEVEL of the rate, (n,) each."""
    sd, low, high = np.zeros(len(mean)), mean.copy(), mean.copy()
    like_gamma, narrow, others, skewed = _sorted(fit, relation, rows, mean, variance, noise=0.0)
    like_gamma &= variance > 0
    low[like_gamma], high[like_gamma] = _of_gammas(mean[like_gamma], variance[like_gamma])
    low[narrow], high[narrow] = _narrow(mean[narrow], variance[narrow], skewed[narrow], 0.0)
    by_moments = like_gamma | narrow
    grid_quantiles.gamma_spreads(mean, np.where(by_moments, variance, 0.0), sd)
    at = np.flatnonzero(others)
    _, sd[at], low[at], high[at] = _on_grid(terms(fit, relation, rows[at]), 0.0)
    return sd, low, high


def count_strata(fit: Fitted, relation: str, rows: Rows, mean: Array, variance: Array) -> tuple[Array, Array]:
    """The rate at cells as equally probable Gammas: means, (n, STRATA), and a variance, (n,).

    For counts: rates far below one event are not resolved. A rate close to a Gamma is one point.
    """
    like_gamma, narrow, others, skewed = _sorted(fit, relation, rows, mean, variance, noise=1.0)
    points, about = np.repeat(mean[:, None], STRATA, axis=1), np.where(like_gamma, variance, 0.0)
    points[narrow] = _narrow_strata(mean[narrow], variance[narrow], skewed[narrow])
    at = np.flatnonzero(others)
    strata, more = np.empty((len(at), STRATA)), np.empty(len(at))

    def finish(lo: int, hi: int, masses: Array, whole: Array, warm: Array) -> None:
        grid_quantiles.count_strata(masses, whole, warm, levels()[0], strata[lo:hi], more[lo:hi])

    _put_on_grid(terms(fit, relation, rows[at]), 1.0, finish)
    points[at], about[at] = strata, more
    return points, about


def link_strata(fit: Fitted, relation: str, rows: Rows, mean: Array, variance: Array) -> tuple[Array, Array]:
    """The rate at cells as equally probable points, (n, STRATA), and the sd of 1 − e^−λ, (n,)."""
    like_gamma, narrow, others, skewed = _sorted(fit, relation, rows, mean, variance, noise=0.0)
    points, sd = np.repeat(mean[:, None], STRATA, axis=1), np.zeros(len(mean))
    like_gamma &= np.sqrt(variance) > 1e-6 * mean
    sharp = like_gamma & (np.sqrt(variance) <= mean * 2.0 ** (-MAX_EXPONENT / 2))  # beyond the table, and hardly skewed
    narrow, like_gamma = narrow | sharp, like_gamma & ~sharp
    points[narrow] = _narrow_strata(mean[narrow], variance[narrow], skewed[narrow])
    points[like_gamma] = _gamma_strata(mean[like_gamma], variance[like_gamma])
    grid_quantiles.gamma_spreads(mean, np.where(others, 0.0, variance), sd)
    at = np.flatnonzero(others)
    strata, spread, miss = np.empty((len(at), STRATA)), np.empty(len(at)), np.empty(len(at))

    def finish(lo: int, hi: int, masses: Array, whole: Array, warm: Array) -> None:
        grid_quantiles.rate_strata(masses, whole, warm, levels()[0], strata[lo:hi])
        grid_quantiles.link_spread(masses, whole, warm, miss[lo:hi], spread[lo:hi])

    _put_on_grid(terms(fit, relation, rows[at]), 0.0, finish)
    points[at], sd[at] = strata, spread
    return points, sd


def neg_log_p_zero(parts: Sequence[RateTerm]) -> Array:
    """−log P(x = 0) from the grid, for any mean, (n,)."""
    return np.asarray(_on_grid(parts, 1.0)[0])


def _sorted(
    fit: Fitted, relation: str, rows: Rows, mean: Array, variance: Array, noise: float
) -> tuple[Marks, Marks, Marks, Array]:
    """Masks of cells close to Gammas, narrow ones and others; and κ₃/m³ of their rates."""
    some = np.sqrt(variance) > 1e-6 * mean  # below, rounding is larger than the third cumulant
    m, v = np.where(some, mean, 1.0), np.where(some, variance, 0.0)
    spread = v / m / m
    skewed = np.zeros(len(mean))
    if some.any():
        skewed[some] = _third_cumulants(terms(fit, relation, rows[some]), spread[some])
    unit = (spread + noise / m) ** 1.5
    like_gamma = ~some | ((skewed - 2 * spread**2 <= EXCESS * unit) & (spread <= MIN_WIDE_VARIANCE + noise / m))
    narrow = ~like_gamma & (spread < MAX_NARROW_VARIANCE) & (skewed <= MAX_NORMAL_SKEWNESS * spread**1.5)
    return like_gamma, narrow, ~(like_gamma | narrow), skewed


def _third_cumulants(parts: Sequence[RateTerm], spread: Array) -> Array:
    """κ₃/m³ of the rate at the terms' cells, (n,), from independent groups; `spread`: relative variance."""
    alone, others = cp_distribution.split(parts)
    groups = [alone, *others] if alone else others
    if len(groups) == 1:
        return _third_cumulant(groups[0], spread)
    moments = [sum_moments(group, variance=True) for group in groups]
    whole, result = np.sum([mean for mean, _ in moments], axis=0), np.zeros(len(spread))
    for group, (mean, variance) in zip(groups, moments):
        own = np.divide(variance, mean**2, out=np.zeros(len(mean)), where=mean > 0)
        result += (mean / whole) ** 3 * _third_cumulant(group, own)
    return result


def _third_cumulant(group: Sequence[RateTerm], spread: Array) -> Array:
    if cp_distribution.are_independent(group):
        return cp_distribution.third_cumulants(group)
    return 3 * spread**2  # that of a product of many Gammas with small variance


def _at(ends: Levels, cells: Rows) -> Levels:
    return ends[0][cells], ends[1][cells]


def _of_negative_binomials(mean: Array, variance: Array, miss: Array, levels: Levels, z: Levels) -> tuple[Rows, Rows]:
    low, high = np.empty(len(mean), np.int64), np.empty(len(mean), np.int64)

    def work(lo: int, hi: int) -> None:
        part = slice(lo, hi)
        for end, level, normal in zip((low, high), levels, z):
            count_quantiles.count_ends(mean[part], variance[part], miss[part], level[part], normal[part], end[part])

    in_pieces(work, len(mean), CHUNK_CELLS)
    return low, high


def _of_gammas(mean: Array, variance: Array) -> tuple[Array, Array]:
    scale = variance / mean
    low, high = (np.asarray(special.gammaincinv(mean / scale, level) * scale) for level in (1 - LEVEL, LEVEL))
    return low, high


def _narrow(mean: Array, variance: Array, skewed: Array, noise: float, z: Levels | None = None) -> tuple[Array, Array]:
    """Ends of rates (noise 0) or of counts (1); `z`: normal quantiles of their levels, ± NORMAL_QUANTILE by default."""
    z = z or (np.full(len(mean), -NORMAL_QUANTILE), np.full(len(mean), NORMAL_QUANTILE))
    ends = np.empty(len(mean)), np.empty(len(mean))
    for end, normal in zip(ends, z):
        count_quantiles.narrow_ends(mean, variance / mean**2, skewed, noise, normal, end)
    return ends


@cache
def levels() -> tuple[Array, Array]:
    """Levels of the points of a rate, (STRATA,), and their normal quantiles; read-only, as kernels expect."""
    middles = (np.arange(STRATA) + 0.5) / STRATA
    z = np.asarray(special.ndtri(middles))
    for array in (middles, z):
        array.flags.writeable = False
    return middles, z


@cache
def gamma_table() -> Array:
    """Points of a Gamma with mean 1, for C = 2^e (1 + k/16): (n_rows, STRATA)."""
    octaves = 2.0 ** np.arange(MIN_EXPONENT, MAX_EXPONENT, dtype=float)
    C = np.append((octaves[:, None] * (1 + np.arange(16) / 16)).reshape(-1), 2.0**MAX_EXPONENT)[:, None]
    table = np.asarray(special.gammaincinv(C, levels()[0]) / C)
    table.flags.writeable = False
    return table


def _narrow_strata(mean: Array, variance: Array, skewed: Array) -> Array:
    points = np.empty((len(mean), STRATA))
    count_quantiles.narrow_strata(mean, variance / mean**2, skewed, levels()[1], points)
    return points


def _gamma_strata(mean: Array, variance: Array) -> Array:
    points = np.empty((len(mean), STRATA))
    count_quantiles.gamma_strata(mean, variance, gamma_table(), MIN_EXPONENT, points)
    return points


def _on_grid(parts: Sequence[RateTerm], noise: float, levels: Levels | None = None) -> tuple[Array, Array, Any, Any]:
    """−log P(x = 0), the standard deviation of e^−λ, and quantiles: of the rate (noise 0) 1 − LEVEL and LEVEL, of the
    count (noise 1) at `levels`, if given.
    """
    miss, sd = np.zeros((2, parts[0].count))
    ends: Any = np.zeros((2, parts[0].count), np.int64 if noise else np.float64)
    low, high = ends

    def finish(lo: int, hi: int, masses: Array, mean: Array, warm: Array) -> None:
        grid_quantiles.link_spread(masses, mean, warm, miss[lo:hi], sd[lo:hi])
        if levels is not None:
            own = levels[0][lo:hi], levels[1][lo:hi]
            grid_quantiles.count_ends(masses, mean, warm, *own, low[lo:hi], high[lo:hi])
        elif not noise:
            grid_quantiles.rate_ends(masses, mean, warm, LEVEL, low[lo:hi], high[lo:hi])

    _put_on_grid(parts, noise, finish)
    return miss, sd, low, high


def _put_on_grid(parts: Sequence[RateTerm], noise: float, finish: cp_distribution.Finish) -> None:
    """Pass the rate of every cell on a logarithmic grid to `finish`, in chunks."""
    if not parts[0].count:
        return
    alone, others = cp_distribution.split(parts)
    if others:
        nothing = [RateTerm((), np.zeros(parts[0].count))]
        cp_distribution.on_grid(
            alone or nothing, noise, finish, *monte_carlo.rating([term for group in others for term in group])
        )
    else:
        cp_distribution.on_grid(alone, noise, finish)
