"""What a text file looks like, from its beginning: delimiter, header, names of the columns, what each holds."""

import gzip
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from plait.errors import DataError, FileLocation, ParameterError, suggestion
from plait.files.source_kinds import ending

if TYPE_CHECKING:
    import polars as pl

import csv
import io
import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

from plait.tuning import TUNING

GZIP = b"\x1f\x8b"
BOM = "\ufeff"
Passed = Callable[[bytes, int], bool]
UTF16 = (b"\xff\xfe", b"\xfe\xff")
FIRST = r"[=+\-@\t\r\n＝＋－＠]"  # the full-width signs as well: spreadsheets of some locales take them for the others
FORMULA, ESCAPED = f"^'*{FIRST}", f"^'+{FIRST}"


class TextRow(NamedTuple):
    """A record of delimited text: the line it begins in (counting from 1), and its fields; none for a blank line."""

    line: int
    fields: list[str]

    @property
    def blank(self) -> bool:
        """Whether this is no row: a blank line, or nothing but delimiters as spreadsheets write below a table."""
        return not any(self.fields) and len(self.fields) != 1


# What a column holds, each step a wider one. "whole" and "number" are columns that must be numbers (value=).
Holds = Literal["integers", "decimals", "text", "whole", "number"]

# Numbers that lose something when they become one: a code with leading zeros, a hash such as 12e4, too many digits.
CODES = r"^(?:\+|-?0\d|-0$|-?\d{19,}$|\d+[eE]\d+$)"
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)


@dataclass(frozen=True)
class TextLayout:
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
) -> TextLayout:
    """Look at the beginning of a file; the arguments are those of ``plait.read``."""
    _check_settings(columns, delimiter, text)
    sample, whole = beginning(path, TUNING.csv_sample_bytes)
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
    return TextLayout(path, delimiter, quoted, header, names, held, skip, marked, strip, escape_formulas)


def _stripped(record: TextRow) -> TextRow:
    """The record without blanks around its fields; a line of nothing else is a blank one."""
    fields = [field.strip() for field in record.fields]
    return TextRow(record.line, [] if fields == [""] and record.fields != [""] else fields)


def _check_settings(columns: Sequence[str] | None, delimiter: str | None, text: Sequence[str] | None) -> None:
    for option, names in (("columns", columns), ("text", text)):
        if isinstance(names, str):
            raise ParameterError(
                f"`{option}` is {names!r}.",
                actual=names,
                expected="a list of names",
                hint=f"Give a list of names: [{names!r}].",
            )
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise ParameterError(
            f"`delimiter` is {delimiter!r}.",
            hint="It is one character, such as ',', ';' or '\\t'.",
        )
    for name in columns or ():
        if list(columns or ()).count(name) > 1:
            raise ParameterError(
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
            raise ParameterError(
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


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file, decompressed if it begins as gzip does."""
    with open(path, "rb") as raw:
        compressed = raw.read(2) == GZIP
        raw.seek(0)
        try:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if compressed else raw
        except EOFError:
            raise DataError(
                "the compressed file ends too early.",
                location=FileLocation(path),
                hint="It was cut off; fetch it again.",
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"the compressed file is damaged ({error}).", location=FileLocation(path), hint="Fetch it again."
            ) from None


def beginning(path: str, size: int) -> tuple[str, bool]:
    """The first lines of a file, at most about size bytes, and whether that is all of it; without a byte order mark."""
    with opened(path) as file:
        data = file.read(size)
        whole = len(data) < size
        if not whole:  # end with a line, however long it is
            data += file.readline()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        for _ in lines(path):  # raises where the fault is
            pass
        raise
    return text.removeprefix(BOM), whole


def lines(path: str) -> Iterator[str]:
    """The lines of a file with their ends; bytes that are not UTF-8 are an error that says where."""
    with opened(path) as file:
        yield from _decoded(path, file, 0, 0)


def _decoded(path: str, source: Iterable[bytes], before: int, offset: int) -> Iterator[str]:
    """Lines decoded; before: how many of the file precede them, offset: how many bytes."""
    for number, line in enumerate(source, before + 1):
        if number == 1 and line.startswith(UTF16):
            raise DataError("the file is UTF-16.", location=FileLocation(path), hint="Save it as UTF-8.")
        try:
            decoded = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"byte 0x{line[error.start]:02x} at offset {offset + error.start:,} is not UTF-8.",
                location=FileLocation(path, (number,)),
                hint="Save the file as UTF-8; from Latin-1: iconv -f latin1 -t utf-8.",
            ) from None
        yield decoded.removeprefix(BOM) if number == 1 else decoded
        offset += len(line)


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends. str.splitlines also splits at form feeds, which a name may have."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def records(path: str, delimiter: str, quoted: bool, passed: Passed | None = None) -> Iterator[TextRow]:
    """The records of a file. Megabytes at its beginning are left out as long as ``passed`` says so.

    passed(chunk, before): whether nothing in these whole lines is of interest, a line being a record there; before is
    the number of lines before them.
    """
    with opened(path) as file:
        before = offset = 0
        chunk = b""
        while passed is not None:
            chunk = file.read(TUNING.csv_chunk_bytes)
            chunk += file.readline()
            if not chunk or not passed(chunk, before):
                break
            before += chunk.count(b"\n")
            offset += len(chunk)
        source = _decoded(path, chain(io.BytesIO(chunk), file), before, offset)
        yield from split_records(path, source, delimiter, quoted, before)


def split_records(path: str, source: Iterator[str], delimiter: str, quoted: bool, before: int = 0) -> Iterator[TextRow]:
    """The records of lines, in step with polars: a blank line is a record without fields."""
    reader = csv.reader(
        source, delimiter=delimiter, strict=True, quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    )
    line = before + 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise _quoting_fault(FileLocation(path, (line,)), str(error)) from None
        yield TextRow(line, fields)
        line = before + reader.line_num + 1


def _quoting_fault(where: FileLocation, error: str) -> DataError:
    if "expected after" in error:
        what = "text follows a closing quotation mark"
        hint = "A quotation mark inside quotes is written twice"
    elif "new-line" in error:
        return DataError("a carriage return stands alone.", location=where, hint="End lines with LF or CRLF.")
    elif "field larger" in error:
        what = f"a field has more than {csv.field_size_limit():,} characters"
        hint = "Close the quotation mark that opens it, if one does"
    else:
        what = "a quotation mark opens a field and is not closed"
        hint = "Close it"
    ordinary = "give `quoted=False` where quotation marks are ordinary characters"
    return DataError(f"{what}.", location=where, hint=f"{hint}; or {ordinary}.")


def stray_quote(path: str) -> DataError | None:
    """The first line with an odd number of quotation marks: where polars and csv disagree, it is about those."""
    for number, line in enumerate(lines(path), 1):
        if line.count('"') % 2:
            return DataError(
                "a quotation mark stands inside a field.",
                location=FileLocation(path, (number,)),
                hint=(
                    "Write the field in quotes, with the mark twice; or give `quoted=False` "
                    "where quotation marks are ordinary characters."
                ),
            )
    return None


def escape_table(table: "pl.DataFrame") -> "pl.DataFrame":
    """The table with formulas in its columns of text, and in their names, escaped; numbers stay as they are."""
    import polars as pl

    texts = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    table = table.with_columns(pl.when(texts.str.contains(FORMULA)).then("'" + texts).otherwise(texts).name.keep())
    return table.rename({name: f"'{name}" for name in table.columns if re.match(FORMULA, name)})


def unescaped(field: "pl.Expr") -> "pl.Expr":
    """A field of text as it was before it was escaped."""
    import polars as pl

    # Polars evaluates the second branch only where the first condition holds somewhere, and it hardly ever does.
    plain = pl.when(field.str.contains(ESCAPED)).then(field.str.slice(1)).otherwise(field)
    return pl.when(field.str.starts_with("'")).then(plain).otherwise(field)


def unescaped_names(names: list[str]) -> list[str]:
    """Names of columns as they were before they were escaped."""
    return [name[1:] if re.match(ESCAPED, name) else name for name in names]
