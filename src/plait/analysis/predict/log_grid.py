"""Rates on a logarithmic grid: the tables by which products and sums of independent rates are made.

A cell's rate is described by masses at m·e^(u_i), u_i = LEAST + i·STEP, m being its mean; what is missing to 1 lies
below the grid, as good as 0. Where a density is smooth on the scale of a step, masses (density × step) are the
trapezoid rule, and all that is made of them is accurate far beyond a step. The mean may be as large or as small as it
likes: the grid goes with it.

What falls between nodes is shared by four of them, so that the first three moments stay: Lagrange's polynomials in e^u.
A share may be negative, which smooth densities forgive.
"""

import math
from functools import cache

import numpy as np

from plait._typing import Array, Rows
from plait.jit import inlined

STEP = 0.25
NODES = 128
TOP = 32  # nodes above the mean: a rate is beyond e^8 times its mean in less than one of 2981 cases
ORIGIN = NODES - TOP  # the node of the mean itself
LEAST = -ORIGIN * STEP
LOWEST, HIGHEST = -10, 14  # the table goes from C = 2^LOWEST to 2^HIGHEST, beyond which a Gamma is as good as a point
NARROW = 16.0  # the concentration from which on a Gamma is narrower than a step
APART = 16  # nodes between two rates from which on only two moments of the smaller, below e^−4 of it, enter their sum


@inlined
def shares(f: float) -> tuple[float, float, float, float]:
    """What a mass at f steps behind a node, 0 ≤ f ≤ 1, gives to the node before, to the node and to the next two."""
    a, b, x = math.exp(-STEP), math.exp(STEP), math.exp(f * STEP)
    c = b * b
    before = (x - 1.0) * (x - b) * (x - c) / ((a - 1.0) * (a - b) * (a - c))
    after = (x - a) * (x - 1.0) * (x - c) / ((b - a) * (b - 1.0) * (b - c))
    last = (x - a) * (x - 1.0) * (x - b) / ((c - a) * (c - 1.0) * (c - b))
    return before, 1.0 - before - after - last, after, last


@cache
def gammas() -> Array:
    """Masses of a Gamma of mean 1, for C = 2^e (1 + k/16): (rows, NODES), then first and last node of each row."""
    from scipy.special import gammaln

    octaves = 2.0 ** np.arange(LOWEST, HIGHEST, dtype=float)
    C = np.append((octaves[:, None] * (1 + np.arange(16) / 16)).reshape(-1), 2.0**HIGHEST)[:, None]
    u = LEAST + STEP * np.arange(NODES)
    masses = STEP * np.exp(C * (np.log(C) + u - np.exp(u)) - gammaln(C))
    masses[masses < 1e-12] = 0.0
    narrow = C[:, 0] >= NARROW
    masses[narrow] = _three_nodes(1 / C[narrow])
    some = masses > 0
    ends = np.stack([some.argmax(axis=1), NODES - 1 - some[:, ::-1].argmax(axis=1)], axis=1)
    table = np.concatenate([masses, ends], axis=1)
    table.flags.writeable = False
    return table


def _three_nodes(variance: Array) -> Array:
    """Mean 1 and a small variance (n, 1) by masses at the node of the mean and its neighbours: (n, NODES)."""
    a, b = math.exp(-STEP), math.exp(STEP)
    masses = np.zeros((len(variance), NODES))
    masses[:, ORIGIN - 1] = variance[:, 0] / ((1 - a) * (b - a))
    masses[:, ORIGIN + 1] = variance[:, 0] / ((b - 1) * (b - a))
    masses[:, ORIGIN] = 1 - masses[:, ORIGIN - 1] - masses[:, ORIGIN + 1]
    return masses


@cache
def sums() -> tuple[Rows, Array, Array]:
    """The sum of two rates that are d nodes apart: nodes above the larger, (APART,), and shares there, (APART, 4).

    And for a smaller one far below, ε of the larger: what ε and ε² change in the shares at the larger, (4, 2).
    """
    place = np.log1p(np.exp(-STEP * np.arange(APART))) / STEP
    node = np.floor(place).astype(np.int64)
    split = np.array([shares(f) for f in place - node])
    nodes = np.exp(STEP * np.arange(-1.0, 3.0)) - 1
    cubics = [np.poly1d(np.delete(nodes, k), r=True) / np.prod(nodes[k] - np.delete(nodes, k)) for k in range(4)]
    bends = np.array([[cubic[1], cubic[2]] for cubic in cubics])
    for array in (node, split, bends):
        array.flags.writeable = False
    return node, split, bends
