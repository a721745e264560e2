"""A sparse table as a fibre tree: the form in which kernels walk it.

Entries are sorted by an order of the visible indices and stored level by level (compressed sparse fibres): `rows[l]`
are the row numbers of level l, and the children of fibre e of level l are `starts[l][e] … starts[l][e + 1]` of level
l + 1. The last level holds one row number an entry.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from plait.data.cells.fibres import Fibres, widen
from plait.data.cells.leaves import Extent, Leaf, cut_leaf, cut_leaves, leaf_size
from plait.data.cells.ranges import by_pieces
from plait.data.cells.sorting import is_uniform, sort_order, taken


@dataclass(frozen=True)
class FibreTree:
    """Entries of a table sorted by `order`; `permutation` leads from the table's entries to the tree's.

    beside: what else a kernel reads of every entry. numbers: for each operand of a step whose rows are listed, the row
    of every fibre of the level at which its last index is known.
    """

    order: tuple[str, ...]
    sizes: tuple[int, ...]
    rows: tuple[NDArray[np.unsignedinteger], ...]
    starts: tuple[NDArray[np.unsignedinteger], ...]
    entries: NDArray[Any]
    permutation: NDArray[np.integer] | None
    beside: tuple[NDArray[np.float64], ...] = ()
    numbers: tuple[NDArray[np.uint32], ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        """Bytes at rest."""
        return sum(array.nbytes for array in self.arrays)

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """All arrays that the tree holds."""
        permutation = [] if self.permutation is None else [self.permutation]
        return [*self.rows, *self.starts, self.entries, *permutation, *self.beside, *self.numbers]

    def column(self, index: str, level: int) -> NDArray[np.integer]:
        """The row numbers of an index at every fibre of a level, which is not above its own; in 32 bits or more."""
        at = self.order.index(index)
        column = widen(self.rows[at])
        for starts in self.starts[at:level]:
            column = np.repeat(column, np.diff(starts))
        return column

    def with_entries(self, entries: NDArray[Any], *beside: NDArray[np.float64]) -> "FibreTree":
        """The same cells with other values, given in the table's order."""
        arranged = (_arranged(values, self.permutation) for values in beside)
        return replace(self, entries=_arranged(entries, self.permutation), beside=tuple(arranged))

    @property
    def types(self) -> tuple[np.dtype[Any], ...]:
        """Those of starts, of the row numbers of every level, and of the entries: a kernel is compiled for them."""
        starts = self.starts[0].dtype if self.starts else np.dtype(np.uint32)
        return starts, *(rows.dtype for rows in self.rows), self.entries.dtype

    @cached_property
    def leaves(self) -> list[Leaf]:
        """The pieces that are summed one by one (`plait.data.cells.leaves`)."""
        roots, size = len(self.rows[0]), leaf_size(len(self), self.sizes)
        if size >= len(self):
            return [Leaf(0, roots)] if roots else []
        below = self._firsts(1) if self.starts else None
        children = self.starts[0] if self.starts else None
        firsts = np.arange(roots + 1) if below is None or children is None else below[children]
        return cut_leaves(firsts, children, below, size)

    @property
    def leaf_count(self) -> int:
        """How many leaves there are."""
        return len(self.leaves)

    def walk(self, lo: int = 0, hi: int | None = None) -> "Iterator[Piece]":
        """The leaves, or some of them, one after another."""
        return (Piece(number, self, leaf) for number, leaf in enumerate(self.leaves[lo:hi], lo))

    def extents(self) -> list[Extent]:
        """Where every leaf lies."""
        rows = self.rows[0]
        return [Extent(int(rows[leaf.lo]), int(rows[leaf.hi - 1]), self.length(leaf)) for leaf in self.leaves]

    def trees(self) -> "Iterable[FibreTree]":
        """The tree itself."""
        return (self,)

    def part(self, leaf: Leaf) -> "FibreTree":
        """A leaf as a tree; views of this one, but for starts."""
        (lo, hi), rows, starts = (leaf.lo, leaf.hi), [], []
        for level, own in enumerate(self.rows):
            rows.append(own[lo:hi])
            if level < len(self.starts):
                ends = self.starts[level][lo : hi + 1]
                if level == 0 and leaf.inside:
                    ends = np.array(leaf.inside, ends.dtype)
                starts.append(ends - ends[0])
                lo, hi = int(ends[0]), int(ends[-1])
        beside = tuple(array[lo:hi] for array in self.beside)
        return FibreTree(self.order, self.sizes, tuple(rows), tuple(starts), self.entries[lo:hi], None, beside)

    def cut(self, leaf: Leaf, pieces: int) -> list[Leaf]:
        """A leaf in pieces of about equally many entries."""
        if pieces == 1:
            return [leaf]
        return cut_leaf(leaf, self._firsts(1 if leaf.inside else 0), pieces)

    def length(self, leaf: Leaf) -> int:
        """How many entries a leaf has."""
        begin, end = leaf.inside or (leaf.lo, leaf.hi)
        for starts in self.starts[1 if leaf.inside else 0 :]:
            begin, end = int(starts[begin]), int(starts[end])
        return end - begin

    def _firsts(self, level: int) -> NDArray[np.integer]:
        """The first entry of every fibre of a level, and the number of entries."""
        if level == len(self.starts):
            return np.arange(len(self) + 1)
        firsts = self.starts[-1]
        for starts in reversed(self.starts[level:-1]):
            firsts = firsts[starts]
        return firsts

    def cells(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """Coordinates (in tree order) of entries, by walking up from the last level."""
        cells = np.empty((len(positions), len(self.order)), np.int64)
        at = np.asarray(positions, np.int64)
        for level in range(len(self.order) - 1, -1, -1):
            cells[:, level] = self.rows[level][at]
            if level:
                at = np.searchsorted(self.starts[level - 1], at, side="right") - 1
        return cells


class Piece(NamedTuple):
    """A leaf of a table: its number, the tree that it is in; done: to be called once it is summed."""

    number: int
    tree: FibreTree
    leaf: Leaf
    done: Callable[[], None] = lambda: None


class Table(Protocol):
    """Entries that are summed leaf by leaf: a tree in memory, or blocks on a disk."""

    @property
    def order(self) -> tuple[str, ...]:
        """The indices, root first."""

    @property
    def types(self) -> tuple[np.dtype[Any], ...]:
        """Those of starts, of the row numbers of every level, and of the entries: a kernel is compiled for them."""

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """All arrays that it holds in memory."""

    @property
    def leaf_count(self) -> int:
        """How many leaves there are."""

    def __len__(self) -> int:
        """How many entries there are."""

    def walk(self, lo: int = 0, hi: int | None = None) -> Iterator[Piece]:
        """The leaves, or some of them, one after another."""

    def extents(self) -> list[Extent]:
        """Where every leaf lies."""

    def trees(self) -> Iterable[FibreTree]:
        """The trees that hold the entries, one after another."""


class Forest:
    """Trees by cells and order, each grown once: listed weights and nonzeros often have the very same cells."""

    def __init__(self) -> None:
        self._grown: list[tuple[Fibres, FibreTree]] = []

    def tree(
        self,
        indices: tuple[str, ...],
        sizes: dict[str, int],
        cells: Fibres | NDArray[np.integer],
        entries: NDArray[Any],
        order: tuple[str, ...],
    ) -> FibreTree:
        """The tree of a table whose cells are unique and sorted in the order of `indices`: fibres, or (n, order)."""
        fibres = as_fibres(indices, sizes, cells)
        for known, tree in self._grown:
            if tree.order == order and known.equals(fibres):
                return tree.with_entries(entries)
        tree = grow(indices, sizes, fibres, entries, order)
        self._grown.append((fibres, tree))
        return tree

    @property
    def nbytes(self) -> int:
        """Bytes of all trees, their first entries included."""
        return sum(tree.nbytes for _, tree in self._grown)


def grow(
    indices: tuple[str, ...],
    sizes: dict[str, int],
    cells: Fibres | NDArray[np.integer],
    entries: NDArray[Any],
    order: tuple[str, ...],
) -> FibreTree:
    """The tree of a table whose cells are unique and sorted in the order of `indices`: fibres, or (n, order)."""
    fibres, permutation = as_fibres(indices, sizes, cells), None
    if order != indices:
        moved = _moved(indices, order)
        permutation = sort_order([fibres.column(index) for index in moved], [sizes[index] for index in moved])
        columns = [fibres.column(index) for index in order]
        turned = np.empty((len(fibres), len(order)), columns[0].dtype)
        for k, column in enumerate(columns):
            turned[:, k] = column if permutation is None else taken(column, permutation)
        fibres = Fibres.of(order, tuple(sizes[index] for index in order), turned)
    return FibreTree(order, fibres.sizes, fibres.rows, fibres.starts, _arranged(entries, permutation), permutation)


def as_fibres(indices: tuple[str, ...], sizes: dict[str, int], cells: Fibres | NDArray[np.integer]) -> Fibres:
    """Sorted cells (n, order) as fibres, unless they are."""
    return cells if isinstance(cells, Fibres) else Fibres.of(indices, tuple(sizes[i] for i in indices), cells)


def _moved(indices: tuple[str, ...], order: tuple[str, ...]) -> tuple[str, ...]:
    """The leading indices of an order by which sorted cells must be sorted anew; for the others they are sorted."""
    count = len(order)
    while count and list(order[count - 1 :]) == [index for index in indices if index in order[count - 1 :]]:
        count -= 1
    return order[:count]


def _arranged(values: NDArray[Any], permutation: NDArray[np.integer] | None) -> NDArray[Any]:
    """Values in a tree's order. Kernels read them as vectors: they must be contiguous."""
    return np.ascontiguousarray(values if permutation is None else taken(values, permutation))


def compact(entries: NDArray[np.floating]) -> NDArray[np.floating]:
    """The same numbers as floats where none of them changes: counts and plain links, for half the memory."""
    return _kept_in(entries, (np.float32,))


def narrow(entries: NDArray[np.floating]) -> NDArray[Any]:
    """The same numbers in as few bytes as hold them all: kernels read them as doubles, whatever they are."""
    return _kept_in(entries, (np.uint8, np.uint16, np.float32))


def _kept_in(entries: NDArray[np.floating], kinds: Sequence[type[np.generic]]) -> NDArray[Any]:
    """Numbers in the first of some types that holds each of them as it is; else as they are."""
    wide = [kind for kind in map(np.dtype, kinds) if kind.itemsize < entries.dtype.itemsize]
    if is_uniform(entries):
        one = _kept_in(entries[:1].copy(), kinds)
        return entries if one.dtype == entries.dtype else np.broadcast_to(one, len(entries))
    for kind in wide:
        if (short := _shortened(entries, kind)) is not None:
            return short
    return entries


def _shortened(entries: NDArray[np.floating], kind: np.dtype[Any]) -> NDArray[Any] | None:
    """Numbers in another type, unless one of them changes; a first look at a few of them saves most of the work."""
    short, same = np.empty(len(entries), kind), [True]

    def shorten(rows: slice) -> None:
        if same[0]:
            with np.errstate(over="ignore", invalid="ignore"):
                short[rows] = entries[rows]
            if not np.array_equal(short[rows], entries[rows]):
                same[0] = False

    shorten(slice(0, 256))
    by_pieces(shorten, len(entries))
    return short if same[0] else None
