"""`plait.write`: tables and arrays into files, atomically; with protection against CSV injection (OWASP).

An apostrophe is put before a field that begins with any number of apostrophes and one of ``FIRST``; reading removes
one. So every name survives a round trip.
"""

import errno
import gzip
import os
import queue
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from plait.errors import DataError, FileLocation, ParameterError, suggestion
from plait.files.csv_dialect import escape_table
from plait.files.source_kinds import ARROW, FORMATS, NPY, NPZ, PARQUET, TEXT, TNS, FileFormat, ending, known_endings
from plait.files.tensors import is_array, table_of
from plait.forked import refuse_in_fork
from plait.machine import path_fault, replacing

if TYPE_CHECKING:
    import polars as pl


def write(
    data: Any,
    path: Any,
    *,
    columns: Sequence[str] | None = None,
    value: str | None = None,
    escape_formulas: bool = True,
) -> None:
    """Write a table or an array to a file.

    Parameters
    ----------
    data : table, numpy.ndarray or sparse array
        A table of pandas, polars or pyarrow, or an array of NumPy, SciPy or ``sparse``.
    path : path
        The file. Its ending is the format: ``.csv``, ``.tsv``, ``.txt`` or ``.tns`` (each also
        ``.gz``), ``.parquet``, ``.arrow``, ``.feather``, ``.npz``; ``.npy`` for dense arrays.
    columns : sequence of str, default None
        Names of the dimensions of an array that is written as a table; ``i1``, ``i2``, … by
        default.
    value : str, default None
        Column of values of a table that is written as ``.tns`` or ``.npz``. The default is
        ``"value"`` if it exists; otherwise all values are 1.
    escape_formulas : bool, default True
        Put an apostrophe before fields of text that a spreadsheet would run as a formula.
        ``plait.read`` removes it.

    Raises
    ------
    plait.errors.ParameterError
        If an option does not apply to the format.
    plait.errors.DataError
        If the format is unknown, or the data cannot be written in it.

    Notes
    -----
    The write is atomic: the file appears when it is complete.

    Examples
    --------
    >>> plait.write(visits, "visits.parquet")
    >>> plait.write(np.eye(2), "eye.csv", columns=["row", "column"])
    >>> plait.read("eye.csv").columns
    ['row', 'column', 'value']
    """
    refuse_in_fork("plait.write")
    given = str(os.fspath(path))
    kind = _written(given)
    _check_options(data, kind, columns, value, escape_formulas)
    content = _content(data, kind, columns, value, given)
    if kind is TEXT and escape_formulas:
        content = escape_table(content)
    with _opened(given) as file:
        _write_content(content, kind, given, file)


@contextmanager
def appending(path: Any, *, escape_formulas: bool = True) -> Iterator[Callable[["pl.DataFrame"], None]]:
    """A function that appends tables with the same columns to a file: text, Parquet or Arrow, by its ending.

    The file appears when the context ends; an error or an interrupt leaves none. At least one table must be appended;
    each is a row group of a Parquet file.
    """
    given = str(os.fspath(path))
    kind = _written(given)
    if kind not in (TEXT, PARQUET, ARROW):
        raise DataError(
            f"links cannot be written as {ending(given)}.",
            location=FileLocation(given),
            hint="Choose a file that ends in .parquet, .arrow or .csv.",
        )
    if kind is not TEXT:
        _check_options(None, kind, None, None, escape_formulas)
        with _opened(given) as file, _Sink(kind, given, file) as sink:
            yield sink.append
        return
    with _opened(given) as file:
        has_header = False

        def append(table: "pl.DataFrame") -> None:
            nonlocal has_header
            table = escape_table(table) if escape_formulas else table
            with _table_errors(given):
                table.write_csv(file, separator=_separator(given), include_header=not has_header)
            has_header = True

        yield append


class _Sink:
    """Tables from a queue, written as Parquet or Arrow by a polars stream in a thread.

    The caller computes the tables in its own thread, where Ctrl-C raises. Two tables are held: one in the queue, one
    being written.
    """

    def __init__(self, kind: FileFormat, path: str, file: BinaryIO):
        self._kind, self._path, self._file = kind, path, file
        self._waiting: queue.Queue[pl.DataFrame | None] = queue.Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._is_aborted = False

    def __enter__(self) -> "_Sink":
        return self

    def append(self, table: "pl.DataFrame") -> None:
        """Write a table once those before it are written."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, args=(table.schema,), daemon=True)
            self._thread.start()
        self._put(table)
        if self._error is not None:
            self._raise()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        self._is_aborted = error is not None
        if self._thread is not None:
            self._put(None)
            self._thread.join()
        if error is None:
            self._raise()

    def _put(self, table: "pl.DataFrame | None") -> None:
        while self._thread is not None and self._thread.is_alive():
            try:
                return self._waiting.put(table, timeout=0.1)
            except queue.Full:  # also where the thread has failed
                continue

    def _raise(self) -> None:
        if self._error is not None:
            with _table_errors(self._path):
                raise self._error

    def _write(self, schema: Any) -> None:
        from polars.io.plugins import register_io_source

        def tables(*pushed_down: Any) -> "Iterator[pl.DataFrame]":
            while (table := self._waiting.get()) is not None:
                yield table
            if self._is_aborted:
                raise _AbortedError

        try:
            source = register_io_source(tables, schema=schema)
            if self._kind is PARQUET:
                source.sink_parquet(self._file)
            else:
                source.sink_ipc(self._file, compression="uncompressed")
        except BaseException as error:  # raised again in the thread of the caller
            self._error = error


class _AbortedError(Exception):
    """The caller of a sink has failed."""


def counts_from(path: Any) -> int | None:
    """First coordinate of an array written as a table; None where it stays an array."""
    kind = _written(str(os.fspath(path)))
    return None if kind in (NPZ, NPY) else _base(kind)


def _base(kind: FileFormat) -> int:
    return 1 if kind is TNS else 0


def _written(path: str) -> FileFormat:
    tail = ending(path)
    for kind in FORMATS:
        if tail in kind.endings and kind.written:
            return kind
    what = f"files with the ending {tail!r} cannot be written" if tail else "the file name has no ending"
    raise DataError(
        f"{what}.",
        location=FileLocation(path),
        hint=known_endings(tail, [kind for kind in FORMATS if kind.written]),
    )


def _check_options(
    data: Any, kind: FileFormat, columns: Sequence[str] | None, value: str | None, escape_formulas: bool
) -> None:
    if columns is not None and (not is_array(data) or kind not in (TEXT, PARQUET, ARROW)):
        raise ParameterError(
            "`columns` is only for an array that is written as a table.",
            hint="Remove it.",
        )
    if value is not None and (is_array(data) or kind not in (TNS, NPZ)):
        raise ParameterError(
            "`value` is only for a table that is written as .tns or .npz.",
            hint="Remove it.",
        )
    if not escape_formulas and kind is not TEXT:
        raise ParameterError(
            f"`escape_formulas=False` is only for {', '.join(TEXT.extensions)}.",
            hint="Remove it; other formats do not escape names.",
        )


def _content(data: Any, kind: FileFormat, columns: Sequence[str] | None, value: str | None, path: str) -> Any:
    """Content of the file: a polars table, or an array for NumPy's formats."""
    import numpy as np

    if is_array(data):
        if kind is NPY and not isinstance(data, np.ndarray):
            raise DataError(
                "a sparse array cannot be written as .npy.", location=FileLocation(path), hint="Write it as .npz."
            )
        if kind in (NPZ, NPY):
            return data
        return table_of(data, columns, base=_base(kind))
    table = _polars(data, path)
    if kind is NPY:
        raise DataError(
            "a table cannot be written as .npy.",
            location=FileLocation(path),
            hint="Write it as .npz, .parquet or .csv.",
        )
    if kind in (TNS, NPZ):
        return _entries(table, value, _base(kind), path)
    return table


def _polars(data: Any, path: str) -> "pl.DataFrame":
    import narwhals.stable.v2 as nw

    try:
        frame = nw.from_native(data)
    except TypeError:
        raise DataError(
            f"{type(data).__name__} cannot be written.",
            location=FileLocation(path),
            hint="Give a table (pandas, polars, pyarrow), a NumPy array or a sparse array.",
        ) from None
    return (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_polars()


def _entries(table: "pl.DataFrame", value: str | None, base: int, path: str) -> "pl.DataFrame":
    """Integer coordinates from `base` and ``value`` last, of a table that becomes an array."""
    import polars as pl

    if value is not None and value not in table.columns:
        raise DataError(
            f"`value`: the table has no column {value!r}.",
            location=FileLocation(path),
            hint=f"{suggestion(value, table.columns)}The table has {', '.join(map(repr, table.columns))}.",
        )
    if table.is_empty():  # empty columns have no type
        table = table.cast({pl.Null: pl.Int64})
    value = value or ("value" if "value" in table.columns else None)
    values = pl.Series("value", [1] * len(table), dtype=pl.Int64) if value is None else table[value].alias("value")
    if not values.dtype.is_numeric() or values.null_count() or not values.is_finite().all():
        raise DataError(
            f"column {value!r} contains values that are not numbers.",
            location=FileLocation(path),
            hint="Correct or remove these rows.",
        )
    indices = table if value is None else table.drop(value)
    for column in indices:
        _check_coordinates(column, base, path)
    if not indices.width:
        raise DataError(
            "the table has no columns of coordinates.",
            location=FileLocation(path),
            hint="Add one column per index.",
        )
    return indices.with_columns(values.alias("value")) if "value" not in indices.columns else _renamed(indices, values)


def _renamed(indices: "pl.DataFrame", values: "pl.Series") -> "pl.DataFrame":
    """Columns by number, where a coordinate is called value; names are not written."""
    numbered = indices.rename({name: str(k) for k, name in enumerate(indices.columns)})
    return numbered.with_columns(values)


def _check_coordinates(column: "pl.Series", base: int, path: str) -> None:
    if not column.dtype.is_integer():
        raise DataError(
            f"column {column.name!r} has type {column.dtype}, but coordinates must be integers.",
            location=FileLocation(path),
            hint="Write tables with names as .csv or .parquet.",
        )
    least = column.min()
    if column.null_count() or (least is not None and int(cast(int, least)) < base):
        got = "a missing coordinate" if column.null_count() else f"coordinate {least!r}"
        raise DataError(
            f"column {column.name!r} has {got}; coordinates count from {base} in this format.",
            location=FileLocation(path),
            hint="Shift the column, or write it as .csv or .parquet.",
        )


def _write_content(content: Any, kind: FileFormat, path: str, file: BinaryIO) -> None:
    if kind in (NPZ, NPY):
        _write_numpy(content, kind, file)
        return
    with _table_errors(path):
        if kind is TEXT:
            content.write_csv(file, separator=_separator(path))
        elif kind is TNS:
            content.write_csv(file, separator=" ", include_header=False)
        elif kind is PARQUET:
            content.write_parquet(file)
        else:
            content.write_ipc(file, compression="uncompressed")


def _separator(path: str) -> str:
    return "," if ending(path).startswith(".csv") else "\t"


@contextmanager
def _table_errors(path: str) -> Iterator[None]:
    """Errors of polars, as those of the system or of the table."""
    import polars as pl

    try:
        yield
    except pl.exceptions.PolarsError as error:
        if _error_number(error):
            raise OSError(_error_number(error), str(error)) from None
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise DataError(
            f"the table cannot be written: {reason}.",
            location=FileLocation(path),
            hint="Convert its columns, or write it as .parquet.",
        ) from None


def _write_numpy(content: Any, kind: FileFormat, file: BinaryIO) -> None:
    import numpy as np

    from plait.files.npz import write_npz

    if kind is NPY:
        np.save(file, content, allow_pickle=False)
    elif is_array(content):
        write_npz(file, content, float(getattr(content, "fill_value", 0.0)))
    else:
        from scipy.sparse import coo_array

        axes = [column.to_numpy() for column in content.iter_columns()]
        shape = tuple(int(axis.max()) + 1 if len(axis) else 0 for axis in axes[:-1])
        write_npz(file, coo_array((axes[-1], tuple(axes[:-1])), shape=shape))


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """The new file of a path, compressed if its name ends in .gz."""
    with _replacing(path) as file:
        if not ending(path).endswith(".gz"):
            yield file
            return
        # Without time stamp and name, so that equal tables give equal files.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed:
            yield cast(BinaryIO, packed)


@contextmanager
def _replacing(path: str) -> Iterator[BinaryIO]:
    """A temporary file that is renamed when complete, and removed on failure."""
    target = Path(path).expanduser()
    if fault := path_fault(target):
        raise DataError(
            f"the file cannot be written: {fault}.", location=FileLocation(path), hint="Choose another path."
        )
    if target.is_dir():
        raise DataError("expected a file, got a folder.", location=FileLocation(path), hint="Choose a file in it.")
    if target.parent.is_file():
        raise DataError(
            f"{str(target.parent)!r} is a file, not a folder.",
            location=FileLocation(path),
            hint="Choose another path.",
        )
    if not target.parent.is_dir():
        raise DataError(
            f"the folder {str(target.parent)!r} does not exist.", location=FileLocation(path), hint="Create it first."
        )
    try:
        with replacing(target) as file:
            yield file
    except OSError as error:
        raise _unwritten(path, error) from error


def _error_number(error: Exception) -> int:
    """System error number, 0 without one; polars has it in the text."""
    said = re.search(r"(?:os error |\[Errno )(\d+)", str(error))
    return getattr(error, "errno", None) or (int(said[1]) if said else 0)


def _unwritten(path: str, error: OSError) -> DataError:
    number = _error_number(error)
    reason = os.strerror(number) if number else str(error).rstrip(".")
    if number in (errno.ENOSPC, errno.EDQUOT):
        return DataError(
            "the disk is full.",
            location=FileLocation(path),
            hint="Free some space. No partial file remains.",
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DataError(
            f"permission denied ({reason}).",
            location=FileLocation(path),
            hint="Choose another folder.",
        )
    return DataError(
        f"the file cannot be written: {reason}.",
        location=FileLocation(path),
        hint="Choose another path.",
    )
