"""Outside names <-> row numbers: one Labels per axis, for the whole model.

Rows are the names that occur, in ascending order, so a fit does not depend on the order of a table; declared names that
do not occur come after them. Where all names are declared, rows have the declared order. Arrays have the entities
0 … n−1, unless declared names of exactly that number name them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from plait.data.cells.ranges import MANY
from plait.data.labels.columns import kind, label_series, widened
from plait.data.labels.near import Near, distinct_near
from plait.errors import DataError, Named, TableLocation, quoted
from plait.forked import refuse_in_fork
from plait.types import AnyArray, Rows

if TYPE_CHECKING:
    import polars as pl

    from plait.data.labels.hashed import Hashed


CONVERT = "convert one of the two, or read the integers as text (`text`)"

# How many names an error lists before it says "…".
MOST_NAMES = 5


@dataclass(frozen=True, eq=False)
class Labels:
    """The names of an axis in row order; a sequence of Python values."""

    axis: str
    names: "pl.Series"
    parts: "tuple[Labels, Labels] | None" = None  # those there were, whose tables can still be used, and new ones

    @classmethod
    def of(cls, axis: str, names: Any) -> "Labels":
        """Labels of these names, in this order."""
        where = TableLocation(f"labels of {axis}")
        series = label_series(names, where)
        if series.n_unique() < len(series):
            twice = series.filter(series.is_duplicated())[0]
            raise DataError(
                f"{quoted(twice)} is there twice.",
                location=where,
                hint="An entity has one name; remove one.",
            )
        return cls(axis, widened(series))

    @classmethod
    def count(cls, axis: str, size: int) -> "Labels":
        """The entities 0 … size−1 of an array."""
        import polars as pl

        return cls(axis, pl.Series(np.arange(size, dtype=np.int64)))

    def grown(self, new: "pl.Series") -> "Labels":
        """These names and new ones behind them, in ascending order; new: distinct and of the same type."""
        import polars as pl

        if not len(new):
            return self
        first, more = (self, None) if self.parts is None else self.parts
        behind = new.sort() if more is None else pl.concat([more.names, new.sort()])
        names = pl.concat([first.names, behind])
        if 2 * len(behind) > len(first):
            return Labels(self.axis, names)
        return Labels(self.axis, names, (first, Labels(self.axis, behind)))

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.names.to_list())

    def __getitem__(self, row: int | slice) -> Any:
        return self.names[row].to_list() if isinstance(row, slice) else self.names[int(row)]

    def __contains__(self, label: object) -> bool:
        try:
            return bool(self.encode([label], unknown="mark")[0] >= 0)
        except DataError:  # a label of another kind, or none at all
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and self.axis == other.axis and self.names.equals(other.names)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Labels({self.axis!r}, {len(self)} {kind(self.names)}: {listed(self.names)})"

    def encode(self, column: Any, *, where: Named = "", unknown: Literal["error", "mark"] = "error") -> Rows:
        """The rows of labels; column (n,) -> (n,). An unknown label is an error, or −1 if ``unknown="mark"``.

        ``where`` names the column in errors.
        """
        where = TableLocation.of(where or f"labels of {self.axis}")
        series = label_series(column, where)
        if len(series) == 0:
            return np.zeros(0, np.int64)
        if kind(series) != kind(self.names):
            raise DataError(
                f"the labels are {kind(series)}, but axis {self.axis} has {kind(self.names)}: {listed(self.names)}.",
                location=where,
                hint=f"Convert the column to {kind(self.names)}.",
            )
        rows = self._rows(series)
        if unknown == "error" and (rows < 0).any():
            raise self._unknown(series, rows, where)
        return rows

    def row(self, label: Any) -> int:
        """The row of one label."""
        return int(self.encode([label])[0])

    def _rows(self, series: "pl.Series") -> Rows:
        import polars as pl

        if self.parts is not None:
            first, more = (part._rows(series) for part in self.parts)
            return np.where(first >= 0, first, np.where(more >= 0, more + len(self.parts[0]), -1))
        if self._near is None:
            refuse_in_fork(f"names of {self.axis}")
        if (table := self._table(series)) is not None:
            rows = np.empty(len(series), np.int64)
            table.write(series, rows)
            return rows
        if series.dtype != self.names.dtype:  # what does not fit becomes null, which is no name
            series = series.cast(self.names.dtype, strict=False)
        numbered = pl.DataFrame({"name": self.names, "row": np.arange(len(self))})
        found = pl.DataFrame({"name": series}).join(numbered, on="name", how="left", maintain_order="left")
        return found["row"].fill_null(-1).to_numpy()

    @cached_property
    def _near(self) -> Near | None:
        return Near.of(self.names) if kind(self.names) == "integers" else None

    @cached_property
    def _hashed(self) -> "Hashed | None":
        from plait.data.labels.hashed import Hashed

        return Hashed.of(self.names)

    def _table(self, series: "pl.Series") -> "Near | Hashed | None":
        """What looks labels of the names' kind up; None where joining tables does, for a few or for another type."""
        if self.parts is not None:
            return None
        if self._near is not None:
            return self._near
        # A few are looked up among many in a table, too: it is made once, and joining would make one each time.
        many = max(len(series), len(self)) >= MANY and series.dtype == self.names.dtype
        return self._hashed if many else None

    def write(self, series: "pl.Series", rows: AnyArray, *, where: Named) -> None:
        """Write the rows of labels, as `label_series` gives them, into an array; an unknown one is an error."""
        table = self._table(series) if len(series) and kind(series) == kind(self.names) else None
        if table is None or not table.write(series, rows):
            rows[:] = self.encode(series, where=where)

    def _unknown(self, series: "pl.Series", rows: Rows, where: TableLocation) -> DataError:
        strange = series.filter(rows < 0).unique(maintain_order=True)
        first = int(np.argmax(rows < 0))
        what = f"{quoted(strange[0])} is no entity of axis {self.axis}"
        if len(strange) > 1:
            what = f"{listed(strange)} are no entities of axis {self.axis}"
        close = get_close_matches(str(strange[0]), [str(name) for name in self.names.head(10_000)], n=1)
        hint = f"Did you mean {quoted(close[0])}? " if close and kind(series) == "strings" else ""
        return DataError(
            f"{what}, which has {listed(self.names)}.",
            location=where.at(row=first),
            actual=strange[0],
            hint=f"{hint}Declare further entities with {declaring(self.axis)}, or remove the rows.",
        )


def declaring(axis: str) -> str:
    """How the entities of an axis are declared, for a hint."""
    return f"`labels={{{axis!r}: …}}`"


def listed(names: "pl.Series") -> str:
    """The first few names, for an error."""
    some = ", ".join(quoted(name) for name in names.head(MOST_NAMES).to_list())
    return f"{some}, …" if len(names) > MOST_NAMES else some or "none"


# --- building


@dataclass(frozen=True)
class Seen:
    """Labels that a column of a table mentions; where says which column."""

    where: TableLocation
    labels: "pl.Series"


@dataclass(frozen=True)
class Tallied:
    """The size of an array along the axis; where says which array."""

    where: TableLocation
    size: int


def build(axis: str, sources: Sequence[Seen | Tallied], declared: Any = None, kept: Labels | None = None) -> Labels:
    """The labels of an axis from all that mentions it; sources as read, declared names in the user's order.

    kept: names whose rows are numbered already; others come after them.
    """
    if kept is not None:
        return _beside(kept, sources, declared)
    columns = [source for source in sources if isinstance(source, Seen)]
    arrays = [source for source in sources if isinstance(source, Tallied)]
    if arrays:
        labels = _from_arrays(axis, arrays, declared)
        for column in columns:
            _check_inside(labels, column, arrays[0], declared is not None)
    else:
        labels = _from_columns(axis, columns, declared)
    if len(labels) == 0:
        places = ", ".join(f"{source.where}" for source in sources)
        raise DataError(
            f"axis {axis} has no entity: there is nothing in {places}.",
            hint=f"Give at least one row, or declare the entities with {declaring(axis)}.",
        )
    return labels


def _beside(kept: Labels, sources: Sequence[Seen | Tallied], declared: Any) -> Labels:
    """Names whose rows are numbered already, and after them those that are not among them."""
    import polars as pl

    if not sources and declared is None:
        return kept
    others = build(kept.axis, [Seen(TableLocation(kept.axis), kept.names), *sources], declared).names
    return Labels(kept.axis, pl.concat([kept.names, others.filter(~others.is_in(kept.names.implode()))]))


def _from_arrays(axis: str, arrays: Sequence[Tallied], declared: Any) -> Labels:
    first = arrays[0]
    for other in arrays[1:]:
        if other.size != first.size:
            raise DataError(
                f"axis {axis} has {first.size} entities, but {other.size} in {other.where}.",
                location=first.where,
                hint="Arrays over one axis have equal sizes; give a table where only some entities occur.",
            )
    if declared is None:
        return Labels.count(axis, first.size)
    labels = Labels.of(axis, declared)
    if len(labels) != first.size:
        raise DataError(
            f"{len(labels)} names are declared, but {first.where} has {first.size} entities.",
            location=TableLocation(f"labels of {axis}"),
            hint="Declare one name for each row of the array, in order.",
        )
    return labels


def _check_inside(labels: Labels, column: Seen, array: Tallied, declared: bool) -> None:
    """A table beside an array uses the array's entities."""
    if len(column.labels) == 0:
        return
    if declared:
        labels.encode(column.labels, where=column.where)
        return
    inside = kind(column.labels) == "integers"
    rows = labels.encode(column.labels, where=column.where, unknown="mark") if inside else np.array([-1])
    if (rows < 0).any():
        at = int(np.argmax(rows < 0))
        raise DataError(
            (
                f"{quoted(column.labels[at])} is no row of an array, but {array.where} is one: axis {labels.axis} "
                f"is 0…{len(labels) - 1}."
            ),
            location=column.where.at(row=at),
            hint=f"Use these integers, or name the array's rows with {declaring(labels.axis)}.",
        )


def _from_columns(axis: str, columns: Sequence[Seen], declared: Any) -> Labels:
    import polars as pl

    refuse_in_fork(f"names of {axis}")
    given = Seen(TableLocation(f"labels of {axis}"), Labels.of(axis, declared if declared is not None else []).names)
    parts = [Seen(part.where, distinct_names(part.labels)) for part in (given, *columns) if len(part.labels)]
    if not parts:
        return Labels(axis, given.labels)
    for part in parts:
        if kind(part.labels) != kind(parts[0].labels):
            raise DataError(
                f"the labels are {kind(part.labels)}, but {kind(parts[0].labels)} in {parts[0].where}.",
                location=part.where,
                hint=f"Both are axis {axis}: {CONVERT}.",
            )
    common = _common_type(axis, parts)
    names = given.labels.cast(common)
    seen = pl.concat([names.clear(), *(part.labels.cast(common) for part in parts if part.where != given.where)])
    seen = seen.unique().sort()
    if seen.is_in(names.implode()).all():  # an empty one is in anything
        return Labels(axis, names)
    return Labels(axis, pl.concat([seen, names.filter(~names.is_in(seen.implode()))]))


def distinct_names(labels: "pl.Series") -> "pl.Series":
    """The labels that occur, each once and in any order."""
    found = distinct_near(labels) if kind(labels) == "integers" else None
    if kind(labels) == "strings" and len(labels) >= MANY:  # of numbers, dates and times polars is as fast
        from plait.data.labels.hashed import distinct_hashed

        found = distinct_hashed(labels)
    return widened(labels.unique() if found is None else found)


def _common_type(axis: str, parts: Sequence[Seen]) -> Any:
    """The type that holds all labels. They are of one kind, so only int64 and uint64 can differ."""
    import polars as pl

    types = {part.labels.dtype for part in parts}
    if len(types) == 1:
        return types.pop()
    for part in parts:
        smallest = part.labels.min()
        if isinstance(smallest, int) and smallest < 0:
            raise DataError(
                f"{smallest} and integers beyond 2^63 elsewhere on axis {axis} have no common type.",
                location=part.where,
                hint=f"Convert the labels of {axis} to strings.",
            )
    return pl.UInt64
