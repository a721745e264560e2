"""Where the rate is a sum of independent products of Gammas: P(x = 0), and the whole distribution, without draws.

That is CP, and every sum of terms without common factors in each of which all factors have the same latent indices. The
components, those of all terms side by side, are independent, so P(x = 0) = Π_r φ_r with φ_r = E[e^−X],
X = V Π_k Z_kr over the factors k of its term. By Mellin's inversion

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
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.analysis.predict import log_grid
from plait.analysis.predict.grid_convolution import add_draws, add_pairs, begin_masses, drop_low, multiply_masses
from plait.analysis.predict.kernels import (
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
from plait.analysis.predict.operands import RateTerm, coupled
from plait.data.sparse.parallel import in_pieces

Finish = Callable[[int, int, Array, Array, Array], None]  # cells lo … hi − 1: masses, mean, narrow part
Beside = Callable[[int, int], Array]  # cells lo … hi − 1: draws of a rate

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


def are_independent(parts: Sequence[RateTerm]) -> bool:
    """Whether all components of all terms are independent of each other."""
    return all(term.is_product for term in parts) and len(coupled(parts)) == len(parts)


def split(parts: Sequence[RateTerm]) -> tuple[list[RateTerm], list[list[RateTerm]]]:
    """Terms whose components are all independent of each other, and groups of others, independent of each other."""
    groups = coupled(parts)
    alone = [term for group in groups if are_independent(group) for term in group]
    return alone, [group for group in groups if not are_independent(group)]


def neg_log_p_zero(parts: Sequence[RateTerm], tolerance: float) -> Array:
    """−log P(x = 0) at the terms' cells, (n,), of mean MOST_MEAN at most.

    At most `tolerance` of P is given away to matched moments.
    """
    columns = _columns(parts)
    result = np.zeros(parts[0].count)
    weights, table = nodes(), powers()
    alias = math.exp(-math.pi / STEP)

    def work(lo: int, hi: int) -> None:
        mean, variance = _joined([own.two_moments(lo, hi) for own in columns])
        miss, pairs = np.zeros(hi - lo), np.empty((mean.size, 2), np.int64)
        least, most = np.empty(mean.size), np.empty(mean.size)
        pairs = pairs[: sort_components(mean, variance, tolerance * _each(mean), miss, pairs, least, most)]
        product = np.empty((len(pairs), 2 * NODES))
        begin_pairs(pairs, mean, weights, STEP, product)
        for own in columns:
            for at, E, D in own.tables:
                multiply_pairs(pairs, own.first, at[lo:hi], E, D, table, LOWEST, product)
        end_pairs(pairs, mean, least, most, alias, product, miss)
        result[lo:hi] = miss

    in_pieces(work, len(result), ROOM // sum(own.width for own in columns))
    return result


def third_cumulants(parts: Sequence[RateTerm]) -> Array:
    """κ₃/m³ of the rate at the terms' cells, (n,)."""
    columns = _columns(parts)
    result = np.empty(parts[0].count)

    def work(lo: int, hi: int) -> None:
        mean, second, third = _joined([own.three_moments(lo, hi) for own in columns])
        third_cumulant(mean, second, third, result[lo:hi])

    in_pieces(work, len(result), ROOM // sum(own.width for own in columns))
    return result


def on_grid(
    parts: Sequence[RateTerm], noise: float, finish: Finish, beside: Beside | None = None, room: int = 1
) -> None:
    """The rate of every cell on a logarithmic grid, given to `finish`(lo, hi, masses, mean, warm) in pieces.

    noise: 1 where the count is wanted, to which components far below one event do not matter; 0 for the rate. beside:
    equally probable rates (n, draws) of what is added to the terms, for at most `room` cells at a time.
    """
    columns = _columns(parts)

    def work(lo: int, hi: int) -> None:
        mean, second, third = _joined([own.three_moments(lo, hi) for own in columns])
        rates = beside(lo, hi) if beside else None
        whole, warm = mean.sum(axis=1), np.empty((hi - lo, 3))
        whole = whole if rates is None else whole + rates.mean(axis=1)
        each, pairs = _each(mean), np.empty((mean.size, 2), np.int64)
        least = np.maximum(noise * FEW_EVENTS * each, NO_PART * each * whole)
        pairs = pairs[: sort_widths(mean, second, third, noise, least, noise * TAME * each, warm, pairs)]
        masses, total = np.empty((len(pairs), log_grid.NODES)), np.zeros((hi - lo, log_grid.NODES))
        begin_masses(pairs, mean, whole, masses)
        for own in columns:
            for at, E, D in own.tables:
                multiply_masses(pairs, own.first, at[lo:hi], E, D, log_grid.gammas(), log_grid.LOWEST, masses)
        drop_low(pairs, whole, noise * NEVER * each, masses)
        add_pairs(pairs, masses, *log_grid.sums(), total)
        if rates is not None:
            add_draws(rates, whole, *log_grid.sums(), warm, total)
        finish(lo, hi, total, whole, warm)

    piece = GRID_ROOM // sum(own.width for own in columns)
    in_pieces(work, parts[0].count, min(piece, room) if beside else piece)


@dataclass(frozen=True, eq=False)
class _Columns:
    """The components of one term: columns from `first` on of arrays over all. tables: rows, E and D of its factors."""

    term: RateTerm
    first: int
    width: int
    tables: list[tuple[Rows, Array, Array]]

    def two_moments(self, lo: int, hi: int) -> tuple[Array, Array]:
        """Mean and variance of every component at cells lo … hi − 1."""
        mean, variance = self.term.exposed(np.ones((hi - lo, self.width)), lo, hi), np.zeros((hi - lo, self.width))
        for at, E, D in self.tables:
            multiply_moments(at[lo:hi], E, D, mean, variance)
        return mean, variance

    def three_moments(self, lo: int, hi: int) -> tuple[Array, Array, Array]:
        """The mean of every component, and E[X²]/E[X]² and E[X³]/E[X]³, at cells lo … hi − 1."""
        mean = self.term.exposed(np.ones((hi - lo, self.width)), lo, hi)
        second, third = np.ones(mean.shape), np.ones(mean.shape)
        for at, E, D in self.tables:
            multiply_means(at[lo:hi], E, mean)
            multiply_thirds(at[lo:hi], E, D, second, third)
        return mean, second, third


def _columns(parts: Sequence[RateTerm]) -> list[_Columns]:
    """The components of terms side by side; each multiplies the factors of its own term only."""
    found: list[_Columns] = []
    for term in parts:
        tables = [(operand.at, *operand.ordered(term.operands[0].latent).flat()) for operand in term.operands]
        first = found[-1].first + found[-1].width if found else 0
        found.append(_Columns(term, first, term.width, tables))
    return found


def _joined(moments: Sequence[tuple[Array, ...]]) -> Sequence[Array]:
    """Moments of all components, from those of each term."""
    return moments[0] if len(moments) == 1 else [np.concatenate(arrays, axis=1) for arrays in zip(*moments)]


def _each(mean: Array) -> Array:
    """The share of a component in what all of a cell may give away, (n,); those of mean 0 take nothing."""
    return np.asarray(1 / np.maximum(np.count_nonzero(mean, axis=1), 1))


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
