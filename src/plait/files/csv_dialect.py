"""Dialect of a text file, from its beginning: delimiter, header, column names and types."""

import gzip
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from plait.errors import DataError, FileLocation, ParameterError, suggestion
from plait.files.source_kinds import ending
from plait.rendering.formatting import plural

if TYPE_CHECKING:
    import polars as pl

import csv
import dataclasses
import io
import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

from plait.tuning import TUNING

GZIP = b"\x1f\x8b"
BOM = "\ufeff"
Passed = Callable[[bytes, int], bool]
ON_BAD_ROWS = ("error", "skip")
UTF16 = (b"\xff\xfe", b"\xfe\xff")
FIRST = r"[=+\-@\t\r\n＝＋－＠]"  # full-width signs, too: some spreadsheets treat them in the same way
FORMULA, ESCAPED = f"^'*{FIRST}", f"^'+{FIRST}"


class TextRow(NamedTuple):
    """A record of delimited text: its first line (from 1), and its fields; empty for a blank line."""

    line: int
    fields: list[str]

    @property
    def blank(self) -> bool:
        """Whether this is a blank line, or only delimiters, as spreadsheets write below a table."""
        return not any(self.fields) and len(self.fields) != 1


# Column types from narrow to wide. "whole" and "number" are columns that must be numbers (value=).
Holds = Literal["integers", "decimals", "text", "whole", "number"]

# Texts that would lose information as numbers: codes with leading zeros, hashes such as 12e4, too many digits.
CODES = r"^(?:\+|-?0\d|-0$|-?\d{19,}$|\d+[eE]\d+$)"
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INTEGER = re.compile(r"0|-?[1-9]\d{0,18}", re.ASCII)


@dataclass(frozen=True)
class TextLayout:
    """How to read a file: columns by name and type; `skip`: lines before the first row, including the header.

    `marked`: whether the first row begins with a second byte order mark. `escaped`: whether an apostrophe before a
    formula is removed. `nulls`: fields that mean no value. `skips_bad`: whether rows that cannot be read are skipped;
    `bad`: these, line -> row of polars, once known (`csv_faults.skip_bad_rows`).
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
    nulls: frozenset[str] = frozenset()
    skips_bad: bool = False
    bad: Mapping[int, int] = dataclasses.field(default_factory=dict)

    def records(self, passed: Passed | None = None) -> Iterator[TextRow]:
        """Records after the header, including blank ones, in step with the rows of polars.

        Fields that mean no value are empty, and skipped rows are blank.
        """
        records_read = records(self.path, self.delimiter, self.quoted, passed)
        kept: Iterator[TextRow] = (record for record in records_read if record.line > self.skip)
        if self.strip:
            kept = map(_stripped, kept)
        if self.nulls:
            kept = (_nulled(record, self.nulls) for record in kept)
        if self.bad:
            kept = (TextRow(record.line, []) if record.line in self.bad else record for record in kept)
        return kept


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
    null_values: str | Sequence[str] = (),
    on_bad_rows: str = "error",
) -> TextLayout:
    """Layout of a file from its beginning; arguments as in `plait.read`."""
    _check_settings(columns, delimiter, text)
    nulls, skips_bad = _null_texts(null_values), _skips_bad(on_bad_rows)
    sample, whole = beginning(path, TUNING.csv_sample_bytes)
    if not sample.strip():
        raise DataError(
            "the file is empty.",
            location=FileLocation(path),
            hint="A table needs at least a header line.",
        )
    if "\n" not in sample and "\r" in sample.strip():
        raise DataError(
            "a line ends with a single carriage return.",
            location=FileLocation(path, (1,)),
            hint="End lines with LF or CRLF.",
        )
    tail = (ending(path) if kind is None else f".{kind}".casefold()).removesuffix(".gz")
    delimiter = delimiter or _delimiter(tail, sample, quoted)
    rows = _sampled(path, sample, delimiter, quoted, whole)
    rows = [row for row in (map(_stripped, rows) if strip else rows) if row.fields]
    first = rows[0]._replace(fields=unescaped_names(rows[0].fields)) if escape_formulas else rows[0]
    names, header = _columns(path, tail, [first, *(_nulled(row, nulls) for row in rows[1:])], columns, header)
    # Blank lines below the header, too: polars counts columns in the first line.
    skip = rows[header].line - 1 if len(rows) > header else len(split_lines(sample))
    numbers = _numbers(path, names, value, text)
    fields = [_nulled(row, nulls).fields for row in rows[header:] if not skips_bad or len(row.fields) == len(names)]
    held = tuple(
        holds([row[k] for row in fields if k < len(row)], name in numbers, name in (text or ()), skips_bad)
        for k, name in enumerate(names)
    )
    marked = bool(skip) and len(rows) > header and rows[header].fields[0].startswith(BOM)
    return TextLayout(
        path, delimiter, quoted, header, names, held, skip, marked, strip, escape_formulas, nulls, skips_bad
    )


def _stripped(record: TextRow) -> TextRow:
    """The record without blanks around fields; only blanks are a blank line."""
    return _replaced(record, [field.strip() for field in record.fields])


def _nulled(record: TextRow, nulls: frozenset[str]) -> TextRow:
    """The record with empty fields where they mean no value."""
    return _replaced(record, ["" if field in nulls else field for field in record.fields])


def _replaced(record: TextRow, fields: list[str]) -> TextRow:
    """The record with other fields; a line of one field that is now empty is a blank one."""
    return TextRow(record.line, [] if fields == [""] and record.fields != [""] else fields)


def _null_texts(given: object) -> frozenset[str]:
    """The texts of `null_values`; an empty field is null in any case."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, (list, tuple, set, frozenset)) or not all(isinstance(text, str) for text in texts):
        raise ParameterError(
            f"`null_values` must be text or a list of texts, got {given!r}.",
            actual=given,
            expected="text or a list of texts",
            hint='Examples: "NA", or ["NA", "-"].',
        )
    return frozenset(texts) - {""}


def _skips_bad(given: object) -> bool:
    """Whether `on_bad_rows` leaves out rows that cannot be read."""
    if given not in ON_BAD_ROWS:
        raise ParameterError.must_be(
            "on_bad_rows",
            " or ".join(map(repr, ON_BAD_ROWS)),
            given,
            hint=f"{suggestion(given, ON_BAD_ROWS)}'skip' leaves out rows that cannot be read.",
        )
    return given == "skip"


def _check_settings(columns: Sequence[str] | None, delimiter: str | None, text: Sequence[str] | None) -> None:
    for option, names in (("columns", columns), ("text", text)):
        if isinstance(names, str):
            raise ParameterError(
                f"`{option}` must be a list of names, got {names!r}.",
                actual=names,
                expected="a list of names",
                hint=f"Write [{names!r}].",
            )
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise ParameterError(
            f"`delimiter` must be one character, got {delimiter!r}.",
            hint="Examples: ',', ';' or '\\t'.",
        )
    for name in columns or ():
        if list(columns or ()).count(name) > 1:
            raise ParameterError(
                f"`columns` contains {name!r} twice.",
                hint="Use a different name for each column.",
            )


def _sampled(path: str, sample: str, delimiter: str, quoted: bool, whole: bool) -> list[TextRow]:
    """Records of the sample; a fault at its cut end is ignored."""
    rows: list[TextRow] = []
    try:
        rows.extend(split_records(path, iter(split_lines(sample)), delimiter, quoted))
    except DataError:
        if whole or not any(row.fields for row in rows):
            raise
    return rows


def _delimiter(tail: str, sample: str, quoted: bool) -> str:
    """The candidate with which most records have as many fields as the first; `tail`: file suffix."""
    if tail in (".tsv", ".tab"):
        return "\t"
    usual = "," if tail == ".csv" else " "  # names have spaces: only where nothing else splits a .txt
    best = (0.0, 1)
    some = [line for line in split_lines(sample)[:200] if line.strip()]
    for candidate in ",;\t|":
        widths = _widths(some, candidate, quoted)
        score = (widths.count(widths[0]) / len(widths), widths[0])
        if widths[0] > 1 and score > best:
            best, usual = score, candidate
    return usual


def _widths(lines: Sequence[str], delimiter: str, quoted: bool) -> list[int]:
    """Number of fields of every record, up to a faulty one."""
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
    """Column names, and whether the first line is a header."""
    first = rows[0]
    if columns is not None:
        if len(columns) != len(first.fields):
            raise DataError(
                f"{_fields(len(first.fields))}, but `columns` has {plural(len(columns), 'name')}.",
                location=FileLocation(path, (first.line,)),
                hint="Give one name per column of the file.",
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
    """Refuse an ambiguous first line of a .txt, which may be data if it has numbers."""
    if tail == ".txt":
        raise DataError(
            "the first line of a .txt file can be a header or data.",
            location=FileLocation(path, (1,)),
            hint="Set `header=True` if it is a header; otherwise give the names of the columns with `columns`.",
        )
    for field in first.fields:
        if is_number(field):
            raise DataError(
                f"{field!r} is a number, so this line does not look like a header.",
                location=FileLocation(path, (first.line,)),
                hint="Give the names with `columns`, or set `header=True` if the line is a header.",
            )


def _check_names(path: str, first: TextRow) -> None:
    for k, name in enumerate(first.fields, 1):
        if not name:
            raise DataError(
                f"column {k} has no name.",
                location=FileLocation(path, (first.line,)),
                hint="Add a name. If the column is the index of pandas, write the file with index=False.",
            )
        if first.fields.count(name) > 1:
            raise DataError(
                f"two columns have the name {name!r}.",
                location=FileLocation(path, (first.line,)),
                hint="Rename one of the two.",
            )


def _check_no_header(path: str, rows: Sequence[TextRow]) -> None:
    """Refuse `columns=` where the first line is a header: words above numbers."""
    first, below = rows[0], [row.fields for row in rows[1:]]
    for k, field in enumerate(first.fields):
        column = [fields[k] for fields in below if k < len(fields) and fields[k]]
        if column and not is_number(field) and all(map(is_number, column)):
            raise DataError(
                f"{field!r} is above numbers, so this line looks like a header.",
                location=FileLocation(path, (first.line,)),
                hint="Set `header=True` if it is a header, or `header=False` if it is data.",
            )


def _numbers(
    path: str, names: Sequence[str], value: str | Sequence[str] | None, text: Sequence[str] | None
) -> tuple[str, ...]:
    """Columns that must be numbers."""
    if value is None:
        wanted: tuple[str, ...] = ("value",) if "value" in names and "value" not in (text or ()) else ()
    else:
        wanted = (value,) if isinstance(value, str) else tuple(value)
    numbers = "`value`" if value is None or isinstance(value, str) else "`value` or `weight`"
    for option, given in ((numbers, wanted), ("`text`", tuple(text or ()))):
        for name in given:
            if name not in names:
                raise DataError(
                    (f"{option}: the file has no column {name!r}, only {', '.join(map(repr, names))}."),
                    location=FileLocation(path),
                    hint=f"{suggestion(name, names)}Choose one of these columns.",
                )
    for name in wanted:
        if name in (text or ()):
            raise ParameterError(
                f"column {name!r} is both in `value` and in `text`.",
                hint="Remove it from one of the two.",
            )
    return wanted


def holds(fields: Sequence[str], number: bool, text: bool, skips_bad: bool = False) -> Holds:
    """Narrowest type that fits the sample; the rest of the file can only widen it."""
    filled = [field for field in fields if field]
    if text:
        return "text"
    if number:
        filled = [field for field in filled if is_number(field)] if skips_bad else filled
        return "whole" if all(map(_is_integer, filled)) else "number"
    if all(map(_is_integer, filled)):
        return "integers"
    return "decimals" if all(is_number(field) and not re.search(CODES, field) for field in filled) else "text"


def is_number(field: str) -> bool:
    """Whether a field is a finite number."""
    return DECIMAL.fullmatch(field) is not None and math.isfinite(float(field))


def _is_integer(field: str) -> bool:
    return INTEGER.fullmatch(field) is not None and -(2**63) <= int(field) < 2**63


def _fields(count: int) -> str:
    return "1 field" if count == 1 else f"{count} fields"


@contextmanager
def opened(path: str) -> Iterator[BinaryIO]:
    """Bytes of a file, decompressed if it is gzip."""
    with open(path, "rb") as raw:
        compressed = raw.read(2) == GZIP
        raw.seek(0)
        try:
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if compressed else raw
        except EOFError:
            raise DataError(
                "the compressed file is truncated.",
                location=FileLocation(path),
                hint="Download it again.",
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise DataError(
                f"the compressed file is damaged ({error}).", location=FileLocation(path), hint="Download it again."
            ) from None


def beginning(path: str, size: int) -> tuple[str, bool]:
    """First lines of a file, about `size` bytes, and whether that is all; without a byte order mark."""
    with opened(path) as file:
        data = file.read(size)
        whole = len(data) < size
        if not whole:  # end with a whole line
            data += file.readline()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        for _ in lines(path):  # raises at the fault
            pass
        raise
    return text.removeprefix(BOM), whole


def lines(path: str) -> Iterator[str]:
    """Lines of a file with their ends; an error locates bytes that are not UTF-8."""
    with opened(path) as file:
        yield from _decoded(path, file, 0, 0)


def _decoded(path: str, source: Iterable[bytes], before: int, offset: int) -> Iterator[str]:
    """Decoded lines; `before`, `offset`: number of lines and bytes before them."""
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
    """Lines of a text with their ends. str.splitlines would also split at form feeds."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def records(path: str, delimiter: str, quoted: bool, passed: Passed | None = None) -> Iterator[TextRow]:
    """Records of a file; chunks at its beginning are skipped as long as `passed` returns True.

    passed(chunk, before): whether these whole lines, each a record, can be skipped; `before`: number of earlier lines.
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
    """Records of lines, in step with polars: a blank line is a record without fields."""
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
        hint = "Write a quotation mark inside quotes twice"
    elif "new-line" in error:
        return DataError(
            "a line ends with a single carriage return.", location=where, hint="End lines with LF or CRLF."
        )
    elif "field larger" in error:
        what = f"a field has more than {csv.field_size_limit():,} characters"
        hint = "Check for a quotation mark that is not closed"
    else:
        what = "a quotation mark opens a field and is not closed"
        hint = "Close it"
    ordinary = "set `quoted=False` if quotation marks are ordinary characters"
    return DataError(f"{what}.", location=where, hint=f"{hint}; or {ordinary}.")


def stray_quote(path: str) -> DataError | None:
    """Error at the first line with an odd number of quotation marks, where polars and csv disagree."""
    for number, line in enumerate(lines(path), 1):
        if line.count('"') % 2:
            return DataError(
                "a quotation mark is inside an unquoted field.",
                location=FileLocation(path, (number,)),
                hint=(
                    "Put the field in quotes and double the mark; or set `quoted=False` if quotation marks "
                    "are ordinary characters."
                ),
            )
    return None


def escape_table(table: "pl.DataFrame") -> "pl.DataFrame":
    """The table with formulas in text columns, and in their names, escaped."""
    import polars as pl

    texts = pl.col(pl.String, pl.Categorical, pl.Enum).cast(pl.String)
    table = table.with_columns(pl.when(texts.str.contains(FORMULA)).then("'" + texts).otherwise(texts).name.keep())
    return table.rename({name: f"'{name}" for name in table.columns if re.match(FORMULA, name)})


def unescaped(field: "pl.Expr") -> "pl.Expr":
    """A field of text without the escape."""
    import polars as pl

    # Polars evaluates the second branch only if the first condition holds somewhere, which is rare.
    plain = pl.when(field.str.contains(ESCAPED)).then(field.str.slice(1)).otherwise(field)
    return pl.when(field.str.starts_with("'")).then(plain).otherwise(field)


def unescaped_names(names: list[str]) -> list[str]:
    """Column names without the escape."""
    return [name[1:] if re.match(ESCAPED, name) else name for name in names]
