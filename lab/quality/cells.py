"""Sets of cells, as arrays of row numbers (n, order)."""

import numpy as np

Cells = np.ndarray


def distinct(cells: Cells) -> Cells:
    """Every cell once, sorted."""
    return np.unique(cells, axis=0)


def both_ways(pairs: Cells) -> Cells:
    """Each pair and its mirror image."""
    return np.concatenate([pairs, pairs[:, ::-1]])


def among(cells: Cells, others: Cells, shape: tuple[int, ...]) -> np.ndarray:
    """Which cells (n,) are among others."""
    return np.isin(*(np.ravel_multi_index(tuple(part.T), shape) for part in (cells, others)))


def at(mask_of: Cells, queries: Cells, axis: int, shape: tuple[int, ...]) -> np.ndarray:
    """Which entities (n, size) of an axis make one of some cells out of a query's other entities."""
    rest = [k for k in range(len(shape)) if k != axis]
    sizes = [shape[k] for k in rest]
    theirs, mine = (np.ravel_multi_index(tuple(part[:, rest].T), sizes) for part in (mask_of, queries))
    order = np.argsort(theirs, kind="stable")
    theirs, entity = theirs[order], mask_of[order, axis]
    first, last = np.searchsorted(theirs, mine), np.searchsorted(theirs, mine, "right")
    found = np.zeros((len(queries), shape[axis]), bool)
    for row, (low, high) in enumerate(zip(first, last)):
        found[row, entity[low:high]] = True
    return found
