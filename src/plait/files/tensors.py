"""Arrays as tables: one row per listed cell."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.errors import DataError, ParameterError

if TYPE_CHECKING:
    import polars as pl


def is_array(data: Any) -> bool:
    """Whether this is a NumPy array, a SciPy sparse or a `sparse` array, by the name of its module."""
    library = type(data).__module__
    sparse = library.partition(".")[0] == "sparse" and hasattr(data, "fill_value")
    return isinstance(data, np.ndarray) or library.startswith("scipy.sparse") or sparse


def as_coordinates(data: Any) -> Any:
    """A SciPy sparse array as coordinates, checked first: SciPy follows pointers of a damaged file."""
    from scipy.sparse import coo_array

    if hasattr(data, "check_format"):
        data.check_format(full_check=True)
    return coo_array(data)


def table_of(data: Any, columns: Sequence[str] | None = None, *, base: int = 0) -> "pl.DataFrame":
    """Table of an array's cells: a column of coordinates for each dimension, counting from `base`, and ``value``.

    `data`: dense or sparse, of any order; `columns`: names of the dimensions, by default ``i1``, ``i2``, …. Zeros are
    left out. Of an array with missing cells (NaN) all others are listed, including zeros, for ``observed="listed"``.
    """
    import polars as pl

    coords, values, order = _cells(data)
    names = tuple(columns) if columns is not None else tuple(f"i{k}" for k in range(1, order + 1))
    if len(names) != order or len({*names, "value"}) != order + 1:
        raise ParameterError(
            (
                f"`columns` has {', '.join(map(repr, names)) or 'nothing'}, but the "
                f"array has {order} dimension{'' if order == 1 else 's'}."
            ),
            hint="Give a different name for each dimension, other than 'value'.",
        )
    table = {name: np.asarray(axis, np.int64) + base for name, axis in zip(names, coords)}
    return pl.DataFrame({**table, "value": values})


def _cells(data: Any) -> tuple[Sequence[Any], Any, int]:
    """Coordinates by dimension and values of the listed cells; the order."""
    if isinstance(data, np.ndarray):
        if data.dtype.kind not in "biuf":
            raise DataError(
                f"the array must contain numbers, got type {data.dtype}.",
                hint="Convert it to numbers. Pass rows of names as a table, or as `array.tolist()`.",
            )
        gaps = np.isnan(data) if data.dtype.kind == "f" else np.zeros((), bool)
        listed = ~gaps if gaps.any() else data != 0
        return np.nonzero(listed), data[listed], data.ndim
    tensor = data.asformat("coo")
    coords = tensor.coords if hasattr(tensor, "coords") else (tensor.row, tensor.col)
    fill = float(getattr(data, "fill_value", 0.0))
    if fill != 0 and fill == fill:
        raise DataError(
            f"the fill value must be 0 or NaN, got {fill:g}.",
            hint="Cells that are not stored are 0, or NaN if they are missing.",
        )
    kept = ~np.isnan(tensor.data) if tensor.data.dtype.kind == "f" else np.ones(len(tensor.data), bool)
    return [axis[kept] for axis in coords], tensor.data[kept], len(data.shape)
