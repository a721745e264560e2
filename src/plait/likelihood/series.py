"""Series of the Tweedie likelihood, Σ_{n≥1} zⁿ/(n! Γ(nκ)): its logarithm S(t), t = log z, the mean E = S' of n, and E'.

For one κ they are functions of t, in three ranges, packed into one array for kernels:

    t < begin       a single event: E = 1, S = t − log Γ(κ)
    t < end         polynomials of degree 7 on intervals of 1/8, which match three derivatives at both ends; the eight
                    coefficients of an interval fill a cache line, and E is the slope of the same polynomial, so ELBO
                    and counts agree
    else            Laplace's method about N = (z κ^−κ)^(1/(1+κ)), the position of the largest term:
                    S = (1 + κ) N + ½ log N + ½ log(κ/(2π(1 + κ))) + Σ_m a_m N^−m
                    with a_m = polynomials in κ over (κ (1 + κ))^m, exact
"""

import math
from functools import lru_cache

import numpy as np

from plait import special
from plait._typing import Array
from plait.jit import fma, inlined, item, outlined

INTERVALS_PER_UNIT = 8  # intervals per unit of t
DEGREE = 7
SHAPE, OFFSET, BEGIN, END, LGAMMA, PEAK, LEVEL, FIRST, HEAD = 0, 1, 2, 3, 4, 5, 6, 7, 16  # places in the packed array
MIN_SECOND_TERM = 1e-14  # second term relative to the first, where the table begins

# Of the expansion's a_m: a common denominator, and the polynomial's coefficients. They come from Stirling's series of
# n! and Γ(nκ) and from the moments of a normal about N; the test of this file derives them again.
FAR = (
    (24, (-2, -5, -2)),
    (48, (0, -2, -5, -2, 0)),
    (5760, (16, 68, -212, -689, -212, 68, 16)),
    (5760, (0, 72, 296, -284, -1383, -284, 296, 72, 0)),
    (2903040, (-2304, -13536, 137848, 639804, -254406, -2091545, -254406, 639804, 137848, -13536, -2304)),
    (362880, (0, -3600, -20772, 66704, 391497, -60063, -1053712, -60063, 391497, 66704, -20772, -3600, 0)),
)


@lru_cache(64)
def table(shape: float) -> Array:
    """Packed array for a κ from 0.01 to 100; read-only."""
    last = max(20.0 / shape, 24.0, 2.0 * (1.0 + shape))  # N from which on the expansion is exact to 1e-11
    begin = math.log(2.0 * MIN_SECOND_TERM) + float(special.gammaln(2.0 * shape) - special.gammaln(shape))
    end = shape * math.log(shape) + (1.0 + shape) * math.log(last)
    intervals = math.ceil((end - begin) * INTERVALS_PER_UNIT)
    nodes = begin + np.arange(intervals + 1) / INTERVALS_PER_UNIT
    result = np.zeros(HEAD + (DEGREE + 1) * intervals)
    # A hair before the last node: no rounding of (t − begin) · INTERVALS_PER_UNIT leads beyond the last interval.
    result[[SHAPE, BEGIN, END, LGAMMA]] = shape, begin, nodes[-1] - 1e-9, special.gammaln(shape)
    result[PEAK] = shape * math.log(shape)
    result[LEVEL] = 0.5 * math.log(shape / (2.0 * math.pi * (1.0 + shape)))
    result[FIRST : FIRST + len(FAR)] = expansion(shape)
    result[HEAD:] = _polynomials(*_sums(shape, nodes)).reshape(-1)
    result.flags.writeable = False
    return result


def _sums(shape: float, t: Array) -> tuple[Array, Array, Array, Array]:
    """S − t + log Γ(κ) and its three derivatives, the cumulants of n − 1, at points t, by summing terms."""
    largest = math.exp((t.max() - shape * math.log(shape)) / (1.0 + shape))
    n = np.arange(1.0, largest + 14.0 * math.sqrt(largest) + 40.0)
    fixed = special.gammaln(shape) - special.gammaln(n + 1.0) - special.gammaln(n * shape)
    sums = np.empty((4, len(t)))
    piece = max((1 << 20) // len(n), 1)
    for at in range(0, len(t), piece):
        logs = np.multiply.outer(t[at : at + piece], n - 1.0) + fixed
        top = logs.max(axis=1)
        w = np.exp(logs - top[:, None])
        total = w.sum(axis=1)
        mean = w @ (n - 1.0) / total
        apart = n - 1.0 - mean[:, None]
        square = (w * apart * apart).sum(axis=1) / total
        cube = (w * apart**3).sum(axis=1) / total
        sums[:, at : at + piece] = top + np.log1p(total - 1.0), mean, square, cube
    return sums[0], sums[1], sums[2], sums[3]


def _polynomials(*derivatives: Array) -> Array:
    """Coefficients (n_intervals, 8) in u from 0 to 1 of polynomials with these values and derivatives at both ends."""
    half = (DEGREE + 1) // 2
    scaled = np.stack([d / INTERVALS_PER_UNIT**k for k, d in enumerate(derivatives)])
    powers = np.arange(DEGREE + 1)
    falling = [np.prod([powers - j for j in range(k)], axis=0) if k else np.ones(DEGREE + 1) for k in range(half)]
    low = np.stack([scaled[k][:-1] / math.factorial(k) for k in range(half)])
    # What the lower half of the powers leaves over at u = 1 is the upper half's.
    at_end = np.stack([falling[k][:half] @ low for k in range(half)])
    upper = np.linalg.solve(np.stack([falling[k][half:] for k in range(half)]), scaled[:, 1:] - at_end)
    return np.concatenate([low, upper]).T


def expansion(shape: float) -> Array:
    """a_1 … a_6 for a κ."""
    terms = [
        sum(c * shape ** (j - m) for j, c in enumerate(numbers)) / (whole * (1.0 + shape) ** m)
        for m, (whole, numbers) in enumerate(FAR, start=1)
    ]
    return np.array(terms)


@inlined
def events(t: float, packed: Array) -> tuple[float, float]:
    """E and S at t."""
    begin = item(packed, BEGIN)
    if t < begin:
        return 1.0, t - item(packed, LGAMMA)
    if t >= item(packed, END):
        return events_far(t, packed, 0, 0)
    u = (t - begin) * INTERVALS_PER_UNIT
    number = int(u)
    u -= number
    at = HEAD + (DEGREE + 1) * number
    # Pairs of powers together: three steps instead of seven, each of which would wait for the one before.
    c0, c1, c2, c3 = item(packed, at), item(packed, at + 1), item(packed, at + 2), item(packed, at + 3)
    c4, c5, c6, c7 = item(packed, at + 4), item(packed, at + 5), item(packed, at + 6), item(packed, at + 7)
    square = u * u
    fourth = square * square
    value = fma(fma(fma(c7, u, c6), square, fma(c5, u, c4)), fourth, fma(fma(c3, u, c2), square, fma(c1, u, c0)))
    slope = fma(
        fma(7.0 * c7, square, fma(6.0 * c6, u, 5.0 * c5)),
        fourth,
        fma(fma(4.0 * c4, u, 3.0 * c3), square, fma(2.0 * c2, u, c1)),
    )
    return 1.0 + INTERVALS_PER_UNIT * slope, t - item(packed, LGAMMA) + value


@outlined
def events_far(t: float, packed: Array, _: int, __: int) -> tuple[float, float]:
    """E and S beyond the table."""
    whole = 1.0 + item(packed, SHAPE)
    log_n = min((t - item(packed, PEAK)) / whole, 700.0)
    N = math.exp(log_n)
    y = 1.0 / N
    value, slope = 0.0, 0.0
    for m in range(len(FAR), 0, -1):
        a = item(packed, FIRST + m - 1)
        value = (value + a) * y
        slope = (slope + m * a) * y
    return N + (0.5 - slope) / whole, whole * N + 0.5 * log_n + item(packed, LEVEL) + value


def expected(t: Array, packed: Array) -> tuple[Array, Array, Array]:
    """E, S and E' at points t, (n,) each, in NumPy."""
    E, S, slope = np.ones(t.shape), t - packed[LGAMMA], np.zeros(t.shape)
    inside, far = (t >= packed[BEGIN]) & (t < packed[END]), t >= packed[END]
    u = (t[inside] - packed[BEGIN]) * INTERVALS_PER_UNIT
    number = u.astype(np.int64)
    c = packed[HEAD:].reshape(-1, DEGREE + 1)[number].T
    polynomial = np.polynomial.polynomial
    first, second = polynomial.polyder(c), polynomial.polyder(c, 2)
    u -= number
    S[inside] += polynomial.polyval(u, c, tensor=False)
    E[inside] += INTERVALS_PER_UNIT * polynomial.polyval(u, first, tensor=False)
    slope[inside] = INTERVALS_PER_UNIT * INTERVALS_PER_UNIT * polynomial.polyval(u, second, tensor=False)
    E[far], S[far], slope[far] = _far(t[far], packed)
    return E, S, slope


def _far(t: Array, packed: Array) -> tuple[Array, Array, Array]:
    whole, m = 1.0 + packed[SHAPE], np.arange(1.0, len(FAR) + 1)
    log_n = np.minimum((t - packed[PEAK]) / whole, 700.0)
    N = np.exp(log_n)
    rest = packed[FIRST : FIRST + len(FAR)] * np.exp(-log_n[:, None] * m)
    S = whole * N + 0.5 * log_n + packed[LEVEL] + rest.sum(axis=1)
    return N + (0.5 - rest @ m) / whole, S, (N + rest @ (m * m) / whole) / whole
