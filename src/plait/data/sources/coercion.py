"""Tables in other forms than a dataframe: dicts of columns, lists of rows, NumPy coordinates, paths.

Data that name columns (a dict, a path, dicts) become a table directly. Rows and coordinates get the names of the
relation's indices, in their order, and perhaps a last column of values.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import AnyArray
from plait.data.encoding.columns import to_polars
from plait.data.sources.arrays import is_sparse
from plait.data.sources.tables import is_table
from plait.errors import DataError, Named, TableLocation, quoted
from plait.files.read import read
from plait.files.source_kinds import FORMATS, ending

if TYPE_CHECKING:
    import polars as pl

    from plait.model.model import Model


def is_path(data: Any) -> bool:
    """Whether this is the path of a file, or the URL of a database; a folder of blocks is neither."""
    if not isinstance(data, (str, os.PathLike)):
        return False
    path = os.fspath(data)
    known = any(ending(path) in each.endings for each in FORMATS)
    return "://" in path or os.path.isfile(path) or (known and not os.path.isdir(path))


def is_rows(data: Any) -> bool:
    """Whether this is a list of rows or a tuple of columns, which have no names."""
    return isinstance(data, (list, tuple))


def by_relation(model: "Model", data: Any, what: str = "data") -> Mapping[str, Any]:
    """Data by the names of relations; for a model of one relation these may be the data of that one alone."""
    only = model.relations[0] if len(model.relations) == 1 else None
    if isinstance(data, Mapping):
        return {only: data} if only is not None and _is_of_columns(model, only, data, what) else data
    if only is None:
        names = ", ".join(f"{name!r}: …" for name in model.relations)
        raise DataError(
            f"`{what}` is {_described(data)}, but the model has {len(model.relations)} relations.",
            hint=f"Give a dict from relation to table: {{{names}}}.",
        )
    if isinstance(data, np.ndarray):
        refuse_ambiguous(data, len(model.equation(only).indices), what)
    return {only: data}


def _is_of_columns(model: "Model", relation: str, data: Mapping[Any, Any], what: str) -> bool:
    """Whether the keys of a dict are columns of the only relation, rather than its name."""
    indices = model.equation(relation).indices
    columns = [key for key in data if key in indices]
    own = ", ".join(f"{index!r}: …" for index in indices)
    if relation in data and len(data) > 1 and len(columns) == len(indices):
        raise DataError(
            f"`{what}` is ambiguous: the key {relation!r} can be the relation or a column.",
            hint=f"Write {{{relation!r}: {{{own}}}}}.",
        )
    return relation not in data and bool(columns)


def is_of_columns(data: Any) -> bool:
    """Whether a dict has columns as values, each a sequence of names or numbers, rather than relations."""
    return isinstance(data, Mapping) and bool(data) and all(map(_is_column, data.values()))


def _is_column(data: Any) -> bool:
    if isinstance(data, (list, tuple, range)):
        return not any(isinstance(one, (list, tuple, Mapping, np.ndarray)) for one in data[:1])
    if isinstance(data, np.ndarray):
        return data.ndim == 1
    return hasattr(data, "dtype") and hasattr(data, "__len__") and not is_sparse(data) and not is_table(data)


def refuse_ambiguous(array: AnyArray, order: int, what: str) -> None:
    """Refuse a matrix of two or three columns of whole numbers that may be cells or coordinates of cells."""
    if order == array.ndim == 2 and array.dtype.kind in "iu" and array.shape[1] in (2, 3):
        also = "" if array.shape[1] == 2 else " and values"
        raise DataError(
            f"`{what}` is ambiguous: an array of shape {array.shape} can be a matrix, or the "
            f"coordinates{also} of {len(array):,} cells.",
            hint="Use `tuple(array.T)` for coordinates, or `plait.Relation(array)` for a matrix.",
        )


def as_table(data: Any, where: Named | None = None) -> Any:
    """A dict of columns, a list of dicts or a path as what it holds; anything else as it is."""
    import polars as pl

    if isinstance(data, Mapping):
        return columns_table(data, where)
    if isinstance(data, (str, os.PathLike)):
        return read(data)
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        try:
            return pl.DataFrame(data, infer_schema_length=None)
        except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
            raise _no_table("list of dicts", error, where) from None
    return data


def columns_table(columns: Mapping[Any, Any], where: Named | None) -> "pl.DataFrame":
    """A dict of columns as a table."""
    import polars as pl

    place = TableLocation.of(where or "data")
    plain = {
        name: to_polars(column, place.at(name)) if _is_series(column) else column for name, column in columns.items()
    }
    try:
        return pl.DataFrame(plain)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise _no_table("dict", error, where) from None


def _is_series(column: Any) -> bool:
    """Whether this is a column of another library than NumPy."""
    return not isinstance(column, np.ndarray) and _is_column(column) and hasattr(column, "dtype")


def _no_table(what: str, error: Exception, where: Named | None) -> DataError:
    return DataError(
        f"the {what} is not a table: {error}.",
        location=None if where is None else TableLocation.of(where),
        hint="Give a list of names for each index, all of the same length.",
    )


def named_table(data: Any, indices: Sequence[str], where: Named) -> "tuple[pl.DataFrame, str | None] | None":
    """Rows, columns or coordinates without names as a table, and its column of values; None where data are neither.

    An array of two dimensions has coordinates as rows where the relation has another number of indices.
    """
    import polars as pl

    place, order = TableLocation.of(where), len(indices)
    if isinstance(data, list):
        columns = _columns_of_rows(data, order)
    elif isinstance(data, tuple):
        columns = _columns_of_arrays(data, place)
    elif _is_coordinates(data, order):
        columns = [column.astype(np.int64) for column in data.T[:order]] + list(data.T[order:])
    else:
        return None
    if len(columns) not in (order, order + 1):
        raise DataError(
            f"a row has {len(columns)} entries, but the relation has {order} indices.",
            location=place,
            hint=f"Give {', '.join(indices)}, and optionally a value.",
        )
    value = "value"
    while value in indices:
        value += "_"
    named = zip([*indices, value], columns)
    table = pl.DataFrame({name: to_polars(column, place.at(name)) for name, column in named})
    return table, value if len(columns) > order else None


def _is_coordinates(data: Any, order: int) -> bool:
    """Whether an array (n, order) or (n, order + 1) lists cells rather than being the relation itself."""
    if not isinstance(data, np.ndarray) or data.ndim != 2 or order == 2 or data.shape[1] not in (order, order + 1):
        return False
    numbers = data[:, :order]
    return data.dtype.kind in "iu" or (data.dtype.kind == "f" and bool((numbers == np.floor(numbers)).all()))


def check_rows(data: Any) -> None:
    """Refuse a list whose entries are not tuples of one length."""
    if not isinstance(data, list):
        return
    for number, row in enumerate(data):
        if not isinstance(row, tuple):
            raise DataError(
                f"row {number} of the list is {_described(row)}.",
                hint="Give each row as a tuple; give a matrix as a NumPy array.",
            )
        if len(row) != len(data[0]):
            raise DataError(
                f"row {number} of the list has {len(row)} entries, but the first has {len(data[0])}.",
                hint="Give all rows the same entries.",
            )


def _columns_of_rows(rows: list[Any], order: int) -> list[Any]:
    return [list(column) for column in zip(*rows)] or [np.zeros(0, np.int64) for _ in range(order)]


def _columns_of_arrays(columns: tuple[Any, ...], place: TableLocation) -> list[Any]:
    arrays = [isinstance(column, np.ndarray) and column.ndim == 1 for column in columns]
    if not columns or not all(arrays):
        raise DataError(
            "a tuple must contain one NumPy array per index.",
            location=place,
            hint="Use a tuple of arrays, such as the result of np.nonzero; or a list of tuples for rows.",
        )
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise DataError(
            f"the arrays have different lengths: {', '.join(map(str, lengths))}.",
            location=place,
            hint="Give all the same length.",
        )
    return list(columns)


def _described(data: Any) -> str:
    if data is None:
        return "None"
    if isinstance(data, (str, os.PathLike)):
        return quoted(str(os.fspath(data)))
    kind = type(data).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"
