"""Titles of entities, shown next to their names: one `Titles` per axis, from the tables or mappings of `titles=`."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.data.encoding.columns import kind, label_series, to_polars
from plait.data.encoding.names import Labels, listed
from plait.data.sources.tables import frame_of
from plait.errors import DataError, ParameterError, TableLocation, quoted, suggestion
from plait.forked import refuse_in_fork
from plait.model import Model

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Titles(Mapping[Any, str]):
    """Titles of an axis, a mapping from the names that have one; `column`: by row, null without a title."""

    labels: Labels
    column: "pl.Series"

    def of(self, names: Any) -> "pl.Series":
        """Titles of a column of names, (n,) → (n,); null for names without one or unknown names."""
        rows = self.labels.encode(names, unknown="mark")
        return self.column.gather(gaps(rows))

    def along(self, labels: Labels) -> "Titles":
        """Titles of an axis with new names appended, which have none."""
        return Titles(labels, self.column.extend_constant(None, len(labels) - len(self.column)))

    def replaced(self, other: "Titles", named: Any) -> "Titles":
        """These titles, with those of `other` where `named`, (n_rows,)."""
        import polars as pl

        return Titles(self.labels, other.column.zip_with(pl.Series(named), self.column))

    @cached_property
    def mark(self) -> str:
        """Fingerprint, by which equal files are not written again."""
        content = self.column.alias("title").to_frame().write_ipc(None).getvalue()
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def __getitem__(self, name: Any) -> str:
        try:
            title = self.of([name])[0]
        except DataError:  # a name of another kind
            title = None
        if title is None:
            raise KeyError(name)
        return str(title)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels.names.filter(self.column.is_not_null()).to_list())

    def __len__(self) -> int:
        return len(self.column) - self.column.null_count()

    def __repr__(self) -> str:
        return f"Titles({self.labels.axis!r}, {len(self):,} of {len(self.column):,})"


def gaps(rows: Any) -> "pl.Series":
    """Row numbers (n,) with null for −1, to gather by."""
    import polars as pl

    return pl.Series(rows).set(pl.Series(np.asarray(rows) < 0), None)


def extended_titles(titles: Mapping[str, Titles], labels: Mapping[str, Labels]) -> dict[str, Titles]:
    """Titles by axis and index for axes with new names appended."""
    return {index: own.along(labels[index]) for index, own in titles.items()}


TITLE_COLUMNS = ("title", "name")  # the first that exists
TEXT = "Convert the ids to text, read them as text with `text`"


def bind_titles(
    model: Model, labels: Mapping[str, Labels], given: Any, earlier: Mapping[str, Titles] | None = None
) -> dict[str, Titles]:
    """Titles by axis and by index; `earlier` ones stay where none are given. Unknown ids are ignored.

    `given`: by axis a table with a column of ids, named as the axis or the first, and one of titles; or {id: title}.
    """
    titles = {axis: own for axis, own in (earlier or {}).items() if axis in model.axes}
    for axis, (index, table) in _by_axis(model, given).items():
        called = tuple(dict.fromkeys((index, axis, *(i for i in model.visible if model.axis(i) == axis))))
        own, named = _aligned(labels[axis], table, called)
        titles[axis] = titles[axis].replaced(own, named) if axis in titles else own
    return titles | {i: titles[model.axis(i)] for i in model.visible if model.axis(i) in titles}


def _by_axis(model: Model, given: Any) -> dict[str, tuple[str, Any]]:
    """The given titles, with the index that names them."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError.must_be("titles", "a dict of tables by axis", given)
    titles: dict[str, tuple[str, Any]] = {}
    for index, table in given.items():
        if index not in model.visible and index not in model.axes:
            raise ParameterError(
                f"`titles`: {quoted(index)} is not an axis of the model.",
                actual=index,
                hint=f"{suggestion(index, model.axes)}The axes are {', '.join(model.axes) or 'none'}.",
            )
        axis = index if index in model.axes else model.axis(index)
        if axis in titles:
            raise ParameterError(
                f"`titles`: {index} and {titles[axis][0]} are the same axis.",
                hint="Remove one of the two.",
            )
        titles[axis] = (index, table)
    return titles


def _aligned(labels: Labels, given: Any, called: Sequence[str]) -> tuple[Titles, Any]:
    """Titles by row, and which rows were named; `called`: possible names of the column of ids."""
    where = place_of(called[0])
    ids, titles, columns = _columns(given, called, where)
    rows = _rows(labels, ids, where.at(columns[0]))
    known = np.flatnonzero(rows >= 0)
    at = np.full(len(labels), -1, np.int64)
    at[rows[known]] = known
    differs = titles.gather(known).ne_missing(titles.gather(at[rows[known]]))
    if differs.any():
        first = int(known[int(differs.arg_max() or 0)])
        second = int(at[rows[first]])
        raise DataError(
            f"{quoted(ids[first])} has two titles, {_write_title(titles[first])} and {_write_title(titles[second])}.",
            location=replace(where.at(columns[0]), rows=(first, second)),
            hint="Remove one of the rows.",
        )
    return Titles(labels, titles.gather(gaps(at)).alias("title")), at >= 0


def place_of(axis: str) -> TableLocation:
    """Location of the titles of an axis, in errors."""
    return TableLocation(f"titles of {axis}")


def _write_title(title: str | None) -> str:
    return "none" if title is None else quoted(title)


def _columns(
    given: Any, called: Sequence[str], where: TableLocation
) -> tuple["pl.Series", "pl.Series", tuple[Any, Any]]:
    """Ids and titles of equal length, and the names of their columns, if any."""
    import polars as pl

    refuse_in_fork(f"{where.name}, a table")
    if isinstance(given, Mapping) and not (given and all(map(_is_column, given.values()))):
        ids, titles = label_series(list(given), where), to_polars(list(given.values()), where)
        return ids, _text(titles, where), (None, None)
    if isinstance(given, Mapping):
        try:
            given = pl.DataFrame(dict(given))
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            hint = f"Give a list of ids and one of titles, or {{{called[0]}: title, …}}."
            raise DataError(f"the dict is not a table: {error}.", location=where, hint=hint) from None
    frame = frame_of(given, where)
    id_column, title_column = choose_columns(frame.columns, called, where)
    ids = label_series(frame.get_column(id_column), where.at(id_column))
    titles = to_polars(frame.get_column(title_column), where.at(title_column))
    return ids, _text(titles, where.at(title_column)), (id_column, title_column)


def _is_column(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, (str, bytes))


def choose_columns(
    columns: Sequence[Any], called: Sequence[str], where: TableLocation, id: str | None = None, title: str | None = None
) -> tuple[Any, Any]:
    """Columns of ids and titles; `id`, `title`: chosen by the caller."""
    for column in (id, title):
        if column is not None and column not in columns:
            have = ", ".join(map(quoted, columns)) or "none"
            raise DataError(
                f"there is no column {quoted(column)}; the table has {have}.",
                location=where,
                actual=column,
                hint=f"{suggestion(column, columns)}Choose one of these columns.",
            )
    free = [column for column in columns if column != title]
    ids = id if id is not None else next((c for c in called if c in free), free[0] if free else None)
    others = [column for column in columns if column != ids]
    if title is None:
        title = next((word for word in TITLE_COLUMNS if word in others), others[0] if len(others) == 1 else None)
    if title is None or ids is None:
        have = ", ".join(map(quoted, columns)) or "none"
        raise DataError(
            f"the column of titles is unknown; the table has {have}.",
            location=where,
            hint=f"{_saying(called[0])}.",
        )
    return ids, title


def _saying(axis: str) -> str:
    """How to choose the columns, for a hint."""
    return f"Give a table with the columns {axis} and title, or set its columns with `id` and `title`"


def _text(titles: "pl.Series", where: TableLocation) -> "pl.Series":
    """Titles as text; empty ones are null."""
    import polars as pl

    if titles.dtype in (pl.Categorical, pl.Enum):
        titles = titles.cast(pl.String)
    if titles.dtype == pl.Null:
        return titles.cast(pl.String)
    if titles.dtype != pl.String:
        row = int(titles.is_not_null().arg_max() or 0)
        raise DataError(
            f"titles must be text, got {quoted(titles[row])}."
            if len(titles)
            else f"titles must be text, got {titles.dtype}.",
            location=where.at(row=row) if len(titles) else where,
            hint="Choose another column, or convert it to text.",
        )
    return titles.set(titles == "", None)


def _rows(labels: Labels, ids: "pl.Series", where: TableLocation) -> Any:
    """Rows of ids, −1 for unknown ones; refuses ids of which none is known."""
    if len(ids) and kind(ids) != kind(labels.names):
        convert = TEXT if kind(labels.names) == "strings" else f"Convert them to {kind(labels.names)}"
        raise DataError(
            f"the ids are {kind(ids)}, such as {quoted(ids[0])}, but axis {labels.axis} has {kind(labels.names)}, "
            f"such as {quoted(labels.names[0])}.",
            location=where,
            actual=ids[0],
            hint=f"{convert}, or choose another column of ids.",
        )
    rows = labels.encode(ids, where=where, unknown="mark")
    if not (rows >= 0).any():
        raise DataError(
            f"no id is an entity of axis {labels.axis}, which has {listed(labels.names)}; the ids are {listed(ids)}.",
            location=where,
            hint="Choose the column of ids with `id`, or give titles of these entities.",
        )
    return rows
