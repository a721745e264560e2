"""Hash tables of names: which names occur, and the row of each.

Polars' joins and its unique() of strings are slower for many names. A name is compared with the one that its hash
leads to, so two names of one hash stay different.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.data.sparse.parallel import PIECE, by_pieces
from plait.jit import inlined, kernel

if TYPE_CHECKING:
    import polars as pl


SPARSE = 2  # places of a table for each name, at least


@dataclass(frozen=True, eq=False)
class Hashed:
    """Names in row order, their hashes, and at every place of a table the row whose hash belongs there (−1: none)."""

    names: "pl.Series"
    hashes: NDArray[np.uint64]
    table: NDArray[np.int32]

    @classmethod
    def of(cls, names: "pl.Series") -> "Hashed | None":
        """For distinct names; None where there is none, or two have the same hash."""
        found = DistinctNames(len(names))
        found.add(hash_of(names))
        return cls(names, found.hashes, found.table) if len(names) and found.count == len(names) else None

    def write(self, labels: "pl.Series", rows: AnyArray | None = None) -> bool:
        """Write the row of each label, −1 (as far as the array has it) for an unknown one; whether all are known.

        labels: of the same type as the names.
        """
        known = [True]

        def look_up(part: slice) -> None:
            some, found = labels[part], np.empty(part.stop - part.start, np.uint32)
            _find(hash_of(some), self.hashes, self.table, found)
            same = self.names.gather(found) == some
            if not same.all():
                known[0] = False
                found = np.where(same, found.astype(np.int64), -1)
            if rows is not None:
                rows[part] = found

        by_pieces(look_up, len(labels))
        return known[0]


def distinct_hashed(labels: "pl.Series") -> "pl.Series":
    """The labels that occur, each once and in any order."""
    found = DistinctNames(0)
    for at in range(0, len(labels), PIECE):
        found = found.with_room(found.count + PIECE)
        found.add(hash_of(labels[at : at + PIECE]), at)
    names = labels.gather(found.firsts[: found.count])
    return names if Hashed(names, found.hashes, found.table).write(labels) else labels.unique()


def hash_of(labels: "pl.Series") -> NDArray[np.uint64]:
    """The hash of every label, (n,)."""
    return labels.hash().to_numpy()


class DistinctNames:
    """Distinct hashes in the order in which they were met, and where each was met first."""

    def __init__(self, room: int) -> None:
        self.count, self.room = 0, room
        self.hashes, self.firsts = np.empty(room, np.uint64), np.empty(room, np.uint32)
        self.table = np.full(1 << (SPARSE * room).bit_length(), -1, np.int32)

    def add(self, hashes: NDArray[np.uint64], begin: int = 0) -> None:
        """Enter hashes, the first of which stands at `begin`."""
        self.count = _enter(hashes, begin, self.table, self.hashes, self.firsts, self.count)

    def with_room(self, room: int) -> "DistinctNames":
        """This one, or a larger one with the same hashes."""
        if room <= self.room:
            return self
        larger = DistinctNames(2 * room)
        larger.add(self.hashes[: self.count])
        larger.firsts[: self.count] = self.firsts[: self.count]
        return larger


@inlined
def _place(label: Any, hashes: AnyArray, table: AnyArray) -> Any:
    """Where a hash stands in a table, or the free place where it belongs: the first one from its own on."""
    last = np.uint64(len(table) - 1)
    place = label & last
    while table[place] >= 0 and hashes[table[place]] != label:
        place = (place + np.uint64(1)) & last
    return place


@kernel
def _enter(labels: AnyArray, begin: int, table: AnyArray, hashes: AnyArray, firsts: AnyArray, count: int) -> int:
    """Enter hashes that are not there yet; how many there are now."""
    for n in range(len(labels)):
        place = _place(labels[n], hashes, table)
        if table[place] < 0:
            table[place], hashes[count], firsts[count] = count, labels[n], begin + n
            count += 1
    return count


@kernel
def _find(labels: AnyArray, hashes: AnyArray, table: AnyArray, found: AnyArray) -> None:
    """The row of each hash, or any other one where it is not there."""
    for n in range(len(labels)):
        found[n] = max(table[_place(labels[n], hashes, table)], 0)
