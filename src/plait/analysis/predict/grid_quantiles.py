"""Quantiles and P(x = 0) of a rate on a logarithmic grid, and of its count.

The rate is B + W: B has masses on the grid (`log_grid`), W is the sum of components that may be narrower than a step,
given by mean, variance and third cumulant. With G a Gamma of concentration k + 1 and scale 1

    P(x ≤ k) = P(B + W < G) = P(B < G − W),     and for the rate     P(B + W < y) = P(B < y − W).

Counts below SUMMED_COUNTS are summed exactly. Above, G − W is nearly normal with a little skewness. B's distribution
function is a cubic between nodes, taken as linear between FINE points of each step, over which the normal's is
integrated in closed form, whichever of the two is narrower.
"""

import math

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.analysis.predict.kernels import surprise
from plait.analysis.predict.log_grid import FIRST_LOG, GRID_NODES, GRID_STEP
from plait.jit import inlined, kernel, tiered_kernel

Counts = NDArray[np.int64]

SUMMED_COUNTS = 16
FINE = 4
POINTS = FINE * (GRID_NODES - 1) + 1
GAP = GRID_STEP / FINE
MAX_SD = 6.0  # standard deviations at which a normal is cut
SEARCH_TOLERANCE = 1e-5  # relative
MAX_COUNT = 2.0**62
ROOT_HALF = 0.7071067811865476
NEGLIGIBLE_SD = 0.003  # of the narrow part: smaller rates count as 0 next to it
QUANTILE_STEP = 0.2  # between points of the distribution of B + W, in asinh((y − E[W]) / sd)


@kernel
def link_spread(masses: Array, mean: Array, warm: Array, miss: Array, sd: Array) -> None:
    """−log P(x = 0) = −log E[e^−λ], and the standard deviation of e^−λ.

    masses (n, GRID_NODES), warm (n, 3), others (n,).
    """
    for n in range(len(mean)):
        under = 1.0 - masses[n].sum()
        nothing, rate = under, mean[n] * math.exp(FIRST_LOG)
        for i in range(GRID_NODES):
            nothing += masses[n, i] * math.exp(-rate)
            rate *= math.exp(GRID_STEP)
        spread, rate = under * (1.0 - nothing) ** 2, mean[n] * math.exp(FIRST_LOG)
        for i in range(GRID_NODES):
            spread += masses[n, i] * (math.exp(-rate) - nothing) ** 2
            rate *= math.exp(GRID_STEP)
        m, v = warm[n, 0], warm[n, 1]
        certain = math.exp(-2.0 * surprise(m, v))
        more = gamma_spread(m, v)
        miss[n] = surprise(m, v) - math.log(max(nothing, 1e-300))
        sd[n] = math.sqrt(max(spread * (certain + more) + nothing * nothing * more, 0.0))


@inlined
def gamma_spread(m: float, v: float) -> float:
    """Variance of e^−λ for a Gamma with mean m and variance v: (1 + 2r)^−s − (1 + r)^−2s with r = v/m and s = m/r."""
    if v <= 0.0 or m <= 0.0:
        return 0.0
    r = v / m
    apart = m / r * math.log1p(r * r / (1.0 + 2.0 * r))  # difference of the logarithms
    if apart < 1.0:
        return math.exp(-2.0 * surprise(m, v)) * math.expm1(apart)
    return math.exp(-m / r * math.log1p(2.0 * r)) - math.exp(-2.0 * surprise(m, v))


@tiered_kernel("mean")
def gamma_spreads(mean: Array, variance: Array, sd: Array) -> None:
    """The standard deviation of e^−λ for Gammas with these moments, (n,)."""
    for n in range(len(mean)):
        sd[n] = math.sqrt(gamma_spread(mean[n], variance[n]))


@inlined
def accumulate(masses: Array, below: Array) -> None:
    """below[q] = P(B < m·e^(FIRST_LOG + q·GAP)) from one cell's masses: Gregory's rule at nodes, cubics between."""
    total = 1.0 - masses.sum()
    for i in range(GRID_NODES):
        before, after = masses[max(i - 1, 0)], masses[min(i + 1, GRID_NODES - 1)]
        below[FINE * i] = total + 0.5 * masses[i] - (after - before) / 24.0
        total += masses[i]
    for i in range(GRID_NODES - 1):
        b, c = below[FINE * i], below[FINE * i + FINE]
        a = below[FINE * i - FINE] if i else b
        d = below[FINE * i + 2 * FINE] if i < GRID_NODES - 2 else c
        for q in range(1, FINE):
            f = q / FINE
            below[FINE * i + q] = b + 0.5 * f * (c - a + f * (2 * a - 5 * b + 4 * c - d + f * (3 * (b - c) + d - a)))
    most = 0.0
    for q in range(POINTS):  # rounding and shares of three nodes may break monotony
        most = min(max(most, below[q]), 1.0)
        below[q] = most


@inlined
def normal(z: float, skew: float) -> float:
    """P(T > −z) for a normal with the first Edgeworth term for its skewness."""
    density = math.exp(-0.5 * z * z) * 0.3989422804014327
    return 0.5 * math.erfc(-z * ROOT_HALF) + density * skew * (z * z - 1.0) / 6.0


@inlined
def integral(z: float, skew: float) -> float:
    """∫ of `normal` up to z."""
    density = math.exp(-0.5 * z * z) * 0.3989422804014327
    return 0.5 * z * math.erfc(-z * ROOT_HALF) + density * (1.0 - skew * z / 6.0)


@inlined
def chance_below(centre: float, sd: float, skew: float, m: float, below: Array, first: int) -> float:
    """P(B < T) for T of this mean, standard deviation and skewness; m: the mean of the grid.

    `first`: the point below which B counts as 0.
    """
    sd = max(sd, 1e-9 * abs(centre), 1e-300)
    least, most = centre - MAX_SD * sd, centre + MAX_SD * sd
    start = m * math.exp(FIRST_LOG + first * GAP)
    if most <= 0.0:
        return 0.0
    q = first
    if least > start:
        q = int((math.log(least / m) - FIRST_LOG) / GAP)
        if q >= POINTS - 1:
            return 1.0
        result = float(below[q])
    else:
        result = below[first] * normal(centre / sd, skew)
    rate = m * math.exp(FIRST_LOG + q * GAP)
    last = integral((centre - rate) / sd, skew)
    while q < POINTS - 1 and rate < most:
        more = rate * (math.exp(GAP) - 1.0)
        width = more / sd
        following = integral((centre - rate - more) / sd, skew)
        if width > 1e-3:
            share = (last - following) / width
        else:
            share = normal((centre - rate - 0.5 * more) / sd, skew)
        result += (below[q + 1] - below[q]) * share
        rate, last = rate + more, following
        q += 1
    return result


@inlined
def chance_of_count(k: float, m: float, warm: Array, below: Array) -> float:
    """P(x ≤ k) for k ≥ SUMMED_COUNTS; warm: mean, variance and third cumulant of the narrow part."""
    sd = math.sqrt(k + 1.0 + warm[1])
    return chance_below(k + 1.0 - warm[0], sd, (2.0 * (k + 1.0) - warm[2]) / sd**3, m, below, 0)


@inlined
def chance_of_rate(y: float, m: float, warm: Array, below: Array, first: int) -> float:
    """P(rate < y)."""
    sd = math.sqrt(warm[1])
    return chance_below(y - warm[0], sd, -warm[2] / sd**3 if sd > 0.0 else 0.0, m, below, first)


@inlined
def count_few(masses: Array, m: float, warm: Array, few: Array) -> None:
    """few[k] = P(x ≤ k) for k < SUMMED_COUNTS, from the recursion of a negative binomial at every node."""
    W, V = warm[0], warm[1]
    few[:] = 0.0
    first = max(0, int((math.log(1e-4 / m) - FIRST_LOG) / GRID_STEP))  # below, no events
    still = 1.0
    for i in range(first, GRID_NODES):
        still -= masses[i]
    for i in range(first - 1, GRID_NODES):
        mass = masses[i] if i >= first else still
        rate = W + (m * math.exp(FIRST_LOG + i * GRID_STEP) if i >= first else 0.0)
        if rate > 60.0:
            break
        if abs(mass) > 1e-7:
            p = math.exp(-surprise(rate, V))
            r = V / rate if rate > 0.0 else 0.0
            step = rate / (1.0 + r)  # p_(k+1) / p_k = (rate + k r) / (1 + r) / (k + 1)
            for k in range(SUMMED_COUNTS):
                few[k] += mass * p
                p *= step / (k + 1.0)
                step += r / (1.0 + r)
    for k in range(1, SUMMED_COUNTS):
        few[k] += few[k - 1]


@inlined
def count_quantile(level: float, m: float, warm: Array, below: Array, few: Array) -> float:
    """Smallest k with P(x ≤ k) ≥ level. low < k ≤ high are integers, and the bracket shrinks each time."""
    for k in range(SUMMED_COUNTS):
        if few[k] >= level:
            return float(k)
    low, high = SUMMED_COUNTS - 1.0, 2.0 * SUMMED_COUNTS
    at = np.searchsorted(below, level)
    if at < POINTS:
        high = max(high, math.floor(warm[0] + m * math.exp(FIRST_LOG + at * GAP)))
    while high < MAX_COUNT and chance_of_count(high, m, warm, below) < level:
        low, high = high, 2.0 * high
    while high - low > max(1.0, SEARCH_TOLERANCE * high):
        middle = math.floor(0.5 * (low + high)) if high < 4.0 * low else math.floor(math.sqrt(low * high))
        if chance_of_count(middle, m, warm, below) < level:
            low = middle
        else:
            high = middle
    return high


@inlined
def rate_quantile(level: float, m: float, warm: Array, below: Array) -> float:
    """Quantile of the rate; 0 where it lies below the grid."""
    low, high = m * math.exp(FIRST_LOG), m * math.exp(FIRST_LOG + GRID_STEP * GRID_NODES)
    if chance_of_rate(low, m, warm, below, 0) >= level:
        return 0.0
    while high > (1.0 + SEARCH_TOLERANCE) * low:
        middle = math.sqrt(low * high)
        if chance_of_rate(middle, m, warm, below, 0) < level:
            low = middle
        else:
            high = middle
    return math.sqrt(low * high)


@kernel
def count_ends(
    masses: Array, mean: Array, warm: Array, low_level: Array, high_level: Array, low: Counts, high: Counts
) -> None:
    """Quantiles of the count at two levels, (n,); other arguments as in `link_spread`."""
    below, few = np.empty(POINTS), np.empty(SUMMED_COUNTS)
    for n in range(len(mean)):
        m, narrow = mean[n], warm[n]
        accumulate(masses[n], below)
        count_few(masses[n], m, narrow, few)
        low[n] = int(min(count_quantile(low_level[n], m, narrow, below, few), MAX_COUNT))
        high[n] = int(min(count_quantile(high_level[n], m, narrow, below, few), MAX_COUNT))


@kernel
def rate_ends(masses: Array, mean: Array, warm: Array, level: float, low: Array, high: Array) -> None:
    """Quantiles 1 − level and level of the rate; arguments as in `link_spread`."""
    below = np.empty(POINTS)
    for n in range(len(mean)):
        m, narrow = mean[n], warm[n]
        accumulate(masses[n], below)
        low[n] = rate_quantile(1.0 - level, m, narrow, below)
        high[n] = rate_quantile(level, m, narrow, below)


@kernel
def rate_strata(masses: Array, mean: Array, warm: Array, levels: Array, points: Array) -> None:
    """Quantiles of the rate at ascending levels, points (n, n_levels); other arguments as in `link_spread`."""
    below = np.empty(POINTS)
    for n in range(len(mean)):
        accumulate(masses[n], below)
        if warm[n, 1] > 0.0:
            read_sum(mean[n], warm[n], below, levels, points[n])
        else:
            read_grid(mean[n], warm[n, 0], below, levels, points[n])


@kernel
def count_strata(masses: Array, mean: Array, warm: Array, levels: Array, points: Array, about: Array) -> None:
    """The same for counts, with W as its mean and a variance `about` (n,) of every point."""
    below = np.empty(POINTS)
    for n in range(len(mean)):
        accumulate(masses[n], below)
        read_grid(mean[n], warm[n, 0], below, levels, points[n])
        about[n] = warm[n, 1]


@inlined
def read_grid(m: float, certain: float, below: Array, levels: Array, points: Array) -> None:
    """Quantiles of B + W for a constant W."""
    q = 0
    for j in range(len(levels)):
        while q < POINTS - 1 and below[q] < levels[j]:
            q += 1
        points[j] = certain
        if q:
            more = below[q] - below[q - 1]
            f = min((levels[j] - below[q - 1]) / more, 1.0) if more > 0.0 else 1.0
            points[j] += m * math.exp(FIRST_LOG + (q - 1 + f) * GAP)


@inlined
def read_sum(m: float, warm: Array, below: Array, levels: Array, points: Array) -> None:
    """Quantiles of B + W, whose distribution is computed at points dense about E[W], geometric above."""
    sd = math.sqrt(warm[1])
    first = min(max(int((math.log(NEGLIGIBLE_SD * sd / m) - FIRST_LOG) / GAP), 0), POINTS - 1)
    x, last, done = math.asinh(-MAX_SD), 0.0, 0
    end = math.asinh(m * math.exp(FIRST_LOG + GRID_STEP * GRID_NODES) / sd)
    while done < len(levels):
        x += QUANTILE_STEP
        reached = max(chance_of_rate(warm[0] + sd * math.sinh(x), m, warm, below, first), last) if x < end else 1.0
        while done < len(levels) and levels[done] <= reached:
            back = (reached - levels[done]) / (reached - last) if reached > last else 0.0
            points[done] = max(warm[0] + sd * math.sinh(x - min(back, 1.0) * QUANTILE_STEP), 0.0)
            done += 1
        last = reached
