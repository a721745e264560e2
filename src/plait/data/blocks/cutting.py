"""Where sorted entries are cut into blocks: the leaves of `cells.leaves`, found without having the tree."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from plait.data.cells.leaves import cut_leaves, leaf_size
from plait.types import AnyArray


class Cut(NamedTuple):
    """The end of a block, in entries of the whole; inside: whether it is a part of one giant root row."""

    end: int
    inside: bool


def cut(counts: AnyArray, sizes: Sequence[int], children: Callable[[int], AnyArray]) -> list[Cut]:
    """Where the blocks of a relation end.

    counts: entries of every root row; sizes: of the axes in tree order; children: of a root row, how many entries each
    row of the level below has there. Only giants are asked for that, and they are few.
    """
    roots = np.flatnonzero(counts)
    lengths = counts[roots]
    firsts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    size = leaf_size(int(firsts[-1]), sizes)
    giants = np.flatnonzero(lengths > 2 * size) if len(sizes) > 1 else roots[:0]
    cuts: list[Cut] = []
    at = 0
    for giant in [*giants.tolist(), len(roots)]:
        plain = cut_leaves(firsts[at : giant + 1], None, None, size)
        cuts += [Cut(int(firsts[at + leaf.hi]), False) for leaf in plain]
        if giant < len(roots):
            cuts += _cut_giant(int(firsts[giant]), children(int(roots[giant])), size)
        at = giant + 1
    return cuts


def _cut_giant(first: int, counts: AnyArray, size: int) -> list[Cut]:
    """The blocks of one root row, from the counts of its children."""
    below = first + np.concatenate([[0], np.cumsum(counts[counts > 0], dtype=np.int64)])
    leaves = cut_leaves(below[[0, -1]], np.array([0, len(below) - 1]), below, size)
    return [
        Cut(int(below[-1] if leaf.inside is None else below[leaf.inside[1]]), leaf.inside is not None)
        for leaf in leaves
    ]
