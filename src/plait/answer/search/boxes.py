"""Boxes of a form whose rate is Σ_s Π_f rows_f[n_f, s]: CP, and everything that contracts to it. Compiled and threaded.

A box has two bounds. The sum at componentwise maxima is sharp where rows are sparse or alike. Hölder's inequality,

    Σ_s Π_f x_fs ≤ Π_f (Σ_s x_fs^F)^(1/F),

is sharp where rows are dense and differ mainly in size. The smaller of the two holds.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from plait.answer.predict.pieces import in_pieces
from plait.answer.search.box_sums import score, split
from plait.answer.search.tree import Tree, levels_of
from plait.jit import WIDTH
from plait.types import Array, Rows

Levels = tuple[int, ...]

# Scores are relative to the largest sum of maxima, so they neither overflow nor vanish; but a unit must not be 0.
LEAST_UNIT = 1e-300


class RowBoxes:
    """Bounds and scores of boxes (see `plait.answer.search.branch.Boxes`) from non-negative arrays (n_f, S)."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        scaled, self.unit = _scaled(arrays)
        self.trees = [_tree(scaled, axis) for axis in range(len(arrays))]
        levels = [levels_of(rows, tree) for rows, tree in zip(scaled, self.trees)]
        norms = [levels_of(norm, tree) for norm, tree in zip(_norms(scaled), self.trees)]
        starts = np.cumsum([0, *(len(level) for axis in levels for level in axis)])
        self._starts: list[Rows] = np.split(starts[:-1], np.cumsum([len(axis) for axis in levels])[:-1])
        self._maxima = np.concatenate([level for axis in levels for level in axis])
        self._sizes = np.concatenate([level for axis in norms for level in axis])
        self._last = _transposed(levels[-1][0])

    def _first(self, levels: Levels) -> Rows:
        return np.array([starts[level] for starts, level in zip(self._starts, levels)], np.int64)

    def children(self, nodes: Rows, levels: Levels, axis: int, floor: float) -> tuple[Rows, Array]:
        """The boxes split along an axis whose bounds are above the floor, and the bounds."""
        tree, below = self.trees[axis], levels[axis] - 1

        def part(lo: int, hi: int) -> tuple[Rows, Array]:
            room = (hi - lo) * tree.fan
            parent, child, bound = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
            count = split(
                lo, hi, nodes, self._first(levels), axis, self._starts[axis][below], tree.counts[below], tree.fan,
                self._maxima, self._sizes, floor / self.unit, parent, child, bound,
            )  # fmt: skip
            found = nodes[parent[:count]]
            found[:, axis] = child[:count]
            return found, bound[:count] * self.unit

        return threaded(part, len(nodes))

    def cells(self, nodes: Rows, levels: Levels, floor: float) -> tuple[Rows, Array]:
        """The cells in boxes that are above the floor, as row numbers (m, axes), and their rates."""
        blocks = np.array([tree.fan**level for tree, level in zip(self.trees, levels)], np.int64)
        counts = np.array([len(tree) for tree in self.trees], np.int64)
        rows = self._first((0,) * len(levels))

        def part(lo: int, hi: int) -> tuple[Rows, Array]:
            room = (hi - lo) * int(blocks.prod())
            cells, rates = np.empty((room, len(levels)), np.int64), np.empty(room)
            count = score(
                lo, hi, nodes, self._first(levels), blocks, counts, rows, self._maxima, self._sizes, self._last,
                floor / self.unit, cells, rates,
            )  # fmt: skip
            return cells[:count].copy(), rates[:count] * self.unit

        places, rates = threaded(part, len(nodes))
        return rows_at(self.trees, places), rates


def rows_at(trees: Sequence[Tree], places: Rows) -> Rows:
    """Row numbers of cells given by places in the trees' orders; (m, axes) -> (m, axes)."""
    return np.stack([tree.order[places[:, axis]] for axis, tree in enumerate(trees)], axis=1)


def threaded(part: Callable[[int, int], tuple[Rows, Array]], count: int) -> tuple[Rows, Array]:
    """The results of part(lo, hi) over all boxes, in the order of the boxes, whatever thread is first."""
    results: dict[int, tuple[Rows, Array]] = {}

    def work(lo: int, hi: int) -> None:
        results[lo] = part(lo, hi)

    in_pieces(work, count, -(-count // 2))
    ordered = [results[lo] for lo in sorted(results)]
    return np.concatenate([found for found, _ in ordered]), np.concatenate([values for _, values in ordered])


def _scaled(arrays: Sequence[Array]) -> tuple[list[Array], float]:
    """Arrays whose columns are alike on all axes, and what their product was divided by."""
    maxima = [array.max(axis=0) for array in arrays]
    used = np.all([m > 0 for m in maxima], axis=0)
    if not used.any():
        return [np.zeros((len(array), 1)) for array in arrays], 1.0
    logs = np.sum([np.log(m[used]) for m in maxima], axis=0)
    share = np.exp((logs - logs.max()) / len(arrays))
    unit = math.exp(min(logs.max(), 700.0))
    return [np.ascontiguousarray(a[:, used] / m[used] * share) for a, m in zip(arrays, maxima)], max(unit, LEAST_UNIT)


def _tree(scaled: Sequence[Array], axis: int) -> Tree:
    """Rows by what they could contribute beside the largest rows of the other axes."""
    others = [rows.max(axis=0) for n, rows in enumerate(scaled) if n != axis]
    contributions = scaled[axis] * np.prod(others, axis=0) if others else scaled[axis]
    tell = np.ptp(contributions, axis=0) > 0  # a term without this axis tells no row from another
    return Tree.of(contributions[:, tell] if tell.any() else contributions)


def _norms(scaled: Sequence[Array]) -> list[Array]:
    """(Σ_s x_s^F)^(1/F) of every row, columns balanced so that they have the same mean on all axes."""
    power = len(scaled)
    means = [rows.mean(axis=0) for rows in scaled]
    if not np.all(means):  # a column too small to be balanced: no bound of this kind
        return [np.full(len(rows), np.inf) for rows in scaled]
    common = np.exp(np.mean(np.log(means), axis=0))
    norms = []
    for rows, mean in zip(scaled, means):
        balanced = rows * (common / mean)
        peak = balanced.max(axis=1)
        balanced /= np.where(peak > 0, peak, 1.0)[:, None]  # so that powers of small numbers do not vanish
        norms.append(peak * np.sum(balanced**power, axis=1) ** (1 / power))
    return norms


def _transposed(rows: Array) -> Array:
    """(n, S) -> (⌈n / WIDTH⌉ · S, WIDTH): for each group of WIDTH rows its columns; rows of 0 fill the last group."""
    groups = -(-len(rows) // WIDTH)
    padded = np.zeros((groups * WIDTH, rows.shape[1]))
    padded[: len(rows)] = rows
    return np.ascontiguousarray(padded.reshape(groups, WIDTH, -1).transpose(0, 2, 1)).reshape(-1, WIDTH)
