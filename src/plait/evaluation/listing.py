"""Cells with M > 0: listed where they can be, and counted along some of the indices."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.data.keys import Array, coordinate_type
from plait.data.terms import Term
from plait.data.weights import Weights

Floats = NDArray[np.float64]

# Tensors (and pairs of indices) of more cells than this are not listed.
MOST_CELLS = 2**25

PIECE = 2**20

# What is left of a difference that should be 0 (MATH.md): relative to its largest part.
CANCELLED = 1e-12


def observed_cells(weights: Weights) -> Array | None:
    """Coordinates (n, order) of all cells with M > 0, in order; None if there are too many cells to look at."""
    tables = [term.table for term in weights.terms if term.table is not None]
    if not weights.terms:
        return np.zeros((0, len(weights.shape)), np.uint32)
    if len(tables) == len(weights.terms) == 1 and tables[0].indices == weights.indices:
        return tables[0].coords[weights.at(tables[0].coords) > 0]
    return cells_under(weights, (), np.zeros((1, 0), np.int64))


def cells_under(weights: Weights, places: Sequence[int], coords: Array) -> Array | None:
    """Coordinates of the cells with M > 0 of some slices, pairs, …; None if there are too many cells to look at.

    coords (m, k): rows of the indices at these places; the other indices run over all their rows.
    """
    others = [k for k in range(len(weights.shape)) if k not in places]
    shape = (len(coords), *(weights.shape[k] for k in others))
    total = math.prod(shape)
    if total > MOST_CELLS:
        return None
    kind = coordinate_type(weights.shape)
    found = [np.zeros((0, len(weights.shape)), kind)]
    for start in range(0, total, PIECE):
        which, *rest = np.unravel_index(np.arange(start, min(start + PIECE, total)), shape)
        cells = np.empty((len(which), len(weights.shape)), kind)
        cells[:, list(places)] = coords[which]
        for k, rows in zip(others, rest):
            cells[:, k] = rows
        found.append(cells[weights.at(cells) > 0])
    return np.concatenate(found)


def along(weights: Weights, over: Sequence[str]) -> Floats:
    """Σ M over all indices but these, as a dense array over them, in their order; what cancels is exactly 0."""
    shape = [weights.sizes[index] for index in over]
    total, largest = np.zeros(shape), np.zeros(shape)
    for term in weights.terms:
        part = _along(term, weights, over)
        total += part
        np.maximum(largest, np.abs(part), out=largest)
    total[np.abs(total) <= CANCELLED * largest] = 0.0
    return total


def _along(term: Term, weights: Weights, over: Sequence[str]) -> Any:
    """One term of `along`, broadcastable to the shape over these indices."""
    sizes, scale = weights.sizes, term.coefficient
    for index, size in sizes.items():
        if index not in over and index not in term.table_indices:
            scale *= float(term.vectors[index].sum()) if index in term.vectors else size
    result: Any = np.full([1] * len(over), scale)
    for index in over:
        if index in term.vectors:
            result = result * _spread(term.vectors[index], [index], over, sizes)
    if term.table is not None:
        inside = [index for index in over if index in term.table.indices]
        columns = [term.table.coords[:, term.table.indices.index(index)].astype(np.int64) for index in inside]
        shape = [sizes[index] for index in inside]
        keys = np.ravel_multi_index(tuple(columns), shape) if inside else np.zeros(len(term.table), np.int64)
        summed: Floats = np.bincount(keys, term.table.values, math.prod(shape)).astype(np.float64, copy=False)
        result = result * _spread(summed, inside, over, sizes)
    return result


def _spread(values: Floats, inside: Sequence[str], over: Sequence[str], sizes: Any) -> Floats:
    """An array over some of the indices, in their order, with axes of length 1 for the others."""
    return values.reshape([sizes[index] if index in inside else 1 for index in over])
