"""Observation weights over the cells of a tensor: a sum of products of sparse tables and vectors, with +, −, ×, lookup
and marginals.

    M(v) = Σ_t c_t · T_t(v over some indices) · Π_i m_ti(v_i)          (docs/math.md, section 8)

Memory never grows with the number of cells.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from plait._typing import AnyArray, Array
from plait.data.observation.terms import (
    MIN_MAGNITUDE_RATIO,
    Term,
    WeightTable,
    add_up,
    collect,
    folded,
    multiply,
    reorder,
    sum_up,
)
from plait.data.sparse.csf_index import CSFIndex
from plait.data.sparse.keys import coordinate_type
from plait.data.sparse.sorting import is_uniform
from plait.errors import DataError

CHUNK_CELLS = 2**20  # looked up at a time


@dataclass(frozen=True, eq=False)
class Weights:
    """A sum of terms over the cells of a tensor with these indices and this shape."""

    indices: tuple[str, ...]
    shape: tuple[int, ...]
    terms: tuple[Term, ...]

    @classmethod
    def constant(cls, indices: Sequence[str], shape: Sequence[int], c: float = 1.0) -> "Weights":
        """The weight c everywhere."""
        return cls._of(indices, shape, [Term(float(c))])

    @classmethod
    def from_vector(cls, indices: Sequence[str], shape: Sequence[int], index: str, vector: ArrayLike) -> "Weights":
        """A weight that depends on one index; vector (n_entities,)."""
        values = np.asarray(vector, np.float64)
        if values.shape != (dict(zip(indices, shape))[index],):
            raise DataError(
                f"a vector over {index} has shape {values.shape}, but {index} has {dict(zip(indices, shape))[index]} "
                f"entities."
            )
        return cls._of(indices, shape, [Term(1.0, {index: values})])

    @classmethod
    def from_table(
        cls,
        indices: Sequence[str],
        shape: Sequence[int],
        over: Sequence[str],
        coords: AnyArray,
        values: ArrayLike = 1.0,
    ) -> "Weights":
        """A table over some indices, in any order; 0 elsewhere. coords (n, len(over)); equal ones add up."""
        sizes = dict(zip(indices, shape))
        ordered = tuple(index for index in indices if index in over)
        kind = coordinate_type([sizes[index] for index in ordered])
        if ordered == tuple(over):
            coords = np.ascontiguousarray(coords, kind)
        else:
            coords = np.ascontiguousarray(coords[:, [list(over).index(index) for index in ordered]], kind)
        spread = np.ascontiguousarray(np.broadcast_to(np.asarray(values, np.float64), len(coords)))
        return cls._of(indices, shape, [Term(1.0, {}, sum_up(WeightTable(ordered, coords, spread), sizes))])

    @classmethod
    def from_sorted(
        cls, indices: Sequence[str], shape: Sequence[int], cells: AnyArray | CSFIndex, values: Array
    ) -> "Weights":
        """A table over all indices; 0 elsewhere. cells (n, order): sorted and distinct, or CSF."""
        return cls._of(indices, shape, [Term(1.0, {}, WeightTable(tuple(indices), cells, values))])

    def replaced(self, cells: AnyArray | CSFIndex, old: float, new: Array) -> "Weights":
        """These weights, which are `old` at sorted cells, with `new` (n,) there; without loss of digits."""
        some = new[:1] if is_uniform(new) else new
        slight = np.broadcast_to((some < MIN_MAGNITUDE_RATIO * old) & (some > 0), len(new))
        change = np.where(slight, -old, new - old) if slight.any() else _less(new, old)
        result = self + Weights.from_sorted(self.indices, self.shape, cells, change)
        if not slight.any():
            return result
        coords = WeightTable(self.indices, cells, new).coords[slight]
        return result + Weights.from_sorted(self.indices, self.shape, coords, new[slight])

    @classmethod
    def _of(cls, indices: Sequence[str], shape: Sequence[int], terms: Sequence[Term]) -> "Weights":
        return cls(tuple(indices), tuple(shape), collect(terms, dict(zip(indices, shape))))

    @property
    def sizes(self) -> dict[str, int]:
        """Size by index."""
        return dict(zip(self.indices, self.shape))

    @property
    def entries(self) -> int:
        """Total number of entries of all tables."""
        return sum(len(term.table) for term in self.terms if term.table is not None)

    def over(self, indices: Sequence[str], shape: Sequence[int]) -> "Weights":
        """The weights on a tensor with more indices, in any order, on which they do not depend."""
        sizes = dict(zip(indices, shape))
        if any(sizes.get(index) != size for index, size in self.sizes.items()):
            raise DataError(
                f"weights over {_write_shape(self.sizes)} do not match a tensor over {_write_shape(sizes)}."
            )
        terms = [Term(t.coefficient, t.vectors, reorder(t.table, tuple(indices), sizes)) for t in self.terms]
        return Weights._of(indices, shape, terms)

    def __add__(self, other: "Weights | float") -> "Weights":
        terms = (*self.terms, *self._same(other).terms)
        return Weights._of(self.indices, self.shape, terms)

    def __mul__(self, other: "Weights | float") -> "Weights":
        sizes = self.sizes
        terms = [multiply(a, b, self.indices, sizes) for a in self.terms for b in self._same(other).terms]
        return Weights._of(self.indices, self.shape, terms)

    def __neg__(self) -> "Weights":
        return self * -1.0

    def __sub__(self, other: "Weights | float") -> "Weights":
        return self + self._same(other) * -1.0

    def __rsub__(self, other: float) -> "Weights":
        return self._same(other) - self

    __radd__ = __add__
    __rmul__ = __mul__

    def _same(self, other: "Weights | float") -> "Weights":
        if not isinstance(other, Weights):
            return Weights.constant(self.indices, self.shape, other)
        if (self.indices, self.shape) != (other.indices, other.shape):
            raise DataError(
                f"weights over {_write_shape(self.sizes)} and over {_write_shape(other.sizes)} have different cells."
            )
        return other

    def at(self, cells: AnyArray) -> Array:
        """Weights of cells, (n, order) → (n,), without cancellation."""
        if len(self.terms) <= 1:
            return sum((self._term_at(term, cells) for term in self.terms), np.zeros(len(cells)))
        pieces = (cells[start : start + CHUNK_CELLS] for start in range(0, len(cells), CHUNK_CELLS))
        return np.concatenate(
            [np.zeros(0), *(add_up([self._term_at(t, piece) for t in self.terms]) for piece in pieces)]
        )

    def _term_at(self, term: Term, cells: AnyArray) -> Array:
        """One term at cells."""
        column = {index: cells[:, k] for k, index in enumerate(self.indices)}
        part = np.full(len(cells), term.coefficient)
        if term.table is not None:
            part *= term.table.at([column[index] for index in term.table.indices], self.sizes)
        for index, vector in term.vectors.items():
            part *= vector[column[index]]
        return part

    def along_fibres(self, cells: AnyArray, index: str) -> Array:
        """The weights of cells with one index running over all its entities; cells (n, order) -> (n, size)."""
        parts = [self._fibres(term, cells, index) for term in self.terms]
        shape = (len(cells), self.sizes[index])
        whole = [np.broadcast_to(part, shape) for part in parts]
        return whole[0] if len(parts) == 1 else add_up(whole) if parts else np.zeros(shape)

    def _fibres(self, term: Term, cells: AnyArray, index: str) -> Array:
        """One term, broadcastable to (n, size)."""
        column = {i: cells[:, k] for k, i in enumerate(self.indices)}
        part = np.full((len(cells), 1), term.coefficient)
        for i, vector in term.vectors.items():
            part = part * (vector[None, :] if i == index else vector[column[i]][:, None])
        if term.table is None:
            return part
        if index not in term.table.indices:
            return np.asarray(part * term.table.at([column[i] for i in term.table.indices], self.sizes)[:, None])
        places = [self.indices.index(i) for i in term.table.indices]
        which, entries, entity = term.table.fibres(index, self.sizes).find(cells[:, places])
        fibres = np.zeros((len(cells), self.sizes[index]))
        fibres[which, entity] = term.table.values[entries]
        return np.asarray(fibres * part)

    def total(self) -> float:
        """Sum over all cells, from sums of tables and vectors."""
        return math.fsum(self._total(term) for term in self.terms)

    def _total(self, term: Term) -> float:
        result = term.coefficient * (1.0 if term.table is None else float(folded(term).sum()))
        for index, size in self.sizes.items():
            if index in term.table_indices:
                continue
            if index in term.vectors:
                result *= float(term.vectors[index].sum())
            else:
                result *= size
        return result

    def __str__(self) -> str:
        return " + ".join(map(_written, self.terms)).replace("+ -", "- ") or "0"


def _less(numbers: Array, amount: float) -> Array:
    """numbers − amount; a broadcast number stays one."""
    return np.broadcast_to(numbers[0] - amount, len(numbers)) if is_uniform(numbers) else numbers - amount


def _write_shape(sizes: Mapping[str, int]) -> str:
    return "[" + ", ".join(f"{index}: {size}" for index, size in sizes.items()) + "]"


def _written(term: Term) -> str:
    parts = [f"m[{index}]" for index in term.vectors]
    if term.table is not None:
        parts.insert(0, f"T[{', '.join(term.table.indices)}]({len(term.table)})")
    sign = "-" if term.coefficient < 0 else ""
    if abs(term.coefficient) != 1 or not parts:
        parts.insert(0, f"{abs(term.coefficient):g}")
    return sign + " ".join(parts)


# Relative remainder of sums that should cancel.
CANCELLATION_TOLERANCE = 1e-12


def along(weights: Weights, over: Sequence[str]) -> Array:
    """Marginal Σ M over all other indices, as a dense array over `over`, in their order; cancelled
    entries are exactly 0.
    """
    shape = [weights.sizes[index] for index in over]
    total, largest = np.zeros(shape), np.zeros(shape)
    for term in weights.terms:
        part = _along(term, weights, over)
        total += part
        np.maximum(largest, np.abs(part), out=largest)
    total[np.abs(total) <= CANCELLATION_TOLERANCE * largest] = 0.0
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
        columns = [term.table.column(index).astype(np.int64) for index in inside]
        shape = [sizes[index] for index in inside]
        keys = np.ravel_multi_index(tuple(columns), shape) if inside else np.zeros(len(term.table), np.int64)
        summed: Array = np.bincount(keys, folded(term), math.prod(shape)).astype(np.float64, copy=False)
        result = result * _spread(summed, inside, over, sizes)
    return result


def _spread(values: Array, inside: Sequence[str], over: Sequence[str], sizes: Any) -> Array:
    """An array over some of the indices, in their order, with axes of length 1 for the others."""
    return values.reshape([sizes[index] if index in inside else 1 for index in over])


def diagonal(weights: Weights, a: str, b: str) -> Weights:
    """Weights of cells with the same row at two indices, over all indices but the second of them."""
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


def _on_diagonal(table: WeightTable, a: str, b: str, indices: Sequence[str], shape: Sequence[int]) -> Weights:
    """Entries of a table on the diagonal, with b renamed to a."""
    names = list(table.indices)
    if a in names and b in names:
        table = table.on_diagonal(a, b)
        names.remove(b)
    coords = np.stack([table.column(index) for index in names], axis=1)
    return Weights.from_table(indices, shape, [a if i == b else i for i in names], coords, table.values)
