"""The weights M of a relation's cells, from what is listed, hidden and seen (MATH.md, "Observation weights").

    M = weight · ( c · U · Π_s (1 − H_s)  +  (m − c) T )

c weighs a cell that is not listed (1, 0 or w), U is 1 on the entities of the relation, H_s are the hidden tables, T the
listed cells that are not hidden, and m their own weights. No hidden cell is in T, and every entity of T is in U, so
T needs neither factor: nothing is added that another term takes away again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait.data.cells.fibres import Fibres
from plait.data.cells.keys import coordinate_type
from plait.data.cells.sorting import is_uniform
from plait.data.observing.undirected import Groups, in_all_ways, total_once
from plait.data.observing.weights import Weights
from plait.types import AnyArray, Array

# Observed cells are listed one by one only in tensors of at most this many cells, …
MOST_CELLS = 2**26
# … and if they are this few, or no more than the hidden tables list.
FEW_CELLS = 2**20


@dataclass(frozen=True)
class Observation:
    """M, the weights (n,) of the listed cells, and how many cells have M > 0."""

    weights: Weights
    listed: Array
    observed_cells: int


def observe(
    indices: Sequence[str],
    shape: Sequence[int],
    listed: Fibres,
    own: Array,
    unlisted: float,
    seen: Mapping[str, NDArray[np.bool_]],
    hidden: Mapping[tuple[str, ...], AnyArray],
    weight: float,
    groups: Groups = (),
) -> Observation:
    """M from the listed cells: sorted and not hidden, their own weights (n,), and all else.

    unlisted: the weight of other cells; seen: 0/1 vectors of entities by index; hidden: coordinates by index set.
    groups: places whose order says nothing: cells are listed in one writing and counted once, M has all of them, as
    seen and hidden do.
    """
    open_cells = open_weights(indices, shape, seen, hidden) if unlisted > 0 else None
    # Links that weigh what all other cells do leave no trace in M.
    plain = is_uniform(own) and own[0] == unlisted
    everywhere = (listed, own) if plain else in_all_ways(listed, own, groups)
    if open_cells is None:
        weights = Weights.from_sorted(indices, shape, *everywhere)
        count = _nonzero(own)
    else:
        count = round(total_once(open_cells, groups)) - (len(own) - _nonzero(own))
        known = _few_open(open_cells, hidden)
        if known is not None:
            open_cells = Weights.from_table(indices, shape, indices, known)
        weights = (open_cells * unlisted).replaced(everywhere[0], unlisted, everywhere[1])
    return Observation(weights * weight, times(own, weight), count if weight > 0 else 0)


def _nonzero(numbers: Array) -> int:
    """How many are not 0."""
    return len(numbers) * int(numbers[0] != 0) if is_uniform(numbers) else int(np.count_nonzero(numbers))


def times(numbers: Array, factor: float) -> Array:
    """numbers · factor, one number staying one."""
    if factor == 1:
        return numbers
    return np.broadcast_to(numbers[0] * factor, len(numbers)) if is_uniform(numbers) else numbers * factor


def open_weights(
    indices: Sequence[str],
    shape: Sequence[int],
    seen: Mapping[str, NDArray[np.bool_]],
    hidden: Mapping[tuple[str, ...], AnyArray],
) -> Weights:
    """1 on cells of seen entities that no table hides, else 0. Vectors come first: they shorten the tables."""
    result = Weights.constant(indices, shape)
    for index, vector in _open_rows(indices, shape, seen, hidden).items():
        if not vector.all():
            result = result * Weights.from_vector(indices, shape, index, vector)
    for over in sorted(hidden, key=len):
        if len(hidden[over]):
            result = result * (1.0 - Weights.from_table(indices, shape, over, hidden[over]))
    return result


def _open_rows(
    indices: Sequence[str],
    shape: Sequence[int],
    seen: Mapping[str, NDArray[np.bool_]],
    hidden: Mapping[tuple[str, ...], AnyArray],
) -> dict[str, NDArray[np.bool_]]:
    """Which entities have an open cell at all, by index.

    A row that is hidden cell by cell becomes a hidden slice: as a difference of sums, its exposure would not be exactly
    0.
    """
    rows = {index: np.array(seen[index]) if index in seen else np.ones(n, bool) for index, n in zip(indices, shape)}
    for over, coords in sorted(hidden.items(), key=lambda pair: len(pair[0])):
        inside = np.all([rows[index][coords[:, k]] for k, index in enumerate(over)], axis=0)
        left = {index: int(np.count_nonzero(rows[index])) for index in over}
        for k, index in enumerate(over):
            others = math.prod(left[other] for other in over if other != index)
            rows[index] &= np.bincount(coords[inside, k], minlength=len(rows[index])) < others
    return rows


def _few_open(open_cells: Weights, hidden: Mapping[tuple[str, ...], AnyArray]) -> AnyArray | None:
    """Coordinates of the open cells, if tables hide more than they leave and the rest can be listed; else None."""
    # One term has no table: U and the hidden slices, a product of 0/1 vectors.
    box = Weights(open_cells.indices, open_cells.shape, tuple(t for t in open_cells.terms if t.table is None))
    left, before = open_cells.total(), box.total()
    if 2 * left >= before or before > MOST_CELLS or left > max(FEW_CELLS, open_cells.entries):
        return None
    vectors = box.terms[0].vectors
    inside = [np.flatnonzero(vectors[i]) if i in vectors else np.arange(n) for i, n in box.sizes.items()]
    is_open = np.ones([len(rows) for rows in inside], bool)
    for over, coords in hidden.items():
        _close(is_open, inside, [box.indices.index(index) for index in over], box.shape, coords)
    kind = coordinate_type(box.shape)
    return np.stack([rows[at].astype(kind) for rows, at in zip(inside, np.nonzero(is_open))], axis=1)


def _close(
    is_open: AnyArray, inside: Sequence[AnyArray], axes: Sequence[int], shape: Sequence[int], coords: AnyArray
) -> None:
    """Mark what a table over these axes hides in an array over the entities inside."""
    places: list[AnyArray | slice] = [slice(None)] * is_open.ndim
    known = np.ones(len(coords), bool)
    for column, axis in enumerate(axes):
        place = np.full(shape[axis], -1)
        place[inside[axis]] = np.arange(len(inside[axis]))
        at = place[coords[:, column]]
        places[axis] = at
        known &= at >= 0
    is_open[tuple(place[known] if isinstance(place, np.ndarray) else place for place in places)] = False
