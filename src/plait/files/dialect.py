"""What a text file looks like, from its beginning: delimiter, header, names of the columns, what each holds."""

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from plait.errors import DataError, FileLocation, SettingError, suggestion
from plait.files.formulas import unescaped_names
from plait.files.kinds import ending
from plait.files.lines import BOM, Passed, TextRow, beginning, records, split_lines, split_records

SAMPLE = 1 << 17  # bytes: enough to see what a column holds; one that turns out wider is read again

# What a column holds, each step a wider one. "whole" and "number" are columns that must be numbers (value=).
Holds = Literal["integers", "decimals", "text", "whole", "number"]

# Numbers that lose something when they become one: a code with leading zeros, a hash such as 12e4, too many digits.
CODES = r"^(?:\+|-?0\d|-0$|-?\d{19,}$|\d+[eE]\d+$)"
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)


@dataclass(frozen=True)
class Shape:
    """How to read a file: columns by name and what each holds; skip: lines before the first row, header included.

    marked: whether the first row begins with a byte order mark that is its own, not the file's. escaped: whether an
    apostrophe before a formula is not part of the name.
    """

    path: str
    delimiter: str
    quoted: bool
    header: bool
    columns: tuple[str, ...]
    holds: tuple[Holds, ...]
    skip: int
    marked: bool
    strip: bool
    escaped: bool

    def records(self, passed: Passed | None = None) -> Iterator[TextRow]:
        """The records after the header, blank ones included: as many as polars has rows, in the same order."""
        found = records(self.path, self.delimiter, self.quoted, passed)
        kept = (record for record in found if record.line > self.skip)
        return map(_stripped, kept) if self.strip else kept


def layout_of(
    path: str,
    columns: Sequence[str] | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    value: str | Sequence[str] | None = None,
    text: Sequence[str] | None = None,
    quoted: bool = True,
    strip: bool = False,
    escape_formulas: bool = True,
    kind: str | None = None,
) -> Shape:
    """Look at the beginning of a file; the arguments are those of ``plait.read``."""
    _check_settings(columns, delimiter, text)
    sample, whole = beginning(path, SAMPLE)
    if not sample.strip():
        raise DataError(
            "the file is empty.",
            location=FileLocation(path),
            hint="A table has at least a line with the names of its columns.",
        )
    if "\n" not in sample and "\r" in sample.strip():
        raise DataError(
            "a carriage return stands alone.", location=FileLocation(path, (1,)), hint="End lines with LF or CRLF."
        )
    tail = (ending(path) if kind is None else f".{kind}".casefold()).removesuffix(".gz")
    delimiter = delimiter or _delimiter(tail, sample, quoted)
    rows = _sampled(path, sample, delimiter, quoted, whole)
    rows = [row for row in (map(_stripped, rows) if strip else rows) if row.fields]
    first = rows[0]._replace(fields=unescaped_names(rows[0].fields)) if escape_formulas else rows[0]
    names, header = _columns(path, tail, [first, *rows[1:]], columns, header)
    # Blank lines below the header too: polars counts the columns in the first line that it sees.
    skip = rows[header].line - 1 if len(rows) > header else len(split_lines(sample))
    numbers = _numbers(path, names, value, text)
    held = tuple(
        holds([row.fields[k] for row in rows[header:] if k < len(row.fields)], name in numbers, name in (text or ()))
        for k, name in enumerate(names)
    )
    marked = bool(skip) and len(rows) > header and rows[header].fields[0].startswith(BOM)
    return Shape(path, delimiter, quoted, header, names, held, skip, marked, strip, escape_formulas)


def _stripped(record: TextRow) -> TextRow:
    """The record without blanks around its fields; a line of nothing else is a blank one."""
    fields = [field.strip() for field in record.fields]
    return TextRow(record.line, [] if fields == [""] and record.fields != [""] else fields)


def _check_settings(columns: Sequence[str] | None, delimiter: str | None, text: Sequence[str] | None) -> None:
    for option, names in (("columns", columns), ("text", text)):
        if isinstance(names, str):
            raise SettingError(
                f"`{option}` is {names!r}.",
                actual=names,
                expected="a list of names",
                hint=f"Give a list of names: [{names!r}].",
            )
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise SettingError(
            f"`delimiter` is {delimiter!r}.",
            hint="It is one character, such as ',', ';' or '\\t'.",
        )
    for name in columns or ():
        if list(columns or ()).count(name) > 1:
            raise SettingError(
                f"`columns` has {name!r} twice.",
                hint="Give each column a name of its own.",
            )


def _sampled(path: str, sample: str, delimiter: str, quoted: bool, whole: bool) -> list[TextRow]:
    """The records of the sample; a fault at its cut end is not one of the file."""
    found: list[TextRow] = []
    try:
        found.extend(split_records(path, iter(split_lines(sample)), delimiter, quoted))
    except DataError:
        if whole or not any(row.fields for row in found):
            raise
    return found


def _delimiter(tail: str, sample: str, quoted: bool) -> str:
    """The candidate under which most records have as many fields as the first, and that most; tail: the ending."""
    if tail in (".tsv", ".tab"):
        return "\t"
    usual = "," if tail == ".csv" else " "  # names have spaces too: only where nothing else splits a .txt
    best = (0.0, 1)
    some = [line for line in split_lines(sample)[:200] if line.strip()]
    for candidate in ",;\t|":
        widths = _widths(some, candidate, quoted)
        score = (widths.count(widths[0]) / len(widths), widths[0])
        if widths[0] > 1 and score > best:
            best, usual = score, candidate
    return usual


def _widths(lines: Sequence[str], delimiter: str, quoted: bool) -> list[int]:
    """The number of fields of every record, until one cannot be split: what is wrong there is said later."""
    widths = []
    try:
        for fields in csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE):
            widths.append(len(fields))
    except csv.Error:
        pass
    return widths or [0]


def _columns(
    path: str, tail: str, rows: Sequence[TextRow], columns: Sequence[str] | None, header: bool | None
) -> tuple[tuple[str, ...], bool]:
    """The names of the columns, and whether the first line is a header."""
    first = rows[0]
    if columns is not None:
        if len(columns) != len(first.fields):
            raise DataError(
                f"{_fields(len(first.fields))}, but `columns` names {len(columns)}.",
                location=FileLocation(path, (first.line,)),
                hint="Name every column of the file.",
            )
        if header is None:
            header = first.fields == list(columns)
            if not header:
                _check_no_header(path, rows)
        return tuple(columns), header
    if header is False:
        return tuple(f"column{k}" for k in range(1, len(first.fields) + 1)), False
    if header is None:
        _check_header(path, tail, first)
    _check_names(path, first)
    return tuple(first.fields), True


def _check_header(path: str, tail: str, first: TextRow) -> None:
    """Where nothing is said, the first line of a .txt may be either, and one with numbers is most likely data."""
    if tail == ".txt":
        raise DataError(
            "it is not certain whether a .txt begins with the names of its columns.",
            location=FileLocation(path, (1,)),
            hint="Name them with `columns`, or give `header=True`.",
        )
    for field in first.fields:
        if is_number(field):
            raise DataError(
                f"{field!r} is a number, so this does not look like names of columns.",
                location=FileLocation(path, (first.line,)),
                hint="Name them with `columns`; or give `header=True` if it is the header.",
            )


def _check_names(path: str, first: TextRow) -> None:
    for k, name in enumerate(first.fields, 1):
        if not name:
            raise DataError(
                f"column {k} has no name.",
                location=FileLocation(path, (first.line,)),
                hint="Name it; if pandas wrote its row numbers there, write the file with index=False.",
            )
        if first.fields.count(name) > 1:
            raise DataError(
                f"two columns are called {name!r}.",
                location=FileLocation(path, (first.line,)),
                hint="Rename one of the two.",
            )


def _check_no_header(path: str, rows: Sequence[TextRow]) -> None:
    """A word above numbers is a header, which columns= would turn into a row."""
    first, below = rows[0], [row.fields for row in rows[1:]]
    for k, field in enumerate(first.fields):
        column = [fields[k] for fields in below if k < len(fields) and fields[k]]
        if column and not is_number(field) and all(map(is_number, column)):
            raise DataError(
                f"{field!r} stands above numbers, so this looks like names of columns.",
                location=FileLocation(path, (first.line,)),
                hint="Give `header=True` if it is the header, or `header=False` if it is data.",
            )


def _numbers(
    path: str, names: Sequence[str], value: str | Sequence[str] | None, text: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns that must be numbers."""
    if value is None:
        wanted: tuple[str, ...] = ("value",) if "value" in names and "value" not in (text or ()) else ()
    else:
        wanted = (value,) if isinstance(value, str) else tuple(value)
    for option, given in (("value", wanted), ("text", tuple(text or ()))):
        for name in given:
            if name not in names:
                raise DataError(
                    (
                        f"there is no column {name!r}, which `{option}` names; the file has "
                        f"{', '.join(map(repr, names))}."
                    ),
                    location=FileLocation(path),
                    hint=f"{suggestion(name, names)}Name a column of the file.",
                )
    for name in wanted:
        if name in (text or ()):
            raise SettingError(
                f"column {name!r} is in `value` and in `text`.",
                hint="It is one of the two.",
            )
    return wanted


def holds(fields: Sequence[str], number: bool, text: bool) -> Holds:
    """The narrowest that fits the sample; the rest of the file can only widen it."""
    filled = [field for field in fields if field]
    if text:
        return "text"
    if number:
        return "whole" if all(map(_is_integer, filled)) else "number"
    if all(map(_is_integer, filled)):
        return "integers"
    return "decimals" if all(is_number(field) and not re.search(CODES, field) for field in filled) else "text"


def is_number(field: str) -> bool:
    """Whether a field is a finite number, however written."""
    return DECIMAL.fullmatch(field) is not None and math.isfinite(float(field))


def _is_integer(field: str) -> bool:
    return INTEGER.fullmatch(field) is not None and -(2**63) <= int(field) < 2**63


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"
