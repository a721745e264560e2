"""Text files line by line: slow and exact. Used to look at the beginning of a file, and to say where a fault is."""

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import BinaryIO, NamedTuple, cast

from plait.errors import DataError, FileLocation

GZIP = b"\x1f\x8b"
BOM = "\ufeff"
UTF16 = (b"\xff\xfe", b"\xfe\xff")
CHUNK = 4 << 20

Passed = Callable[[bytes, int], bool]


class TextRow(NamedTuple):
    """A record of delimited text: the line it begins in (counting from 1), and its fields; none for a blank line."""

    line: int
    fields: list[str]

    @property
    def blank(self) -> bool:
        """Whether this is no row: a blank line, or nothing but delimiters as spreadsheets write below a table."""
        return not any(self.fields) and len(self.fields) != 1


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
            chunk = file.read(CHUNK)
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
