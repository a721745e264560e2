"""Leaves of a table: ranges of entries that are summed separately, in order, and joined in a fixed binary tree
(decision 27).

Number and boundaries follow from the entries alone, not from threads, disks or workers, so sums are bitwise identical
everywhere. A leaf is a range of root fibres. A root row with far more entries than a leaf is cut into several leaves,
at the fibres of the next level.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.tuning import TUNING

MIN_LEAVES = 64  # of a large table: enough for balance on many threads


Firsts = AnyArray | range  # first entry of every fibre; a range where fibres are entries


class Leaf(NamedTuple):
    """Root fibres lo … hi; `inside`: range of children, for a part of a single root fibre."""

    lo: int
    hi: int
    inside: tuple[int, int] | None = None


class Extent(NamedTuple):
    """First and last root row of a leaf, and its number of entries."""

    first: int
    last: int
    entries: int


def leaf_size(entries: int, sizes: Sequence[int]) -> int:
    """Target number of entries of a leaf; `sizes`: of the table's axes in tree order, root first."""
    if entries < TUNING.min_leaf_entries:
        return max(entries, 1)
    paying = entries // (TUNING.leaf_entries_per_row * max(sum(sizes[1:]), 1))
    count = 1 << (min(max(paying, 2), MIN_LEAVES).bit_length() - 1)
    return -(-entries // max(count, -(-entries // TUNING.max_leaf_entries)))


def cut_leaves(firsts: Firsts, children: AnyArray | None, below: Firsts | None, size: int) -> list[Leaf]:
    """Leaves of a tree.

    `firsts` (n_roots + 1): first entry of every root fibre, and the number of entries. `children`: first child of every
    root fibre; `below`: first entry of every child; None in a tree of one level.
    """
    lengths = np.diff(firsts)
    giants = np.flatnonzero(lengths > 2 * size) if children is not None else np.zeros(0, np.int64)
    leaves: list[Leaf] = []
    at = 0
    for giant in [*giants.tolist(), len(lengths)]:
        leaves += _plain(firsts, at, giant, size)
        if giant < len(lengths) and children is not None and below is not None:
            leaves += _parts(giant, int(children[giant]), int(children[giant + 1]), below, size)
        at = giant + 1
    return leaves


def cut_leaf(leaf: Leaf, firsts: Firsts, pieces: int) -> list[Leaf]:
    """A leaf in ranges; `firsts`: first entry of every fibre of its ranges' level, and the number of entries."""
    begin, end = leaf.inside or (leaf.lo, leaf.hi)
    cuts = [(begin + a, begin + b) for a, b in _cuts(firsts[begin : end + 1], pieces)]
    return [leaf._replace(inside=cut) if leaf.inside else Leaf(*cut) for cut in cuts]


def _plain(firsts: Firsts, lo: int, hi: int, size: int) -> list[Leaf]:
    """Root fibres lo … hi in ranges of about equally many entries."""
    if lo >= hi:
        return []
    begin, end = int(firsts[lo]), int(firsts[hi])
    cuts = _cuts(firsts[lo : hi + 1], max(1, round((end - begin) / size)))
    return [Leaf(lo + a, lo + b) for a, b in cuts]


def _parts(root: int, first: int, last: int, below: Firsts, size: int) -> list[Leaf]:
    """One root fibre in ranges of its children."""
    entries = int(below[last]) - int(below[first])
    cuts = _cuts(below[first : last + 1], -(-entries // size))
    if len(cuts) == 1:
        return [Leaf(root, root + 1)]
    return [Leaf(root, root + 1, (first + a, first + b)) for a, b in cuts]


def _cuts(firsts: Firsts, parts: int) -> list[tuple[int, int]]:
    """Non-empty ranges of fibres with about equally many entries."""
    begin, end = int(firsts[0]), int(firsts[-1])
    goals = begin + (end - begin) * np.arange(1, parts, dtype=np.int64) // parts
    cuts: NDArray[np.int64] = np.unique(np.searchsorted(firsts, goals))
    inner = cuts[(cuts > 0) & (cuts < len(firsts) - 1)].tolist()
    return list(zip([0, *inner], [*inner, len(firsts) - 1], strict=True))


def packed_order(indices: Sequence[str], sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Order of indices on disk: the longest axis at the root, so that leaves are many and share few rows; then short
    axes first.

    The rule of `codegen.plan.tree_order`, which `data` must not import: a test compares the two.
    """
    root = max(indices, key=lambda index: sizes[index])
    return (root, *sorted((index for index in indices if index != root), key=lambda index: sizes[index]))
