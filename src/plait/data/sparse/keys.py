"""Coordinates as sortable integer keys: pack, sort, look up; vectorised, with memory linear in the entries."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.tuning import TUNING

Keys = NDArray[np.uint64]


def coordinate_type(sizes: Sequence[int]) -> type[np.uint32] | type[np.int64]:
    """Dtype of coordinates along axes of these sizes: 4 bytes where they suffice."""
    return np.uint32 if max(sizes, default=0) <= 2**32 else np.int64


def pack(columns: Sequence[AnyArray], sizes: Sequence[int], count: int) -> Keys:
    """One integer per row that orders rows as their coordinates do; `columns`: len(sizes) arrays of (count,).

    Where the sizes overflow 64 bits the keys so far are replaced by their ranks, of which there are at most `count`.
    Keys of two calls are then not comparable: see `pack_pair`.
    """
    keys = np.zeros(count, np.uint64)
    span = 1
    for column, size in zip(columns, sizes):
        if span * size > TUNING.key_span:
            keys, span = _ranks(keys)
        if span * size > TUNING.key_span:
            column, size = _ranks(column)
        if span > 1:
            keys *= np.uint64(size)
        keys += column.astype(np.uint64, copy=False)
        span *= size
    return keys


def pack_pair(
    left: Sequence[AnyArray], right: Sequence[AnyArray], sizes: Sequence[int], counts: tuple[int, int]
) -> tuple[Keys, Keys]:
    """Comparable keys of two sets of rows over the same axes."""
    if math.prod(sizes) <= TUNING.key_span:
        return pack(left, sizes, counts[0]), pack(right, sizes, counts[1])
    both = pack([np.concatenate(pair) for pair in zip(left, right)], sizes, sum(counts))
    return both[: counts[0]], both[counts[0] :]


def _ranks(column: AnyArray) -> tuple[AnyArray, int]:
    distinct, ranks = np.unique(column, return_inverse=True)
    return ranks.astype(np.uint64), len(distinct)


def columns_of(coords: AnyArray) -> list[AnyArray]:
    """Columns of (n, k) coordinates."""
    return [coords[:, k] for k in range(coords.shape[1])]


def find(needles: Keys, keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Positions of the needles in sorted distinct keys, and whether they are there."""
    if len(keys) == 0:
        return np.zeros(len(needles), np.int64), np.zeros(len(needles), bool)
    positions = search(keys, needles)
    np.minimum(positions, len(keys) - 1, out=positions)
    return positions, keys[positions] == needles


def search(keys: Keys, needles: Keys, side: Literal["left", "right"] = "left") -> NDArray[np.int64]:
    """np.searchsorted with sorted needles: ten times faster for large inputs, by cache locality."""
    if len(needles) < 100_000 or bool(np.all(needles[1:] >= needles[:-1])):
        return np.searchsorted(keys, needles, side)
    order = np.argsort(needles)
    positions = np.empty(len(needles), np.int64)
    positions[order] = np.searchsorted(keys, needles[order], side)
    return positions


class Lookup:
    """Lookup of cells among distinct cells (n, order) in lexicographic order."""

    def __init__(self, cells: AnyArray, shape: Sequence[int]):
        self.cells, self.shape = cells, shape

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        """Which cells (m, order), as row numbers, are there."""
        return self.find(cells)[1]

    def find(self, cells: AnyArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Positions of cells (m, order), and whether they are there."""
        if self._keys is None:
            counts = (len(self.cells), len(cells))
            mine, theirs = pack_pair(columns_of(self.cells), columns_of(cells), self.shape, counts)
            return find(theirs, mine)
        return find(pack(columns_of(cells), self.shape, len(cells)), self._keys)

    @cached_property
    def _keys(self) -> Keys | None:
        """Sorted keys; None where 64 bits do not suffice."""
        if np.prod([float(size) for size in self.shape]) >= 2.0**63:
            return None
        return pack(columns_of(self.cells), self.shape, len(self.cells))


class FibreLookup:
    """Cells (n, order) to be asked which of them agree with others but at one place."""

    def __init__(self, cells: AnyArray, shape: Sequence[int], place: int):
        self._others = [k for k in range(len(shape)) if k != place]
        self._sizes = [shape[k] for k in self._others]
        self._cells, self._column = cells, cells[:, place]

    def find(self, cells: AnyArray) -> tuple[NDArray[np.int64], NDArray[np.int64], AnyArray]:
        """All pairs of a cell asked for and one of these: their numbers, and the rows of the latter at the place."""
        if math.prod(self._sizes) <= TUNING.key_span:
            order, keys = self._sorted
            asked = pack(columns_of(cells[:, self._others]), self._sizes, len(cells))
        else:
            mine, asked = pack_pair(
                columns_of(self._cells[:, self._others]),
                columns_of(cells[:, self._others]),
                self._sizes,
                (len(self._cells), len(cells)),
            )
            order = np.argsort(mine, kind="stable")
            keys = mine[order]
        start = search(keys, asked)
        count = search(keys, asked, "right") - start
        # Hit h is number h − (hits of earlier cells) among those of its own cell.
        which = np.repeat(np.arange(len(cells)), count)
        hits = order[np.arange(len(which)) + np.repeat(start - (np.cumsum(count) - count), count)]
        return which, hits, self._column[hits]

    @cached_property
    def _sorted(self) -> tuple[NDArray[np.int64], Keys]:
        keys = pack(columns_of(self._cells[:, self._others]), self._sizes, len(self._cells))
        order = np.argsort(keys, kind="stable")
        return order, keys[order]
