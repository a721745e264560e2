"""Integer labels that lie close together: a table of all integers between them says which occur, and their rows."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from plait.data.cells.ranges import by_pieces
from plait.types import AnyArray

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Near:
    """Rows of names from `least` on, −1 where there is no such name; no table where they follow one another."""

    least: int
    length: int
    table: NDArray[np.int64] | None

    @classmethod
    def of(cls, names: "pl.Series") -> "Near | None":
        """For names in row order; None where a table would be much longer than they are."""
        ends = _ends(names)
        if ends is None or not _is_short(ends, len(names)):
            return None
        least, length = ends[0], ends[1] - ends[0] + 1
        offsets, rows = _offsets(names.to_numpy(), least), np.arange(len(names))
        if np.array_equal(offsets, rows):
            return cls(least, length, None)
        table = np.full(length, -1, np.int64)
        table[offsets] = rows
        return cls(least, length, table)

    def write(self, labels: "pl.Series", rows: AnyArray) -> bool:
        """Write the row of each label, −1 (as far as the array has it) for an unknown one; whether all are known."""
        ends = _ends(labels)
        inside = ends is not None and self.least <= ends[0] and ends[1] < self.least + self.length
        known = [True]

        def look_up(part: slice) -> None:
            found = self._found(labels[part].to_numpy(), inside)
            rows[part] = found
            if not (inside and self.table is None) and found.min() < 0:
                known[0] = False

        by_pieces(look_up, len(labels))
        return known[0]

    def _found(self, numbers: AnyArray, inside: bool) -> NDArray[np.int64]:
        offsets = _offsets(numbers, self.least)
        if not inside:  # labels far away may have wrapped around
            near = (numbers >= self.least) & (numbers < self.least + self.length)
            return np.where(near, self._looked_up(np.where(near, offsets, 0)), -1)
        return self._looked_up(offsets)

    def _looked_up(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        return offsets if self.table is None else self.table.take(offsets)


def distinct_near(labels: "pl.Series") -> "pl.Series | None":
    """The integers that occur, each once; None where a table would be much longer than the labels."""
    import polars as pl

    ends = _ends(labels)
    if ends is None or not _is_short(ends, len(labels)):
        return None
    least = ends[0]
    seen = np.zeros(ends[1] - least + 1, bool)

    def mark(rows: slice) -> None:  # as NumPy has it, a column in several pieces is a copy
        seen[_offsets(labels[rows].to_numpy(), least)] = True

    by_pieces(mark, len(labels))
    if ends[1] < 2**63:
        return pl.Series(np.flatnonzero(seen) + least)
    return pl.Series(np.flatnonzero(seen).astype(np.uint64) + np.uint64(least))


def _ends(labels: "pl.Series") -> tuple[int, int] | None:
    """The least and the largest of some integers; None where there is none."""
    return None if len(labels) == 0 else (cast(int, labels.min()), cast(int, labels.max()))


def _is_short(ends: tuple[int, int], count: int) -> bool:
    """Whether a table of all integers between the ends is not much longer than the labels themselves."""
    return ends[1] - ends[0] < max(4 * count, 1 << 12)


def _offsets(numbers: AnyArray, least: int) -> NDArray[np.int64]:
    """numbers − least, modulo 2^64."""
    start = np.array(least % 2**64, np.uint64).astype(np.int64)
    return numbers.astype(np.int64, copy=False) - start if start else numbers.astype(np.int64, copy=False)
