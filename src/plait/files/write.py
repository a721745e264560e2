"""``plait.write``: a table or an array into a file, all of it or nothing.

CSV injection: fields that a spreadsheet would run as formulas are written behind an apostrophe (OWASP).

Escaping puts one apostrophe before a field that begins with any number of apostrophes and one of ``FIRST``; reading
takes one off. So every name survives writing and reading.
"""

import errno
import gzip
import os
import re
from collections.abc import Iterator, Sequence
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
    """Write a table or an array; the ending of the path says how.

    data     a table (pandas, polars, pyarrow), a NumPy array, a SciPy sparse or a ``sparse`` array
    path     .csv, .tsv, .txt or .tns (each also .gz), .parquet, .arrow, .feather, .npz; .npy for a dense array
    columns  (an array into a table) names of its dimensions, by default ``i1``, ``i2``, …
    value    (a table into .tns or .npz) the column of values, by default ``value`` if there is one, else all are 1
    escape_formulas  (text) ``False``: names that begin with ``=``, ``+``, ``-``, ``@``, a tab or a line end are written
             as they are, and a spreadsheet may run them; by default an apostrophe is put before them, which
             ``plait.read`` takes off

    The file is there when it is complete: it is written beside its place under another name, and then moved.
    """
    refuse_in_fork("plait.write")
    given = str(os.fspath(path))
    kind = _written(given)
    compressed = ending(given).endswith(".gz")
    _check_options(data, kind, columns, value, escape_formulas)
    content = _content(data, kind, columns, value, given)
    if kind is TEXT and escape_formulas:
        content = escape_table(content)
    with _replacing(given) as file:
        if not compressed:
            _write_content(content, kind, given, file)
            return
        # Without a time stamp and a name, so that equal tables give equal files.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed:
            _write_content(content, kind, given, cast(BinaryIO, packed))


def counts_from(path: Any) -> int | None:
    """What the coordinates of an array count from where it is written as a table; None where it stays an array."""
    kind = _written(str(os.fspath(path)))
    return None if kind in (NPZ, NPY) else _base(kind)


def _base(kind: FileFormat) -> int:
    return 1 if kind is TNS else 0


def _written(path: str) -> FileFormat:
    tail = ending(path)
    for kind in FORMATS:
        if tail in kind.endings and kind.written:
            return kind
    what = f"{tail!r} cannot be written" if tail else "the name has no ending"
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
            "`columns` names the dimensions of an array written as a table.",
            hint="Leave it out.",
        )
    if value is not None and (is_array(data) or kind not in (TNS, NPZ)):
        raise ParameterError(
            "`value` is for a table written as .tns or .npz.",
            hint="Leave it out.",
        )
    if not escape_formulas and kind is not TEXT:
        raise ParameterError(
            f"`escape_formulas=False` is for {', '.join(TEXT.extensions)}.",
            hint="Leave it out: other kinds of files hold names as they are.",
        )


def _content(data: Any, kind: FileFormat, columns: Sequence[str] | None, value: str | None, path: str) -> Any:
    """What goes into the file: a polars table, or an array for NumPy's formats."""
    import numpy as np

    if is_array(data):
        if kind is NPY and not isinstance(data, np.ndarray):
            raise DataError(
                "a sparse array is not written as .npy.", location=FileLocation(path), hint="Write it as .npz."
            )
        if kind in (NPZ, NPY):
            return data
        return table_of(data, columns, base=_base(kind))
    table = _polars(data, path)
    if kind is NPY:
        raise DataError(
            "a table is not written as .npy.",
            location=FileLocation(path),
            hint="Write it as .npz, .parquet or .csv.",
        )
    if kind in (TNS, NPZ):
        return _entries(table, value, _base(kind), path)
    return table


def _polars(data: Any, path: str) -> "pl.DataFrame":
    import narwhals as nw

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
    """Coordinates (integers from base on) and ``value`` last, of a table that is to become an array."""
    import polars as pl

    if value is not None and value not in table.columns:
        raise DataError(
            f"there is no column {value!r}, which `value` names.",
            location=FileLocation(path),
            hint=f"{suggestion(value, table.columns)}The table has {', '.join(map(repr, table.columns))}.",
        )
    if table.is_empty():  # columns without a field have no type
        table = table.cast({pl.Null: pl.Int64})
    value = value or ("value" if "value" in table.columns else None)
    values = pl.Series("value", [1] * len(table), dtype=pl.Int64) if value is None else table[value].alias("value")
    if not values.dtype.is_numeric() or values.null_count() or not values.is_finite().all():
        raise DataError(
            f"column {value!r} is not all numbers.",
            location=FileLocation(path),
            hint="Remove or mend the other rows.",
        )
    indices = table if value is None else table.drop(value)
    for column in indices:
        _check_coordinates(column, base, path)
    if not indices.width:
        raise DataError(
            "the table has no column of coordinates.",
            location=FileLocation(path),
            hint="Give one for each index.",
        )
    return indices.with_columns(values.alias("value")) if "value" not in indices.columns else _renamed(indices, values)


def _renamed(indices: "pl.DataFrame", values: "pl.Series") -> "pl.DataFrame":
    """Columns by number, where one of the coordinates is itself called value; names are not written anyway."""
    numbered = indices.rename({name: str(k) for k, name in enumerate(indices.columns)})
    return numbered.with_columns(values)


def _check_coordinates(column: "pl.Series", base: int, path: str) -> None:
    if not column.dtype.is_integer():
        raise DataError(
            f"column {column.name!r} is of type {column.dtype}, but coordinates are integers.",
            location=FileLocation(path),
            hint="Write names as .csv or .parquet.",
        )
    least = column.min()
    if column.null_count() or (least is not None and int(cast(int, least)) < base):
        got = "a missing coordinate" if column.null_count() else f"coordinate {least!r}"
        raise DataError(
            f"column {column.name!r} has {got}; they count from {base} here.",
            location=FileLocation(path),
            hint="Shift the column, or write it as .csv or .parquet.",
        )


def _write_content(content: Any, kind: FileFormat, path: str, file: BinaryIO) -> None:
    import polars as pl

    if kind in (NPZ, NPY):
        _write_numpy(content, kind, file)
        return
    try:
        if kind is TEXT:
            comma = ending(path).startswith(".csv")
            content.write_csv(file, separator="," if comma else "\t")
        elif kind is TNS:
            content.write_csv(file, separator=" ", include_header=False)
        elif kind is PARQUET:
            content.write_parquet(file)
        else:
            content.write_ipc(file, compression="uncompressed")
    except pl.exceptions.PolarsError as error:
        if _error_number(error):
            raise OSError(_error_number(error), str(error)) from None
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise DataError(
            f"the table cannot be written: {reason}.",
            location=FileLocation(path),
            hint="Convert its columns, or write .parquet.",
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
def _replacing(path: str) -> Iterator[BinaryIO]:
    """A file that takes its place when it is complete, and is removed when anything fails."""
    target = Path(path).expanduser()
    if fault := path_fault(target):
        raise DataError(
            f"the file cannot be written: {fault}.", location=FileLocation(path), hint="Choose another place."
        )
    if target.is_dir():
        raise DataError("this is a folder.", location=FileLocation(path), hint="Name a file in it.")
    if target.parent.is_file():
        raise DataError(
            f"{str(target.parent)!r} is a file, not a folder.",
            location=FileLocation(path),
            hint="Name another place.",
        )
    if not target.parent.is_dir():
        raise DataError(
            f"there is no folder {str(target.parent)!r}.", location=FileLocation(path), hint="Make it first."
        )
    try:
        with replacing(target) as file:
            yield file
    except OSError as error:
        raise _unwritten(path, error) from error


def _error_number(error: Exception) -> int:
    """The system's number of an error, 0 if it has none; polars has it in the text."""
    said = re.search(r"os error (\d+)", str(error))
    return getattr(error, "errno", None) or (int(said[1]) if said else 0)


def _unwritten(path: str, error: OSError) -> DataError:
    number = _error_number(error)
    reason = os.strerror(number) if number else str(error).rstrip(".")
    if number in (errno.ENOSPC, errno.EDQUOT):
        return DataError(
            "the disk is full.",
            location=FileLocation(path),
            hint="Make room; nothing of the file was left behind.",
        )
    if number in (errno.EACCES, errno.EPERM, errno.EROFS):
        return DataError(
            f"this user may not write there ({reason}).",
            location=FileLocation(path),
            hint="Choose another folder.",
        )
    return DataError(
        f"the file cannot be written: {reason}.",
        location=FileLocation(path),
        hint="Choose another place.",
    )
