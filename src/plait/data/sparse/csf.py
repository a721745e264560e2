"""Compressed sparse fibre (CSF) tensors (Smith and Karypis, 2015), the layout that kernels walk.

Entries are sorted by an order of the visible indices and stored level by level: `rows[l]` are the row numbers of level
l, and the children of fibre e of level l are `starts[l][e] … starts[l][e + 1]` of level l + 1. The last level has one
row number per entry.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from plait.data.sparse.csf_index import CSFIndex, widen
from plait.data.sparse.leaves import Extent, Leaf, cut_leaf, cut_leaves, leaf_size
from plait.data.sparse.parallel import CHUNK_ROWS, by_pieces, on_threads, shares
from plait.data.sparse.sorting import is_uniform, sort_order, take
from plait.data.sparse.words import CellWords, Codes, Read, WordFormat
from plait.tuning import TUNING


@dataclass(frozen=True)
class CSFTensor:
    """Entries of a table sorted by `order`; `turn`: from another order of the table.

    `side_values`: further numbers per entry for the kernel. `numbers`: for each operand over pairs, the row of every
    fibre of the level at which its last index is known.
    """

    order: tuple[str, ...]
    sizes: tuple[int, ...]
    rows: tuple[NDArray[np.unsignedinteger], ...]
    starts: tuple[NDArray[np.unsignedinteger], ...]
    entries: NDArray[Any]
    turn: "Turn | None" = None
    side_values: tuple[NDArray[np.float64], ...] = ()
    numbers: tuple[NDArray[np.uint32], ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    @property
    def arrays(self) -> list[NDArray[Any]]:
        permutation = self.turn.known if self.turn is not None else []
        return [*self.rows, *self.starts, self.entries, *permutation, *self.side_values, *self.numbers]

    @property
    def permutation(self) -> NDArray[np.integer] | None:
        """Permutation from the table's entries to the tree's; None for the identity."""
        return None if self.turn is None else self.turn.permutation

    def column(self, index: str, level: int) -> NDArray[np.integer]:
        """Row numbers of an index at every fibre of a level at or below its own; at least 32 bits."""
        at = self.order.index(index)
        column = widen(self.rows[at])
        for starts in self.starts[at:level]:
            column = np.repeat(column, np.diff(starts))
        return column

    def with_entries(self, entries: NDArray[Any], *side_values: NDArray[np.float64]) -> "CSFTensor":
        """The same cells with other values, given in the table's order."""
        arranged = (_arranged(values, self.turn) for values in side_values)
        return replace(self, entries=_arranged(entries, self.turn), side_values=tuple(arranged)).in_common_types()

    def in_common_types(self) -> "CSFTensor":
        """A small tree in the types of all small trees, so that they share kernels; a large one unchanged."""
        if len(self) >= TUNING.min_narrow_entries:
            return self
        rows = tuple(own.astype(np.uint32, copy=False) if own.itemsize < 4 else own for own in self.rows)
        return replace(self, rows=rows, entries=self.entries.astype(np.float64, copy=False))

    @property
    def types(self) -> tuple[np.dtype[Any], ...]:
        """Dtypes of starts, of the row numbers of every level, and of the entries, for which a kernel is compiled."""
        starts = self.starts[0].dtype if self.starts else np.dtype(np.uint32)
        return starts, *(rows.dtype for rows in self.rows), self.entries.dtype

    @cached_property
    def leaves(self) -> list[Leaf]:
        """Leaves that are summed separately (`plait.data.sparse.leaves`)."""
        roots, size = len(self.rows[0]), leaf_size(len(self), self.sizes)
        if size >= len(self):
            return [Leaf(0, roots)] if roots else []
        below, children = (self._firsts(1), self.starts[0]) if self.starts else (None, None)
        return cut_leaves(self._firsts(0), children, below, size)

    @property
    def leaf_count(self) -> int:
        return len(self.leaves)

    def walk(self, lo: int = 0, hi: int | None = None) -> "Iterator[CSFChunk]":
        """Leaves lo … hi in order."""
        return (CSFChunk(number, self, leaf) for number, leaf in enumerate(self.leaves[lo:hi], lo))

    def extents(self) -> list[Extent]:
        """Extent of every leaf."""
        rows = self.rows[0]
        return [Extent(int(rows[leaf.lo]), int(rows[leaf.hi - 1]), self.length(leaf)) for leaf in self.leaves]

    def trees(self) -> "Iterable[CSFTensor]":
        return (self,)

    def part(self, leaf: Leaf) -> "CSFTensor":
        """A leaf as a tree; views, except for starts."""
        (lo, hi), rows, starts, numbers = (leaf.lo, leaf.hi), [], [], list(self.numbers)
        for level, own in enumerate(self.rows):
            rows.append(own[lo:hi])
            # Where two levels have the same number of fibres, fibre n is above fibre n.
            numbers = [whole[lo:hi] if len(whole) == len(own) else n for n, whole in zip(numbers, self.numbers)]
            if level < len(self.starts):
                ends = self.starts[level][lo : hi + 1]
                if level == 0 and leaf.inside:
                    ends = np.array(leaf.inside, ends.dtype)
                starts.append(ends - ends[0])
                lo, hi = int(ends[0]), int(ends[-1])
        side_values = tuple(array[lo:hi] for array in self.side_values)
        entries = self.entries[lo:hi]
        return CSFTensor(self.order, self.sizes, tuple(rows), tuple(starts), entries, None, side_values, tuple(numbers))

    def cut(self, leaf: Leaf, pieces: int) -> list[Leaf]:
        """A leaf in ranges of about equally many entries."""
        if pieces == 1:
            return [leaf]
        return cut_leaf(leaf, self._firsts(1 if leaf.inside else 0), pieces)

    def pieces(self, size: int) -> list[tuple[int, Leaf]]:
        """All of it in ranges of about `size` entries, with the first entry of each."""
        pieces = [short for leaf in self.leaves for short in self.cut(leaf, max(1, self.length(leaf) // size))]
        firsts = np.cumsum([0, *(self.length(piece) for piece in pieces)]).tolist()
        return list(zip(firsts, pieces))

    def length(self, leaf: Leaf) -> int:
        """Number of entries of a leaf."""
        begin, end = leaf.inside or (leaf.lo, leaf.hi)
        for starts in self.starts[1 if leaf.inside else 0 :]:
            begin, end = int(starts[begin]), int(starts[end])
        return end - begin

    def _firsts(self, level: int) -> NDArray[np.integer] | range:
        """First entry of every fibre of a level, and the number of entries."""
        if level == len(self.starts):
            return range(len(self) + 1)
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


class CSFChunk(NamedTuple):
    """A leaf of a table: its number, and its tree; call `done` after summing it."""

    number: int
    tree: CSFTensor
    leaf: Leaf
    done: Callable[[], None] = lambda: None


class SummedTable(Protocol):
    """Entries that are summed leaf by leaf: a tree in memory, or blocks on disk."""

    @property
    def order(self) -> tuple[str, ...]:
        """Indices, root first."""

    @property
    def sizes(self) -> tuple[int, ...]: ...

    @property
    def types(self) -> tuple[np.dtype[Any], ...]:
        """Dtypes of starts, of the row numbers of every level, and of the entries, for which a kernel is compiled."""

    @property
    def arrays(self) -> list[NDArray[Any]]:
        """All arrays in memory."""

    @property
    def leaf_count(self) -> int: ...

    def __len__(self) -> int:
        """Number of entries."""

    def walk(self, lo: int = 0, hi: int | None = None) -> Iterator[CSFChunk]:
        """Leaves lo … hi in order."""

    def extents(self) -> list[Extent]:
        """Extent of every leaf."""

    def trees(self) -> Iterable[CSFTensor]:
        """Trees that hold the entries, in order."""


class CSFCache:
    """Trees by cells and order, each built once: listed weights and nonzeros often have the same cells."""

    def __init__(self) -> None:
        self._grown: list[tuple[CSFIndex, CSFTensor]] = []

    def tree(
        self,
        indices: tuple[str, ...],
        sizes: dict[str, int],
        cells: CSFIndex | NDArray[np.integer],
        entries: NDArray[Any],
        order: tuple[str, ...],
    ) -> CSFTensor:
        """Tree of a table whose cells, CSF or (n, order), are distinct and sorted in the order of `indices`."""
        fibres = as_fibres(indices, sizes, cells)
        for known, tree in self._grown:
            if tree.order == order and known.equals(fibres):
                return tree.with_entries(entries)
        tree = grow(indices, sizes, fibres, entries, order)
        self._grown.append((fibres, tree))
        return tree

    @property
    def nbytes(self) -> int:
        """Bytes of all trees, including cached first entries."""
        return sum(tree.nbytes for _, tree in self._grown)


def grow(
    indices: tuple[str, ...],
    sizes: dict[str, int],
    cells: CSFIndex | NDArray[np.integer],
    entries: NDArray[Any],
    order: tuple[str, ...],
) -> CSFTensor:
    """Build the tree of a table whose cells, CSF or (n, order), are distinct and sorted in the order of `indices`."""
    fibres = as_fibres(indices, sizes, cells)
    if order == indices:
        tree = CSFTensor(order, fibres.sizes, fibres.rows, fibres.starts, _arranged(entries, None))
        return tree.in_common_types()
    turn = Turn(fibres, order)
    turned = turn.by_words(entries) or turn.by_permutation(entries)
    tree = CSFTensor(order, turned.cells.sizes, turned.cells.rows, turned.cells.starts, turned.values, turn)
    return tree.in_common_types()


class Turn:
    """Cells in their own order and in another one."""

    def __init__(self, cells: CSFIndex, order: tuple[str, ...]) -> None:
        self.cells, self.order = cells, order
        self.sizes = dict(zip(cells.indices, cells.sizes))

    @cached_property
    def permutation(self) -> NDArray[np.integer] | None:
        """Permutation between the orders; None for the identity."""
        moved = _moved(self.cells.indices, self.order)
        return sort_order([self.cells.column(index) for index in moved], [self.sizes[index] for index in moved])

    @property
    def known(self) -> list[NDArray[np.integer]]:
        """The permutation, if already computed."""
        permutation = self.__dict__.get("permutation")
        return [] if permutation is None else [permutation]

    def take(self, values: NDArray[Any], part: slice) -> NDArray[Any]:
        """Numbers of cells `part` in the other order, from numbers in their own."""
        if is_uniform(values) or self.permutation is None:
            return values[part]
        return take(values, self.permutation[part])

    def by_permutation(self, entries: NDArray[Any]) -> Read:
        """Cells in the other order, and their entries."""
        columns = [self.cells.column(index) for index in self.order]
        turned = np.empty((len(self.cells), len(self.order)), columns[0].dtype)
        for k, column in enumerate(columns):
            turned[:, k] = column if self.permutation is None else take(column, self.permutation)
        fibres = CSFIndex.of(self.order, tuple(self.sizes[index] for index in self.order), turned)
        return Read(fibres, _arranged(entries, self))

    def by_words(self, entries: NDArray[Any]) -> Read | None:
        """The same without a permutation, where many cells and their entries fit into words."""
        if len(self.cells) < TUNING.min_threaded_rows:
            return None
        codes = Codes(0) if is_uniform(entries) else Codes.of(lambda rows: entries[rows], len(entries))
        if codes is None:
            return None
        how = WordFormat(tuple(self.sizes[index] for index in self.order), codes.bits)
        if not how.fits:
            return None
        words, tree = CellWords(how, len(self.cells)), replace(as_tree(self.cells), entries=entries)
        pieces = tree.pieces(CHUNK_ROWS)

        def write(_: int, lo: int, hi: int) -> None:
            for first, piece in pieces[lo:hi]:
                part = tree.part(piece)
                columns = [part.column(index, len(self.order) - 1) for index in self.order]
                words.write(first, columns, codes.encode(part.entries))

        on_threads(write, shares(len(pieces)))
        words.sort()
        index = words.read(self.order)
        values = codes.decode(index.values) if codes.bits else np.ascontiguousarray(entries)
        return replace(index, values=values.astype(entries.dtype, copy=False))


def as_fibres(indices: tuple[str, ...], sizes: dict[str, int], cells: CSFIndex | NDArray[np.integer]) -> CSFIndex:
    """Sorted cells (n, order) as CSF."""
    return cells if isinstance(cells, CSFIndex) else CSFIndex.of(indices, tuple(sizes[i] for i in indices), cells)


def as_tree(cells: CSFIndex) -> CSFTensor:
    """Tree of cells in their own order, with entries 1."""
    return CSFTensor(cells.indices, cells.sizes, cells.rows, cells.starts, np.broadcast_to(np.uint8(1), len(cells)))


def _moved(indices: tuple[str, ...], order: tuple[str, ...]) -> tuple[str, ...]:
    """Leading indices of an order by which sorted cells must be sorted again; they are sorted by the others."""
    count = len(order)
    while count and list(order[count - 1 :]) == [index for index in indices if index in order[count - 1 :]]:
        count -= 1
    return order[:count]


def _arranged(values: NDArray[Any], turn: Turn | None) -> NDArray[Any]:
    """Values in a tree's order, contiguous: kernels read them as vectors."""
    return np.ascontiguousarray(values if turn is None else turn.take(values, slice(None)))


def narrow(entries: NDArray[Any]) -> NDArray[Any]:
    """The numbers in the narrowest dtype that holds them all; kernels convert to doubles."""
    if is_uniform(entries):
        one = narrow(entries[:1].copy())
        return entries if one.dtype == entries.dtype else np.broadcast_to(one, len(entries))
    for kind in map(np.dtype, (np.uint8, np.uint16, np.float32)):
        if kind.itemsize < entries.dtype.itemsize and (short := _shortened(entries, kind)) is not None:
            return short
    return entries


def _shortened(entries: NDArray[Any], kind: np.dtype[Any]) -> NDArray[Any] | None:
    """Numbers in another dtype, None if one of them changes; a first check of a few saves most of the work."""
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
