"""The rows of an axis in an order in which neighbours are alike, and blocks of them with their maxima.

Level 0 are the rows; a block of level l + 1 is FAN consecutive blocks of level l. The last level has one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait.types import Array, Rows

FAN = 8


@dataclass(frozen=True, eq=False)
class Tree:
    """order (n,): the row at each place. counts: blocks of each level, from the rows up to 1."""

    order: Rows
    counts: tuple[int, ...]
    fan: int

    @classmethod
    def of(cls, contributions: Array) -> "Tree":
        """Rows with the same largest component together, the largest first; contributions (n, columns).

        Equal rows stay in the order of their numbers.
        """
        total = contributions.sum(axis=1)
        order = np.lexsort((-total, contributions.argmax(axis=1)))
        counts = [len(order)]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // FAN))
        return cls(order, tuple(counts), FAN)

    def __len__(self) -> int:
        return self.counts[0]

    @property
    def height(self) -> int:
        """The level of the single block."""
        return len(self.counts) - 1


def block_maxima(array: Array, axis: int, fan: int) -> Array:
    """Maxima over blocks of `fan` along an axis."""
    return np.asarray(np.maximum.reduceat(array, np.arange(0, array.shape[axis], fan), axis=axis))


def levels_of(rows: Array, tree: Tree) -> list[Array]:
    """Rows (n, …) in the tree's order, then the maxima of each level."""
    levels = [rows[tree.order]]
    while len(levels) < len(tree.counts):
        levels.append(block_maxima(levels[-1], 0, tree.fan))
    return levels


def start_of(trees: Sequence[Tree]) -> tuple[int, ...]:
    """The levels of the box of all cells."""
    return tuple(tree.height for tree in trees)
