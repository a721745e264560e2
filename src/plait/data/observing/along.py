"""Weights added up along some of the indices, and along the diagonal of two that share an axis."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from plait.data.observing.terms import Table, Term, folded
from plait.data.observing.weights import Weights
from plait.types import Array

# What is left of sums that should cancel: relative to the largest of them.
CANCELLED = 1e-12


def along(weights: Weights, over: Sequence[str]) -> Array:
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
        if index in term.vectors and index not in term.table_indices:
            result = result * _spread(term.vectors[index], [index], over, sizes)
    if term.table is not None:
        inside = [index for index in over if index in term.table.indices]
        columns = [term.table.coords[:, term.table.indices.index(index)].astype(np.int64) for index in inside]
        shape = [sizes[index] for index in inside]
        keys = np.ravel_multi_index(tuple(columns), shape) if inside else np.zeros(len(term.table), np.int64)
        summed: Array = np.bincount(keys, folded(term), math.prod(shape)).astype(np.float64, copy=False)
        result = result * _spread(summed, inside, over, sizes)
    return result


def _spread(values: Array, inside: Sequence[str], over: Sequence[str], sizes: Any) -> Array:
    """An array over some of the indices, in their order, with axes of length 1 for the others."""
    return values.reshape([sizes[index] if index in inside else 1 for index in over])


def diagonal(weights: Weights, a: str, b: str) -> Weights:
    """The weights of the cells in which two indices have the same row, over all indices but the second of them."""
    indices = tuple(index for index in weights.indices if index != b)
    shape = tuple(weights.sizes[index] for index in indices)
    result = Weights.constant(indices, shape, 0.0)
    for term in weights.terms:
        part = Weights.constant(indices, shape, term.coefficient)
        for index, vector in term.vectors.items():
            part = part * Weights.from_vector(indices, shape, a if index == b else index, vector)
        if term.table is not None:
            part = part * _on_diagonal(term.table, a, b, indices, shape)
        result = result + part
    return result


def _on_diagonal(table: Table, a: str, b: str, indices: Sequence[str], shape: Sequence[int]) -> Weights:
    """A table's entries on the diagonal, b called a."""
    names = list(table.indices)
    if a in names and b in names:
        table = table.on_diagonal(a, b)
        names.remove(b)
    coords = np.stack([table.column(index) for index in names], axis=1)
    return Weights.from_table(indices, shape, [a if i == b else i for i in names], coords, table.values)
