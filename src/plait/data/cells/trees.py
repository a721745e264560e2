"""A sparse table as a fibre tree: the form in which kernels walk it.

Entries are sorted by an order of the visible indices and stored level by level (compressed sparse fibres): `rows[l]`
are the row numbers of level l, and the children of fibre e of level l are `starts[l][e] … starts[l][e + 1]` of level
l + 1. The last level holds one row number an entry.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.data.cells.fibres import Fibres
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
    starts: tuple[NDArray[np.int64], ...]
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
        """The row numbers of an index at every fibre of a level, which is not above its own."""
        at = self.order.index(index)
        column = self.rows[at]
        for starts in self.starts[at:level]:
            column = np.repeat(column, np.diff(starts))
        return column

    def with_entries(self, entries: NDArray[Any], *beside: NDArray[np.float64]) -> "FibreTree":
        """The same cells with other values, given in the table's order."""
        arranged = (_arranged(values, self.permutation) for values in beside)
        return replace(self, entries=_arranged(entries, self.permutation), beside=tuple(arranged))

    def cuts(self, parts: int) -> list[int]:
        """Boundaries of `parts` ranges of root fibres with about equally many entries each."""
        roots = range(len(self.rows[0]))
        goals = [len(self) * part / parts for part in range(1, parts)]
        return [0, *(bisect_left(roots, goal, key=self._first_entry) for goal in goals), len(roots)]

    def _first_entry(self, root: int) -> int:
        """The first entry of a root fibre."""
        for starts in self.starts:
            root = int(starts[root])
        return root

    def cells(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """Coordinates (in tree order) of entries, by walking up from the last level."""
        cells = np.empty((len(positions), len(self.order)), np.int64)
        at = np.asarray(positions, np.int64)
        for level in range(len(self.order) - 1, -1, -1):
            cells[:, level] = self.rows[level][at]
            if level:
                at = np.searchsorted(self.starts[level - 1], at, side="right") - 1
        return cells


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
    if entries.dtype == np.float32:
        return entries
    if is_uniform(entries):
        one = compact(entries[:1].copy())
        return entries if one.dtype == entries.dtype else np.broadcast_to(one, len(entries))
    floats, same = np.empty(len(entries), np.float32), [True]

    def shorten(rows: slice) -> None:
        with np.errstate(over="ignore"):
            floats[rows] = entries[rows]
        if not np.array_equal(floats[rows], entries[rows]):
            same[0] = False

    by_pieces(shorten, len(entries))
    return floats if same[0] else entries
