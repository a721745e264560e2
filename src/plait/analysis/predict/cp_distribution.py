"""Distribution of a sum of independent products of Gammas (CP): P(x = 0) by Mellin inversion, and the whole
distribution on a grid.

It holds for CP, and for every sum of terms without common factors in each of which all factors have the same latent
indices. The components of all terms are then independent, so P(x = 0) = Π_r φ_r with φ_r = E[e^−X], X = V Π_k Z_kr over
the factors k of its term. By Mellin inversion

    1 − φ = −(1/2πi) ∫ Γ(s) E[X^−s] ds     along Re s = −½,     E[X^−s] = m^−s Π_k E[(Z_k/E_k)^−s]

with m = E[X]. For a Gamma the last expectation is Γ(C−s)/Γ(C) · C^s, so one table over C serves all entries of all
factors. Γ(s) decays like e^(−π|Im s|/2); the trapezoid rule with step h is too low by (1 + m)·e^(−π/h), up to terms
beyond e^(±2π/h). This is added back, and eight nodes suffice: in 80,000 random components (1, 2, 3 or 5 factors,
concentrations 0.05–1000, means 0.001–100), clipped to the bounds of `end_pairs`, those that matched moments do not
decide had errors of at most 0.0016 against a fourfold finer step, 0.0001 on average.

The terms grow like √m and cancel, and the correction grows with m, so this is for means up to MAX_MEAN. Above, and for
quantiles, the distribution of the rate is computed on a logarithmic grid (`log_grid`), where a product is a convolution
and components are added one by one. Only masses are added, so nothing cancels.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from plait import special
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
RateDraws = Callable[[int, int], Array]  # cells lo … hi − 1: draws of a rate

QUADRATURE_NODES = 8
QUADRATURE_STEP = 0.4
MAX_MEAN = 256.0
MAX_SPREAD = 3e5  # variance over mean: beyond, P(x > 0) is not the mean at a rate smaller by e^(−2π/QUADRATURE_STEP)
MIN_EXPONENT, MAX_EXPONENT = -30, 14  # of the table over C, in powers of two; a larger C is a point
CHUNK_COMPONENTS = 1 << 12  # that a thread takes at a time
GRID_CHUNK_COMPONENTS = 1 << 9  # the same on a grid, of a kilobyte each
NEGLIGIBLE_EVENTS = 0.002  # expected events of all components whose distribution the count may ignore
NEGLIGIBLE_RATE = 1e-3  # of all components together, 0 to the count
NEGLIGIBLE_SHARE = 1e-6  # of the rate, whose distribution it may ignore
MAX_GAMMA_VARIANCE = 0.05  # total, of components that the count takes as Gammas by matched moments


def are_independent(parts: Sequence[RateTerm]) -> bool:
    """Whether all components of all terms are independent."""
    return all(term.is_product for term in parts) and len(coupled(parts)) == len(parts)


def split(parts: Sequence[RateTerm]) -> tuple[list[RateTerm], list[list[RateTerm]]]:
    """Terms whose components are all independent, and groups of other terms, independent of each other."""
    groups = coupled(parts)
    alone = [term for group in groups if are_independent(group) for term in group]
    return alone, [group for group in groups if not are_independent(group)]


def neg_log_p_zero(parts: Sequence[RateTerm], tolerance: float) -> Array:
    """−log P(x = 0) at the terms' cells, (n,), for means up to MAX_MEAN. Matched moments may cost `tolerance` of P."""
    columns = _columns(parts)
    result = np.zeros(parts[0].count)
    weights, table = nodes(), powers()
    alias = math.exp(-math.pi / QUADRATURE_STEP)

    def work(lo: int, hi: int) -> None:
        mean, variance = _joined([own.two_moments(lo, hi) for own in columns])
        miss, pairs = np.zeros(hi - lo), np.empty((mean.size, 2), np.int64)
        least, most = np.empty(mean.size), np.empty(mean.size)
        pairs = pairs[: sort_components(mean, variance, tolerance * _each(mean), miss, pairs, least, most)]
        product = np.empty((len(pairs), 2 * QUADRATURE_NODES))
        begin_pairs(pairs, mean, weights, QUADRATURE_STEP, product)
        for own in columns:
            for at, E, D in own.tables:
                multiply_pairs(pairs, own.first, at[lo:hi], E, D, table, MIN_EXPONENT, product)
        end_pairs(pairs, mean, least, most, alias, product, miss)
        result[lo:hi] = miss

    in_pieces(work, len(result), CHUNK_COMPONENTS // sum(own.width for own in columns))
    return result


def third_cumulants(parts: Sequence[RateTerm]) -> Array:
    """κ₃/m³ of the rate at the terms' cells, (n,)."""
    columns = _columns(parts)
    result = np.empty(parts[0].count)

    def work(lo: int, hi: int) -> None:
        mean, second, third = _joined([own.three_moments(lo, hi) for own in columns])
        third_cumulant(mean, second, third, result[lo:hi])

    in_pieces(work, len(result), CHUNK_COMPONENTS // sum(own.width for own in columns))
    return result


def on_grid(
    parts: Sequence[RateTerm], noise: float, finish: Finish, draws: RateDraws | None = None, max_cells: int = 1
) -> None:
    """Pass the rate of every cell on a logarithmic grid to `finish(lo, hi, masses, mean, warm)`, in chunks.

    `noise`: 1 for the count, which ignores components far below one event; 0 for the rate. `draws`: equally probable
    rates (n, n_draws) that are added to the terms, for at most `max_cells` cells at a time.
    """
    columns = _columns(parts)

    def work(lo: int, hi: int) -> None:
        mean, second, third = _joined([own.three_moments(lo, hi) for own in columns])
        rates = draws(lo, hi) if draws else None
        whole, warm = mean.sum(axis=1), np.empty((hi - lo, 3))
        whole = whole if rates is None else whole + rates.mean(axis=1)
        each, pairs = _each(mean), np.empty((mean.size, 2), np.int64)
        least = np.maximum(noise * NEGLIGIBLE_EVENTS * each, NEGLIGIBLE_SHARE * each * whole)
        pairs = pairs[: sort_widths(mean, second, third, noise, least, noise * MAX_GAMMA_VARIANCE * each, warm, pairs)]
        masses, total = np.empty((len(pairs), log_grid.GRID_NODES)), np.zeros((hi - lo, log_grid.GRID_NODES))
        begin_masses(pairs, mean, whole, masses)
        for own in columns:
            for at, E, D in own.tables:
                multiply_masses(pairs, own.first, at[lo:hi], E, D, log_grid.gammas(), log_grid.MIN_EXPONENT, masses)
        drop_low(pairs, whole, noise * NEGLIGIBLE_RATE * each, masses)
        add_pairs(pairs, masses, *log_grid.sums(), total)
        if rates is not None:
            add_draws(rates, whole, *log_grid.sums(), warm, total)
        finish(lo, hi, total, whole, warm)

    piece = GRID_CHUNK_COMPONENTS // sum(own.width for own in columns)
    in_pieces(work, parts[0].count, min(piece, max_cells) if draws else piece)


@dataclass(frozen=True, eq=False)
class _Columns:
    """Components of one term: columns from `first` on of arrays over all terms. `tables`: rows, E and D of factors."""

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
        """Mean of every component, E[X²]/E[X]² and E[X³]/E[X]³ at cells lo … hi − 1."""
        mean = self.term.exposed(np.ones((hi - lo, self.width)), lo, hi)
        second, third = np.ones(mean.shape), np.ones(mean.shape)
        for at, E, D in self.tables:
            multiply_means(at[lo:hi], E, mean)
            multiply_thirds(at[lo:hi], E, D, second, third)
        return mean, second, third


def _columns(parts: Sequence[RateTerm]) -> list[_Columns]:
    """Components of all terms as columns; each multiplies the factors of its own term."""
    columns: list[_Columns] = []
    for term in parts:
        tables = [(operand.at, *operand.ordered(term.operands[0].latent).flat()) for operand in term.operands]
        first = columns[-1].first + columns[-1].width if columns else 0
        columns.append(_Columns(term, first, term.width, tables))
    return columns


def _joined(moments: Sequence[tuple[Array, ...]]) -> Sequence[Array]:
    """Moments of all components, from those of each term."""
    return moments[0] if len(moments) == 1 else [np.concatenate(arrays, axis=1) for arrays in zip(*moments)]


def _each(mean: Array) -> Array:
    """Tolerance per component of a cell, (n,); components of mean 0 take none."""
    return np.asarray(1 / np.maximum(np.count_nonzero(mean, axis=1), 1))


def _places() -> NDArray[np.complex128]:
    """s_j = −½ + i y_j, y_j = (j + ½) h."""
    return np.asarray(-0.5 + 1j * (np.arange(QUADRATURE_NODES) + 0.5) * QUADRATURE_STEP, np.complex128)


def _flat(values: NDArray[np.complex128]) -> Array:
    """Real parts, then imaginary ones, along the last axis; read-only, as kernels expect."""
    flat = np.concatenate([values.real, values.imag], axis=-1)
    flat.flags.writeable = False
    return flat


@cache
def nodes() -> Array:
    """−h/π · Γ(s_j); the conjugate half of the line is included, hence not 2π."""
    return _flat(-QUADRATURE_STEP / np.pi * special.gamma(_places()))


@cache
def powers() -> Array:
    """E[(Z/E)^−s_j] for C = 2^e (1 + k/16); rows of 2·QUADRATURE_NODES numbers; the last row is that of a point."""
    octaves = 2.0 ** np.arange(MIN_EXPONENT, MAX_EXPONENT, dtype=float)
    C = (octaves[:, None] * (1 + np.arange(16) / 16)).reshape(-1, 1)
    s = _places()
    values = np.exp(special.loggamma(C - s) - special.loggamma(C) + s * np.log(C))
    return _flat(np.concatenate([values, np.ones((1, QUADRATURE_NODES), complex)]))
