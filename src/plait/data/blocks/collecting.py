"""Which names occur in a column, found batch by batch; of integers also how often."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from plait.data.blocks.loops import tally
from plait.data.cells.ranges import MANY
from plait.data.labels.columns import kind, widened
from plait.data.labels.hashed import Found, hash_of
from plait.errors import DataError
from plait.saying import Place

if TYPE_CHECKING:
    import polars as pl

SLACK = 4  # places of a table of counts for each row, at least


@dataclass(frozen=True, eq=False)
class Known:
    """The names of a column that was gone through before, and how often each occurs, where that is known."""

    names: "pl.Series"
    counts: "tuple[pl.Series, NDArray[np.int64]] | None"


class Collected:
    """The names of one column so far.

    Integers that lie close together are counted in a table. Other names are entered by their hashes: of two with one
    hash the second is missing, which the second pass finds, as a name that is not known.

    room: places that a table of counts may have, however few rows there are. exact: compare names, not hashes.
    """

    def __init__(self, where: Place, room: int, *, exact: bool = False) -> None:
        self.where, self.room, self.exact = where, room, exact
        self.rows, self._kind = 0, ""
        self._near: _Counts | None = None
        self._others: _Hashes | _Distinct | None = None

    def add(self, labels: "pl.Series") -> None:
        """Enter the labels of a batch, as `label_series` gives them."""
        if len(labels) == 0:
            return
        if self.rows and kind(labels) != self._kind:
            raise DataError(
                f"the labels are {kind(labels)}, but {self._kind} before.",
                where=self.where.at(row=self.rows),
                cure="Convert the column to one type.",
            )
        self._kind = kind(labels)
        if self._kind == "integers" and self._others is None:
            self._near = self._near or _Counts()
            self.rows += len(labels)
            if self._near.add(labels, max(self.room, SLACK * self.rows)):
                return
            self._others, counted = self._begin(), self._near.names()
            self._near = None
            if len(counted):
                self._others.add(widened(counted))
        else:
            self.rows += len(labels)
        self._others = self._others or self._begin()
        self._others.add(widened(labels))

    def _begin(self) -> "_Hashes | _Distinct":
        return _Distinct() if self.exact else _Hashes()

    @property
    def names(self) -> "pl.Series":
        """All names, each once and in any order."""
        import polars as pl

        if self._near is not None:
            return self._near.names()
        return pl.Series(dtype=pl.Null) if self._others is None else self._others.names()

    @property
    def counts(self) -> "tuple[pl.Series, NDArray[np.int64]] | None":
        """All names and how often each occurs, where that is known."""
        return None if self._near is None else (self._near.names(), self._near.nonzero())


def _joined(parts: "list[pl.Series]") -> "pl.Series":
    """Labels of several batches; of integers, those of one may have been within 63 bits."""
    import polars as pl

    same = len({part.dtype for part in parts}) == 1
    return pl.concat(parts if same else [part.cast(pl.UInt64) for part in parts])


class _Hashes:
    """Labels by their hashes, in the order in which they were met."""

    def __init__(self) -> None:
        self._found = Found(0)
        self._parts: list[pl.Series] = []

    def add(self, labels: "pl.Series") -> None:
        """Enter labels that are not there yet."""
        known = self._found.count
        self._found = self._found.with_room(known + len(labels))
        self._found.add(hash_of(labels))
        new = self._found.firsts[known : self._found.count]
        if len(new):
            self._parts.append(labels.gather(new))

    def names(self) -> "pl.Series":
        if len({part.dtype for part in self._parts}) > 1:  # their hashes are not the same
            return _joined(self._parts).unique()
        self._parts = [_joined(self._parts)]
        return self._parts[0]


class _Distinct:
    """Labels made distinct whenever they have become twice as many."""

    def __init__(self) -> None:
        self._parts: list[pl.Series] = []
        self._held, self._known = 0, 0

    def add(self, labels: "pl.Series") -> None:
        self._parts.append(labels.unique())
        self._held += len(self._parts[-1])
        if self._held > 2 * self._known + MANY:
            self.names()

    def names(self) -> "pl.Series":
        self._parts = [_joined(self._parts).unique()]
        self._held = self._known = len(self._parts[0])
        return self._parts[0]


class _Counts:
    """How often integers occur that lie close together."""

    def __init__(self) -> None:
        self._least, self._table = 0, np.zeros(0, np.uint32)

    def add(self, labels: "pl.Series", most: int) -> bool:
        """Count integers; False, and nothing done, where the table would have more than `most` places."""
        low, high = cast(int, labels.min()), cast(int, labels.max())
        if len(self._table):
            low, high = min(low, self._least), max(high, self._least + len(self._table) - 1)
        if high - low >= most or high >= 2**63:
            return False
        self._reach(low, high)
        tally(labels.to_numpy(), self._least, self._table)
        return True

    def _reach(self, low: int, high: int) -> None:
        """Make room for all integers low … high."""
        end = self._least + len(self._table)
        if len(self._table) and self._least <= low and high < end:
            return
        wider = np.zeros(high - low + 1, np.uint32)
        if len(self._table):
            wider[self._least - low : end - low] = self._table
        self._least, self._table = low, wider

    def names(self) -> "pl.Series":
        import polars as pl

        return pl.Series(np.flatnonzero(self._table) + self._least)

    def nonzero(self) -> NDArray[np.int64]:
        return self._table[self._table > 0].astype(np.int64)
