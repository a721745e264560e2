"""Where the rate is a sum of independent products of Gammas: P(x = 0), and the whole distribution, without draws.

That is CP, and every equation whose factors all have the same latent indices. The components are independent, so
P(x = 0) = Π_r φ_r with φ_r = E[e^−X], X = V Π_k Z_kr. By Mellin's inversion

    1 − φ = −(1/2πi) ∫ Γ(s) E[X^−s] ds     along Re s = −½,     E[X^−s] = m^−s Π_k E[(Z_k/E_k)^−s]

with m = E[X]. For a Gamma the last expectation is Γ(C−s)/Γ(C) · C^s: it depends on the concentration only, so a table
over C serves all entries of all factors. Γ(s) dies off like e^(−π|Im s|/2); the trapezoid rule with step h is too low
by (1 + m)·e^(−π/h), but for what is beyond e^(±2π/h): this is added back, and eight nodes are enough. In 80,000 random
components (1, 2, 3 or 5 factors, concentrations 0.05–1000, means 0.001–100), kept between the bounds of `chance`, those
that matched moments do not settle were off by 0.0016 at most against a fourfold finer step, by 0.0001 in the mean.

The terms are as large as √m and cancel, and what is added back grows with m: this is for means up to MOST_MEAN. Above,
and for quantiles, the distribution of the rate itself is made on a logarithmic grid (`grid`), where a product is a
convolution and components are added one by one. All of it is sums of masses, so nothing cancels at any mean.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from plait.predict import grid
from plait.predict.kernels import (
    begin_pairs,
    end_pairs,
    multiply_means,
    multiply_moments,
    multiply_pairs,
    multiply_thirds,
    sort_components,
    sort_widths,
    third_cumulant,
)
from plait.predict.masses import add_pairs, begin_masses, drop_low, multiply_masses
from plait.predict.operands import Operand
from plait.predict.pieces import in_pieces

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Tables = list[tuple[Rows, Array, Array]]
Finish = Callable[[int, int, Array, Array, Array], None]  # cells lo … hi − 1: masses, mean, narrow part

NODES = 8
STEP = 0.4
MOST_MEAN = 256.0
MOST_SPREAD = 3e5  # variance over mean: from there on P(x > 0) is not the mean at a rate smaller by e^(−2π/STEP)
LOWEST, HIGHEST = -30, 14  # the table goes from C = 2^LOWEST to 2^HIGHEST, beyond which a Gamma is as good as a point
ROOM = 1 << 12  # components looked at in one go
GRID_ROOM = 1 << 9  # the same of those on a grid, of a kilobyte each
FEW_EVENTS = 0.002  # events that all components together may have whose distribution does not matter to the count
NEVER = 1e-3  # a rate, of all components together, that is as good as 0 to the count
NO_PART = 1e-6  # of the rate, whose distribution does not matter to it
TAME = 0.05  # the sum of variances of components that are Gammas by matched moments, to the count


def is_product(parts: Sequence[Operand]) -> bool:
    """Whether all factors have the same latent indices, so that components are independent."""
    return all(set(operand.latent) == set(parts[0].latent) for operand in parts)


def misses(parts: Sequence[Operand], exposure: Array | None, tolerance: float) -> Array:
    """−log P(x = 0) at the operands' cells, (n,), of mean MOST_MEAN at most.

    At most `tolerance` of P is given away to matched moments.
    """
    tables, width = _tables(parts)
    result = np.zeros(len(parts[0].at))
    weights, table = nodes(), powers()
    alias = math.exp(-math.pi / STEP)

    def work(lo: int, hi: int) -> None:
        mean, variance = _start(lo, hi, width, exposure), np.zeros((hi - lo, width))
        for at, E, D in tables:
            multiply_moments(at[lo:hi], E, D, mean, variance)
        miss, pairs = np.zeros(hi - lo), np.empty((mean.size, 2), np.int64)
        least, most = np.empty(mean.size), np.empty(mean.size)
        pairs = pairs[: sort_components(mean, variance, tolerance / width, miss, pairs, least, most)]
        product = np.empty((len(pairs), 2 * NODES))
        begin_pairs(pairs, mean, weights, STEP, product)
        for at, E, D in tables:
            multiply_pairs(pairs, at[lo:hi], E, D, table, LOWEST, product)
        end_pairs(pairs, mean, least, most, alias, product, miss)
        result[lo:hi] = miss

    in_pieces(work, len(result), ROOM // width)
    return result


def third_cumulants(parts: Sequence[Operand], exposure: Array | None) -> Array:
    """κ₃/m³ of the rate at the operands' cells, (n,)."""
    tables, width = _tables(parts)
    moments = _three_moments(tables, width, exposure)
    result = np.empty(len(parts[0].at))

    def work(lo: int, hi: int) -> None:
        third_cumulant(*moments(lo, hi), result[lo:hi])

    in_pieces(work, len(result), ROOM // width)
    return result


def on_grid(parts: Sequence[Operand], exposure: Array | None, noise: float, finish: Finish) -> None:
    """The rate of every cell on a logarithmic grid, given to `finish`(lo, hi, masses, mean, warm) in pieces.

    noise: 1 where the count is wanted, to which components far below one event do not matter; 0 for the rate.
    """
    tables, width = _tables(parts)
    moments = _three_moments(tables, width, exposure)

    def work(lo: int, hi: int) -> None:
        mean, second, third = moments(lo, hi)
        whole, warm, pairs = mean.sum(axis=1), np.empty((hi - lo, 3)), np.empty((mean.size, 2), np.int64)
        least = np.maximum(noise * FEW_EVENTS / width, NO_PART / width * whole)
        pairs = pairs[: sort_widths(mean, second, third, noise, least, noise * TAME / width, warm, pairs)]
        masses, total = np.empty((len(pairs), grid.NODES)), np.zeros((hi - lo, grid.NODES))
        begin_masses(pairs, mean, whole, masses)
        for at, E, D in tables:
            multiply_masses(pairs, at[lo:hi], E, D, grid.gammas(), grid.LOWEST, masses)
        drop_low(pairs, whole, noise * NEVER / width, masses)
        add_pairs(pairs, masses, *grid.sums(), total)
        finish(lo, hi, total, whole, warm)

    in_pieces(work, len(parts[0].at), max(1, GRID_ROOM // width))


def _tables(parts: Sequence[Operand]) -> tuple[Tables, int]:
    """Rows, E and D of every factor, latent indices in one order, and how many components there are."""
    tables = [(operand.at, *operand.ordered(parts[0].latent).flat()) for operand in parts]
    return tables, tables[0][1].shape[1]


def _three_moments(
    tables: Tables, width: int, exposure: Array | None
) -> Callable[[int, int], tuple[Array, Array, Array]]:
    """How the mean of every component, and E[X²]/E[X]² and E[X³]/E[X]³, are computed for cells lo … hi − 1."""

    def moments(lo: int, hi: int) -> tuple[Array, Array, Array]:
        mean, second, third = _start(lo, hi, width, exposure), np.ones((hi - lo, width)), np.ones((hi - lo, width))
        for at, E, D in tables:
            multiply_means(at[lo:hi], E, mean)
            multiply_thirds(at[lo:hi], E, D, second, third)
        return mean, second, third

    return moments


def _start(lo: int, hi: int, width: int, exposure: Array | None) -> Array:
    """The product before the first factor, (hi − lo, width)."""
    mean = np.ones((hi - lo, width))
    return mean if exposure is None else mean * exposure[lo:hi, None]


def _places() -> NDArray[np.complex128]:
    """s_j = −½ + i y_j, y_j = (j + ½) h."""
    return np.asarray(-0.5 + 1j * (np.arange(NODES) + 0.5) * STEP, np.complex128)


def _flat(values: NDArray[np.complex128]) -> Array:
    """Real parts, then imaginary ones, along the last axis; read-only, as kernels take it."""
    flat = np.concatenate([values.real, values.imag], axis=-1)
    flat.flags.writeable = False
    return flat


@cache
def nodes() -> Array:
    """−h/π · Γ(s_j); the lower half of the line is the complex conjugate, hence not 2π."""
    from scipy.special import gamma

    return _flat(-STEP / np.pi * gamma(_places()))


@cache
def powers() -> Array:
    """E[(Z/E)^−s_j] for C = 2^e (1 + k/16); rows of 2·NODES numbers; the last row is that of a point."""
    from scipy.special import loggamma

    octaves = 2.0 ** np.arange(LOWEST, HIGHEST, dtype=float)
    C = (octaves[:, None] * (1 + np.arange(16) / 16)).reshape(-1, 1)
    s = _places()
    values = np.exp(loggamma(C - s) - loggamma(C) + s * np.log(C))
    return _flat(np.concatenate([values, np.ones((1, NODES), complex)]))
