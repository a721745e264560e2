"""Quantiles of counts: negative binomial (Poisson with a Gamma rate), its Poisson limit, and mixtures."""

import math

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.analysis.predict.kernels import place, surprise
from plait.jit import inlined, kernel, tiered_kernel

Counts = NDArray[np.int64]

MAX_STEPS = 256  # of the sum from 0, before a bracketing search
MIN_NORMAL_DISPERSION = 25.0  # from which the expansion about a normal is good to one count or a hundredth of an sd
MAX_COUNT = 2.0**62
LARGE_MEAN = 1e8  # beyond, quantiles are taken as proportional to the mean: log-gammas of larger counts lose digits
SUMMED_COUNTS = 16  # of a mixture, summed exactly
SEARCH_TOLERANCE = 0.01  # in units of the square root of a count


@inlined
def below(k: float, m: float, s: float) -> float:
    """P(x ≤ k) of a negative binomial with mean m and dispersion s, the concentration of its rate: I_{s/(s+m)}(s, k+1).

    By the continued fraction of the incomplete beta function (Lentz), on the side where it converges quickly.
    """
    a, b, x = s, k + 1.0, s / (s + m)
    y = m / (s + m)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(y))
    swap = x > (a + 1.0) / (a + b + 2.0)
    if swap:
        a, b, x = b, a, y
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > 1e-300 else 1e-300)
    h = d
    for n in range(1, 10_000):
        for odd in range(2):
            top = n * (b - n) * x / ((a + 2 * n - 1.0) * (a + 2 * n))
            if odd:
                top = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1.0))
            d = 1.0 + top * d
            c = 1.0 + top / c
            d = 1.0 / (d if abs(d) > 1e-300 else 1e-300)
            c = c if abs(c) > 1e-300 else 1e-300
            h *= d * c
        if abs(d * c - 1.0) < 1e-12:
            break
    part = front * h / a
    return 1.0 - part if swap else part


@inlined
def expanded(z: float, m: float, spread: float, skewed: float, noise: float) -> float:
    """Quantile of a rate (noise 0) or its count (1) by the Cornish–Fisher expansion; z: normal quantile.

    `spread`, `skewed`: v/m² and κ₃/m³ of the rate. Its fourth cumulant is that of a shifted Gamma, 3κ₃²/2v.
    """
    x = noise / m
    square = x + spread
    skew = (x * x + 3.0 * x * spread + skewed) / (square * math.sqrt(square))
    fourth = 1.5 * skewed * skewed / spread if spread > 0.0 else 0.0
    excess = (x * (x * (x + 7.0 * spread) + 6.0 * skewed) + fourth) / (square * square)
    cube = z * z * z
    w = z + (z * z - 1.0) * skew / 6.0 + (cube - 3.0 * z) * excess / 24.0 - (2.0 * cube - 5.0 * z) * skew * skew / 36.0
    return max(m * (1.0 + math.sqrt(square) * w), 0.0)


@inlined
def quantile(level: float, z: float, m: float, s: float) -> float:
    """Smallest k with P(x ≤ k) ≥ level, for mean m and dispersion s (infinite: Poisson).

    The search ends: low < high are integers, and an integer between them replaces one of the two.
    """
    if m <= 0.0:
        return 0.0
    if m > 100.0 and s >= MIN_NORMAL_DISPERSION:
        return max(math.ceil(expanded(z, m, 1.0 / s, 2.0 / (s * s), 1.0) - 0.5), 0.0)
    scale = 1.0
    if m > LARGE_MEAN:
        scale, m = m / LARGE_MEAN, LARGE_MEAN
    p = math.exp(-surprise(m, m * m / s))
    total, ratio = p, m / (1.0 + m / s)  # p_{k+1} / p_k = (1 + k/s) · m / (1 + m/s) / (k + 1)
    for k in range(MAX_STEPS):
        if total >= level:
            return k * scale
        p *= (1.0 + k / s) * ratio / (k + 1.0)
        total += p
    low, high = MAX_STEPS - 1.0, max(math.floor(m), 2.0 * MAX_STEPS)
    while below(high, m, s) < level and high < MAX_COUNT:
        low, high = high, 4.0 * high
    while high - low > 1.0 and high - low > 1e-9 * high:
        middle = math.floor(0.5 * (low + high))
        if below(middle, m, s) < level:
            low = middle
        else:
            high = middle
    return high * scale


@tiered_kernel("mean")
def count_ends(mean: Array, variance: Array, miss: Array, level: Array, z: Array, ends: Counts) -> None:
    """Quantiles of counts with Gamma rates by moments, except that P(x = 0) = e^−miss; all (n,).

    `z`: normal quantiles of the levels.
    """
    for n in range(len(mean)):
        m, v = mean[n], variance[n]
        s = m * m / v if v > 1e-12 * m * m else math.inf
        nothing = math.exp(-miss[n])
        ends[n] = 0 if nothing >= level[n] else int(min(max(quantile(level[n], z[n], m, s), 1.0), MAX_COUNT))


@tiered_kernel("mean")
def narrow_ends(mean: Array, spread: Array, skewed: Array, noise: float, z: Array, ends: Array) -> None:
    """Quantiles of rates (noise 0) or of counts (1, not rounded) from three cumulants, for small v/m²; `z` (n,): normal
    quantiles of the levels.
    """
    for n in range(len(mean)):
        ends[n] = expanded(z[n], mean[n], spread[n], skewed[n], noise)


@tiered_kernel("points")
def narrow_strata(mean: Array, spread: Array, skewed: Array, z: Array, points: Array) -> None:
    """Quantiles of rates from three cumulants, `points` (n, n_levels); `z`: normal quantiles."""
    for n in range(len(mean)):
        for j in range(len(z)):
            points[n, j] = expanded(z[j], mean[n], spread[n], skewed[n], 0.0)


@tiered_kernel("points")
def gamma_strata(mean: Array, variance: Array, table: Array, lowest: int, points: Array) -> None:
    """Quantiles of Gammas with these moments, `points` (n, n_levels), from a table over the concentration."""
    for n in range(len(mean)):
        k, f = place(mean[n] * mean[n] / variance[n], lowest, len(table))
        for j in range(points.shape[1]):
            points[n, j] = mean[n] * (table[k, j] + f * (table[k + 1, j] - table[k, j]))


@kernel
def mixture_ends(rates: Array, about: Array, low_level: Array, high_level: Array, low: Counts, high: Counts) -> None:
    """Quantiles of counts whose rates are equally probable Gammas, `low` and `high` (n,), at two levels, (n,).

    `rates` (n, n_members, n_points): their means, ascending for each member. `about` (n, n_members): their variances.
    """
    most = rates.shape[1] * rates.shape[2]
    few, all_roots, all_widths = np.empty(SUMMED_COUNTS), np.empty(most), np.empty(most)
    for n in range(len(rates)):
        points = rates.shape[2] if any_apart(rates[n]) else 1
        few[:] = 0.0
        roots, widths = all_roots[: rates.shape[1] * points], all_widths[: rates.shape[1] * points]
        for member in range(rates.shape[1]):
            add_few(rates[n, member, :points], about[n, member], few)
        for k in range(SUMMED_COUNTS):
            few[k] = few[k] / len(roots) + (few[k - 1] if k else 0.0)
        if few[SUMMED_COUNTS - 1] < max(low_level[n], high_level[n]):
            for member in range(rates.shape[1]):
                mine = slice(member * points, (member + 1) * points)
                take_roots(rates[n, member, :points], about[n, member], roots[mine], widths[mine])
        low[n] = int(min(mixture_quantile(low_level[n], few, roots, widths), MAX_COUNT))
        high[n] = int(min(mixture_quantile(high_level[n], few, roots, widths), MAX_COUNT))


@inlined
def any_apart(rates: Array) -> bool:
    """Whether the points of any member, (n_members, n_points), differ."""
    apart = False
    for member in range(rates.shape[0]):
        apart |= rates[member, 0] != rates[member, -1]
    return apart


@inlined
def add_few(rates: Array, about: float, few: Array) -> None:
    """few[k] += P(x = k) of negative binomials, or Poissons where `about` is 0."""
    for j in range(len(rates)):
        rate = rates[j]
        p = math.exp(-surprise(rate, about))
        r = about / rate if rate > 0.0 else 0.0
        step = rate / (1.0 + r)  # p_(k+1) / p_k = (rate + k r) / (1 + r) / (k + 1)
        for k in range(SUMMED_COUNTS):
            few[k] += p
            p *= step / (k + 1.0)
            step += r / (1.0 + r)


@inlined
def take_roots(rates: Array, about: float, roots: Array, widths: Array) -> None:
    """Mean and variance of the cube root of each rate: a Gamma, spread half the way to its neighbours."""
    last = len(rates) - 1
    for j in range(len(rates)):
        roots[j] = rates[j] ** (1.0 / 3.0)
    for j in range(len(rates)):
        gap = (roots[min(j + 1, last)] - roots[max(j - 1, 0)]) / max(min(j + 1, last) - max(j - 1, 0), 1)
        widths[j] = gap * gap / 12.0
    for j in range(len(rates)):
        spread = min(about / (rates[j] * rates[j]), 1.0) / 9.0 if rates[j] > 0.0 else 0.0
        widths[j] += spread * roots[j] * roots[j]
        roots[j] *= 1.0 - spread


@inlined
def mixture_chance(k: float, roots: Array, widths: Array) -> float:
    """P(x ≤ k) = P(rate < G) for G a Gamma of concentration k + 1, with cube roots of Gammas as normals
    (Wilson–Hilferty).
    """
    root = (k + 1.0) ** (1.0 / 3.0)
    centre, variance = root - 1.0 / (9.0 * root * root), 1.0 / (9.0 * root)
    total = 0.0
    for i in range(len(roots)):
        z = (centre - roots[i]) / math.sqrt(variance + widths[i])
        if z > -5.0:
            total += 0.5 * math.erfc(-z * 0.7071067811865476) if z < 5.0 else 1.0
    return total / len(roots)


@inlined
def mixture_quantile(level: float, few: Array, roots: Array, widths: Array) -> float:
    """Smallest k with P(x ≤ k) ≥ level. low < k ≤ high are integers, and the bracket shrinks each time."""
    for k in range(SUMMED_COUNTS):
        if few[k] >= level:
            return float(k)
    low, high = SUMMED_COUNTS - 1.0, 2.0 * SUMMED_COUNTS
    while high < MAX_COUNT and mixture_chance(high, roots, widths) < level:
        low, high = high, 4.0 * high
    while high - low > max(1.0, SEARCH_TOLERANCE * math.sqrt(high)):
        middle = math.floor(0.5 * (low + high))
        if mixture_chance(middle, roots, widths) < level:
            low = middle
        else:
            high = middle
    return high
