"""Weights over the cells of a tensor: a sum of products of sparse tables and vectors, with +, −, × and look-up.

    M(v) = Σ_t c_t · T_t(v over some indices) · Π_i m_ti(v_i)          (MATH.md, "Observation weights and exposures")

Nothing here ever has the size of all cells.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plait.data.fibres import Fibres, repeats
from plait.data.keys import Array, columns_of, coordinate_type, find, pack_pair, search
from plait.data.sorting import is_uniform, sort_cells, taken
from plait.errors import DataError
from plait.machine import memory

Floats = NDArray[np.float64]

# A join beyond this is a mistake, whatever the machine.
MOST_ENTRIES = 2_000_000_000

# What is left of a difference that should be 0 (MATH.md): relative to its largest part.
CANCELLED = 1e-12


@dataclass(frozen=True, eq=False)
class Table:
    """A sparse table over some indices; a cell that it does not list is 0.

    cells: coords (n, k) distinct and in lexicographic order, or the same as fibres; values (n,); indices in the order
    of the relation.
    """

    indices: tuple[str, ...]
    cells: Array | Fibres
    values: Floats

    @property
    def coords(self) -> Array:
        """Coordinates (n, k), distinct and in lexicographic order."""
        return self.cells.cells() if isinstance(self.cells, Fibres) else self.cells

    def column(self, index: str) -> Array:
        """The coordinates of one index, (n,)."""
        return self.cells.column(index) if isinstance(self.cells, Fibres) else self.cells[:, self.indices.index(index)]

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, eq=False)
class Term:
    """coefficient · table · Π vectors. No vector is over an index of the table."""

    coefficient: float
    vectors: Mapping[str, Floats] = field(default_factory=dict)
    table: Table | None = None

    @property
    def table_indices(self) -> tuple[str, ...]:
        """The indices of the table, () without one."""
        return self.table.indices if self.table is not None else ()


@dataclass(frozen=True, eq=False)
class Weights:
    """A sum of terms over the cells of a tensor with these indices and this shape."""

    indices: tuple[str, ...]
    shape: tuple[int, ...]
    terms: tuple[Term, ...]

    @classmethod
    def constant(cls, indices: Sequence[str], shape: Sequence[int], c: float = 1.0) -> "Weights":
        """The same weight c everywhere."""
        return cls._of(indices, shape, [Term(float(c))])

    @classmethod
    def from_vector(cls, indices: Sequence[str], shape: Sequence[int], index: str, vector: ArrayLike) -> "Weights":
        """A weight that depends on one index only; vector (size of the index,)."""
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
        coords: Array,
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
        return cls._of(indices, shape, [Term(1.0, {}, _summed(Table(ordered, coords, spread), sizes))])

    @classmethod
    def from_fibres(cls, indices: Sequence[str], shape: Sequence[int], cells: Fibres, values: Floats) -> "Weights":
        """A table over all indices; 0 elsewhere."""
        return cls._of(indices, shape, [Term(1.0, {}, Table(tuple(indices), cells, values))])

    @classmethod
    def _of(cls, indices: Sequence[str], shape: Sequence[int], terms: Sequence[Term]) -> "Weights":
        return cls(tuple(indices), tuple(shape), _collected(terms, dict(zip(indices, shape))))

    @property
    def sizes(self) -> dict[str, int]:
        """Index name -> size."""
        return dict(zip(self.indices, self.shape))

    @property
    def entries(self) -> int:
        """How many entries all tables have together."""
        return sum(len(term.table) for term in self.terms if term.table is not None)

    def over(self, indices: Sequence[str], shape: Sequence[int]) -> "Weights":
        """The same weights on a tensor with more indices, in any order; they do not depend on the new ones."""
        sizes = dict(zip(indices, shape))
        if any(sizes.get(index) != size for index, size in self.sizes.items()):
            raise DataError(f"weights over {_shown(self.sizes)} do not fit a tensor over {_shown(sizes)}.")
        terms = [Term(t.coefficient, t.vectors, _reordered(t.table, tuple(indices), sizes)) for t in self.terms]
        return Weights._of(indices, shape, terms)

    def __add__(self, other: "Weights | float") -> "Weights":
        terms = (*self.terms, *self._same(other).terms)
        return Weights._of(self.indices, self.shape, terms)

    def __mul__(self, other: "Weights | float") -> "Weights":
        sizes = self.sizes
        terms = [_times(a, b, self.indices, sizes) for a in self.terms for b in self._same(other).terms]
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
                f"weights over {_shown(self.sizes)} and over {_shown(other.sizes)} are not about the same cells."
            )
        return other

    def at(self, cells: Array) -> Floats:
        """The weights of some cells; cells (n, order) -> (n,). A difference that cancels is exactly 0."""
        result = np.zeros(len(cells))
        largest = np.zeros(len(cells))
        column = {index: cells[:, k] for k, index in enumerate(self.indices)}
        for term in self.terms:
            part = np.full(len(cells), term.coefficient)
            if term.table is not None:
                part *= _looked_up(term.table, [column[index] for index in term.table.indices], self.sizes)
            for index, vector in term.vectors.items():
                part *= vector[column[index]]
            result += part
            if len(self.terms) > 1:
                np.maximum(largest, np.abs(part, out=part), out=largest)
        result[np.abs(result) <= CANCELLED * largest] = 0.0
        return result

    def total(self) -> float:
        """The sum over all cells, from sums of tables and vectors."""
        return math.fsum(self._total(term) for term in self.terms)

    def _total(self, term: Term) -> float:
        result = term.coefficient * (1.0 if term.table is None else float(term.table.values.sum()))
        for index, size in self.sizes.items():
            if index in term.vectors:
                result *= float(term.vectors[index].sum())
            elif index not in term.table_indices:
                result *= size
        return result

    def __str__(self) -> str:
        return " + ".join(map(_written, self.terms)).replace("+ -", "- ") or "0"


def _shown(sizes: Mapping[str, int]) -> str:
    return "[" + ", ".join(f"{index}: {size}" for index, size in sizes.items()) + "]"


def _written(term: Term) -> str:
    parts = [f"m[{index}]" for index in term.vectors]
    if term.table is not None:
        parts.insert(0, f"T[{', '.join(term.table.indices)}]({len(term.table)})")
    sign = "-" if term.coefficient < 0 else ""
    if abs(term.coefficient) != 1 or not parts:
        parts.insert(0, f"{abs(term.coefficient):g}")
    return sign + " ".join(parts)


# --- one term


def _simple(term: Term, sizes: Mapping[str, int]) -> Term | None:
    """The same term, vectors folded into the table; without zeros, ones and tables of under two indices. 0 is None."""
    coefficient, vectors, table = term.coefficient, dict(term.vectors), term.table
    if table is not None:
        inside = {index: vectors.pop(index) for index in table.indices if index in vectors}
        table = _without_zeros(_folded(table, inside))
        if len(table) == 0:
            return None
        if len(table.indices) == 0:
            coefficient *= float(table.values[0])
            table = None
        elif len(table.indices) == 1:
            vectors[table.indices[0]] = _scattered(table, sizes)
            table = None
    if coefficient == 0 or any(not vector.any() for vector in vectors.values()):
        return None
    vectors = {index: vectors[index] for index in sizes if index in vectors and not np.all(vectors[index] == 1)}
    return Term(coefficient, vectors, table)


def _folded(table: Table, vectors: Mapping[str, Floats]) -> Table:
    values = table.values
    for index, vector in vectors.items():
        values = values * vector[table.column(index)]
    return Table(table.indices, table.cells, values)


def _without_zeros(table: Table) -> Table:
    kept = table.values[:1] != 0 if is_uniform(table.values) else table.values != 0
    if not kept.any():
        return Table(table.indices, np.zeros((0, len(table.indices)), np.uint32), np.zeros(0))
    return table if kept.all() else Table(table.indices, table.coords[kept], table.values[kept])


def _scattered(table: Table, sizes: Mapping[str, int]) -> Floats:
    vector = np.zeros(sizes[table.indices[0]])
    vector[table.column(table.indices[0])] = table.values
    return vector


# --- sums


def _collected(terms: Sequence[Term], sizes: Mapping[str, int]) -> tuple[Term, ...]:
    """The same sum in as few terms as simple merging gives."""
    done: list[Term] = []
    waiting = list(reversed(terms))
    while waiting:
        term = _simple(waiting.pop(), sizes)
        if term is None:
            continue
        for k, other in enumerate(done):
            merged = _merged(other, term, sizes)
            if merged is not None:
                del done[k]
                waiting.append(merged)  # it may merge further
                break
        else:
            done.append(term)
    place = {index: k for k, index in enumerate(sizes)}
    return tuple(sorted(done, key=lambda t: (len(t.table_indices), [place[index] for index in t.table_indices])))


def _merged(a: Term, b: Term, sizes: Mapping[str, int]) -> Term | None:
    """a + b as one term; None if they are too different."""
    if a.table_indices != b.table_indices:
        return None
    different = [index for index in sizes if not _same_vector(a.vectors.get(index), b.vectors.get(index))]
    c, p, q = _common(a.coefficient, b.coefficient)
    if a.table is not None and b.table is not None:
        return None if different else Term(c, a.vectors, _added(a.table, p, b.table, q, sizes))
    if len(different) > 1:
        return None
    if not different:
        return Term(c * (p + q), a.vectors)
    index = different[0]
    ones = np.ones(sizes[index])
    return Term(c, {**a.vectors, index: p * a.vectors.get(index, ones) + q * b.vectors.get(index, ones)})


def _common(a: float, b: float) -> tuple[float, float, float]:
    """c, p, q with c·p = a and c·q = b. Equal sizes are factored out, so that 0.3 − 0.3·T cancels exactly."""
    return (a, 1.0, b / a) if abs(a) == abs(b) else (1.0, a, b)


def _same_vector(a: Floats | None, b: Floats | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _added(a: Table, p: float, b: Table, q: float, sizes: Mapping[str, int]) -> Table:
    coords = np.concatenate([a.coords, b.coords])
    return _summed(Table(a.indices, coords, np.concatenate([p * a.values, q * b.values])), sizes)


def _summed(table: Table, sizes: Mapping[str, int]) -> Table:
    """The table in order, equal coordinates added up."""
    order, coords = sort_cells(table.coords, [sizes[index] for index in table.indices])
    values = table.values if order is None else taken(table.values, order)
    if repeats(coords) == 0:
        return Table(table.indices, coords, values)
    first = np.flatnonzero(np.concatenate([[True], (coords[1:] != coords[:-1]).any(axis=1)]))
    return Table(table.indices, coords[first], np.add.reduceat(values, first))


def _reordered(table: Table | None, indices: tuple[str, ...], sizes: Mapping[str, int]) -> Table | None:
    if table is None:
        return None
    ordered = tuple(index for index in indices if index in table.indices)
    if ordered == table.indices:
        return table
    coords = np.ascontiguousarray(table.coords[:, [table.indices.index(index) for index in ordered]])
    return _summed(Table(ordered, coords, table.values), sizes)


# --- products


def _times(a: Term, b: Term, indices: tuple[str, ...], sizes: Mapping[str, int]) -> Term:
    vectors = dict(a.vectors)
    for index, vector in b.vectors.items():
        vectors[index] = vectors[index] * vector if index in vectors else vector
    if a.table is not None and b.table is not None:
        table: Table | None = _joined(a.table, b.table, indices, sizes)
    else:
        table = a.table if a.table is not None else b.table
    return Term(a.coefficient * b.coefficient, vectors, table)


def _joined(a: Table, b: Table, indices: tuple[str, ...], sizes: Mapping[str, int]) -> Table:
    """a(u)·b(v) as a table over u ∪ v: for each entry of a, the entries of b that agree on the common indices."""
    if set(a.indices) < set(b.indices):
        a, b = b, a
    common = [index for index in a.indices if index in b.indices]
    left, right = ([table.column(index) for index in common] for table in (a, b))
    left_keys, right_keys = pack_pair(left, right, [sizes[index] for index in common], (len(a), len(b)))
    if len(common) == len(b.indices):
        positions, known = find(left_keys, right_keys)
        return Table(a.indices, a.coords[known], a.values[known] * b.values[positions[known]])
    order = np.argsort(right_keys, kind="stable")
    right_keys = right_keys[order]
    start = search(right_keys, left_keys)
    counts = search(right_keys, left_keys, "right") - start
    over = tuple(index for index in indices if index in a.indices or index in b.indices)
    _refuse_huge(a, b, int(counts.sum()), len(over))
    left_rows = np.repeat(np.arange(len(a)), counts)
    # Entry e of the result is number e − (entries before its row of a) among the matches of that row.
    right_rows = order[np.arange(len(left_rows)) + np.repeat(start - (np.cumsum(counts) - counts), counts)]
    coords = np.empty((len(left_rows), len(over)), coordinate_type([sizes[index] for index in over]))
    for k, index in enumerate(over):
        source, rows = (a, left_rows) if index in a.indices else (b, right_rows)
        coords[:, k] = source.column(index)[rows]
    return _summed(Table(over, coords, a.values[left_rows] * b.values[right_rows]), sizes)


def _refuse_huge(a: Table, b: Table, entries: int, order: int) -> None:
    # Coordinates, values, two row numbers and the sort: about twice what the result takes.
    if entries <= MOST_ENTRIES and entries * (4 * order + 40) <= memory():
        return
    raise DataError(
        f"a table over [{', '.join(a.indices)}] with {len(a)} entries times one over [{', '.join(b.indices)}] with "
        f"{len(b)} entries would have {entries} entries.\n"
        f"Give one of them over all of [{', '.join(dict.fromkeys(a.indices + b.indices))}], or hide whole entities of "
        f"one index instead."
    )


def _looked_up(table: Table, columns: Sequence[Array], sizes: Mapping[str, int]) -> Any:
    own = columns_of(table.coords)
    counts = (len(columns[0]), len(table))
    needles, keys = pack_pair(columns, own, [sizes[index] for index in table.indices], counts)
    positions, known = find(needles, keys)
    return np.where(known, table.values[positions], 0.0)
