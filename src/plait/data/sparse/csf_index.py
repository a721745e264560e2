"""Distinct sorted cells as a compressed sparse fibre (CSF) index: a row number shared by cells is stored once.

`rows[l]` are the row numbers of level l, and the children of fibre e of level l are `starts[l][e] … starts[l][e + 1]`
of level l + 1. The last level has one row number per cell. Dtypes are as narrow as sizes allow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.data.sparse.keys import Lookup
from plait.data.sparse.parallel import on_threads, ranges
from plait.data.sparse.sorting import sort_cells
from plait.tuning import TUNING


@dataclass(frozen=True, eq=False)
class CSFIndex:
    """Sorted distinct cells over indices of these sizes."""

    indices: tuple[str, ...]
    sizes: tuple[int, ...]
    rows: tuple[NDArray[np.unsignedinteger], ...]
    starts: tuple[NDArray[np.unsignedinteger], ...]
    count: int

    @classmethod
    def of(cls, indices: tuple[str, ...], sizes: tuple[int, ...], cells: AnyArray) -> "CSFIndex":
        """CSF of cells (n, order) that are sorted and distinct."""
        if len(indices) == 0:
            return cls(indices, sizes, (), (), len(cells))
        rows, starts = (_plainly if len(cells) < TUNING.min_threaded_rows else _compiled)(cells)
        narrow = (level.astype(row_type(size)) for level, size in zip((*rows, cells[:, -1]), sizes))
        begins = (level.astype(start_type(len(cells))) for level in starts)
        return cls(indices, sizes, tuple(narrow), tuple(begins), len(cells))

    def __len__(self) -> int:
        return self.count

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in (*self.rows, *self.starts))

    def equals(self, other: "CSFIndex") -> bool:
        if self is other:
            return True
        mine, theirs = (*self.rows, *self.starts), (*other.rows, *other.starts)
        same = (self.indices, self.sizes, self.count) == (other.indices, other.sizes, other.count)
        return same and all(np.array_equal(a, b) for a, b in zip(mine, theirs))

    def column(self, index: str) -> AnyArray:
        """Row numbers of one index, (n,), in at least 32 bits."""
        level = self.indices.index(index)
        column = widen(self.rows[level])
        return column if level == len(self.rows) - 1 else np.repeat(column, self._lengths(level))

    def _lengths(self, level: int) -> NDArray[np.unsignedinteger]:
        """Number of cells of every fibre of a level."""
        begin = self.starts[level]
        for starts in self.starts[level + 1 :]:
            begin = starts[begin]
        return np.diff(begin)

    def places(self, cells: AnyArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Positions of cells (m, order), and whether they are there."""
        if self.count < TUNING.min_threaded_rows:
            return Lookup(self.cells(), self.sizes).find(cells)
        return find_cells(self.rows, self.starts, cells)

    def cells(self) -> AnyArray:
        """All cells, (n, order)."""
        kind = np.uint32 if all(rows.dtype.itemsize <= 4 for rows in self.rows) else np.int64
        cells = np.empty((self.count, len(self.indices)), kind)
        for k, index in enumerate(self.indices):
            cells[:, k] = self.column(index)
        return cells


def find_cells(
    rows: Sequence[AnyArray], starts: Sequence[AnyArray], cells: AnyArray
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Positions of cells (m, order) in CSF, and whether they are there: binary search, level by level."""
    from plait.data.sparse.sparse_kernels import descend

    lows, highs = np.zeros(len(cells), np.int64), np.full(len(cells), len(rows[0]), np.int64)
    for level, own in enumerate(rows):
        descend(own, np.ascontiguousarray(cells[:, level], np.int64), lows, highs)
        there = lows < highs
        if level < len(starts):
            at = np.where(there, lows, 0)
            lows = np.where(there, starts[level][at].astype(np.int64), 0)
            highs = np.where(there, starts[level][at + 1].astype(np.int64), 0)
    return np.where(there, lows, 0), there


def _plainly(cells: AnyArray) -> tuple[list[AnyArray], list[AnyArray]]:
    """Rows and starts of all levels but the last, by NumPy."""
    new = np.zeros(len(cells), bool)
    new[:1] = True
    firsts: list[AnyArray] = []  # first cell of every fibre of a level
    for level in range(cells.shape[1] - 1):
        new[1:] |= cells[1:, level] != cells[:-1, level]
        firsts.append(np.flatnonzero(new))
    rows = [cells[first, level] for level, first in enumerate(firsts)]
    starts = [np.append(np.searchsorted(below, first), len(below)) for first, below in pairwise(firsts)]
    return rows, starts + [np.append(first, len(cells)) for first in firsts[-1:]]


def _compiled(cells: AnyArray) -> tuple[list[AnyArray], list[AnyArray]]:
    """The same on threads and without scratch memory: fibres are counted, then written in place."""
    from plait.data.sparse.sparse_kernels import count_fibres, write_fibres

    depth, cuts = cells.shape[1], ranges(len(cells))
    counts = np.zeros((len(cuts), depth + 1), np.int64)
    on_threads(lambda part, lo, hi: count_fibres(cells, lo, hi, counts[part]), cuts)
    places = np.cumsum(counts, axis=0) - counts
    totals = counts.sum(axis=0)
    begin = np.cumsum(totals[:depth]) - totals[:depth]
    rows = np.empty(begin[-1], np.uint32 if cells.dtype.itemsize <= 4 else np.uint64)
    starts = np.empty(begin[-1] + depth - 1, np.int64)
    on_threads(lambda part, lo, hi: write_fibres(cells, lo, hi, begin, places[part], rows, starts), cuts)
    levels = range(depth - 1)
    for level in levels:
        starts[begin[level + 1] + level] = totals[level + 1]
    return (
        [rows[begin[level] : begin[level + 1]] for level in levels],
        [starts[begin[level] + level : begin[level + 1] + level + 1] for level in levels],
    )


def repeats(cells: AnyArray) -> int:
    """Number of sorted cells equal to the one before."""
    if len(cells) < TUNING.min_threaded_rows:
        return int(np.count_nonzero((cells[1:] == cells[:-1]).all(axis=1)))
    from plait.data.sparse.sparse_kernels import count_fibres

    cuts = ranges(len(cells))
    counts = np.zeros((len(cuts), cells.shape[1] + 1), np.int64)
    on_threads(lambda part, lo, hi: count_fibres(cells, lo, hi, counts[part]), cuts)
    return int(counts[:, -1].sum())


def distinct(cells: AnyArray, sizes: Sequence[int]) -> AnyArray:
    """Sorted distinct cells of (n, order)."""
    cells = sort_cells(cells, sizes)[1]
    if repeats(cells) == 0:
        return cells
    return np.asarray(cells[np.concatenate([[True], (cells[1:] != cells[:-1]).any(axis=1)])])


def row_type(size: int) -> np.dtype[Any]:
    """Dtype of the row numbers of an axis. Unsigned: kernels then need no test for negative ones."""
    return np.min_scalar_type(max(size - 1, 0))


def start_type(count: int) -> np.dtype[Any]:
    """Dtype of positions among `count` entries."""
    return np.dtype(np.uint32 if count < 1 << 32 else np.uint64)


def widen(rows: AnyArray) -> AnyArray:
    """Row numbers in at least 32 bits: narrower ones overflow in products."""
    return rows.astype(np.uint32) if rows.dtype.itemsize < 4 else rows
