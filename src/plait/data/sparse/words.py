"""Cells as words: one integer holds a cell, its first row in the highest bits, and perhaps a value in the lowest.

Words are sorted in place, and their memory is released chunk by chunk while CSF is built from them: next to the result,
at most eight bytes per cell are held.
"""

import mmap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.data.sparse.csf_index import CSFIndex, row_type, start_type
from plait.data.sparse.parallel import by_pieces, on_threads, shares
from plait.data.sparse.sorting import in_order, sort_words, take
from plait.tuning import TUNING

WORD_BITS = 63  # the highest bit is free, so that a word can differ from all others
MAX_CODES = 1 << 16  # largest value, or number of different ones, in words
# Private memory: shared memory, the default, could not be released page by page.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
NO_ORDER = np.zeros(0, np.uint32)


@dataclass(frozen=True)
class WordFormat:
    """Bit positions of the rows of axes of these sizes in a word, above the bits of a value."""

    sizes: tuple[int, ...]
    value: int = 0

    @cached_property
    def _widths(self) -> list[int]:
        return [(size - 1).bit_length() for size in self.sizes]

    @property
    def fits(self) -> bool:
        return sum(self._widths) + self.value <= WORD_BITS

    @cached_property
    def shifts(self) -> list[int]:
        """Lowest bit of every row."""
        return [self.value + sum(self._widths[level + 1 :]) for level in range(len(self.sizes))]

    @cached_property
    def masks(self) -> list[int]:
        """Bits of every row, shifted to the low end."""
        return [(1 << width) - 1 for width in self._widths]


@dataclass(frozen=True, eq=False)
class Codes:
    """Encoding of values in words: small integers as they are, else as positions in a list.

    `bits`: of a code, 0 where all values are 1. `listed`: all values in ascending order; None without a list.
    """

    bits: int
    listed: NDArray[Any] | None = None

    @classmethod
    def of(cls, values: Callable[[slice], AnyArray], count: int) -> "Codes | None":
        """Encoding of `count` values, read in chunks; None where one is invalid, or too many differ."""
        most, whole = [0.0], [True]

        def look(rows: slice) -> None:
            some = values(rows)
            fine = bool(some.min() >= 0) and bool(some.max() < np.inf)  # False for NaN
            most.append(float(some.max()) if fine else np.inf)
            whole.append(bool((some == np.floor(some)).all()))

        by_pieces(look, count)
        if max(most) == np.inf:
            return None
        if all(whole) and max(most) < MAX_CODES:
            return cls(max(int(max(most)).bit_length(), 1))
        return cls._listing(values, count)

    @classmethod
    def _listing(cls, values: Callable[[slice], AnyArray], count: int) -> "Codes | None":
        """With a list of all values."""
        distinct, lost, lock = [np.zeros(0)], [False], Lock()

        def look(rows: slice) -> None:
            own = np.unique(values(rows)) if not lost[0] else distinct[0]
            with lock:
                distinct[0] = np.union1d(distinct[0], own)
                lost[0] = lost[0] or len(distinct[0]) > MAX_CODES

        by_pieces(look, count)
        return None if lost[0] else cls(max((len(distinct[0]) - 1).bit_length(), 1), distinct[0])

    def encode(self, values: AnyArray) -> AnyArray | None:
        """Codes of values; None where there are no bits."""
        if self.bits == 0:
            return None
        return values if self.listed is None else np.searchsorted(self.listed, values)

    def decode(self, codes: AnyArray) -> AnyArray:
        """Values of codes, in a dtype that holds all of them."""
        return codes if self.listed is None else take(self.listed, codes)


class CellWords:
    """Words of `count` cells, to be written, closed, sorted, and read once."""

    def __init__(self, how: WordFormat, count: int) -> None:
        self.how = how
        self._memory = mmap.mmap(-1, max(8 * count, 1), **PRIVATE)
        self.words: NDArray[np.uint64] = np.frombuffer(self._memory, np.uint64, count)

    def __len__(self) -> int:
        return len(self.words)

    def write(self, at: int, columns: Sequence[AnyArray], values: AnyArray | None) -> None:
        """Write cells, column by column, and their values, from a position on."""
        from plait.data.sparse.sparse_kernels import place_bits

        count = len(columns[0])
        words = self.words[at : at + count]
        words[:] = 0 if values is None else values
        for column, shift, mask in zip(columns, self.how.shifts, self.how.masks):
            place_bits(column, NO_ORDER, 0, count, 0, mask, shift, words)

    def close(self, stretches: Sequence[tuple[int, int]]) -> None:
        """Remove unwritten words; `stretches`: start and length of written ranges, in order."""
        at = 0
        for begin, count in stretches:
            if at != begin:
                self.words[at : at + count] = self.words[begin : begin + count]
            at += count
        self.words = self.words[:at]

    def sort(self) -> None:
        if not in_order([self.words]):
            sort_words(self.words)

    def read(self, indices: tuple[str, ...]) -> "Read":
        """Sorted cells as CSF, with their values; releases the words."""
        pieces = _WordChunks(self.words, self.how)
        pieces.count()
        rows, starts, values = pieces.buffers()

        def write(_: int, lo: int, hi: int) -> None:
            for number in range(lo, hi):
                pieces.write(number, rows, starts, values)
                self._give_back(*pieces.cuts[number])

        on_threads(write, shares(len(pieces.cuts)))
        self.words = self.words[:0]
        count = int(pieces.totals[-2])
        index = CSFIndex(indices, self.how.sizes, tuple(rows), tuple(starts), count)
        return Read(
            index, values if values is not None else np.broadcast_to(np.uint8(1), count), int(pieces.totals[-1])
        )

    def _give_back(self, lo: int, hi: int) -> None:
        """Release the memory of words that were read, in whole pages."""
        if hasattr(mmap, "MADV_DONTNEED"):
            page = mmap.PAGESIZE
            begin, end = -(-8 * lo // page) * page, 8 * hi // page * page
            if begin < end:
                self._memory.madvise(mmap.MADV_DONTNEED, begin, end - begin)


@dataclass(frozen=True)
class Read:
    """Distinct sorted cells, their values (n,), and the number that were added to another one."""

    cells: CSFIndex
    values: NDArray[Any]
    summed: int = 0


class _WordChunks:
    """Sorted words cut into chunks of whole cells, with the number of fibres that start in each."""

    def __init__(self, words: NDArray[np.uint64], how: WordFormat) -> None:
        self.words, self.how = words, how
        self.cuts = self._cut()
        first = words[:1] ^ np.uint64(1 << 63)  # differs from the first word in all levels
        self.before = [int(first[0]) if lo == 0 else int(words[lo - 1]) for lo, _ in self.cuts]
        self.shifts = np.array(how.shifts, np.int64)
        self.counts = np.zeros((len(self.cuts), len(how.sizes) + 1), np.int64)
        self.mask, self.most = (1 << how.value) - 1, np.zeros(len(self.cuts))

    def _cut(self) -> list[tuple[int, int]]:
        cuts, lo, shift = [], 0, np.uint64(self.how.value)
        while lo < len(self.words):
            hi = min(lo + TUNING.release_words, len(self.words))
            while hi < len(self.words) and self.words[hi] >> shift == self.words[hi - 1] >> shift:
                hi += 1
            cuts.append((lo, hi))
            lo = hi
        return cuts

    def count(self) -> None:
        """Count fibres and duplicates, and find the largest value."""
        from plait.data.sparse.sparse_kernels import count_levels

        def look(_: int, lo: int, hi: int) -> None:
            for n in range(lo, hi):
                some = self.words[slice(*self.cuts[n])]
                self.most[n] = count_levels(some, np.uint64(self.before[n]), self.shifts, self.mask, self.counts[n])

        on_threads(look, shares(len(self.cuts)))
        self.totals = self.counts.sum(axis=0)
        self.places = np.cumsum(self.counts, axis=0) - self.counts

    def buffers(self) -> tuple[list[AnyArray], list[AnyArray], AnyArray | None]:
        """Arrays for rows and starts of all levels and values; no values where all are 1."""
        *fibres, repeats = self.totals.tolist()
        rows = [np.empty(count, row_type(size)) for count, size in zip(fibres, self.how.sizes)]
        starts = [np.empty(count + 1, start_type(fibres[-1])) for count in fibres[:-1]]
        for level, begins in enumerate(starts):
            begins[-1] = fibres[level + 1]
        if self.how.value == 0 and repeats == 0:
            return rows, starts, None
        return rows, starts, np.empty(fibres[-1], _kind(float(self.most.max())))

    def write(self, n: int, rows: list[AnyArray], starts: list[AnyArray], values: AnyArray | None) -> None:
        """Write one chunk."""
        from plait.data.sparse.sparse_kernels import write_level_rows, write_level_starts, write_values

        some, before, shifts = self.words[slice(*self.cuts[n])], np.uint64(self.before[n]), self.how.shifts
        places = self.places[n].tolist()
        for level, own in enumerate(rows):
            write_level_rows(some, before, shifts[level], self.how.masks[level], places[level], own)
        for level, own in enumerate(starts):
            at, child = places[level], places[level + 1]
            write_level_starts(some, before, shifts[level], shifts[level + 1], at, child, own)
        if values is not None:
            write_values(some, self.how.value, self.mask, places[len(rows) - 1], values)


def _kind(most: float) -> "np.dtype[Any]":
    """Dtype of integers up to `most`."""
    if most < 1 << 16:
        return np.dtype(np.uint8 if most < 1 << 8 else np.uint16)
    return np.dtype(np.float32 if most <= 1 << 24 else np.float64)
