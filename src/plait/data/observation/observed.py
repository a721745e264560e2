"""Observation weights M of a relation, from listed, hidden and seen cells (docs/math.md, section 8).

    M = weight · ( c · U · Π_s (1 − H_s)  +  (m − c) T )

c is the weight of an unlisted cell (1, 0 or w), U is 1 on the entities of the relation, H_s are the hidden tables, T
the listed cells that are not hidden, and m their own weights. No hidden cell is in T, and every entity of T is in U, so
T needs neither factor, and no term cancels another.

A fit stores M, and the rule that cells of new entities follow.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.observation.structural_zeros import Tables
from plait.data.observation.symmetry import Groups, in_all_ways, orders, total_once
from plait.data.observation.terms import Term, WeightTable, sum_up
from plait.data.observation.weights import Weights
from plait.data.sparse.csf_index import CSFIndex
from plait.data.sparse.keys import coordinate_type
from plait.data.sparse.sorting import is_uniform
from plait.tuning import TUNING

MAX_OPEN_CELLS = 2**20  # observed cells are listed if they are this few, or no more than the hidden tables list


@dataclass(frozen=True)
class Observation:
    """M, the weights (n,) of the listed cells, and the number of cells with M > 0."""

    weights: Weights
    listed: Array
    observed_cells: int


def observe(
    indices: Sequence[str],
    shape: Sequence[int],
    listed: CSFIndex,
    own: Array,
    unlisted: float,
    seen: Mapping[str, NDArray[np.bool_]],
    hidden: Mapping[tuple[str, ...], AnyArray],
    weight: float,
    groups: Groups = (),
) -> Observation:
    """M from the listed cells, sorted and not hidden, their own weights (n,), and the rest.

    `unlisted`: weight of other cells; `seen`: 0/1 vectors of entities by index; `hidden`: coordinates by index set.
    `groups`: exchangeable positions: cells are listed in one orientation and counted once; M, `seen` and `hidden` have
    all of them.
    """
    open_cells = open_weights(indices, shape, seen, hidden) if unlisted > 0 else None
    # Links with the weight of all other cells do not occur in M.
    plain = is_uniform(own) and own[0] == unlisted
    everywhere = (listed, own) if plain else in_all_ways(listed, own, groups)
    if open_cells is None:
        weights = Weights.from_sorted(indices, shape, *everywhere)
        count = _nonzero(own)
    else:
        count = round(total_once(open_cells, groups)) - (len(own) - _nonzero(own))
        known = _list_open_cells(open_cells, hidden)
        if known is not None:
            open_cells = Weights.from_table(indices, shape, indices, known)
        weights = (open_cells * unlisted).replaced(everywhere[0], unlisted, everywhere[1])
    return Observation(weights * weight, times(own, weight), count if weight > 0 else 0)


def _nonzero(numbers: Array) -> int:
    return len(numbers) * int(numbers[0] != 0) if is_uniform(numbers) else int(np.count_nonzero(numbers))


def times(numbers: Array, factor: float) -> Array:
    """numbers · factor; a broadcast number stays one."""
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
    """Entities with an open cell, by index.

    A row that is hidden cell by cell becomes a hidden slice: as a difference of sums its exposure would not be exactly
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


def _list_open_cells(open_cells: Weights, hidden: Mapping[tuple[str, ...], AnyArray]) -> AnyArray | None:
    """Coordinates of the open cells, if tables hide more than they leave and the rest can be listed; else None."""
    # One term has no table: U and the hidden slices, a product of 0/1 vectors.
    box = Weights(open_cells.indices, open_cells.shape, tuple(t for t in open_cells.terms if t.table is None))
    left, before = open_cells.total(), box.total()
    if 2 * left >= before or before > TUNING.max_opened_cells or left > max(MAX_OPEN_CELLS, open_cells.entries):
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
    """Mark cells hidden by a table over these axes in an array over the entities inside."""
    places: list[AnyArray | slice] = [slice(None)] * is_open.ndim
    known = np.ones(len(coords), bool)
    for column, axis in enumerate(axes):
        place = np.full(shape[axis], -1)
        place[inside[axis]] = np.arange(len(inside[axis]))
        at = place[coords[:, column]]
        places[axis] = at
        known &= at >= 0
    is_open[tuple(place[known] if isinstance(place, np.ndarray) else place for place in places)] = False


@dataclass(frozen=True, eq=False)
class Rule:
    """Observation of cells that are not mentioned yet.

    `unlisted`: weight of an unlisted cell; `zero`: of a listed 0; `weight`: of the whole relation. `unseen`: "missing"
    or "zero". `self_links`: "missing" or "observed", "" without any; `apart`: whether listed self-links are dropped.
    `seen`: entities of the relation by index, where these are not all. `hidden`: coordinates over some, not all, of the
    indices.
    """

    unlisted: float
    zero: float = 1.0
    weight: float = 1.0
    unseen: str = "missing"
    self_links: str = ""
    apart: bool = False
    seen: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    hidden: Tables = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Box:
    """Weights of a box of cells: along each index, the rows from a start on."""

    starts: tuple[int, ...]
    weights: Weights


def together(indices: tuple[str, ...], shape: tuple[int, ...], boxes: Sequence[Box], groups: Groups = ()) -> Weights:
    """Weights of disjoint boxes as those of a whole tensor, 0 elsewhere. `groups`: exchangeable positions: a box
    includes its images.
    """
    result = Weights.constant(indices, shape, 0.0)
    for box in boxes:
        for image in _images(box, groups):
            result = result + _placed(image, shape)
    return result


def _images(box: Box, groups: Groups) -> list[Box]:
    """A box and those of its images that are other boxes."""
    images: dict[tuple[tuple[int, ...], tuple[int, ...]], Box] = {}
    for order in orders(groups, len(box.starts)):
        starts, shape = _reordered(box.starts, order), _reordered(box.weights.shape, order)
        if (starts, shape) not in images:
            images[starts, shape] = Box(starts, _turned(box.weights, order)) if images else box
    return list(images.values())


def _reordered(numbers: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(numbers[source] for source in order)


def _turned(weights: Weights, order: Sequence[int]) -> Weights:
    """Weights of cells in another orientation."""
    indices, shape = weights.indices, _reordered(weights.shape, order)
    now = {indices[source]: index for index, source in zip(indices, order)}
    sizes = dict(zip(indices, shape))
    terms = []
    for term in weights.terms:
        table = term.table
        if table is not None:
            over = tuple(index for index in indices if index in {now[i] for i in table.indices})
            then = {now[index]: index for index in table.indices}
            coords = np.stack([table.column(then[index]) for index in over], axis=1)
            table = sum_up(WeightTable(over, coords, table.values), sizes)
        terms.append(Term(term.coefficient, {now[i]: v for i, v in term.vectors.items()}, table))
    return Weights(indices, shape, tuple(terms))


def _placed(box: Box, shape: tuple[int, ...]) -> Weights:
    """Weights of a box in the whole tensor."""
    weights, indices = box.weights, box.weights.indices
    if weights.shape == shape:
        return weights
    starts, sizes = dict(zip(indices, box.starts)), dict(zip(indices, shape))
    own = weights.sizes
    terms = []
    for term in weights.terms:
        vectors = dict(term.vectors)
        for index in indices:
            if index not in term.table_indices and (own[index] < sizes[index]):
                vectors[index] = _padded(vectors.get(index), starts[index], own[index], sizes[index])
        table = None if term.table is None else term.table.placed(starts, shape)
        terms.append(Term(term.coefficient, vectors, table))
    return Weights(indices, shape, tuple(terms))


def _padded(vector: Array | None, start: int, own: int, size: int) -> Array:
    """A vector over the rows of a box (None: ones), with zeros for other rows."""
    whole = np.zeros(size)
    whole[start : start + own] = 1.0 if vector is None else vector
    return whole
