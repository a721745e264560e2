"""Quantiles of counts: the negative binomial that a Gamma-distributed rate gives, and its limit, Poisson."""

import math

import numpy as np
from numpy.typing import NDArray

from plait.jit import inlined, kernel
from plait.predict.kernels import surprise

Array = NDArray[np.float64]
Counts = NDArray[np.int64]

WALK = 256  # steps from 0 before something cleverer is tried
NORMAL = 25.0  # dispersion from which on the expansion about a normal is good to one count or a hundredth of an sd
MOST = 2.0**62


@inlined
def below(k: float, m: float, s: float) -> float:
    """P(x ≤ k) of a negative binomial with mean m and dispersion s, the concentration of its rate: I_{s/(s+m)}(s, k+1).

    The continued fraction of the incomplete beta function (Lentz), on the side where it converges quickly.
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
def expanded(z: float, m: float, s: float) -> float:
    """The quantile by Cornish and Fisher's expansion, from the first four cumulants; z: the normal's quantile."""
    t = m / s
    variance = m * (1.0 + t)
    sd = math.sqrt(variance)
    skew = (1.0 + 2.0 * t) / sd
    excess = (1.0 + 6.0 * t * (1.0 + t)) / variance
    w = z + (z * z - 1.0) * skew / 6.0 + (z**3 - 3.0 * z) * excess / 24.0 - (2.0 * z**3 - 5.0 * z) * skew * skew / 36.0
    return max(math.ceil(m + sd * w - 0.5), 0.0)


@inlined
def quantile(level: float, z: float, m: float, s: float) -> float:
    """The smallest k with P(x ≤ k) ≥ level, for mean m and dispersion s (infinite: Poisson)."""
    if m <= 0.0:
        return 0.0
    if m > 100.0 and s >= NORMAL:
        return expanded(z, m, s)
    p = math.exp(-surprise(m, m * m / s))
    total, ratio = p, m / (1.0 + m / s)  # p_{k+1} / p_k = (1 + k/s) · m / (1 + m/s) / (k + 1)
    for k in range(WALK):
        if total >= level:
            return float(k)
        p *= (1.0 + k / s) * ratio / (k + 1.0)
        total += p
    low, high = WALK - 1.0, max(m, 2.0 * WALK)
    while below(high, m, s) < level and high < MOST:
        low, high = high, 4.0 * high
    while high - low > 1.0 and high - low > 1e-9 * high:
        middle = math.floor(0.5 * (low + high))
        if below(middle, m, s) < level:
            low = middle
        else:
            high = middle
    return high


@inlined
def dispersion(m: float, miss: float) -> float:
    """The dispersion at which P(x = 0) = e^−miss: s = m/x, log(1 + x)/x = miss/m. Newton's steps from above."""
    share = miss / m
    if share >= 1.0 - 1e-9:
        return math.inf
    x = 1.0 / (share * share)
    for _ in range(60):
        step = (math.log1p(x) - share * x) / (1.0 / (1.0 + x) - share)
        x -= step
        if abs(step) <= 1e-9 * x:
            break
    return m / x


@kernel
def intervals(mean: Array, variance: Array, miss: Array, level: float, z: float, low: Counts, high: Counts) -> None:
    """Quantiles 1 − level and level of counts with P(x = 0) = e^−miss; z: the normal's quantile of the level.

    The dispersion is that of the variance, m²/v. But a variance that comes from a tail too thin to matter for these
    quantiles would make them far too small: the dispersion is at least half of what P(x = 0) says. Of eight rules that
    were tried on 500 random CP cells this one had the smallest worst error of the mass beyond the upper end, 0.04; the
    variance alone had 0.31.
    """
    for n in range(len(mean)):
        m, v = mean[n], variance[n]
        s = m * m / v if v > 1e-12 * m * m else math.inf
        if s < math.inf and surprise(m, 0.5 * v) < miss[n]:
            s = 0.5 * dispersion(m, miss[n])
        nothing = math.exp(-miss[n])
        low[n] = 0 if nothing >= 1.0 - level else int(min(max(quantile(1.0 - level, -z, m, s), 1.0), MOST))
        high[n] = 0 if nothing >= level else int(min(max(quantile(level, z, m, s), 1.0), MOST))
