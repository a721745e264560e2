"""Kernels over cells: moments of products, and P(x = 0) of independent products of Gammas. One factor per call, so one
function serves all equations.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.jit import inlined, tiered_kernel

Marks = NDArray[np.bool_]


def _multiply_means(at: Rows, mean: Array, product: Array) -> None:
    product *= mean[at]


@tiered_kernel("product", _multiply_means)
def multiply_means(at: Rows, mean: Array, product: Array) -> None:
    """product[n, :] *= mean[at[n], :]."""
    for n in range(len(at)):
        row = at[n]
        for c in range(product.shape[1]):
            product[n, c] *= mean[row, c]


def _multiply_moments(at: Rows, mean: Array, scale: Array, product: Array, variance: Array) -> None:
    E = mean[at]
    Var = E * scale[at]
    variance *= E * E + Var
    variance += product * product * Var
    product *= E


@tiered_kernel("product", _multiply_moments)
def multiply_moments(at: Rows, mean: Array, scale: Array, product: Array, variance: Array) -> None:
    """Moments of independent products: v ← v (E² + Var) + m² Var, m ← m E, with Var = E D; without subtraction."""
    for n in range(len(at)):
        row = at[n]
        for c in range(product.shape[1]):
            E = mean[row, c]
            Var = E * scale[row, c]
            m = product[n, c]
            variance[n, c] = variance[n, c] * (E * E + Var) + m * m * Var
            product[n, c] = m * E


def _multiply_thirds(at: Rows, mean: Array, scale: Array, second: Array, third: Array) -> None:
    E, D = mean[at], scale[at]
    inverse = np.divide(D, E, out=np.zeros(E.shape), where=D > 0.0)
    second *= 1.0 + inverse
    third *= (1.0 + inverse) * (1.0 + 2.0 * inverse)


@tiered_kernel("second", _multiply_thirds)
def multiply_thirds(at: Rows, mean: Array, scale: Array, second: Array, third: Array) -> None:
    """E[X²]/E[X]² and E[X³]/E[X]³ of independent products; those of a Gamma are 1 + 1/C and (1 + 1/C)(1 + 2/C)."""
    for n in range(len(at)):
        row = at[n]
        for c in range(second.shape[1]):
            if scale[row, c] > 0.0:
                inverse = scale[row, c] / mean[row, c]
                second[n, c] *= 1.0 + inverse
                third[n, c] *= (1.0 + inverse) * (1.0 + 2.0 * inverse)


@inlined
def surprise(m: float, v: float) -> float:
    """−log P(x = 0) of a negative binomial whose rate has mean m and variance v: m²/v · log(1 + v/m); v = 0: m."""
    if m <= 0.0:
        return 0.0
    ratio = v / m
    return m * (math.log1p(ratio) / ratio) if ratio > 1e-12 else m


@tiered_kernel("mean")
def closed_form(mean: Array, variance: Array, tolerance: float, miss: Array, doubtful: Marks) -> None:
    """−log P(x = 0) by matched moments, and where its error may exceed the tolerance."""
    for n in range(len(mean)):
        miss[n] = surprise(mean[n], variance[n])
        doubtful[n] = math.exp(-miss[n]) - math.exp(-mean[n]) > tolerance


@tiered_kernel("mean")
def third_cumulant(mean: Array, second: Array, third: Array, skewed: Array) -> None:
    """skewed[n] = κ₃/m³ of a sum of independent components of these means (n, columns) and relative moments."""
    for n in range(len(mean)):
        m, total = 0.0, 0.0
        for c in range(mean.shape[1]):
            m += mean[n, c]
        if m > 0.0:
            for c in range(mean.shape[1]):
                share = mean[n, c] / m
                total += share * share * share * (third[n, c] - 3.0 * second[n, c] + 2.0)
        skewed[n] = total


@tiered_kernel("mean")
def sort_widths(
    mean: Array, second: Array, third: Array, noise: float, least: Array, tame: Array, warm: Array, pairs: Rows
) -> int:
    """Split cells into components that together are narrow and nearly normal, and others, listed in pairs.

    `mean` (n, n_columns) and relative moments of the components. The narrow ones are the most certain, up to a relative
    variance of 1/16 and a skewness of 0.9; their mean, variance and third cumulant go to `warm` (n, 3). For the count
    (noise 1) a variance below tame[n] is narrow, too. The distribution of components of mean below least[n] is ignored:
    for the count they are constant, for the rate (noise 0), whose low quantiles may be lower still, 0.
    """
    count, width = 0, mean.shape[1]
    order = np.empty(width, np.int64)
    for n in range(len(mean)):
        for c in range(width):
            at = c
            while at > 0 and second[n, order[at - 1]] > second[n, c]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = c
        m, v, k, narrow = 0.0, 0.0, 0.0, 0
        warm[n, :] = 0.0
        for place in range(width):
            c = order[place]
            own, a, b = mean[n, c], second[n, c], third[n, c]
            m += own
            v += own * own * (a - 1.0)
            k += own * own * own * (b - 3.0 * a + 2.0)
            if 16.0 * v <= m * m and k <= 0.9 * v * math.sqrt(v):
                narrow = place + 1
                warm[n, 0], warm[n, 1], warm[n, 2] = m, v, k
        for place in range(narrow, width):
            c = order[place]
            variance = mean[n, c] * mean[n, c] * (second[n, c] - 1.0)
            if mean[n, c] <= least[n]:
                warm[n, 0] += noise * mean[n, c]
            elif variance < tame[n]:
                warm[n, 0] += mean[n, c]
                warm[n, 1] += variance
            else:
                pairs[count, 0] = n
                pairs[count, 1] = c
                count += 1
    return count


@tiered_kernel("mean")
def sort_components(
    mean: Array, variance: Array, tolerances: Array, miss: Array, pairs: Rows, least: Array, most: Array
) -> int:
    """Split cells into components: miss[n] = Σ −log P(x_r = 0) of those where matched moments suffice.

    `mean`, `variance` (n, n_columns): of the rate of every component. `tolerances` (n,): per component. Lists the
    others in `pairs`, (cell, column), with bounds of their P(x_r = 0): Jensen's, and that of matched moments; returns
    their number.
    """
    count = 0
    for n in range(len(mean)):
        total, tolerance = 0.0, tolerances[n]
        for c in range(mean.shape[1]):
            m, v = mean[n, c], variance[n, c]
            if v < 2.0 * tolerance and v < m:  # e^−x is convex, its second derivative at most 1: off by v/2 at most
                total += m - 0.5 * v
            elif (
                m < tolerance
            ):  # any value from 0 to m is within the tolerance; this one is cheap and close to matched moments
                total += m * m / (m + 0.5 * v) if m > 0.0 else 0.0
            else:
                near = surprise(m, v)
                least[count], most[count] = math.exp(-m), math.exp(-near)
                if most[count] - least[count] <= tolerance:
                    total += near
                else:
                    pairs[count, 0] = n
                    pairs[count, 1] = c
                    count += 1
        miss[n] = total
    return count


@tiered_kernel("product")
def begin_pairs(pairs: Rows, mean: Array, weights: Array, step: float, product: Array) -> None:
    """product[p, :] = weight_j · m^(½ − i y_j) for nodes y_j = (j + ½) · step: real parts, then imaginary ones."""
    nodes = product.shape[1] // 2
    for p in range(len(pairs)):
        m = mean[pairs[p, 0], pairs[p, 1]]
        half, size = -0.5 * step * math.log(m), math.sqrt(m)
        c, s = math.cos(half), math.sin(half)
        re, im = size * c, size * s
        c, s = c * c - s * s, 2.0 * c * s
        for j in range(nodes):
            product[p, j] = weights[j] * re - weights[nodes + j] * im
            product[p, nodes + j] = weights[j] * im + weights[nodes + j] * re
            re, im = re * c - im * s, re * s + im * c


@inlined
def place(x: float, lowest: int, rows: int) -> tuple[int, float]:
    """Row and fraction for linear interpolation in a table over 2^lowest (1 + k/16): sixteen rows per octave."""
    bits: Any = np.float64(x).view(np.int64)  # exponent and first four bits of the mantissa are the row
    row = (bits >> 48) - ((1023 + lowest) << 4)
    if row < 0:
        return 0, 0.0
    if row >= rows - 1:
        return rows - 2, 1.0
    return row, (bits & 0xFFFFFFFFFFFF) * 2.0**-48


@tiered_kernel("product")
def multiply_pairs(
    pairs: Rows, first: int, at: Rows, mean: Array, scale: Array, table: Array, lowest: int, product: Array
) -> None:
    """product[p, :] *= E[(Z/E)^(½ − i y_j)], complex, from a table over the concentration C = E/D.

    `first`: column of pairs that is the first of the factor; columns of other factors stay.
    """
    nodes = product.shape[1] // 2
    for p in range(len(pairs)):
        row, c = at[pairs[p, 0]], pairs[p, 1] - first
        if 0 <= c < mean.shape[1] and scale[row, c] > 0.0:
            k, f = place(mean[row, c] / scale[row, c], lowest, len(table))
            for j in range(nodes):
                a = table[k, j] + f * (table[k + 1, j] - table[k, j])
                b = table[k, nodes + j] + f * (table[k + 1, nodes + j] - table[k, nodes + j])
                re, im = product[p, j], product[p, nodes + j]
                product[p, j] = re * a - im * b
                product[p, nodes + j] = re * b + im * a


@tiered_kernel("product")
def end_pairs(pairs: Rows, mean: Array, least: Array, most: Array, alias: float, product: Array, miss: Array) -> None:
    """Add −log P(x_r = 0) of every pair: one minus the sum over the nodes, clipped to its bounds."""
    nodes = product.shape[1] // 2
    for p in range(len(pairs)):
        hit = alias * (1.0 + mean[pairs[p, 0], pairs[p, 1]])
        for j in range(nodes):
            hit += product[p, j]
        miss[pairs[p, 0]] -= math.log(min(max(1.0 - hit, least[p], 1e-300), most[p]))
