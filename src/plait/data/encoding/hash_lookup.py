"""Hash tables of names: distinct names, and the row of each (open addressing, linear probing).

For many strings this is faster than joins and `unique` of polars. A name is compared with the one found by its hash, so
different names with one hash stay different.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray
from plait.data.sparse.parallel import CHUNK_ROWS, by_pieces
from plait.jit import inlined, kernel

if TYPE_CHECKING:
    import polars as pl


SLOTS_PER_NAME = 2  # at least: keeps probing short


@dataclass(frozen=True, eq=False)
class Hashed:
    """Names in row order, their hashes, and a table of row numbers by slot (−1: empty)."""

    names: "pl.Series"
    hashes: NDArray[np.uint64]
    table: NDArray[np.int32]

    @classmethod
    def of(cls, names: "pl.Series") -> "Hashed | None":
        """For distinct names; None without names, or if two hashes are equal."""
        hashed = DistinctNames(len(names))
        hashed.add(hash_of(names))
        return cls(names, hashed.hashes, hashed.table) if len(names) and hashed.count == len(names) else None

    def write(self, labels: "pl.Series", rows: AnyArray | None = None) -> bool:
        """Write the row of each label, −1 (as the dtype has it) for an unknown one; return whether all are known."""
        known = [True]

        def look_up(part: slice) -> None:
            some, numbers = labels[part], np.empty(part.stop - part.start, np.uint32)
            _find(hash_of(some), self.hashes, self.table, numbers)
            same = self.names.gather(numbers) == some
            if not same.all():
                known[0] = False
                numbers = np.where(same, numbers.astype(np.int64), -1)
            if rows is not None:
                rows[part] = numbers

        by_pieces(look_up, len(labels))
        return known[0]


def distinct_hashed(labels: "pl.Series") -> "pl.Series":
    """Distinct labels in any order."""
    distinct = DistinctNames(0)
    for at in range(0, len(labels), CHUNK_ROWS):
        distinct = distinct.with_capacity(distinct.count + CHUNK_ROWS)
        distinct.add(hash_of(labels[at : at + CHUNK_ROWS]), at)
    names = labels.gather(distinct.firsts[: distinct.count])
    return names if Hashed(names, distinct.hashes, distinct.table).write(labels) else labels.unique()


def hash_of(labels: "pl.Series") -> NDArray[np.uint64]:
    """Hash of every label, (n,)."""
    return labels.hash().to_numpy()


class DistinctNames:
    """Distinct hashes in the order of their first occurrence, with its position."""

    def __init__(self, capacity: int) -> None:
        self.count, self.capacity = 0, capacity
        self.hashes, self.firsts = np.empty(capacity, np.uint64), np.empty(capacity, np.uint32)
        self.table = np.full(1 << (SLOTS_PER_NAME * capacity).bit_length(), -1, np.int32)

    def add(self, hashes: NDArray[np.uint64], begin: int = 0) -> None:
        """Enter hashes, the first of which is at position `begin`."""
        self.count = _enter(hashes, begin, self.table, self.hashes, self.firsts, self.count)

    def with_capacity(self, capacity: int) -> "DistinctNames":
        """This table, or a larger one with the same hashes."""
        if capacity <= self.capacity:
            return self
        larger = DistinctNames(2 * capacity)
        larger.add(self.hashes[: self.count])
        larger.firsts[: self.count] = self.firsts[: self.count]
        return larger


@inlined
def _slot_of(label: Any, hashes: AnyArray, table: AnyArray) -> Any:
    """Slot of a hash, or its free slot."""
    last = np.uint64(len(table) - 1)
    place = label & last
    while table[place] >= 0 and hashes[table[place]] != label:
        place = (place + np.uint64(1)) & last
    return place


@kernel
def _enter(labels: AnyArray, begin: int, table: AnyArray, hashes: AnyArray, firsts: AnyArray, count: int) -> int:
    """Enter new hashes; return the number of all."""
    for n in range(len(labels)):
        place = _slot_of(labels[n], hashes, table)
        if table[place] < 0:
            table[place], hashes[count], firsts[count] = count, labels[n], begin + n
            count += 1
    return count


@kernel
def _find(labels: AnyArray, hashes: AnyArray, table: AnyArray, rows: AnyArray) -> None:
    """Row of each hash, or any row if it is unknown."""
    for n in range(len(labels)):
        rows[n] = max(table[_slot_of(labels[n], hashes, table)], 0)
