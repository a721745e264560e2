"""Kernels on a logarithmic grid: products and sums of independent rates. One factor per call, so one function serves
all equations.
"""

import math

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.predict.kernels import place
from plait.analysis.predict.log_grid import APART_NODES, GRID_NODES, GRID_STEP, ORIGIN, shares
from plait.jit import inlined, kernel

MIN_MASS = 1e-7  # smaller masses are left out of products and sums


@kernel
def begin_masses(pairs: Rows, mean: Array, whole: Array, masses: Array) -> None:
    """masses[p, :] = a unit mass at the mean of a component, on the grid of its cell, whose mean is whole[n]."""
    masses[:] = 0.0
    for p in range(len(pairs)):
        n = pairs[p, 0]
        at = ORIGIN + math.log(mean[n, pairs[p, 1]] / whole[n]) / GRID_STEP
        node = math.floor(at)
        if node >= 1:  # else it is below the grid
            put_shares(1.0, at - node, node, masses[p])


@inlined
def put_shares(mass: float, f: float, node: int, masses: Array) -> None:
    """Add a mass that lies f steps above a node, 0 < node < GRID_NODES − 2."""
    before, here, after, last = shares(f)
    masses[node - 1] += mass * before
    masses[node] += mass * here
    masses[node + 1] += mass * after
    masses[node + 2] += mass * last


@kernel
def multiply_masses(
    pairs: Rows, first_column: int, at: Rows, mean: Array, scale: Array, table: Array, lowest: int, masses: Array
) -> None:
    """Multiply the rates of masses[p, :] by a Gamma of mean 1 and C = E/D, from a table over C.

    `first_column`: column of pairs that is the first of the factor; columns of other factors stay.
    """
    product, gamma = np.empty(GRID_NODES), np.empty(GRID_NODES)
    for p in range(len(pairs)):
        row, c = at[pairs[p, 0]], pairs[p, 1] - first_column
        if not 0 <= c < mean.shape[1] or not scale[row, c] > 0.0 or mean[row, c] >= scale[row, c] * 2.0**14:
            continue
        k, f = place(mean[row, c] / scale[row, c], lowest, len(table))
        first, last = (
            int(min(table[k, GRID_NODES], table[k + 1, GRID_NODES])),
            int(max(table[k, GRID_NODES + 1], table[k + 1, GRID_NODES + 1])),
        )
        for j in range(first, last + 1):
            gamma[j] = table[k, j] + f * (table[k + 1, j] - table[k, j])
        product[:] = 0.0
        mine = masses[p]
        for i in range(GRID_NODES):
            if abs(mine[i]) > MIN_MASS:
                shift = i - ORIGIN
                begin, end = max(first, -shift), min(last, GRID_NODES - 1 - shift) + 1
                add_scaled(mine[i], gamma[begin:end], product[begin + shift : end + shift])
                for j in range(max(end, first), last + 1):  # beyond the grid
                    product[GRID_NODES - 1] += mine[i] * gamma[j]
        mine[:] = product


@inlined
def add_scaled(by: float, source: Array, target: Array) -> None:
    """target += by · source; loop indices from 0 let it be vectorised."""
    for i in range(len(target)):
        target[i] += by * source[i]


@kernel
def drop_low(pairs: Rows, whole: Array, least: Array, masses: Array) -> None:
    """Drop masses at rates below least[n], which count as 0."""
    for p in range(len(pairs)):
        n = pairs[p, 0]
        end = int((math.log(least[n] / whole[n])) / GRID_STEP) + ORIGIN if least[n] > 0.0 else 0
        masses[p, : max(0, min(end, GRID_NODES))] = 0.0


@kernel
def add_pairs(pairs: Rows, masses: Array, node: Rows, split: Array, bends: Array, total: Array) -> None:
    """total[n, :] = masses of the sum of a cell's components. Pairs of a cell are consecutive; other cells stay."""
    work, moved = np.empty(GRID_NODES), np.empty((4, GRID_NODES))
    last = -1
    for p in range(len(pairs)):
        n = pairs[p, 0]
        if n != last:
            total[n] = masses[p]
            last = n
            continue
        _add(masses[p], node, split, bends, moved, work, total[n])


@kernel
def _add(masses: Array, node: Rows, split: Array, bends: Array, moved: Array, work: Array, total: Array) -> None:
    """Convolve `total` with `masses`; `moved`, `work`: scratch memory."""
    work[:] = 0.0
    _add_close(total, masses, 0, node, split, moved, work)
    _add_close(masses, total, 1, node, split, moved, work)
    _add_far(total, masses, bends, work)
    _add_far(masses, total, bends, work)
    total[:] = work


@kernel
def _add_close(a: Array, b: Array, least: int, node: Rows, split: Array, moved: Array, out: Array) -> None:
    """Masses of the sum where b is `least` to APART_NODES − 1 nodes below a.

    Distances with equal offset of the sum are consecutive; their shares are collected first, then moved.
    """
    first, last = _ends(a)
    begin, end = _ends(b)
    moved[:] = 0.0
    for d in range(least, APART_NODES):
        lo, hi = max(first, begin + d), min(last, end + d) + 1
        if hi > lo:
            add_shares(split[d], a[lo:hi], b[lo - d : hi - d], moved[:, lo:hi])
        if d == APART_NODES - 1 or node[d + 1] != node[d]:
            for k in range(4):
                shift = node[d] - 1 + k
                for i in range(first, last + 1):
                    out[min(i + shift, GRID_NODES - 1)] += moved[k, i]
            moved[:] = 0.0


@inlined
def add_shares(split: Array, a: Array, b: Array, moved: Array) -> None:
    """Four shares of a · b, summed; loop indices from 0 let it be vectorised."""
    before, here, after, last = moved[0], moved[1], moved[2], moved[3]
    s, t, u, v = split[0], split[1], split[2], split[3]
    for i in range(len(a)):
        product = a[i] * b[i]
        before[i] += s * product
        here[i] += t * product
        after[i] += u * product
        last[i] += v * product


@kernel
def _add_far(a: Array, b: Array, bends: Array, out: Array) -> None:
    """Masses of the sum where b is farther below a, by the mean and mean square of b."""
    e, far = math.exp(-GRID_STEP), math.exp(-GRID_STEP * APART_NODES)
    below, mean, square = 1.0 - b.sum(), 0.0, 0.0
    for i in range(GRID_NODES):
        mean, square = mean * e, square * e * e
        if i >= APART_NODES:
            below += b[i - APART_NODES]
            mean += b[i - APART_NODES] * far
            square += b[i - APART_NODES] * far * far
        out[i] += a[i] * below
        for k in range(4):
            out[max(0, min(i - 1 + k, GRID_NODES - 1))] += a[i] * (mean * bends[k, 0] + square * bends[k, 1])


@kernel
def _ends(a: Array) -> tuple[int, int]:
    """First (at least 1) and last node with a mass above MIN_MASS."""
    first, last = 1, GRID_NODES - 1
    while first < last and abs(a[first]) < MIN_MASS:
        first += 1
    while last > first and abs(a[last]) < MIN_MASS:
        last -= 1
    return first, last


@kernel
def add_draws(rates: Array, mean: Array, node: Rows, split: Array, bends: Array, warm: Array, total: Array) -> None:
    """Add equally probable rates (n, n_draws) to total[n, :], on a grid about mean[n].

    Narrow, nearly normal ones, as in `kernels.sort_widths`, are added to warm (n, 3), and so is the minimum of the
    others: a sum with a constant has an edge there, too sharp for a step of the grid.
    """
    masses, work, moved = np.empty(GRID_NODES), np.empty(GRID_NODES), np.empty((4, GRID_NODES))
    for n in range(len(rates)):
        m = rates[n].mean()
        v = ((rates[n] - m) ** 2).mean()
        k = ((rates[n] - m) ** 3).mean()
        if 16.0 * v <= m * m and k <= 0.9 * v * math.sqrt(v):
            warm[n, 0] += m
            warm[n, 1] += v
            warm[n, 2] += k
            continue
        least = rates[n].min()
        warm[n, 0] += least
        masses[:] = 0.0
        for s in range(rates.shape[1]):
            if rates[n, s] > least:
                at = ORIGIN + math.log((rates[n, s] - least) / mean[n]) / GRID_STEP
                place = min(math.floor(at), GRID_NODES - 3)
                if place >= 1:
                    put_shares(1.0 / rates.shape[1], min(at - place, 1.0), place, masses)
        _add(masses, node, split, bends, moved, work, total[n])
