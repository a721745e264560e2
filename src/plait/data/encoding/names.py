"""Names of entities and their row numbers: one `Labels` per axis, for the whole model.

Rows are the names that occur, in ascending order, so a fit does not depend on the order of a table; declared names that
do not occur follow. Where all names are declared, rows have the declared order. Arrays have the entities 0 … n−1,
unless as many names are declared.

Integers that are close together are looked up in a dense table, others by polars or, where there are many, by hash
(`hash_lookup`).
"""

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Rows
from plait.data.encoding.columns import kind, label_series, widened
from plait.data.encoding.periods import in_periods
from plait.data.sparse.parallel import by_pieces
from plait.errors import DataError, Named, TableLocation, quoted
from plait.forked import refuse_in_fork
from plait.tuning import TUNING

if TYPE_CHECKING:
    import polars as pl

    from plait.data.encoding.hash_lookup import Hashed

CONVERT = "convert one of the two columns, or read the integers as text with `text`"

# Names that an error lists before "…".
MAX_QUOTED_NAMES = 5


@dataclass(frozen=True, eq=False)
class Labels:
    """The names of an axis in row order; a sequence of Python values."""

    axis: str
    names: "pl.Series"
    parts: "tuple[Labels, Labels] | None" = None  # earlier names, whose tables are still used, and new ones

    @classmethod
    def of(cls, axis: str, names: Any) -> "Labels":
        where = TableLocation(f"entities of {axis}")
        series = label_series(names, where)
        if series.n_unique() < len(series):
            twice = series.filter(series.is_duplicated())[0]
            raise DataError(
                f"{quoted(twice)} occurs twice.",
                location=where,
                hint="Remove one of the two.",
            )
        return cls(axis, widened(series))

    @classmethod
    def count(cls, axis: str, size: int) -> "Labels":
        """The entities 0 … size−1 of an array."""
        import polars as pl

        return cls(axis, pl.Series(np.arange(size, dtype=np.int64)))

    def extended(self, new: "pl.Series") -> "Labels":
        """These names, then new ones in ascending order; `new`: distinct and of the same type."""
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
        """Rows of labels, (n,) → (n,). An unknown label is an error, or −1 with ``unknown="mark"``. `where` names the
        column in errors.
        """
        where = TableLocation.of(where or f"entities of {self.axis}")
        series = label_series(column, where)
        if len(series) == 0:
            return np.zeros(0, np.int64)
        if kind(series) != kind(self.names):
            raise DataError(
                f"the names are {kind(series)}, but the entities of axis {self.axis} are "
                f"{kind(self.names)}: {listed(self.names)}.",
                location=where,
                hint=f"Convert them to {kind(self.names)}.",
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
        if series.dtype != self.names.dtype:  # values out of range become null
            series = series.cast(self.names.dtype, strict=False)
        numbered = pl.DataFrame({"name": self.names, "row": np.arange(len(self))})
        joined = pl.DataFrame({"name": series}).join(numbered, on="name", how="left", maintain_order="left")
        return joined["row"].fill_null(-1).to_numpy()

    @cached_property
    def _near(self) -> "IntegerTable | None":
        return IntegerTable.of(self.names) if kind(self.names) == "integers" else None

    @cached_property
    def _hashed(self) -> "Hashed | None":
        from plait.data.encoding.hash_lookup import Hashed

        return Hashed.of(self.names)

    def _table(self, series: "pl.Series") -> "IntegerTable | Hashed | None":
        """Table that looks up labels of the names' kind; None where a join is used, for few labels or another type."""
        if self.parts is not None:
            return None
        if self._near is not None:
            return self._near
        # Few labels among many names use the table, too: it is made once, a join would hash all names each time.
        many = max(len(series), len(self)) >= TUNING.min_threaded_rows and series.dtype == self.names.dtype
        return self._hashed if many else None

    def write(self, series: "pl.Series", rows: AnyArray, *, where: Named) -> None:
        """Write the rows of labels, as of `label_series`, into an array; an unknown one is an error."""
        table = self._table(series) if len(series) and kind(series) == kind(self.names) else None
        if table is None or not table.write(series, rows):
            rows[:] = self.encode(series, where=where)

    def _unknown(self, series: "pl.Series", rows: Rows, where: TableLocation) -> DataError:
        strange = series.filter(rows < 0).unique(maintain_order=True)
        first = int(np.argmax(rows < 0))
        what = f"{quoted(strange[0])} is not an entity of axis {self.axis}"
        if len(strange) > 1:
            what = f"{listed(strange)} are not entities of axis {self.axis}"
        close = get_close_matches(str(strange[0]), [str(name) for name in self.names.head(10_000)], n=1)
        hint = f"Did you mean {quoted(close[0])}? " if close and kind(series) == "strings" else ""
        return DataError(
            f"{what}, which has {listed(self.names)}.",
            location=where.at(row=first),
            actual=strange[0],
            hint=f"{hint}Declare new entities with {declaring(self.axis)}, or remove the rows.",
        )


def declaring(axis: str) -> str:
    """How to declare the entities of an axis, for a hint."""
    return f"`entities={{{axis!r}: …}}`"


def listed(names: "pl.Series") -> str:
    """The first few names, for an error."""
    some = ", ".join(quoted(name) for name in names.head(MAX_QUOTED_NAMES).to_list())
    return f"{some}, …" if len(names) > MAX_QUOTED_NAMES else some or "none"


# --- building


@dataclass(frozen=True)
class AxisLabels:
    """Labels of a column of a table; `where`: which column."""

    where: TableLocation
    labels: "pl.Series"


@dataclass(frozen=True)
class Tallied:
    """Size of an array along the axis; `where`: which array."""

    where: TableLocation
    size: int


def build(
    axis: str,
    sources: Sequence[AxisLabels | Tallied],
    declared: Any = None,
    kept: Labels | None = None,
    *,
    ordered: bool = False,
) -> Labels:
    """Labels of an axis from all its sources; declared names in the user's order. `kept`: names that are numbered
    already and come first. `ordered`: whether rows are periods (`plait.data.encoding.periods`).
    """
    if kept is not None:
        return (
            _check_period_order(kept, _beside(kept, sources, declared)) if ordered else _beside(kept, sources, declared)
        )
    columns = [source for source in sources if isinstance(source, AxisLabels)]
    arrays = [source for source in sources if isinstance(source, Tallied)]
    if arrays:
        labels = _from_arrays(axis, arrays, declared)
        for column in columns:
            _check_inside(labels, column, arrays[0], declared is not None)
    else:
        labels = _from_columns(axis, columns, declared)
        if ordered and len(labels) and not (declared is not None and len(declared) == len(labels)):
            labels = Labels(axis, in_periods(axis, labels.names))
    if len(labels) == 0:
        places = ", ".join(f"{source.where}" for source in sources)
        raise DataError(
            f"axis {axis} has no entities: there are no rows in {places}.",
            hint=f"Give at least one row, or declare the entities with {declaring(axis)}.",
        )
    return labels


def _check_period_order(kept: Labels, labels: Labels) -> Labels:
    """Refuse new names of an ordered axis that are not the periods after those that are numbered already."""
    if len(labels) > len(kept) and not in_periods(labels.axis, labels.names).equals(labels.names):
        raise DataError(
            f"the packed relation lacks some of the periods of axis {labels.axis}.",
            location=TableLocation(f"entities of {labels.axis}"),
            hint=f"Pack again, with all periods in {declaring(labels.axis)}.",
        )
    return labels


def _beside(kept: Labels, sources: Sequence[AxisLabels | Tallied], declared: Any) -> Labels:
    """Names that are numbered already, followed by new ones."""
    import polars as pl

    if not sources and declared is None:
        return kept
    others = build(kept.axis, [AxisLabels(TableLocation(kept.axis), kept.names), *sources], declared).names
    return Labels(kept.axis, pl.concat([kept.names, others.filter(~others.is_in(kept.names.implode()))]))


def _from_arrays(axis: str, arrays: Sequence[Tallied], declared: Any) -> Labels:
    first = arrays[0]
    for other in arrays[1:]:
        if other.size != first.size:
            raise DataError(
                f"axis {axis} has {first.size} entities, but {other.size} in {other.where}.",
                location=first.where,
                hint="All arrays over one axis must have the same size; use a table if only some entities occur.",
            )
    if declared is None:
        return Labels.count(axis, first.size)
    labels = Labels.of(axis, declared)
    if len(labels) != first.size:
        raise DataError(
            f"{len(labels)} names are declared, but {first.where} has {first.size} entities.",
            location=TableLocation(f"entities of {axis}"),
            hint="Declare one name for each row of the array, in order.",
        )
    return labels


def _check_inside(labels: Labels, column: AxisLabels, array: Tallied, declared: bool) -> None:
    """Check that tables next to an array use the array's entities."""
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
                f"{quoted(column.labels[at])} is not a row number of the array {array.where}: axis "
                f"{labels.axis} has the rows 0…{len(labels) - 1}."
            ),
            location=column.where.at(row=at),
            hint=f"Use these integers, or declare names of the rows with {declaring(labels.axis)}.",
        )


def _from_columns(axis: str, columns: Sequence[AxisLabels], declared: Any) -> Labels:
    import polars as pl

    refuse_in_fork(f"names of {axis}")
    given = AxisLabels(
        TableLocation(f"entities of {axis}"), Labels.of(axis, declared if declared is not None else []).names
    )
    parts = [AxisLabels(part.where, distinct_names(part.labels)) for part in (given, *columns) if len(part.labels)]
    if not parts:
        return Labels(axis, given.labels)
    for part in parts:
        if kind(part.labels) != kind(parts[0].labels):
            raise DataError(
                f"the names are {kind(part.labels)}, but {kind(parts[0].labels)} in {parts[0].where}.",
                location=part.where,
                hint=f"Both are of axis {axis}: {CONVERT}.",
            )
    common = _common_type(axis, parts)
    names = given.labels.cast(common)
    seen = pl.concat([names.clear(), *(part.labels.cast(common) for part in parts if part.where != given.where)])
    seen = seen.unique().sort()
    if seen.is_in(names.implode()).all():  # an empty one is in anything
        return Labels(axis, names)
    return Labels(axis, pl.concat([seen, names.filter(~names.is_in(seen.implode()))]))


def distinct_names(labels: "pl.Series") -> "pl.Series":
    """Distinct labels in any order."""
    distinct = distinct_near(labels) if kind(labels) == "integers" else None
    # polars is as fast for numbers, dates and times
    if kind(labels) == "strings" and len(labels) >= TUNING.min_threaded_rows:
        from plait.data.encoding.hash_lookup import distinct_hashed

        distinct = distinct_hashed(labels)
    return widened(labels.unique() if distinct is None else distinct)


def _common_type(axis: str, parts: Sequence[AxisLabels]) -> Any:
    """Type that holds all labels. They are of one kind, so only int64 and uint64 can differ."""
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
                hint=f"Convert the names of {axis} to strings.",
            )
    return pl.UInt64


def _truth(text: str) -> bool:
    words = {"true": True, "false": False}
    return words[text.casefold()]


PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "integers": (int, "an integer"),
    "booleans": (_truth, "true or false"),
    "dates": (datetime.date.fromisoformat, "a date such as 2024-01-31"),
    "times of day": (datetime.time.fromisoformat, "a time such as 13:45"),
}
MOMENT = (datetime.datetime.fromisoformat, "a time such as 2024-01-31T13:45")


def read_label(labels: Labels, text: str, index: str) -> Any:
    """A name typed by a person, in the type of the axis."""
    library = kind(labels.names)
    if library == "strings":
        return text
    parse, words = PARSERS.get(library, MOMENT)
    try:
        return parse(text)
    except (ValueError, KeyError):
        shown = text if len(text) <= 80 else f"{text[:79]}…"
        what = f"{shown!r} is not {words}, but axis {labels.axis} has {library}."
        raise DataError(what, location=index) from None


def write_label(label: Any) -> str:
    """A name as a person would type it."""
    if isinstance(label, bool):
        return "true" if label else "false"
    return label.isoformat() if isinstance(label, (datetime.date, datetime.time)) else str(label)


@dataclass(frozen=True, eq=False)
class IntegerTable:
    """Rows of names from `least` on, −1 for gaps; no table where they are consecutive."""

    least: int
    length: int
    table: NDArray[np.int64] | None

    @classmethod
    def of(cls, names: "pl.Series") -> "IntegerTable | None":
        """For names in row order; None where the table would be much longer than they are."""
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
        """Write the row of each label, −1 (as the dtype has it) for an unknown one; return whether all are known."""
        ends = _ends(labels)
        inside = ends is not None and self.least <= ends[0] and ends[1] < self.least + self.length
        known = [True]

        def look_up(part: slice) -> None:
            numbers = self._rows_in_table(labels[part].to_numpy(), inside)
            rows[part] = numbers
            if not (inside and self.table is None) and numbers.min() < 0:
                known[0] = False

        by_pieces(look_up, len(labels))
        return known[0]

    def _rows_in_table(self, numbers: AnyArray, inside: bool) -> NDArray[np.int64]:
        offsets = _offsets(numbers, self.least)
        if not inside:  # distant labels may have wrapped around
            near = (numbers >= self.least) & (numbers < self.least + self.length)
            return np.where(near, self._looked_up(np.where(near, offsets, 0)), -1)
        return self._looked_up(offsets)

    def _looked_up(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        return offsets if self.table is None else self.table.take(offsets)


def distinct_near(labels: "pl.Series") -> "pl.Series | None":
    """Distinct integers; None where a table would be much longer than the labels."""
    import polars as pl

    ends = _ends(labels)
    if ends is None or not _is_short(ends, len(labels)):
        return None
    least = ends[0]
    seen = np.zeros(ends[1] - least + 1, bool)

    def mark(rows: slice) -> None:  # a column in several chunks would be copied to NumPy
        seen[_offsets(labels[rows].to_numpy(), least)] = True

    by_pieces(mark, len(labels))
    if ends[1] < 2**63:
        return pl.Series(np.flatnonzero(seen) + least)
    return pl.Series(np.flatnonzero(seen).astype(np.uint64) + np.uint64(least))


def _ends(labels: "pl.Series") -> tuple[int, int] | None:
    """Smallest and largest integer; None without labels."""
    return None if len(labels) == 0 else (cast(int, labels.min()), cast(int, labels.max()))


def _is_short(ends: tuple[int, int], count: int) -> bool:
    """Whether a table of all integers between the ends is not much longer than the labels."""
    return ends[1] - ends[0] < max(4 * count, 1 << 12)


def _offsets(numbers: AnyArray, least: int) -> NDArray[np.int64]:
    """numbers − least, modulo 2^64."""
    start = np.array(least % 2**64, np.uint64).astype(np.int64)
    return numbers.astype(np.int64, copy=False) - start if start else numbers.astype(np.int64, copy=False)
