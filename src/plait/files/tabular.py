"""Delimited text, Parquet and Arrow files as polars tables, in one pass on all threads.

Columns of text are parsed as strings and converted in the same streaming plan, with a flag per field for failures. A
column that turns out wider than its beginning (a word after a million numbers) is read again. Only after a failure is
the file read line by line, to locate it.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plait.errors import DataError, FileLocation
from plait.files.csv_dialect import BOM, CODES, Holds, TextLayout, holds, is_number, layout_of, opened, unescaped
from plait.files.csv_faults import not_a_number, ragged, record_at, skip_bad_rows, unread

if TYPE_CHECKING:
    import polars as pl


ROW = "row"  # the number of a row of polars; columns have numbers for names


def read_text(path: str, **options: Any) -> "pl.DataFrame":
    """Read delimited text; options as in ``plait.read``."""
    layout = layout_of(path, **options)
    try:
        return _read(layout)
    except DataError:
        if not layout.skips_bad or (skipping := skip_bad_rows(layout)) is layout:
            raise
    return _read(skipping)


def _read(layout: TextLayout) -> "pl.DataFrame":
    table, failed = _parsed(layout)
    while failed:
        layout = widen(layout, failed)
        del table  # frees memory before the next read
        table, failed = _parsed(layout)
    # Polars pads a record with too few fields, so the last column is null there.
    if table.width > 1 and table.get_column(table.columns[-1]).null_count():
        short = ragged(layout)
        if short is not None:
            raise short
    table.columns = list(layout.columns)
    return _without_gaps(table, layout)


def _parsed(layout: TextLayout) -> tuple["pl.DataFrame", dict[int, int]]:
    """Columns by number, each in its type; and the first row that did not fit, by column."""
    import polars as pl

    width = len(layout.columns)
    try:
        table = plan_of(layout, range(width)).collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError) as error:
        raise unread(layout, error) from None
    return table.select(str(k) for k in range(width)), lost_in(table)


def plan_of(layout: TextLayout, wanted: Iterable[int]) -> "pl.LazyFrame":
    """Query plan of some columns, by number; `lost …` flags fields that did not fit."""
    import polars as pl

    names = [str(k) for k in range(len(layout.columns))]
    plan = pl.scan_csv(
        _marked_rows(layout) if layout.marked else layout.path,
        has_header=False,
        skip_lines=0 if layout.marked else layout.skip,
        separator=layout.delimiter,
        quote_char='"' if layout.quoted else None,
        schema=dict.fromkeys(names, pl.String),
        raise_if_empty=False,
        glob=False,
        truncate_ragged_lines=bool(layout.bad),
        row_index_name=ROW if layout.bad else None,
    )
    fields = {k: _stripped(pl.col(names[k])) if layout.strip else pl.col(names[k]) for k in wanted}
    if layout.nulls:
        fields = {k: pl.when(~field.is_in(list(layout.nulls))).then(field) for k, field in fields.items()}
    if layout.bad:
        readable = ~pl.col(ROW).is_in([row for row in layout.bad.values() if row >= 0])
        fields = {k: pl.when(readable).then(field) for k, field in fields.items()}
    if layout.escaped:
        fields = {k: unescaped(field) if layout.holds[k] == "text" else field for k, field in fields.items()}
    converted = {k: _converted(field, layout.holds[k]) for k, field in fields.items()}
    lost = [
        (field.is_not_null() & converted[k].is_null()).alias(f"lost {k}")
        for k, field in fields.items()
        if layout.holds[k] != "text"
    ]
    return plan.select(*(expression.alias(str(k)) for k, expression in converted.items()), *lost)


def lost_in(table: "pl.DataFrame") -> dict[int, int]:
    """First row of a table that did not fit, by column."""
    marks = [name for name in table.columns if name.startswith("lost ")]
    return {int(mark[5:]): int(table[mark].arg_max() or 0) for mark in marks if table[mark].any()}


def _marked_rows(layout: TextLayout) -> bytes:
    """Rows after a second byte order mark, of which polars removes the first it sees."""
    with opened(layout.path) as file:
        for _ in range(layout.skip):
            file.readline()
        return BOM.encode() + file.read()


def _stripped(field: "pl.Expr") -> "pl.Expr":
    """A field without blanks around it; null if empty."""
    import polars as pl

    bare = field.str.strip_chars()
    return pl.when(bare.str.len_bytes() > 0).then(bare)


def _converted(field: "pl.Expr", held: Holds) -> "pl.Expr":
    """A field in the type of the column; null where it does not fit."""
    import polars as pl

    if held == "text":
        return field
    if held == "whole":
        return field.cast(pl.Int64, strict=False)
    if held == "integers":
        # Equivalent to CODES, by comparing bytes: the common case, three times as fast.
        code = (field.str.starts_with("0") & (field.str.len_bytes() > 1)) | field.str.starts_with("-0")
        return pl.when(~code & ~field.str.starts_with("+")).then(field.cast(pl.Int64, strict=False))
    number = field.cast(pl.Float64, strict=False)
    fits = number.is_finite() if held == "number" else number.is_finite() & ~field.str.contains(CODES)
    return pl.when(fits).then(number)


def widen(layout: TextLayout, failed: dict[int, int]) -> TextLayout:
    """The layout with failed columns widened for the first field that did not fit."""
    held = list(layout.holds)
    for k, row in failed.items():
        record = record_at(layout, row)
        if held[k] in ("whole", "number"):
            if held[k] == "number" or not is_number(record.fields[k]):
                raise not_a_number(layout, k, record)
            held[k] = "number"
        else:
            decimals = held[k] == "integers" and holds([record.fields[k]], number=False, text=False) == "decimals"
            held[k] = "decimals" if decimals else "text"
    return replace(layout, holds=tuple(held))


def _without_gaps(table: "pl.DataFrame", layout: TextLayout) -> "pl.DataFrame":
    """The table without rows of blank lines; a column without fields has no type."""
    import polars as pl

    if len(table) and all(column.null_count() for column in table):
        table = table.filter(~pl.all_horizontal(pl.all().is_null()))
    untyped = [
        name
        for name, held in zip(layout.columns, layout.holds)
        if held == "integers" and table[name].null_count() == len(table)
    ]
    return table.with_columns(pl.Series(name, [None] * len(table), dtype=pl.Null) for name in untyped)


def read_parquet(path: str) -> "pl.DataFrame":
    import polars as pl

    try:
        return pl.read_parquet(path, glob=False, hive_partitioning=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise damaged(path, "Parquet", error) from None


def read_arrow(path: str) -> "pl.DataFrame":
    """Table of an Arrow file: the file format (Feather 2) or the stream format, by its first bytes."""
    import polars as pl

    with open(path, "rb") as file:
        magic = file.read(6)
    if magic.startswith(b"FEA1"):
        raise DataError(
            "the file has the format Feather 1, which is not supported.",
            location=FileLocation(path),
            hint="Write it as Feather 2 or Parquet.",
        )
    try:
        if magic != b"ARROW1":
            return pl.read_ipc_stream(path)
        return pl.read_ipc(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise damaged(path, "Arrow", error) from None


def stripped(table: "pl.DataFrame", where: str) -> "pl.DataFrame":
    """The table without blanks around its texts and column names."""
    import polars as pl

    names = [name.strip() for name in table.columns]
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"two columns have the name {name!r}, apart from blanks.",
                location=FileLocation(where),
                hint="Rename one of the two.",
            )
    texts = [name for name, kind in table.schema.items() if isinstance(kind, (pl.String, pl.Categorical, pl.Enum))]
    table = table.with_columns(pl.col(texts).cast(pl.String).str.strip_chars())
    return table.rename(dict(zip(table.columns, names)))


def damaged(path: str, kind: str, error: BaseException) -> DataError:
    """Error for a file that polars cannot read."""
    reason = re.split(r"\n|: Error \{", str(error).strip())[0].rstrip(".")
    return DataError(
        f"the file is damaged, or not a valid {kind} file: {reason}.",
        location=FileLocation(path),
        hint="Download or write it again.",
    )
