"""A run of a table's leaves as a table of its own, which can travel: only its part of every array goes with it.

Leaves keep the numbers that they have in the whole, and cells their coordinates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from plait.data.cells.leaves import Leaf
from plait.data.cells.trees import FibreTree, Piece, Table
from plait.types import Array


class Span(NamedTuple):
    """Root rows first … last, of so many."""

    first: int
    last: int
    roots: int

    def rows_of(self, array: Array) -> Array:
        """The rows of an array that has the rows of every root row beside each other."""
        each = len(array) // self.roots
        return array[self.first * each : self.last * each]


@dataclass(frozen=True)
class TreePart:
    """Leaves `first`, `first` + 1, … of a tree: what they need of it, and where they lie in that."""

    tree: FibreTree
    leaves: tuple[Leaf, ...]
    first: int

    def walk(self) -> Iterator[Piece]:
        """The leaves, one after another."""
        return (Piece(number, self.tree, leaf) for number, leaf in enumerate(self.leaves, self.first))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What came over a wire may begin at any byte; kernels read numbers from where numbers may lie."""
        tree: FibreTree = state["tree"]
        rows, starts, beside, numbers = (
            tuple(map(aligned, arrays)) for arrays in (tree.rows, tree.starts, tree.beside, tree.numbers)
        )
        tree = replace(tree, rows=rows, starts=starts, entries=aligned(tree.entries), beside=beside, numbers=numbers)
        self.__dict__.update(state | {"tree": tree})


@dataclass(frozen=True)
class TableSlice:
    """Leaves lo … hi of a table that is read where it is summed: a folder that all workers see."""

    table: Table
    lo: int
    hi: int

    def walk(self) -> Iterator[Piece]:
        """The leaves, one after another."""
        return self.table.walk(self.lo, self.hi)


Part = TreePart | TableSlice


@runtime_checkable
class Spanned(Protocol):
    """A table that knows the root rows of its leaves without reading them; sizes: of its axes, root first."""

    sizes: tuple[int, ...]

    def span(self, lo: int, hi: int) -> tuple[int, int]:
        """The first root row of leaves lo … hi, and the one after the last."""


def part_of(table: Table, lo: int, hi: int) -> Part:
    """Leaves lo … hi of a table, to be sent somewhere else."""
    return _cut_out(table, table.leaves[lo:hi], lo) if isinstance(table, FibreTree) else TableSlice(table, lo, hi)


def span_of(table: Table, lo: int, hi: int) -> Span | None:
    """The root rows of leaves lo … hi; None where nobody knows before they are read."""
    if isinstance(table, FibreTree):
        leaves, rows = table.leaves[lo:hi], table.rows[0]
        return Span(int(rows[leaves[0].lo]), int(rows[leaves[-1].hi - 1]) + 1, table.sizes[0])
    return Span(*table.span(lo, hi), table.sizes[0]) if isinstance(table, Spanned) else None


def aligned(array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers, as kernels read them."""
    return np.require(array, requirements=("C", "A"))


def _cut_out(tree: FibreTree, leaves: Sequence[Leaf], number: int) -> TreePart:
    ranges = _ranges(tree, leaves)
    (root, end), (child, last) = ranges[0], ranges[1] if len(ranges) > 1 else (0, 0)
    starts = [_shifted(tree.starts[0][root : end + 1], child, last)] if tree.starts else []
    for (lo, hi), (first, after), own in zip(ranges[1:], ranges[2:], tree.starts[1:]):
        starts.append(_shifted(own[lo : hi + 1], first, after))
    bottom = slice(*ranges[-1])
    by_length = {len(rows): slice(*own) for rows, own in zip(tree.rows, ranges)}  # equal ones: fibre n is above fibre n
    small = FibreTree(
        tree.order,
        tree.sizes,
        tuple(rows[lo:hi] for rows, (lo, hi) in zip(tree.rows, ranges)),
        tuple(starts),
        tree.entries[bottom],
        None,
        tuple(array[bottom] for array in tree.beside),
        tuple(numbers[by_length[len(numbers)]] for numbers in tree.numbers),
    )
    return TreePart(small, tuple(_moved(leaf, root, child) for leaf in leaves), number)


def _ranges(tree: FibreTree, leaves: Sequence[Leaf]) -> list[tuple[int, int]]:
    """The fibres of every level that leaves have; of a cut root row only the children that are theirs."""
    first, last = leaves[0], leaves[-1]
    ranges = [(first.lo, last.hi)]
    for level, starts in enumerate(tree.starts):
        lo, hi = (int(starts[bound]) for bound in ranges[-1])
        if level == 0:
            lo, hi = first.inside[0] if first.inside else lo, last.inside[1] if last.inside else hi
        ranges.append((lo, hi))
    return ranges


def _shifted(starts: NDArray[Any], first: int, last: int) -> NDArray[Any]:
    """Where children begin, counted from the first that is there."""
    kind = starts.dtype.type
    here: NDArray[Any] = np.clip(starts, kind(first), kind(last)) - kind(first)
    return here


def _moved(leaf: Leaf, root: int, child: int) -> Leaf:
    """A leaf where root fibres begin at `root` and their children at `child`."""
    inside = None if leaf.inside is None else (leaf.inside[0] - child, leaf.inside[1] - child)
    return Leaf(leaf.lo - root, leaf.hi - root, inside)
