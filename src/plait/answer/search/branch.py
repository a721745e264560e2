"""The best cells of a product over axes, by branch and bound over boxes; exact, in flat memory.

A box is a block of rows on every axis, and its bound the largest rate that maxima over the blocks allow. The most
promising boxes are split first, a batch at a time and depth first, so that the first batches are a beam search that
finds good cells, and nothing but one shelf of boxes a level waits. Boxes of few cells are scored outright. Where no
bound ever helps, that is a sweep over all cells in pieces.
"""

import math
from typing import Protocol

import numpy as np

from plait.answer.search.best import Best
from plait.answer.search.tree import Tree, start_of
from plait.types import Array, Rows

Levels = tuple[int, ...]

LEAF = 512  # cells of a box that is scored outright
BATCH = 4096  # boxes split, or scored, at a time
FIRST = 16  # boxes scored before there is anything to compare with


class Boxes(Protocol):
    """Bounds and scores of boxes; nodes (n, axes) are block numbers of the levels."""

    trees: list[Tree]

    def children(self, nodes: Rows, levels: Levels, axis: int, floor: float) -> tuple[Rows, Array]:
        """The boxes split along an axis whose bounds are above the floor, and the bounds."""

    def cells(self, nodes: Rows, levels: Levels, floor: float) -> tuple[Rows, Array]:
        """The cells in boxes that are above the floor, as row numbers (m, axes), and their rates."""


def search(boxes: Boxes, best: Best, start: tuple[Levels, Rows] | None = None) -> None:
    """Offer `best` every cell that can be among the best, and few others.

    start: the levels and blocks (1, axes) of the box to search, None for all cells.
    """
    trees = boxes.trees
    levels, nodes = start or (start_of(trees), np.zeros((1, len(trees)), np.int64))
    shelves = [(levels, nodes, np.full(1, np.inf))]
    some = FIRST
    while shelves:
        levels, nodes, bounds = shelves.pop()
        above = int(np.searchsorted(-bounds, -best.floor, side="left"))  # bounds fall
        if above == 0:
            continue
        axis = _axis_to_split(trees, levels)
        batch = min(BATCH if axis is not None else some, above)
        if batch < above:
            shelves.append((levels, nodes[batch:above], bounds[batch:above]))
        if axis is None:
            best.offer(*boxes.cells(nodes[:batch], levels, best.floor))
            some = min(4 * some, BATCH)
            continue
        found, new = boxes.children(nodes[:batch], levels, axis, best.floor)
        order = np.argsort(-new, kind="stable")
        below = (*levels[:axis], levels[axis] - 1, *levels[axis + 1 :])
        shelves.append((below, found[order], new[order]))


def _axis_to_split(trees: list[Tree], levels: Levels) -> int | None:
    """The axis with the largest blocks; None if the box has so few cells that they are scored."""
    if math.prod(tree.fan**level for tree, level in zip(trees, levels)) <= LEAF:
        return None
    return max((n for n in range(len(levels)) if levels[n]), key=lambda n: (levels[n], len(trees[n])), default=None)
