"""Text files line by line: slow and exact. Used to look at the beginning of a file, and to say where a fault is.

Where a text file is at fault: a second, slow pass that names the line. Runs only when something is wrong.

Parts without quotation marks are passed over by the megabyte, since a line is a record there.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from plait.errors import DataError, FileLocation
from plait.files.csv_dialect import Passed, TextLayout, TextRow, stray_quote


def record_at(layout: TextLayout, row: int) -> TextRow:
    """The record that became a row of polars, which counts blank lines."""

    def passed(chunk: bytes, before: int) -> bool:
        return _plain(layout, chunk) and before + _lines(chunk) <= layout.skip + row

    found = next((record for k, record in _numbered(layout, passed) if k == row), None)
    if found is None or len(found.fields) < len(layout.columns):
        raise unread(layout, f"row {row + 1} is not where it should be")
    return found


def line_of_row(layout: TextLayout, row: int) -> int | None:
    """The line that a row of the table came from; blank lines are no rows."""
    blanks = (b" ", b"\t") if layout.strip else ()
    ends = (b"\n", b"\r", layout.delimiter.encode(), *blanks)

    def passed(chunk: bytes, before: int) -> bool:
        gaps = chunk.startswith(ends) or any(b"\n" + end in chunk for end in ends)
        return _plain(layout, chunk) and not gaps and before + _lines(chunk) <= layout.skip + row

    rows = _numbered(layout, passed)
    first = next(rows, None)
    if first is None:
        return None
    filled = (record.line for _, record in chain([first], rows) if not record.blank)
    return next((line for k, line in enumerate(filled, first[0]) if k == row), None)


def ragged(layout: TextLayout) -> DataError | None:
    """The first record with too few or too many fields; raises what is wrong with encoding or quotes before it."""
    width = len(layout.columns)
    for record in layout.records(lambda chunk, _: _plain(layout, chunk) and _even(chunk, layout.delimiter, width)):
        if record.fields and len(record.fields) != width:
            return _ragged(layout, record.line, len(record.fields))
    return None


def unread(layout: TextLayout, error: object) -> DataError:
    """Why polars gave up."""
    found = ragged(layout) or (stray_quote(layout.path) if layout.quoted else None)
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    return found or DataError(
        f"the file cannot be read: {reason}.",
        location=FileLocation(layout.path),
        hint="Check its quotation marks.",
    )


def not_a_number(layout: TextLayout, column: int, record: TextRow) -> DataError:
    """A field that must be a number and is none."""
    hint = "Write a number such as 3 or 0.25"
    if record.line == layout.skip + 1 and not layout.header:
        hint += "; if the line is the header, give `header=True`"
    return DataError(
        f"{record.fields[column]!r} is not a number.",
        location=FileLocation(layout.path, (record.line,), layout.columns[column]),
        actual=record.fields[column],
        expected="a number",
        hint=f"{hint}.",
    )


def _numbered(layout: TextLayout, passed: Passed) -> Iterator[tuple[int, TextRow]]:
    """Records with the number of their row; where lines were passed over, each was a row."""
    found = layout.records(passed)
    first = next(found, None)
    return iter(()) if first is None else enumerate(chain([first], found), first.line - 1 - layout.skip)


def _plain(layout: TextLayout, chunk: bytes) -> bool:
    return not layout.quoted or b'"' not in chunk


def _lines(chunk: bytes) -> int:
    """The lines of a chunk; the last one of a file may end without LF."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


def _even(chunk: bytes, delimiter: str, width: int) -> bool:
    """Whether all lines are UTF-8 and have width fields; a blank one counts as 1 field."""
    codes = np.frombuffer(chunk if chunk.endswith(b"\n") else chunk + b"\n", np.uint8)
    before = np.searchsorted(np.flatnonzero(codes == ord(delimiter)), np.flatnonzero(codes == ord("\n")))
    try:
        chunk.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return bool((np.diff(before, prepend=0) == width - 1).all())


def _ragged(layout: TextLayout, line: int, count: int) -> DataError:
    fields = "1 field" if count == 1 else f"{count} fields"
    wanted = "1 column" if len(layout.columns) == 1 else f"{len(layout.columns)} columns"
    if count < len(layout.columns):
        hint = "Add what is missing; a field may be empty, but not left out."
    elif layout.quoted:
        hint = f"Put a field that has {layout.delimiter!r} in it into quotes."
    else:
        hint = f"No field may have {layout.delimiter!r} in it while `quoted=False`."
    return DataError(
        f"{fields}, but the file has {wanted}, {_listed(layout.columns)}.",
        location=FileLocation(layout.path, (line,)),
        hint=hint,
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:6])) + (", …" if len(names) > 6 else "")
