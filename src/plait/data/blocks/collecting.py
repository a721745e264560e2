"""Which names occur in a column, found batch by batch; of integers also how often."""

from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from plait.data.blocks.loops import tally
from plait.data.labels.columns import kind, widened
from plait.errors import DataError
from plait.saying import Place

if TYPE_CHECKING:
    import polars as pl

SHORT = 1 << 16  # integers in a table of counts, however few rows there are
SLACK = 4  # more of them for each row


class Collected:
    """The names of one column so far.

    Integers that lie close together are counted in a table. Other names are collected and made distinct whenever they
    have become twice as many.
    """

    def __init__(self, where: Place) -> None:
        self.where = where
        self.rows = 0
        self._near: _Counts | None = None
        self._parts: list[pl.Series] = []
        self._held, self._known = 0, 0

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
        if self._kind == "integers" and self._held == 0:
            self._near = self._near or _Counts()
            self.rows += len(labels)
            if self._near.add(labels, max(SHORT, SLACK * self.rows)):
                return
            self._keep(self._near.names())
            self._near = None
        else:
            self.rows += len(labels)
        self._keep(_distinct(labels))

    def _keep(self, names: "pl.Series") -> None:
        self._parts.append(names)
        self._held += len(names)
        if self._held > 2 * self._known + 1_000_000:
            self._merge()

    def _merge(self) -> None:
        import polars as pl

        if len({part.dtype for part in self._parts}) > 1:  # int64 and uint64
            self._parts = [pl.concat([widened(part) for part in self._parts], how="vertical_relaxed")]
        self._parts = [pl.concat(self._parts).unique()]
        self._held = self._known = len(self._parts[0])

    @property
    def names(self) -> "pl.Series":
        """All names, each once and in any order."""
        import polars as pl

        if self._near is not None:
            return self._near.names()
        if not self._parts:
            return pl.Series(dtype=pl.Null)
        self._merge()
        return self._parts[0]

    @property
    def counts(self) -> "tuple[pl.Series, NDArray[np.int64]] | None":
        """All names and how often each occurs, where that is known."""
        return None if self._near is None else (self._near.names(), self._near.nonzero())


def _distinct(labels: "pl.Series") -> "pl.Series":
    from plait.data.labels.names import distinct_names

    return distinct_names(labels)


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
