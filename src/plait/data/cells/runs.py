"""Some leaves of a table as a table of their own."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from plait.data.cells.leaves import Extent
from plait.data.cells.trees import FibreTree, Piece, Table
from plait.types import AnyArray


@dataclass(frozen=True, eq=False)
class Run:
    """Leaves lo … hi of a table, with so many entries.

    pieces: where they come from, if not from a walk of their own: runs that follow each other share one, so that a disk
    is read ahead across them.
    """

    table: Table
    lo: int
    hi: int
    entries: int
    pieces: Iterator[Piece] | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """The indices, root first."""
        return self.table.order

    @property
    def types(self) -> tuple[np.dtype[Any], ...]:
        """Those of starts, of the row numbers of every level, and of the entries."""
        return self.table.types

    @property
    def arrays(self) -> list[AnyArray]:
        """Those of the whole table."""
        return self.table.arrays

    @property
    def leaf_count(self) -> int:
        """How many leaves there are."""
        return self.hi - self.lo

    def __len__(self) -> int:
        return self.entries

    def walk(self, lo: int = 0, hi: int | None = None) -> Iterator[Piece]:
        """The leaves, or some of them, numbered from 0."""
        end = self.leaf_count if hi is None else hi
        if self.pieces is None:
            found = self.table.walk(self.lo + lo, self.lo + end)
        else:
            found = islice(self.pieces, lo, end)
        return (piece._replace(number=piece.number - self.lo) for piece in found)

    def extents(self) -> list[Extent]:
        """Those of its leaves."""
        return self.table.extents()[self.lo : self.hi]

    def trees(self) -> Iterable[FibreTree]:
        """Every leaf as a tree."""
        for piece in self.walk():
            yield piece.tree.part(piece.leaf)
            piece.done()
