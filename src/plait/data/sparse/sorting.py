"""Lexicographic sort of cells: integers of key and position, by NumPy's vectorised sort on threads (radix-like rounds
for long keys).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.data.sparse.keys import columns_of
from plait.data.sparse.parallel import CHUNK_ROWS, by_pieces, on_threads, ranges
from plait.tuning import TUNING

Words = NDArray[np.uint64]


def sort_order(columns: Sequence[AnyArray], sizes: Sequence[int]) -> AnyArray | None:
    """Stable permutation that sorts rows; None where they are sorted."""
    if in_order(columns):
        return None
    if len(columns[0]) < TUNING.min_threaded_rows:
        return np.lexsort(columns[::-1]).astype(np.uint32)
    return sort_rows(columns, sizes).order


def sort_cells(cells: AnyArray, sizes: Sequence[int]) -> tuple[AnyArray | None, AnyArray]:
    """The same permutation, and cells (n, order) sorted by it."""
    columns = columns_of(cells)
    if in_order(columns):
        return None, cells
    if len(cells) < TUNING.min_threaded_rows:
        order = np.lexsort(columns[::-1])
        return order, cells[order]
    done = sort_rows(columns, sizes)
    return done.order, done.read(cells) if len(done.rounds) == 1 else take(cells, done.order)


def in_order(columns: Sequence[AnyArray]) -> bool:
    """Whether rows are sorted; usually decided by the first chunk."""
    count = len(columns[0]) if columns else 0
    for at in range(1, count, CHUNK_ROWS):
        end = min(at + CHUNK_ROWS, count)
        falls, tied = np.zeros(end - at, bool), np.ones(end - at, bool)
        for column in columns:
            before, after = column[at - 1 : end - 1], column[at:end]
            falls |= tied & (before > after)
            tied &= before == after
        if falls.any():
            return False
    return True


def sort_rows(columns: Sequence[AnyArray], sizes: Sequence[int], threads: int | None = None) -> "SortedRows":
    """Stable permutation that sorts rows.

    A word holds a row's position in its low bits and as much of its key above them as fits. Longer keys take several
    rounds, from their low end, each of which keeps the order of the one before.
    """
    count = len(columns[0])
    cuts, below = ranges(count, threads), max(count - 1, 1).bit_length()
    order: AnyArray = np.zeros(0, np.uint32 if below <= 32 else np.int64)
    rounds = _rounds(sizes, 64 - below)
    for parts in rounds:
        words = _placed(columns, parts, order, below, cuts)
        sort_words(words, threads)
        positions = _positions(words, below, order.dtype)
        order = take(order, positions) if len(order) else positions
    return SortedRows(order, words, below, rounds)


@dataclass(frozen=True)
class SortedRows:
    """Permutation of sorted rows, and the sorted words of the last round, with keys above `below` bits."""

    order: AnyArray
    words: Words
    below: int
    rounds: "list[list[_BitRange]]"

    def read(self, cells: AnyArray) -> AnyArray:
        """The cells (n, order) in order, read from the words of a single round: faster than gathering."""

        from plait.data.sparse.sparse_kernels import read_cells

        result = np.empty(cells.shape, cells.dtype)
        lows, masks = np.zeros((2, cells.shape[1]), np.uint64)
        for part in self.rounds[0]:
            lows[part.column], masks[part.column] = self.below + part.at, (1 << part.bits) - 1
        on_threads(lambda _, lo, hi: read_cells(self.words, lo, hi, lows, masks, result), ranges(len(cells)))
        return result


class _BitRange(NamedTuple):
    """Some bits of a column, from `low` on, and their position in the key of a round."""

    column: int
    low: int
    bits: int
    at: int


def _rounds(sizes: Sequence[int], max_bits: int) -> list[list[_BitRange]]:
    """All bits of all columns, last column and low bits first, cut into keys of at most `max_bits` bits."""
    rounds: list[list[_BitRange]] = [[]]
    used = 0
    for column in range(len(sizes) - 1, -1, -1):
        low, width = 0, (int(sizes[column]) - 1).bit_length()
        while low < width:
            if used == max_bits:
                rounds.append([])
                used = 0
            bits = min(width - low, max_bits - used)
            rounds[-1].append(_BitRange(column, low, bits, used))
            low, used = low + bits, used + bits
    return rounds


def _placed(
    columns: Sequence[AnyArray], parts: Sequence[_BitRange], order: AnyArray, below: int, cuts: list[tuple[int, int]]
) -> Words:
    """Words of a round: positions in the order so far, and above them some bits of the rows there."""

    from plait.data.sparse.sparse_kernels import place_bits

    words = np.arange(len(columns[0]), dtype=np.uint64)

    def place(_: int, lo: int, hi: int) -> None:
        for part in parts:
            place_bits(columns[part.column], order, lo, hi, part.low, (1 << part.bits) - 1, below + part.at, words)

    on_threads(place, cuts)
    return words


def _positions(words: Words, below: int, kind: np.dtype[Any]) -> AnyArray:
    """Low bits of words."""
    result, mask = np.empty(len(words), kind), np.uint64((1 << below) - 1)

    def read(rows: slice) -> None:
        result[rows] = words[rows] & mask

    by_pieces(read, len(words))
    return result


def is_uniform(array: AnyArray) -> bool:
    """Whether an array is one broadcast number."""
    return array.strides == (0,) and len(array) > 0


def take(array: AnyArray, order: AnyArray) -> AnyArray:
    """array[order] along the first axis, on threads."""
    if is_uniform(array):
        return np.broadcast_to(array[:1], len(order))
    result = np.empty((len(order), *array.shape[1:]), array.dtype)
    if len(order) < TUNING.min_threaded_rows or array.ndim > 1:
        # "clip" writes without a buffer; the positions are valid.
        by_pieces(lambda rows: np.take(array, order[rows], axis=0, out=result[rows], mode="clip"), len(order))
        return result

    from plait.data.sparse.sparse_kernels import take

    on_threads(lambda _, lo, hi: take(array, order, lo, hi, result), ranges(len(order)))
    return result


def sort_words(words: Words, threads: int | None = None) -> None:
    """Sort words in place: partitioned at quantiles, then each part on a thread."""
    cuts = ranges(len(words), threads)
    if len(cuts) > 1:
        words.partition([lo for lo, _ in cuts[1:]])
    on_threads(lambda _, lo, hi: words[lo:hi].sort(), cuts)
