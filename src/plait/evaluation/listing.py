"""Cells with M > 0, listed where they can be."""

import math
from collections.abc import Sequence

import numpy as np

from plait.data.cells.keys import coordinate_type
from plait.data.observing.weights import Weights
from plait.types import AnyArray

# Tensors (and pairs of indices) of more cells than this are not listed.
MOST_CELLS = 2**25

PIECE = 2**20


def observed_cells(weights: Weights) -> AnyArray | None:
    """Coordinates (n, order) of all cells with M > 0, in order; None if there are too many cells to look at."""
    tables = [term.table for term in weights.terms if term.table is not None]
    if not weights.terms:
        return np.zeros((0, len(weights.shape)), np.uint32)
    if len(tables) == len(weights.terms) == 1 and tables[0].indices == weights.indices:
        return tables[0].coords[weights.at(tables[0].coords) > 0]
    return cells_under(weights, (), np.zeros((1, 0), np.int64))


def cells_under(weights: Weights, places: Sequence[int], coords: AnyArray) -> AnyArray | None:
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
