"""Known links on disk, with later ones beside them in memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from plait.data.blocks.table import CellsOnDisk
from plait.data.cells.fibres import FoundElsewhere, Keep, Read
from plait.data.cells.keys import Lookup, coordinate_type
from plait.data.cells.sorting import sort_cells
from plait.types import AnyArray, Array


@dataclass(frozen=True, eq=False)
class GrownCells(FoundElsewhere):
    """Links on disk, and later ones: beside (m, order), sorted, each once; more (m,): what they add to a cell's value,
    which may be there already.
    """

    disk: CellsOnDisk
    beside: AnyArray
    more: Array

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self.beside.nbytes + self.more.nbytes

    def find(self, cells: AnyArray) -> Array:
        """The values of some cells (m, order), 0 where there is none."""
        at, there = self._lookup.find(cells)
        return self.disk.find(cells) + (np.where(there, self.more[at], 0.0) if len(self.more) else 0.0)

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        """Which of some cells (m, order) are among these."""
        return self._lookup.contain(cells) | self.disk.contain(cells)

    def total(self) -> float:
        """What all values add up to."""
        return self.disk.total() + float(self.more.sum())

    def sized(self, sizes: tuple[int, ...]) -> "GrownCells":
        """The same among more entities, which come after all others."""
        return with_more(self.disk, sizes, self.beside, self.more)

    def column(self, index: str) -> AnyArray:
        """The row numbers of one index, (n,)."""
        return self.cells()[:, self.indices.index(index)]

    def cells(self) -> AnyArray:
        """All of them, (n, order)."""
        return self.read().cells

    def read(self, keep: Keep | None = None) -> Read:
        """All or some into memory, in lexicographic order."""
        own = np.ones(len(self.more), bool) if keep is None else keep(self.beside)
        return summed([self.disk.read(keep), Read(self.beside[own], self.more[own], np.ones(own.sum()))], self.sizes)

    def pieces(self, size: int) -> Iterator[Read]:
        """All cells, at most so many at a time: those on disk, then all others."""
        for piece in self.disk.pieces(size):
            at, there = self._lookup.find(piece.cells)
            more = np.where(there, self.more[at], 0.0) if len(self.more) else 0.0
            yield piece._replace(values=piece.values + more)
        new = np.flatnonzero(~self.disk.contain(self.beside))
        for lo in range(0, len(new), size):
            some = new[lo : lo + size]
            yield Read(self.beside[some].astype(np.int64), self.more[some], np.ones(len(some)))

    def own_weights(self) -> Array:
        """What the cells beside those on disk weigh, (m,): one that is there, too, has the weight that it has there."""
        found = self.disk.packed.has_weights
        return self.disk.own_weights(self.beside) if found else np.broadcast_to(1.0, len(self.more))

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.beside, self.sizes)


def disk_of(links: object) -> CellsOnDisk | None:
    """The cells on disk that links are, or have beside them; None where all are in memory."""
    return links.disk if isinstance(links, GrownCells) else links if isinstance(links, CellsOnDisk) else None


def with_more(links: FoundElsewhere, sizes: tuple[int, ...], cells: AnyArray, values: Array) -> GrownCells:
    """Links on disk, perhaps with some beside them, and more of them: cells (k, order), values (k,) over 0."""
    disk = disk_of(links)
    assert disk is not None
    parts = [Read(links.beside, links.more, np.ones(len(links.more)))] if isinstance(links, GrownCells) else []
    beside, more, _ = summed([*parts, Read(cells, values, np.ones(len(values)))], sizes)
    disk = disk.sized(sizes)
    count = len(disk) + int(np.count_nonzero(~disk.contain(beside)))
    return GrownCells(disk.indices, sizes, (), (), count, disk, beside, more)


def summed(parts: list[Read], sizes: tuple[int, ...]) -> Read:
    """Cells of several kinds in one order, each once: its values add up, and it weighs what it does in the first."""
    kind = coordinate_type(sizes)
    cells = np.concatenate([part.cells.astype(kind, copy=False) for part in parts])
    values, weights = (np.concatenate([getattr(part, word) for part in parts]) for word in ("values", "weights"))
    order, cells = sort_cells(cells, sizes)
    values, weights = (values, weights) if order is None else (values[order], weights[order])
    first = np.ones(len(cells), bool)
    first[1:] = (cells[1:] != cells[:-1]).any(axis=1)
    at = np.flatnonzero(first)
    if len(at) == len(cells):
        return Read(cells, values, weights)
    return Read(cells[at], np.add.reduceat(values, at), weights[at])
