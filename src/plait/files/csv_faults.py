"""Location of faults in text files: a slow, exact pass that runs only after polars has refused the file.

Chunks without quotation marks are skipped by the megabyte, since a line is a record there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from plait.errors import DataError, FileLocation, SkippedRowsWarning, warn_of
from plait.files.csv_dialect import BOM, Passed, TextLayout, TextRow, is_number, lines, stray_quote


def record_at(layout: TextLayout, row: int) -> TextRow:
    """The record of a row of polars, which counts blank lines."""

    def passed(chunk: bytes, before: int) -> bool:
        return _plain(layout, chunk) and before + _lines(chunk) <= layout.skip + row

    record = next((record for k, record in _numbered(layout, passed) if k == row), None)
    if record is None or len(record.fields) < len(layout.columns):
        raise unread(layout, f"row {row + 1} is not at its expected position")
    return record


def line_of_row(layout: TextLayout, row: int) -> int | None:
    """Line of a row of the table; blank lines are no rows."""
    blanks = (b" ", b"\t") if layout.strip else ()
    ends = (b"\n", b"\r", layout.delimiter.encode(), *blanks, *(text.encode() for text in layout.nulls))

    def passed(chunk: bytes, before: int) -> bool:
        gaps = layout.bad or chunk.startswith(ends) or any(b"\n" + end in chunk for end in ends)
        return _plain(layout, chunk) and not gaps and before + _lines(chunk) <= layout.skip + row

    rows = _numbered(layout, passed)
    first = next(rows, None)
    if first is None:
        return None
    filled = (record.line for _, record in chain([first], rows) if not record.blank)
    return next((line for k, line in enumerate(filled, first[0]) if k == row), None)


def ragged(layout: TextLayout) -> DataError | None:
    """Error at the first record with too few or too many fields, or of encoding or quotes before it."""
    width = len(layout.columns)
    for record in layout.records(lambda chunk, _: _plain(layout, chunk) and _even(chunk, layout.delimiter, width)):
        if record.fields and len(record.fields) != width:
            return _ragged(layout, record.line, len(record.fields))
    return None


def skip_bad_rows(layout: TextLayout, *, warn: bool = True) -> TextLayout:
    """The layout without rows that have too few or too many fields, or no number where a column must be numbers.

    It begins at the first row that can be read, since polars takes the number of columns from there.
    """
    faults: dict[int, DataError] = {}  # by row
    first, row = None, -1
    for row, record in enumerate(layout.records()):
        fault = _fault(layout, record)
        if fault is not None:
            faults[row] = fault
        elif first is None and record.fields:
            first = (row, record)
    if not faults:
        return layout
    if warn:
        _warn_of(list(faults.values()))
    if first is None:
        first = (row + 1, TextRow(sum(1 for _ in lines(layout.path)) + 1, [""]))
    start, skip = first[0], first[1].line - 1
    marked = bool(skip) and first[1].fields[0].startswith(BOM)
    bad = {_line(fault): row - start for row, fault in faults.items()}
    return replace(layout, skip=skip, marked=marked, bad=bad)


def _warn_of(faults: Sequence[DataError]) -> None:
    """Warn of rows that are left out."""
    first = faults[0]
    left_out = "1 row is left out" if len(faults) == 1 else f"{len(faults):,} rows are left out, and this is the first"
    hint = first.hint
    if isinstance(first.actual, str):
        hint = f"Correct the file, or keep such rows without a value: `null_values={first.actual!r}`."
    message = f"{first.message.removesuffix('.')}; {left_out}."
    warn_of([SkippedRowsWarning(message, location=first.location, hint=hint)])


def _line(fault: DataError) -> int:
    assert isinstance(fault.location, FileLocation)
    return fault.location.lines[0]


def _fault(layout: TextLayout, record: TextRow) -> DataError | None:
    """Why a row cannot be read."""
    if not record.fields:
        return None
    if len(record.fields) != len(layout.columns):
        return _ragged(layout, record.line, len(record.fields))
    for k, field in enumerate(record.fields):
        if layout.holds[k] in ("whole", "number") and field and not is_number(field):
            return not_a_number(layout, k, record)
    return None


def unread(layout: TextLayout, error: object) -> DataError:
    """Error for a file that polars refuses."""
    fault = ragged(layout) or (stray_quote(layout.path) if layout.quoted else None)
    reason = str(error).strip().partition("\n")[0].rstrip(".")
    return fault or DataError(
        f"the file cannot be read: {reason}.",
        location=FileLocation(layout.path),
        hint="Check its quotation marks.",
    )


def not_a_number(layout: TextLayout, column: int, record: TextRow) -> DataError:
    """Error for a field that must be a number."""
    hint = "Write a number such as 3 or 0.25"
    if record.line == layout.skip + 1 and not layout.header:
        hint += "; if the line is a header, set `header=True`"
    return DataError(
        f"{record.fields[column]!r} is not a number.",
        location=FileLocation(layout.path, (record.line,), layout.columns[column]),
        actual=record.fields[column],
        expected="a number",
        hint=f"{hint}.",
    )


def _numbered(layout: TextLayout, passed: Passed) -> Iterator[tuple[int, TextRow]]:
    """Records with their row numbers; each skipped line was a row."""
    records = layout.records(passed)
    first = next(records, None)
    return iter(()) if first is None else enumerate(chain([first], records), first.line - 1 - layout.skip)


def _plain(layout: TextLayout, chunk: bytes) -> bool:
    return not layout.quoted or b'"' not in chunk


def _lines(chunk: bytes) -> int:
    """Number of lines of a chunk; the last one of a file may lack LF."""
    return chunk.count(b"\n") + (not chunk.endswith(b"\n"))


def _even(chunk: bytes, delimiter: str, width: int) -> bool:
    """Whether all lines are UTF-8 with `width` fields; a blank one counts as 1 field."""
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
        hint = "Add the missing fields; a field can be empty."
    elif layout.quoted:
        hint = f"Put fields that contain {layout.delimiter!r} in quotes."
    else:
        hint = f"With `quoted=False`, no field can contain {layout.delimiter!r}."
    return DataError(
        f"{fields}, but the file has {wanted}, {_quote_names(layout.columns)}.",
        location=FileLocation(layout.path, (line,)),
        hint=hint,
    )


def _quote_names(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:6])) + (", …" if len(names) > 6 else "")
