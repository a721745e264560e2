"""Dense and sparse arrays as coordinates and values. NaN is a missing cell."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.observation.symmetry import Groups
from plait.data.sparse.keys import coordinate_type
from plait.errors import DataError, Named, TableLocation
from plait.rendering.formatting import plural


@dataclass(frozen=True, eq=False)
class ArraySource:
    """An array as read.

    coords (n, order) and values (n,) of the cells it lists, hidden (m, order) the missing ones among the rest.
    `unlisted_missing`: whether unlisted cells are missing rather than 0. `dense`: whether a 0 counts as listed.
    """

    name: str
    shape: tuple[int, ...]
    coords: AnyArray
    values: Array
    hidden: AnyArray
    unlisted_missing: bool
    dense: bool


def is_array(data: Any) -> bool:
    """Whether this is an array, a number, a SciPy sparse or a `sparse` array."""
    return isinstance(data, (np.ndarray, np.generic, bool, int, float)) or is_sparse(data)


def is_sparse(data: Any) -> bool:
    """Whether this is a SciPy or `sparse` array, by the name of its module, so neither is imported."""
    library = type(data).__module__
    return library.startswith("scipy.sparse") or (library.partition(".")[0] == "sparse" and hasattr(data, "fill_value"))


def read_array(
    data: Any, name: Named, order: int, axes: tuple[int, ...] | None = None, groups: Groups = ()
) -> ArraySource:
    """Read an array of `order` dimensions; `axes`: the array's dimension of each index, if the order differs.

    `groups`: exchangeable positions; of a dense array only canonical orientations are then listed.
    """
    ndim = np.ndim(data) if not is_sparse(data) else len(data.shape)
    if ndim != order:
        raise DataError(
            (f"the array has {plural(ndim, 'dimension')}, expected {order} (one per index)."),
            location=TableLocation.of(name),
            hint="Give an array with one dimension per index, or a table.",
        )
    axes = axes or tuple(range(order))
    return _read_sparse(data, name, axes) if is_sparse(data) else _read_dense(data, name, axes, groups)


def _read_dense(data: Any, name: Named, axes: tuple[int, ...], groups: Groups) -> ArraySource:
    array = symmetric(np.transpose(as_floats(data, name), axes), name, groups)
    gaps = np.isnan(array)
    # Keep the shorter list: missing cells, or known ones.
    scarce = 2 * np.count_nonzero(gaps) > array.size
    listed = ~gaps if scarce else (array != 0) & ~gaps
    for below in _turned(array.shape, groups):
        listed &= ~below
    coords = _where(listed)
    hidden = _where(gaps) if not scarce else coords[:0]
    return ArraySource(TableLocation.of(name).name, array.shape, coords, array[listed], hidden, bool(scarce), True)


def symmetric(array: Array, name: Named, groups: Groups) -> Array:
    """An array made symmetric in exchangeable dimensions; one with a single triangle is filled. Refused where
    orientations differ.
    """
    for a, b in (pair for group in groups for pair in combinations(group, 2)):
        if array.shape[a] != array.shape[b]:
            raise DataError(
                (
                    f"dimensions {a} and {b} of the array are {array.shape[a]} and {array.shape[b]} long, "
                    "but belong to one axis."
                ),
                location=TableLocation.of(name),
                hint="Give both the same length.",
            )
        array = _filled(array, a, b, name)
    return array


def _filled(array: Array, a: int, b: int, name: Named) -> Array:
    turned = array.swapaxes(a, b)
    differ = (array != turned) & ~(np.isnan(array) & np.isnan(turned))
    if not differ.any():
        return array
    (below,) = _turned(array.shape, ((a, b),))
    said = (array != 0) & ~np.isnan(array)
    for blank in (below, below.swapaxes(a, b)):
        if not (said & blank).any():
            return np.where(blank, turned, array)
    cell = [int(row) for row in np.argwhere(differ)[0]]
    other = [cell[{a: b, b: a}.get(k, k)] for k in range(len(cell))]
    raise DataError(
        (
            f"cells {cell} and {other} of the array are {array[tuple(cell)]:g} and "
            f"{array[tuple(other)]:g}, but the equation is symmetric, so they are one cell."
        ),
        location=TableLocation.of(name),
        hint="Give a symmetric array, or one triangle with 0 or NaN in the other; or use two different factors.",
    )


def _turned(shape: tuple[int, ...], groups: Groups) -> Iterator[NDArray[np.bool_]]:
    """For every two exchangeable dimensions, which cells have the larger row first."""
    for a, b in (pair for group in groups for pair in combinations(group, 2)):
        rows = np.arange(shape[a])
        below = (rows[:, None] > rows).reshape([shape[k] if k in (a, b) else 1 for k in range(len(shape))])
        yield np.broadcast_to(below, shape)


def _where(mask: NDArray[np.bool_]) -> AnyArray:
    """Sorted coordinates (n, order) of true entries."""
    if mask.ndim == 0:
        return np.zeros((int(mask), 0), np.uint32)
    kind = coordinate_type(mask.shape)
    return np.stack([column.astype(kind) for column in np.nonzero(mask)], axis=1)


def as_floats(data: Any, name: Named) -> Array:
    """A dense array as float64, masked cells as NaN."""
    array = np.asanyarray(data)
    if array.dtype.kind not in "biuf":
        raise DataError(
            f"the array must contain numbers, got type {array.dtype}.",
            location=TableLocation.of(name),
            hint="Convert it to numbers. Pass rows of names as a table, or as `array.tolist()`.",
        )
    if isinstance(array, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(array), np.nan, array.data.astype(np.float64))
    return np.asarray(array, np.float64)


def _read_sparse(data: Any, name: Named, axes: tuple[int, ...]) -> ArraySource:
    shape = tuple(int(data.shape[axis]) for axis in axes)
    fill = float(getattr(data, "fill_value", 0.0))
    if fill != 0 and fill == fill:
        raise DataError(
            f"the fill value must be 0 or NaN, got {fill:g}.",
            location=TableLocation.of(name),
            hint="Cells that are not stored are 0, or NaN if they are missing.",
        )
    coo = data.asformat("coo")
    positions = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
    kind = coordinate_type(shape)
    coords = np.empty((len(coo.data), len(axes)), kind)
    for k, axis in enumerate(axes):
        coords[:, k] = positions[axis]
    values = as_floats(coo.data, name)
    gaps = np.isnan(values)
    return ArraySource(
        TableLocation.of(name).name, shape, coords[~gaps], values[~gaps], coords[gaps], fill != fill, False
    )
