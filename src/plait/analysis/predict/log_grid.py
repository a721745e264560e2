"""Logarithmic grid for distributions of rates: tables for products and sums of independent rates.

A rate with mean m has masses at m·e^(u_i), u_i = FIRST_LOG + i·GRID_STEP; missing mass lies below the grid and counts
as 0. Where a density is smooth on the scale of a step, masses (density × step) are the trapezoid rule, so results are
far more accurate than a step. The grid scales with the mean.

A mass between nodes is shared by four of them, by Lagrange polynomials in e^u, which keeps the first three moments. A
share may be negative, which is harmless for smooth densities.
"""

import math
from functools import cache

import numpy as np

from plait import special
from plait._typing import Array, Rows
from plait.jit import inlined

GRID_STEP = 0.25
GRID_NODES = 128
TOP_NODES = 32  # nodes above the mean: a rate is beyond e^8 times its mean in less than one of 2981 cases
ORIGIN = GRID_NODES - TOP_NODES  # the node of the mean itself
FIRST_LOG = -ORIGIN * GRID_STEP
MIN_EXPONENT, MAX_EXPONENT = -10, 14  # of the table over C, in powers of two; a larger C is a point
MIN_NARROW_CONCENTRATION = 16.0  # from which a Gamma is narrower than a step
APART_NODES = (
    16  # nodes between two rates from which the smaller, below e^−4 of the larger, enters a sum by two moments
)


@inlined
def shares(f: float) -> tuple[float, float, float, float]:
    """Shares of a mass at f steps above a node, 0 ≤ f ≤ 1: of the node before, the node, and the next two."""
    a, b, x = math.exp(-GRID_STEP), math.exp(GRID_STEP), math.exp(f * GRID_STEP)
    c = b * b
    before = (x - 1.0) * (x - b) * (x - c) / ((a - 1.0) * (a - b) * (a - c))
    after = (x - a) * (x - 1.0) * (x - c) / ((b - a) * (b - 1.0) * (b - c))
    last = (x - a) * (x - 1.0) * (x - b) / ((c - a) * (c - 1.0) * (c - b))
    return before, 1.0 - before - after - last, after, last


@cache
def gammas() -> Array:
    """Masses of a Gamma of mean 1, C = 2^e (1 + k/16): (n_rows, GRID_NODES), then first and last node of each row."""
    octaves = 2.0 ** np.arange(MIN_EXPONENT, MAX_EXPONENT, dtype=float)
    C = np.append((octaves[:, None] * (1 + np.arange(16) / 16)).reshape(-1), 2.0**MAX_EXPONENT)[:, None]
    u = FIRST_LOG + GRID_STEP * np.arange(GRID_NODES)
    masses = GRID_STEP * np.exp(C * (np.log(C) + u - np.exp(u)) - special.gammaln(C))
    masses[masses < 1e-12] = 0.0
    narrow = C[:, 0] >= MIN_NARROW_CONCENTRATION
    masses[narrow] = _three_nodes(1 / C[narrow])
    some = masses > 0
    ends = np.stack([some.argmax(axis=1), GRID_NODES - 1 - some[:, ::-1].argmax(axis=1)], axis=1)
    table = np.concatenate([masses, ends], axis=1)
    table.flags.writeable = False
    return table


def _three_nodes(variance: Array) -> Array:
    """Mean 1 and a small variance (n, 1) by masses at the node of the mean and its neighbours: (n, GRID_NODES)."""
    a, b = math.exp(-GRID_STEP), math.exp(GRID_STEP)
    masses = np.zeros((len(variance), GRID_NODES))
    masses[:, ORIGIN - 1] = variance[:, 0] / ((1 - a) * (b - a))
    masses[:, ORIGIN + 1] = variance[:, 0] / ((b - 1) * (b - a))
    masses[:, ORIGIN] = 1 - masses[:, ORIGIN - 1] - masses[:, ORIGIN + 1]
    return masses


@cache
def sums() -> tuple[Rows, Array, Array]:
    """The sum of two rates d nodes apart: nodes above the larger, (APART_NODES,), and shares there, (APART_NODES, 4).

    For a smaller rate far below, ε of the larger: the changes of the shares by ε and ε², (4, 2).
    """
    place = np.log1p(np.exp(-GRID_STEP * np.arange(APART_NODES))) / GRID_STEP
    node = np.floor(place).astype(np.int64)
    split = np.array([shares(f) for f in place - node])
    nodes = np.exp(GRID_STEP * np.arange(-1.0, 3.0)) - 1
    cubics = [np.poly1d(np.delete(nodes, k), r=True) / np.prod(nodes[k] - np.delete(nodes, k)) for k in range(4)]
    bends = np.array([[cubic[1], cubic[2]] for cubic in cubics])
    for array in (node, split, bends):
        array.flags.writeable = False
    return node, split, bends
