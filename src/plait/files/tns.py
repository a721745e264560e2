"""FROSTT tensors (.tns): one entry per line, integer coordinates from 1 and a value, separated by blanks."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plait.errors import DataError, FileLocation, ParameterError
from plait.files.csv_dialect import DECIMAL, lines, opened

if TYPE_CHECKING:
    import polars as pl


def read_tns(path: str, columns: Sequence[str] | None = None) -> "pl.DataFrame":
    """A table with a column of integers for each coordinate (``i1``, ``i2``, … or as named), and ``value``."""
    import polars as pl

    if isinstance(columns, str):
        raise ParameterError(
            f"`columns` must be a list of names, got {columns!r}.",
            hint=f"Write [{columns!r}].",
        )
    with opened(path) as file:
        data = _single_blanks(file.read())
    names = _names(path, _width(path), columns)
    types = [pl.Int64] * (len(names) - 1) + [pl.Float64]
    numbered = {str(k): dtype for k, dtype in enumerate(types)}
    first = re.search(rb"(?m)^[^#\s]", data)
    if first is None:
        return pl.DataFrame(schema=dict(zip(names, types)))
    try:
        table = pl.read_csv(
            data[first.start() :],
            has_header=False,
            separator=" ",
            quote_char=None,
            comment_prefix="#",
            schema=numbered,
            glob=False,
        )
    except pl.exceptions.PolarsError as error:
        raise _fault(path, len(names)) or _unread(path, error) from None
    table = table.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines
    coordinates, value = table.columns[:-1], table.columns[-1]
    sound = pl.all_horizontal(pl.col(coordinates) >= 1, pl.col(value).is_finite())
    if table.null_count().sum_horizontal().item() or not table.select(sound.all()).item():
        raise _fault(path, len(names)) or _unread(path, "an entry is not finite")
    table.columns = list(names)
    return table


def line_of_row(path: str, row: int) -> int | None:
    """Line of a row of the table."""
    return next((line for k, (line, _) in enumerate(_entries(path)) if k == row), None)


def _single_blanks(data: bytes) -> bytes:
    """The text with single spaces between fields, as the fast reader needs and most files have."""
    if data.startswith(b" ") or any(odd in data for odd in (b"\t", b"  ", b"\n ", b" \n", b" \r")):
        data = re.sub(rb"[ \t]+", b" ", data)
        data = re.sub(rb"(?m)^ | (?=\r?$)", b"", data)
    return data


def _entries(path: str) -> Iterator[tuple[int, list[str]]]:
    """Line (from 1) and fields of every entry."""
    for number, line in enumerate(lines(path), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.split()


def _width(path: str) -> int | None:
    """Number of fields of the first entry; None without one."""
    first = next(_entries(path), None)
    if first is not None and len(first[1]) < 2:
        raise DataError(
            "expected coordinates and a value, got 1 field.",
            location=FileLocation(path, (first[0],)),
            hint="If this line is the order of the tensor, remove it.",
        )
    return None if first is None else len(first[1])


def _names(path: str, width: int | None, columns: Sequence[str] | None) -> tuple[str, ...]:
    if width is None and columns is None:
        raise DataError(
            "the file has no entries.",
            location=FileLocation(path),
            hint="To read an empty table, give its columns with `columns`.",
        )
    if columns is None:
        return (*(f"i{k}" for k in range(1, width or 0)), "value")
    names = tuple(columns)
    if width in (None, len(names) + 1) and "value" not in names:
        names = (*names, "value")
    if width not in (None, len(names)) or len(set(names)) < len(names):
        raise DataError(
            (
                f"`columns` has {', '.join(map(repr, columns))}, but an entry has "
                f"{(width or 0) - 1} coordinates and a value."
            ),
            location=FileLocation(path),
            hint="Give one name per coordinate.",
        )
    return names


def _fault(path: str, width: int) -> DataError | None:
    """Error at the first invalid entry."""
    for number, fields in _entries(path):
        where = FileLocation(path, (number,))
        if len(fields) != width:
            count = "1 field" if len(fields) == 1 else f"{len(fields)} fields"
            return DataError(
                f"{count}, but the first entry has {width}.",
                location=where,
                hint="All entries must have the same number of coordinates.",
            )
        for k, field in enumerate(fields[:-1], 1):
            if not re.fullmatch(r"\+?\d{1,18}", field, re.ASCII) or int(field) < 1:
                return DataError(
                    f"{field!r} is not a coordinate.",
                    location=replace(where, field=k),
                    actual=field,
                    expected="an integer of at least 1",
                    hint="Coordinates are integers of at least 1.",
                )
        if not DECIMAL.fullmatch(fields[-1]) or not math.isfinite(float(fields[-1])):
            return DataError(
                f"{fields[-1]!r} is not a number.",
                location=replace(where, field=width),
                actual=fields[-1],
                expected="a number",
                hint="Write a number such as 3 or 0.25.",
            )
    return None


def _unread(path: str, error: object) -> DataError:
    return DataError(
        f"the file cannot be read: {str(error).partition(chr(10))[0]}.",
        location=FileLocation(path),
        hint="Check its lines.",
    )
