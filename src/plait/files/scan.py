"""`plait.scan`: a table in files or behind a query, which is read in batches on use.

Parquet is read again where it is needed twice. Text is slow to parse, and a query may give other rows the second time,
so their consumers copy the first pass (`stays`).
"""

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from plait.errors import DataError, FileLocation, ParameterError, TableLocation
from plait.files.csv_dialect import Holds, TextLayout, layout_of
from plait.files.csv_faults import line_of_row, ragged, skip_bad_rows, unread
from plait.files.read import read
from plait.files.source_kinds import ARROW, PARQUET, TEXT, check_options, existing_file, format_of, source_name
from plait.files.tabular import damaged, lost_in, plan_of, read_arrow, read_parquet, stripped, widen

if TYPE_CHECKING:
    import polars as pl


def scan(
    source: Any,
    *,
    connection: Any = None,
    kind: str | None = None,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    value: str | Sequence[str] | None = None,
    text: Sequence[str] | None = None,
    quoted: bool | None = None,
    strip: bool | None = None,
    escape_formulas: bool | None = None,
    table: str | None = None,
    null_values: str | Sequence[str] | None = None,
    on_bad_rows: Literal["error", "skip"] | None = None,
) -> "Scan":
    """Describe a table in files or behind a query without reading it.

    Parameters
    ----------
    source : path, list of paths or str
        Files, in which ``*``, ``?`` and ``[…]`` match several: ``"logs/*.parquet"``. With
        ``connection``: the query.
    connection : URL or connection, default None
        A database, such as ``sqlite:///file.db``, or an open ADBC or DB-API connection.
    kind : str, default None
        Format of the files, as in `read`.
    columns : sequence of str, default None
        Names of the columns, as in `read`.
    delimiter : str, default None
        One character that separates fields of text; detected by default.
    header : bool, default None
        Whether the first line of text names the columns.
    value : str or sequence of str, default None
        Columns of text that must be numbers.
    text : sequence of str, default None
        Columns of text that stay strings.
    quoted : bool, default None
        ``False`` treats quotation marks as ordinary characters.
    strip : bool, default None
        ``True`` removes blanks at both ends of names.
    escape_formulas : bool, default None
        ``False`` keeps an apostrophe before ``=``, ``+``, ``-`` or ``@``.
    table : str, default None
        Database table to read instead of a query.
    null_values : str or sequence of str, default None
        Fields of text that mean "no value", as in `read`.
    on_bad_rows : one of "error", "skip", default None
        What to do with a row of text that cannot be read, as in `read`. ``"skip"`` warns once
        per file.

    Returns
    -------
    Scan
        A description that `pack`, `fit` and other functions accept as a table. They read it
        in batches.

    Raises
    ------
    plait.errors.DataError
        If there is no such file, or its format cannot be scanned.
    plait.errors.ParameterError
        If an option does not apply to the format.

    Notes
    -----
    Formats are ``.parquet``, ``.arrow``, ``.csv``, ``.tsv`` and ``.txt``. Files are read in the
    order of their names and must have the same columns.

    Examples
    --------
    >>> plait.write(visits, "visits.parquet")
    >>> plait.scan("*.parquet")
    Scan: visits.parquet, 11 rows, columns 'user', 'place', 'value'
    """
    given: dict[str, Any] = {
        "columns": columns, "delimiter": delimiter, "header": header, "value": value, "text": text, "quoted": quoted,
        "strip": strip, "escape_formulas": escape_formulas, "table": table, "null_values": null_values,
        "on_bad_rows": on_bad_rows,
    }  # fmt: skip
    options = {option: setting for option, setting in given.items() if setting is not None}
    if connection is not None or (isinstance(source, str) and "://" in source):
        return _of_query(source, connection, options)
    paths = _paths(source)
    file_format = format_of(paths[0], kind)
    for path in paths:
        check_options(path, options | ({} if kind is None else {"kind": kind}))
    if file_format is TEXT:
        return TextScan(paths, options | ({} if kind is None else {"kind": kind}))
    if file_format in (PARQUET, ARROW):
        return ColumnScan(paths, options, file_format.name)
    raise DataError(
        f"{file_format.title} cannot be scanned.",
        location=FileLocation(paths[0]),
        hint="Read it with plait.read, or convert it to Parquet.",
    )


def _of_query(source: Any, connection: Any, options: dict[str, Any]) -> "Scan":
    asked = options if connection is None else {**options, "query": source}
    place = source if connection is None else connection
    check_options(place, asked)
    if connection is None and "table" not in options:
        raise ParameterError(
            f"the query for {source_name(source)} is missing.",
            hint="Give the query first and the URL as `connection`; or give `table`.",
        )
    return QueryScan((), asked, place)


def _paths(source: Any) -> tuple[str, ...]:
    """All files, in the order of their names."""
    given = source if isinstance(source, (list, tuple)) else [source]
    paths: list[str] = []
    for one in given:
        if not isinstance(one, (str, os.PathLike)):
            raise DataError(
                f"`source` cannot be {type(one).__name__}.",
                hint="Give a path, a list of paths, or a query with `connection`.",
            )
        path = os.path.expanduser(os.fspath(one))
        many = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) and not os.path.exists(path) else [path]
        if not many:
            raise DataError("no file matches this name.", location=FileLocation(path), hint="Check the path.")
        paths += [existing_file(each) for each in many]
    if not paths:
        raise DataError("the list of paths is empty.", hint="Give at least one path.")
    return tuple(paths)


@dataclass(frozen=True, eq=False, repr=False)
class Scan:
    """A table that is read when it is needed. paths: its files; options: those of `plait.read`."""

    paths: tuple[str, ...]
    options: dict[str, Any]

    is_scan: ClassVar[bool] = True
    stays: ClassVar[bool] = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        raise NotImplementedError

    @property
    def rows(self) -> int | None:
        """How many rows there are, where that is cheap to know."""
        return None

    @property
    def title(self) -> str:
        """What it is of, in words."""
        more = f" and {len(self.paths) - 1:,} more" if len(self.paths) > 1 else ""
        return f"{self.paths[0]}{more}"

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pl.DataFrame | None"]:
        """Some columns in order, about `rows` rows at a time; None: all that came before is void."""
        raise NotImplementedError

    def read(self) -> "pl.DataFrame":
        """The whole table."""
        raise NotImplementedError

    def located(self, place: TableLocation) -> FileLocation:
        """A place of the table in its files."""
        places = [self._row(row, place.column) for row in place.rows]
        if not places:
            return FileLocation(self.title, (), place.column)
        if len(places) == 1 or all(one.path == places[0].path for one in places):
            lines = tuple(line for one in places for line in one.lines)
            return replace(places[0], lines=lines, rows=tuple(row for one in places for row in one.rows))
        return replace(places[-1], path=f"{' and '.join(str(one) for one in places[:-1])} and {places[-1].path}")

    def _row(self, row: int, column: Any) -> FileLocation:
        """A row of the table in its file."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        rows = "" if self.rows is None else f"{self.rows:,} rows, "
        return f"Scan: {self.title}, {rows}columns {', '.join(map(repr, self.columns))}"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(str(self))}</p>"


@dataclass(frozen=True, eq=False, repr=False)
class ColumnScan(Scan):
    """Parquet or Arrow files; `kind`: which."""

    kind: str = "parquet"
    stays: ClassVar[bool] = True

    @cached_property
    def _plans(self) -> "list[pl.LazyFrame]":
        return [self._plan(path) for path in self.paths]

    def _plan(self, path: str) -> "pl.LazyFrame":
        import polars as pl

        with _reading(path, self.kind):
            if self.kind == ARROW.name:
                plan = pl.scan_ipc(path, glob=False)
            else:
                plan = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            plan.collect_schema()
        return plan

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, which all files have."""
        columns = [plan.collect_schema().names() for plan in self._plans]
        _check_same(self.paths, columns)
        return tuple(name.strip() for name in columns[0]) if self.options.get("strip") else tuple(columns[0])

    @cached_property
    def counts(self) -> list[int]:
        """Number of rows of each file, from its footer."""
        import polars as pl

        counts = []
        for path, plan in zip(self.paths, self._plans):
            with _reading(path, self.kind):
                counts.append(int(plan.select(pl.len()).collect().item()))
        return counts

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(self.counts)

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pl.DataFrame | None"]:
        """Some columns in order, about `rows` rows at a time."""
        strips = bool(self.options.get("strip"))
        for path, plan in zip(self.paths, self._plans):
            with _reading(path, self.kind):
                if strips:
                    plan = plan.rename({name: name.strip() for name in plan.collect_schema().names()})
                batches = plan.select(columns).collect_batches(chunk_size=rows, maintain_order=True)
                for table in batches:
                    yield stripped(table, path) if strips else table

    def read(self) -> "pl.DataFrame":
        """The whole table."""
        import polars as pl

        one = read_arrow if self.kind == ARROW.name else read_parquet
        tables = [one(path) for path in self.paths]
        _check_same(self.paths, [table.columns for table in tables])
        table = tables[0] if len(tables) == 1 else pl.concat(tables, how="vertical_relaxed")
        return stripped(table, self.title) if self.options.get("strip") else table

    def _row(self, row: int, column: Any) -> FileLocation:
        path, own = _in_file(self.paths, self.counts, row)
        return FileLocation(path, (), column, (own,))


class _reading:
    """Context that turns read errors of polars into ours."""

    def __init__(self, path: str, kind: str) -> None:
        self.path, self.kind = path, kind

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import polars as pl

        if isinstance(error, (pl.exceptions.PolarsError, pl.exceptions.PanicException)):
            raise damaged(self.path, self.kind.capitalize(), error) from None


def _in_file(paths: Sequence[str], counts: Sequence[int], row: int) -> tuple[str, int]:
    """File of a row, and its number there; `counts`: rows of the files so far."""
    for path, begin, count in zip(paths, accumulate(counts, initial=0), counts):
        if row < begin + count:
            return path, row - begin
    return paths[min(len(counts), len(paths) - 1)], row - sum(counts)


def _check_same(paths: Sequence[str], columns: Sequence[Sequence[str]]) -> None:
    """Refuse files with other columns than the first."""
    for path, own in zip(paths, columns):
        if list(own) != list(columns[0]):
            raise DataError(
                f"the columns are {', '.join(map(repr, own))}, but {', '.join(map(repr, columns[0]))} in {paths[0]}.",
                location=FileLocation(path),
                hint="All files of one table must have the same columns.",
            )


@dataclass(frozen=True, eq=False, repr=False)
class TextScan(Scan):
    """Delimited text."""

    counts: list[int] = field(default_factory=list)  # rows of the files read so far

    @cached_property
    def _layouts(self) -> list[TextLayout]:
        layouts = [layout_of(path, **self.options) for path in self.paths]
        _check_same(self.paths, [layout.columns for layout in layouts])
        held = tuple(_widest(held) for held in zip(*(layout.holds for layout in layouts)))
        return [replace(layout, holds=held) for layout in layouts]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, which all files have."""
        return self._layouts[0].columns

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pl.DataFrame | None"]:
        """Some columns in order; begins again where the layout of a file turns out to be another."""
        layouts = self._layouts
        while True:
            self.counts.clear()
            for layout in layouts:
                try:
                    changed = yield from self._batches(layout, columns, rows)
                except DataError:
                    if not layout.skips_bad or (changed := skip_bad_rows(layout)) is layout:
                        raise
                if changed is not None:
                    layouts = [replace(changed if one is layout else one, holds=changed.holds) for one in layouts]
                    self.__dict__["_layouts"] = layouts  # the rows that are left out say which line a row is in
                    yield None
                    break
            else:
                return

    def _batches(self, layout: TextLayout, columns: Sequence[str], rows: int) -> "Any":
        """Batches of one file; returns a wider layout where it was too narrow."""
        import polars as pl

        width = len(layout.columns)
        wanted = sorted({*(layout.columns.index(column) for column in columns), width - 1})
        named = {str(layout.columns.index(column)): column for column in columns}
        before, kept = 0, 0
        even = width == 1
        try:
            # Were only some columns parsed, polars would not see that a record has too many fields.
            every = pl.QueryOptFlags(projection_pushdown=False)
            plan = plan_of(layout, wanted)
            for table in plan.collect_batches(chunk_size=rows, maintain_order=True, optimizations=every):
                if failed := lost_in(table):
                    return widen(layout, {k: before + row for k, row in failed.items()})
                # Polars pads a record with too few fields, so the last column is null there.
                if not even and table[str(width - 1)].null_count():
                    if (short := ragged(layout)) is not None:
                        raise short
                    even = True
                before += len(table)
                table = _without_blanks(table.select(str(k) for k in wanted))
                kept += len(table)
                yield table.select(pl.col(number).alias(name) for number, name in named.items())
        except (pl.exceptions.PolarsError, OSError) as error:
            raise unread(layout, error) from None
        self.counts.append(kept)
        return None

    def read(self) -> "pl.DataFrame":
        """The whole table."""
        import polars as pl

        tables: list[pl.DataFrame] = [read(path, **self.options) for path in self.paths]
        _check_same(self.paths, [table.columns for table in tables])
        return tables[0] if len(tables) == 1 else pl.concat(tables, how="vertical_relaxed")

    def _row(self, row: int, column: Any) -> FileLocation:
        path, own = _in_file(self.paths, self.counts, row)
        line = line_of_row(self._layouts[self.paths.index(path)], own)
        return FileLocation(path, (), column, (own,)) if line is None else FileLocation(path, (line,), column)


def _widest(held: Sequence[Holds]) -> Holds:
    """Type that holds the columns of several files."""
    order: tuple[Holds, ...] = ("whole", "number", "integers", "decimals", "text")
    return max(held, key=order.index)


def _without_blanks(table: "pl.DataFrame") -> "pl.DataFrame":
    """The table without rows of blank lines."""
    import polars as pl

    if len(table) and all(column.null_count() for column in table):
        return table.filter(~pl.all_horizontal(pl.all().is_null()))
    return table


@dataclass(frozen=True, eq=False, repr=False)
class QueryScan(Scan):
    """Result of a query; `source`: a URL, or an open connection."""

    source: Any = None

    @property
    def title(self) -> str:
        """The database and the query."""
        return f"{source_name(self.source)}: {self.options.get('query') or self.options.get('table')}"

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the first row."""
        first = next(self._tables(1), None)
        return () if first is None else tuple(first.columns)

    def _tables(self, rows: int) -> "Iterator[pl.DataFrame]":
        from plait.files.sql import sql_batches

        asked = {option: self.options[option] for option in ("query", "table") if option in self.options}
        for table in sql_batches(self.source, rows, **asked):
            yield stripped(table, self.title) if self.options.get("strip") else table

    def batches(self, columns: Sequence[str], rows: int) -> Iterator["pl.DataFrame | None"]:
        """Some columns in order, about `rows` rows at a time."""
        for table in self._tables(rows):
            yield table.select(columns)

    def read(self) -> "pl.DataFrame":
        """The whole table."""
        return cast("pl.DataFrame", read(self.source, **self.options))

    def _row(self, row: int, column: Any) -> FileLocation:
        return FileLocation(source_name(self.source), (), column, (row,))
