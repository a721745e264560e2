"""A sparse table as a fibre tree: the form in which kernels walk it.

Entries are sorted by an order of the visible indices and stored level by level (compressed sparse fibres): `rows[l]`
are the row numbers of level l, and the children of fibre e of level l are `starts[l][e] … starts[l][e + 1]` of level
l + 1. The last level holds one row number an entry.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class FibreTree:
    """Entries of a table sorted by `order`; `permutation` leads from the table's entries to the tree's."""

    order: tuple[str, ...]
    sizes: tuple[int, ...]
    rows: tuple[NDArray[np.unsignedinteger], ...]
    starts: tuple[NDArray[np.int64], ...]
    entries: NDArray[np.float64]
    permutation: NDArray[np.int64] | None
    log_exposure: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        """Bytes at rest."""
        arrays = [*self.rows, *self.starts, self.entries]
        arrays += [a for a in (self.permutation, self.log_exposure) if a is not None]
        return sum(array.nbytes for array in arrays)

    def with_entries(
        self, entries: NDArray[np.float64], log_exposure: NDArray[np.float64] | None = None
    ) -> "FibreTree":
        """The same cells with other values, given in the table's order."""

        def arranged(values: NDArray[np.float64]) -> NDArray[np.float64]:
            # Kernels read entries as vectors: they must be contiguous.
            return np.ascontiguousarray(values) if self.permutation is None else values[self.permutation]

        logs = None if log_exposure is None else arranged(log_exposure)
        return replace(self, entries=arranged(entries), log_exposure=logs)

    def cuts(self, parts: int) -> list[int]:
        """Boundaries of `parts` ranges of root fibres with about equally many entries each."""
        begin = np.arange(len(self.rows[0]))
        for starts in self.starts:
            begin = starts[begin]
        goals = len(self) * np.arange(1, parts) / parts
        return [0, *np.searchsorted(begin, goals).tolist(), len(self.rows[0])]

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
        self._grown: list[tuple[tuple[str, ...], NDArray[np.integer], FibreTree]] = []

    def tree(
        self,
        indices: tuple[str, ...],
        sizes: dict[str, int],
        cells: NDArray[np.integer],
        entries: NDArray[np.float64],
        order: tuple[str, ...],
    ) -> FibreTree:
        """The tree of a table whose cells (n, len(indices)) are unique and sorted in the order of `indices`."""
        shape = tuple(sizes[index] for index in order)
        for names, known, tree in self._grown:
            if (names, tree.order, tree.sizes) == (indices, order, shape) and _equal(known, cells):
                return tree.with_entries(entries)
        tree = grow(indices, sizes, cells, entries, order)
        self._grown.append((indices, cells, tree))
        return tree

    @property
    def nbytes(self) -> int:
        """Bytes of all trees, their first entries included."""
        return sum(tree.nbytes for _, _, tree in self._grown)


def _equal(a: NDArray[np.integer], b: NDArray[np.integer]) -> bool:
    return a is b or (a.shape == b.shape and np.array_equal(a, b))


def grow(
    indices: tuple[str, ...],
    sizes: dict[str, int],
    cells: NDArray[np.integer],
    entries: NDArray[np.float64],
    order: tuple[str, ...],
) -> FibreTree:
    """The tree of a table whose cells (n, len(indices)) are unique and sorted in the order of `indices`."""
    columns = [np.ascontiguousarray(cells[:, indices.index(index)]) for index in order]
    permutation = None
    if order != indices:
        permutation = sort_order(columns, [sizes[index] for index in order])
        columns = [column[permutation] for column in columns]
        entries = entries[permutation]
    new = np.zeros(len(entries), bool)
    if len(new):
        new[0] = True
    firsts: list[NDArray[np.int64]] = []  # first entry of every fibre of a level
    for column in columns[:-1]:
        new[1:] |= column[1:] != column[:-1]
        firsts.append(np.flatnonzero(new))
    rows = [_unsigned(column[first]) for column, first in zip(columns, firsts)] + [_unsigned(columns[-1])]
    starts = [np.append(np.searchsorted(below, first), len(below)) for first, below in pairwise(firsts)]
    starts += [np.append(first, len(entries)) for first in firsts[-1:]]
    shape = tuple(sizes[index] for index in order)
    return FibreTree(order, shape, tuple(rows), tuple(starts), np.ascontiguousarray(entries), permutation)


def sort_order(columns: list[NDArray[np.integer]], sizes: list[int]) -> NDArray[np.int64]:
    """The permutation that sorts rows lexicographically: by one packed 64-bit key where it fits."""
    bits = [max(int(size) - 1, 1).bit_length() for size in sizes]
    if sum(bits) > 63:
        return np.lexsort(columns[::-1])
    key = np.zeros(len(columns[0]), np.int64)
    for column, width in zip(columns, bits):
        key <<= width
        key |= column.astype(np.int64)
    return np.argsort(key, kind="stable")


def _unsigned(column: NDArray[np.integer]) -> NDArray[np.unsignedinteger]:
    """Unsigned row numbers: kernels then need no test for negative ones; 64 bits only where 32 do not do."""
    return column.astype(np.uint64 if column.dtype.itemsize > 4 else np.uint32, copy=False)
