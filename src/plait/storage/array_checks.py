"""Checks of a run's arrays and tables against its model: shapes, dtypes, ranges of row numbers.

Kernels read row numbers without bounds checks, so no array of a file reaches them unchecked. A check raises a
ValueError; `load` adds the file.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray

if TYPE_CHECKING:
    import polars as pl

MIN_DOUBLE, MIN_POSITIVE = -sys.float_info.max, sys.float_info.min * sys.float_info.epsilon
CHUNK_ROWS = 1 << 20  # compared at a time: a few megabytes of flags


def check_shape(name: str, array: AnyArray, shape: Sequence[int]) -> None:
    if array.shape != tuple(shape):
        raise ValueError(f"{name} has the shape {array.shape}, not {tuple(shape)}")


def check_numbers(name: str, array: AnyArray, shape: Sequence[int], least: float = MIN_DOUBLE) -> None:
    """Refuse all but finite floats of this shape and at least `least`."""
    check_shape(name, array, shape)
    if array.dtype not in (np.float64, np.float32):
        raise ValueError(f"{name} has numbers of type {array.dtype}")
    if not ((array >= least).all() and (array < math.inf).all()):  # False for NaN
        raise ValueError(f"{name} has invalid numbers")


def check_flags(name: str, array: AnyArray, shape: Sequence[int]) -> None:
    check_shape(name, array, shape)
    if array.dtype != np.bool_:
        raise ValueError(f"{name} has values of type {array.dtype}, not booleans")


def check_rows(name: str, coords: AnyArray, sizes: Sequence[int], *, ordered: bool = True) -> None:
    """Refuse all but row numbers (n, k) within these sizes, distinct and in lexicographic order."""
    if coords.ndim != 2 or coords.dtype.kind not in "iu":
        raise ValueError(f"{name} are not row numbers: {coords.dtype} of shape {coords.shape}")
    check_shape(name, coords, (len(coords), len(sizes)))
    for at in range(0, len(coords), CHUNK_ROWS):
        some = coords[at : at + CHUNK_ROWS + 1]
        if any(column.min() < 0 or column.max() >= size for column, size in zip(some.T, sizes)):
            raise ValueError(f"{name} has invalid row numbers")
        if ordered and not _is_ordered(some):
            raise ValueError(f"{name} is not sorted")


def _is_ordered(coords: AnyArray) -> bool:
    """Whether every row of (n, k) is larger than the one before."""
    larger, equal = np.zeros(len(coords) - 1, bool), np.ones(len(coords) - 1, bool)
    for column in coords.T:
        larger |= equal & (column[1:] > column[:-1])
        equal &= column[1:] == column[:-1]
    return bool(larger.all())


def check_columns(table: "pl.DataFrame", columns: Sequence[str]) -> None:
    """Refuse a table with other columns, or with gaps."""
    if table.columns != list(columns):
        raise ValueError(f"its columns are {table.columns!r:.200}, not {list(columns)}")
    if any(column.null_count() for column in table):
        raise ValueError("it has gaps")


def check_known(table: "pl.DataFrame", indices: Sequence[str], shape: Sequence[int]) -> None:
    """Refuse all but known links: row numbers by index, positive values and weights."""
    check_columns(table, [*indices, "value", "weight"])
    for index, size in zip(indices, shape):
        check_rows(index, table[index].to_numpy()[:, None], [size], ordered=False)
    for name in ("value", "weight"):
        check_numbers(name, table[name].to_numpy(), (len(table),), MIN_POSITIVE)


def check_indices(name: str, actual: Sequence[str], indices: Sequence[str]) -> None:
    """Refuse indices that are not those of a relation, in order."""
    if list(actual) != [index for index in indices if index in actual]:
        raise ValueError(f"{name} is over {list(actual)!r:.200}, but there are {list(indices)}")


def check_keys(name: str, keys: Mapping[str, Any] | Sequence[str], wanted: Sequence[str]) -> None:
    if set(keys) - set(wanted):
        raise ValueError(f"{name} has {sorted(set(keys) - set(wanted))[0]!r:.60}, which is not in the model")


def check_factor(name: str, kinds: Mapping[str, NDArray[Any]], shape: Sequence[int]) -> None:
    """Refuse all but a point (its mean) or a posterior (concentration, scale, log L) of this shape."""
    if set(kinds) not in ({"mean"}, {"concentration", "scale", "log_geomean"}):
        raise ValueError(f"the factor {name} has the arrays {sorted(kinds)}")
    if len({array.dtype for array in kinds.values()}) > 1:
        raise ValueError(f"the arrays of the factor {name} have several types")
    for kind, array in kinds.items():
        least = -math.inf if kind == "log_geomean" else 0.0  # log L of a row may be that of 0
        check_numbers(f"{name}/{kind}", array, shape, least)
