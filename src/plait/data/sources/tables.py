"""Tables of any library as columns of labels and numbers, with errors that name table, column and row."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeGuard, cast

import numpy as np

from plait._typing import Array
from plait.data.encoding.columns import as_doubles, label_series, number_array, number_series
from plait.errors import DataError, Location, Named, TableLocation, quoted, suggestion
from plait.forked import refuse_in_fork

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
    import polars as pl
    from narwhals.stable.v2.typing import IntoDataFrame


class Scanned(Protocol):
    """A table in files or behind a query."""

    is_scan: ClassVar[bool]

    @property
    def columns(self) -> Sequence[str]: ...

    @property
    def stays(self) -> bool:
        """Whether a second read is cheap and gives the same rows."""
        ...

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pl.DataFrame | None"]:
        """Columns in batches of about `rows` rows; None where reading starts again because a column has
        another type.
        """
        ...

    def read(self) -> "pl.DataFrame": ...

    def located(self, place: TableLocation) -> Location:
        """A place of the table in its files."""
        ...


def is_scan(data: Any) -> TypeGuard[Scanned]:
    return getattr(type(data), "is_scan", False) is True


POLARS = "polars"
KINDS = (POLARS, "pandas", "pyarrow", "modin.pandas", "cudf")  # libraries of tables in which answers are returned


@dataclass(frozen=True, eq=False)
class TableSource:
    """A table as read: labels (n,) by index, values (n,), weights (n,) or None.

    `numbers`: the column of values in its own dtype, which takes less memory. `entities`: by index those observed even
    without a row. `kind`: library of the table.
    """

    name: str
    columns: Mapping[str, str]
    labels: Mapping[str, "pl.Series"]
    numbers: "Array | pl.Series"
    weights: Array | None
    rows: int
    value_column: str = "value"
    weight_column: str = "weight"
    spec: str = "Relation"
    entities: Mapping[str, "pl.Series"] = field(default_factory=dict)
    kind: str = POLARS

    @cached_property
    def values(self) -> Array:
        return self.values_in(slice(None))

    def values_in(self, rows: slice) -> Array:
        """Values of some rows."""
        some = self.numbers[rows]
        return some if isinstance(some, np.ndarray) else as_doubles(some)


def is_table(data: Any) -> bool:
    """Whether narwhals reads this as a dataframe."""
    import narwhals.stable.v2 as nw

    return is_scan(data) or isinstance(_native(data, f"the {type(data).__name__}"), (nw.DataFrame, nw.LazyFrame))


def frame_of(data: Any, name: Named) -> "nw.DataFrame[Any]":
    """The table as a narwhals frame; a lazy one is collected."""
    import narwhals.stable.v2 as nw

    refuse_in_fork(f"{TableLocation.of(name).name}, a table")
    frame = _native(data.read() if is_scan(data) else data, name)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    if not isinstance(frame, nw.DataFrame):
        raise DataError(
            f"expected a table, got {type(data).__name__}.",
            location=TableLocation.of(name),
            hint="Give a pandas, polars or pyarrow table.",
        )
    return frame


def kind_of(data: Any, default: str = POLARS) -> str:
    """Library of a user's table, one of KINDS; the default for other data."""
    import narwhals.stable.v2 as nw

    if is_scan(data) or not is_table(data):
        return default
    kind = nw.get_native_namespace(_native(data, "table")).__name__
    return kind if kind in KINDS else default


def as_kind(table: "pl.DataFrame", kind: str) -> "IntoDataFrame":
    """The table in another library, one of KINDS; polars where that is not installed. All tables of answers pass
    through here.
    """
    import narwhals.stable.v2 as nw
    import polars as pl

    if kind not in KINDS or kind == POLARS:
        return table
    try:
        backend = import_module(kind)
    except ImportError:
        return table
    if kind == "pyarrow":
        return cast("IntoDataFrame", table.to_arrow())

    def values(column: pl.Series) -> Any:
        # Types that NumPy lacks, and times with a zone, are converted one by one.
        plain = column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Duration)
        zoned = isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None
        moments = isinstance(column.dtype, pl.Datetime) and not zoned
        return column.to_numpy() if plain or moments else column.to_list()

    native = nw.from_dict({column.name: values(column) for column in table}, backend=backend).to_native()
    return cast("IntoDataFrame", native)


def _native(data: Any, name: Named) -> Any:
    import narwhals.stable.v2 as nw

    try:
        return nw.from_native(data, pass_through=True)
    except nw.exceptions.NarwhalsError as error:  # pandas allows duplicate column names
        raise DataError(f"the table cannot be read: {error}", location=TableLocation.of(name)) from error


def column_names(data: Any, name: Named = "table") -> list[Any]:
    """Column names of a table; a lazy one is not collected."""
    import narwhals.stable.v2 as nw

    if is_scan(data):
        return list(data.columns)
    frame = _native(data, name)
    return frame.collect_schema().names() if isinstance(frame, nw.LazyFrame) else list(frame.columns)


def read_table(
    data: Any,
    name: Named,
    indices: Sequence[str],
    columns: Mapping[str, str],
    value: str | None = None,
    weight: str | None = None,
    spec: str = "Relation",
    ignore: Sequence[str] = (),
    strip: bool = False,
) -> TableSource:
    """Read index, value and weight columns; without a value column every row is a 1. `spec`: class named in hints.

    `ignore`: columns to leave out. `strip`: whether blanks around names are removed.
    """
    frame = frame_of(data, name)
    named, value = used_columns(frame.columns, name, indices, columns, value, weight, spec, ignore)
    labels = {index: _names(frame, column, name, strip) for index, column in named.items()}
    place = TableLocation.of(name)
    values = None if value is None else number_series(frame.get_column(value), place.at(value))
    weights = None if weight is None else number_array(frame.get_column(weight), place.at(weight))
    return TableSource(
        place.name,
        named,
        labels,
        np.broadcast_to(1.0, len(frame)) if values is None else values,
        weights,
        len(frame),
        value or "value",
        weight or "weight",
        spec,
        kind=kind_of(frame),
    )


def used_columns(
    there: Sequence[Any],
    name: Named,
    indices: Sequence[str],
    columns: Mapping[str, str],
    value: str | None,
    weight: str | None,
    spec: str,
    ignore: Sequence[str],
) -> tuple[dict[str, str], str | None]:
    """Index → column, and the column of values if any; refuses surplus columns."""
    named = {index: columns.get(index, index) for index in indices}
    check_ignored(there, ignore, [*named.values(), value, weight], name)
    left = [column for column in there if column not in ignore]
    if value is None and "value" in left and "value" not in (weight, *named.values()):
        value = "value"
    check_columns(left, named, {"value": value, "weight": weight}, name, spec)
    return named, value


def _names(frame: "nw.DataFrame[Any]", column: str, name: Named, strip: bool) -> "pl.Series":
    """A column of labels."""
    return named_labels(frame.get_column(column), TableLocation.of(name).at(column), strip)


def named_labels(column: Any, where: Named, strip: bool) -> "pl.Series":
    """A column of labels; `strip`: whether blanks around names are removed."""
    import polars as pl

    labels = label_series(column, where)
    return labels.str.strip_chars() if strip and labels.dtype == pl.String else labels


IGNORE = "`ignore_columns`"


def check_ignored(columns: Sequence[Any], ignore: Sequence[str], used: Sequence[str | None], name: Named) -> None:
    """Refuse to ignore columns that do not exist or are used."""
    for column in ignore:
        if column not in columns:
            have = ", ".join(map(quoted, columns))
            raise DataError(
                f"{IGNORE}: the table has no column {quoted(column)}, only {have}.",
                location=TableLocation.of(name),
                actual=column,
                hint=f"{suggestion(column, columns)}Remove it.",
            )
        if column in used:
            raise DataError(
                f"column {quoted(column)} is both used and in {IGNORE}.",
                location=TableLocation.of(name),
                hint="Remove one of the two.",
            )


def read_missing(
    data: Any,
    name: Named,
    indices: Sequence[str],
    columns: Mapping[str, str],
    strip: bool = False,
    values: Collection[str | None] = (),
) -> dict[str, "pl.Series"]:
    """Labels of hidden cells by index: a table over some of the indices, under the relation's column
    names or its own.

    values: columns that are not read.
    """
    frame = frame_of(data, name)
    named: dict[str, str] = {}
    for index in indices:
        for column in (columns.get(index, index), index):
            if column in frame.columns and column not in named.values():
                named[index] = column
                break
    surplus = [column for column in frame.columns if column not in named.values() and column not in values]
    if surplus:
        own = [columns.get(index, index) for index in indices]
        near = suggestion(surplus[0], [column for column in own if column not in named.values()])
        raise DataError(
            f"{_columns(surplus)} not part of the relation.",
            location=TableLocation.of(name),
            hint=f"{near}Remove all columns but {', '.join(map(quoted, own))}.",
        )
    if not named:
        raise DataError(
            "the table has no columns.",
            location=TableLocation.of(name),
            hint="Give one or more indices of the relation as columns.",
        )
    return {index: _names(frame, column, name, strip) for index, column in named.items()}


def check_columns(
    columns: Sequence[Any], named: Mapping[str, str], numbers: Mapping[str, str | None], name: Named, spec: str
) -> None:
    """Refuse missing and surplus columns; `named`: index → column, `numbers`: option → column if given."""
    given = {option: column for option, column in numbers.items() if column is not None}
    wanted = [*named.values(), *given.values()]
    for column in wanted:
        if wanted.count(column) > 1:
            raise DataError(
                f"column {quoted(column)} is used twice.",
                location=TableLocation.of(name),
                hint="Use a different column for each index.",
            )
    surplus = [column for column in columns if column not in wanted]
    hints = {column: f"Choose the column with `columns={{{i!r}: …}}` of the relation." for i, column in named.items()}
    hints |= {column: f"Set `{option}` to a column of the table." for option, column in given.items()}
    headless = ""
    if len(columns) >= len(named) and not any(column in columns or suggestion(column, columns) for column in wanted):
        headless = (
            f" If the file has no header, read it with `columns={[*named, *('…' for _ in columns[len(named) :])]}`."
        )
    for column in wanted:
        if column not in columns:
            have = ", ".join(map(quoted, columns)) or "none"
            raise DataError(
                f"there is no column {quoted(column)}; the table has {have}.",
                location=TableLocation.of(name),
                hint=f"{suggestion(column, surplus)}{hints[column]}{headless}",
            )
    if surplus:
        also = "" if "value" in given else f", or use {quoted(surplus[0])} as the value: `value={surplus[0]!r}`"
        raise DataError(
            f"{_columns(surplus)} not used; expected {', '.join(map(quoted, wanted)) or 'none'}.",
            location=TableLocation.of(name),
            hint=f"{_without(surplus, spec)}{also}.",
        )


def _without(columns: Sequence[Any], spec: str) -> str:
    """How to leave out unused columns; `spec`: class with the option."""
    return (
        f"Ignore further columns with `ignore_columns={list(columns)!r}`"
        if spec == "Relation"
        else "Remove the further columns"
    )


def _columns(names: Sequence[Any]) -> str:
    shown = ", ".join(map(quoted, names))
    return f"column {shown} is" if len(names) == 1 else f"columns {shown} are"
