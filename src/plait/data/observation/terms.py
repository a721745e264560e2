"""Terms of observation weights: a coefficient × vectors × a sparse table; short sums and products of them, without
cancellation.

A table's entries have one sign, which the coefficient carries: additions and subtractions are separate terms wherever a
difference would lose digits. So 1 − T + 1e-13 T is exactly 1e-13 on T.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.sparse.csf import CSFCache, narrow
from plait.data.sparse.csf import SummedTable as Summed
from plait.data.sparse.csf_index import CSFIndex, repeats
from plait.data.sparse.keys import FibreLookup, columns_of, coordinate_type, find, pack_pair, search
from plait.data.sparse.sorting import is_uniform, sort_cells, take
from plait.errors import DataError
from plait.machine import memory
from plait.tuning import TUNING

# Parts are sums and products of a few numbers: a relative remainder up to this size is rounding. Numbers that are
# small on purpose are separate parts (`terms.MIN_MAGNITUDE_RATIO`), and are kept however small they are.
ROUNDING_TOLERANCE = 1e-12


def add_up(parts: Sequence[Array]) -> Array:
    """Σ parts, entry by entry. Parts that cancel up to rounding leave exactly 0, so smaller parts survive.

    So 1 − 1 + 1e-20 is 1e-20, and 0.3·0.7 − 0.7·0.3 is 0.
    """
    least = ROUNDING_TOLERANCE * np.max(np.abs(parts), axis=0)
    large, small = np.zeros(least.shape), np.zeros(least.shape)
    lost = np.zeros(least.shape)  # rounding error of the sum of the large parts
    for part in parts:
        counts = np.abs(part) > least
        added = np.where(counts, part, 0.0)
        total = large + added
        virtual = total - large
        lost += (large - (total - virtual)) + (added - virtual)
        large = total
        small += np.where(counts, 0.0, part)
    large += lost
    large[np.abs(large) <= least] = 0.0
    return large + small


# Numbers of opposite sign are subtracted if that loses no more than ten bits.
MIN_MAGNITUDE_RATIO = 2.0**-10


Sizes = Mapping[str, int]
Vectors = Mapping[str, Array]
# Content of a fingerprint: a word, or an array and the dtype to hash it in (None: its own).
Content = str | tuple[AnyArray, np.dtype[Any] | None]


def fibre_content(fibres: CSFIndex) -> Iterator[Content]:
    """All levels of CSF cells in the layout of earlier versions, so fingerprints stay valid."""
    yield f"cells {len(fibres)}"
    for rows in fibres.rows:
        yield rows, np.dtype(np.uint32 if max(fibres.sizes) <= 1 << 32 else np.uint64)
    for starts in fibres.starts:
        yield starts, np.dtype(np.int64)


@dataclass(frozen=True, eq=False)
class WeightTable:
    """A sparse table over some indices, 0 at cells that it does not list.

    `cells`: coords (n, k), distinct and in lexicographic order, or the same as CSF; values (n,); indices in the order
    of the relation. `in_memory`: else all values are one number, and no other table is derived from this one.
    """

    in_memory: ClassVar[bool] = True

    indices: tuple[str, ...]
    cells: AnyArray | CSFIndex
    values: Array

    @property
    def coords(self) -> AnyArray:
        return self.cells if isinstance(self.cells, np.ndarray) else self.cells.cells()

    def column(self, index: str) -> AnyArray:
        """Coordinates of one index, (n,)."""
        if isinstance(self.cells, np.ndarray):
            return self.cells[:, self.indices.index(index)]
        return self.cells.column(index)

    def __len__(self) -> int:
        return len(self.values)

    def content(self) -> Iterator["Content"]:
        """Content of a fingerprint of its cells."""
        if isinstance(self.cells, CSFIndex):
            yield from fibre_content(self.cells)
        else:
            yield self.cells, None

    @property
    def arrays(self) -> list[AnyArray]:
        """All arrays in memory."""
        cells = [*self.cells.rows, *self.cells.starts] if isinstance(self.cells, CSFIndex) else [self.cells]
        return [self.values, *cells]

    def held(self) -> "WeightTable":
        """The table in memory."""
        return self

    def at(self, columns: Sequence[AnyArray], sizes: Mapping[str, int]) -> Array:
        """Values at cells given by column; 0 where it lists nothing."""
        own = columns_of(self.coords)
        counts = (len(columns[0]), len(self))
        needles, keys = pack_pair(columns, own, [sizes[index] for index in self.indices], counts)
        positions, known = find(needles, keys)
        return np.where(known, self.values[positions], 0.0)

    def fibres(self, index: str, sizes: Mapping[str, int]) -> FibreLookup:
        """Its entries by all indices but one."""
        if index not in self._fibres:
            shape = [sizes[i] for i in self.indices]
            self._fibres[index] = FibreLookup(self.coords, shape, self.indices.index(index))
        return self._fibres[index]

    @cached_property
    def _fibres(self) -> dict[str, FibreLookup]:
        return {}

    def placed(self, starts: Mapping[str, int], shape: tuple[int, ...]) -> "WeightTable":
        """The table in a larger tensor of this shape, from these rows on."""
        kind = coordinate_type(shape)
        columns = [np.add(self.column(index), starts[index], dtype=kind, casting="unsafe") for index in self.indices]
        return WeightTable(self.indices, np.stack(columns, axis=1), self.values)

    def on_diagonal(self, a: str, b: str) -> "WeightTable":
        """Entries with the same row of two indices, in memory."""
        kept = np.flatnonzero(self.column(a) == self.column(b))
        return WeightTable(
            self.indices, np.stack([self.column(index)[kept] for index in self.indices], axis=1), self.values[kept]
        )

    def maybe_zeros(self) -> AnyArray:
        """Cells (m, k) that may be zeros of the relation."""
        return self.coords

    def tree(self, number: float, vectors: Vectors, sizes: Sizes, order: tuple[str, ...], forest: CSFCache) -> Summed:
        """Entries times a number, as a tree in an order of the indices; `vectors`: those of its term."""
        return forest.tree(self.indices, dict(sizes), self.cells, narrow(self.values * number), order)


@dataclass(frozen=True, eq=False)
class Term:
    """coefficient · table · Π vectors. Vectors are not over indices of a table in memory."""

    coefficient: float
    vectors: Mapping[str, Array] = field(default_factory=dict)
    table: WeightTable | None = None

    @property
    def table_indices(self) -> tuple[str, ...]:
        """Indices of the table, () without one."""
        return self.table.indices if self.table is not None else ()

    @property
    def in_memory(self) -> bool:
        """Whether its table, if any, is in memory."""
        return self.table is None or self.table.in_memory


# --- one term


def _simple(term: Term, sizes: Mapping[str, int]) -> list[Term]:
    """The term as at most two, one per sign: vectors folded into the table; without zeros, ones and
    tables of one index.
    """
    coefficient, vectors, table = term.coefficient, dict(term.vectors), term.table
    if table is not None and table.in_memory:
        inside = {index: vectors.pop(index) for index in table.indices if index in vectors}
        table = _folded(table, inside)
        if len(table.indices) == 0:
            coefficient *= float(table.values.sum())
            table = None
        elif len(table.indices) == 1:
            vectors[table.indices[0]] = _scattered(table, sizes)
            table = None
    if coefficient == 0 or any(not vector.any() for vector in vectors.values()):
        return []
    vectors = {index: vectors[index] for index in sizes if index in vectors and not np.all(vectors[index] == 1)}
    if table is None:
        return [Term(coefficient, vectors)]
    return [Term(sign * coefficient, vectors, part) for sign, part in _by_sign(table)]


def _folded(table: WeightTable, vectors: Mapping[str, Array]) -> WeightTable:
    values = table.values
    for index, vector in vectors.items():
        values = values * vector[table.column(index)]
    return replace(table, values=values)


def folded(term: Term) -> Array:
    """Values of a term's table, times the vectors over its indices; reads a table on disk."""
    assert term.table is not None
    inside = {index: term.vectors[index] for index in term.table.indices if index in term.vectors}
    return _folded(term.table.held(), inside).values


def _by_sign(table: WeightTable) -> list[tuple[float, WeightTable]]:
    """A table as positive ones with their signs, without zeros."""
    values = table.values[:1] if is_uniform(table.values) else table.values
    terms = []
    for sign in (1.0, -1.0):
        mine = values * sign > 0
        if mine.all():
            turned = table.values if sign > 0 else np.broadcast_to(-values, len(table))
            terms.append((sign, replace(table, values=turned)))
        elif mine.any():
            terms.append((sign, WeightTable(table.indices, table.coords[mine], values[mine] * sign)))
    return terms if len(table) else []


def _scattered(table: WeightTable, sizes: Mapping[str, int]) -> Array:
    vector = np.zeros(sizes[table.indices[0]])
    vector[table.column(table.indices[0])] = table.values
    return vector


# --- sums


def collect(terms: Sequence[Term], sizes: Mapping[str, int]) -> tuple[Term, ...]:
    """The sum in few terms, by merging; negative terms come first."""
    done: list[Term] = []
    waiting = list(reversed(terms))
    while waiting:
        for term in _simple(waiting.pop(), sizes):
            for k, other in enumerate(done):
                merged = _merged(other, term, sizes)
                if merged is not None:
                    del done[k]
                    waiting.append(merged)  # it may merge further
                    break
            else:
                done.append(term)
    done = _cancelled(done, sizes)
    place = {index: k for k, index in enumerate(sizes)}
    return tuple(
        sorted(done, key=lambda t: (len(t.table_indices), [place[i] for i in t.table_indices], t.coefficient > 0))
    )


def _merged(a: Term, b: Term, sizes: Mapping[str, int]) -> Term | None:
    """a + b as one term; None if they are too different."""
    if a.table_indices != b.table_indices or not (a.in_memory and b.in_memory):
        return None
    different = [index for index in sizes if not same_vector(a.vectors.get(index), b.vectors.get(index))]
    c, p, q = _common(a.coefficient, b.coefficient)
    if a.table is not None and b.table is not None:
        alike = not different and p * q > 0
        return Term(c, a.vectors, _added(a.table, p, b.table, q, sizes)) if alike else None
    if len(different) > 1:
        return None
    if not different:
        return Term(c * (p + q), a.vectors)
    index = different[0]
    ones = np.ones(sizes[index])
    return Term(c, {**a.vectors, index: p * a.vectors.get(index, ones) + q * b.vectors.get(index, ones)})


def _common(a: float, b: float) -> tuple[float, float, float]:
    """c, p, q with c·p = a and c·q = b. Equal sizes are factored out, so 0.3 − 0.3·T cancels exactly."""
    return (a, 1.0, b / a) if abs(a) == abs(b) else (1.0, a, b)


def same_vector(a: Array | None, b: Array | None) -> bool:
    """Whether two vectors of terms are equal; None for a term without one."""
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _added(a: WeightTable, p: float, b: WeightTable, q: float, sizes: Mapping[str, int]) -> WeightTable:
    coords = np.concatenate([a.coords, b.coords])
    return sum_up(WeightTable(a.indices, coords, np.concatenate([p * a.values, q * b.values])), sizes)


def sum_up(table: WeightTable, sizes: Mapping[str, int]) -> WeightTable:
    """The table sorted, with equal coordinates summed."""
    order, coords = sort_cells(table.coords, [sizes[index] for index in table.indices])
    values = table.values if order is None else take(table.values, order)
    if repeats(coords) == 0:
        return WeightTable(table.indices, coords, values)
    first = np.flatnonzero(np.concatenate([[True], (coords[1:] != coords[:-1]).any(axis=1)]))
    return WeightTable(table.indices, coords[first], np.add.reduceat(values, first))


def _cancelled(terms: list[Term], sizes: Mapping[str, int]) -> list[Term]:
    """Tables of both signs without entries that cancel; tables of one sign are one term already."""
    done: list[Term] = []
    for term in terms:
        other = next((o for o in done if term.table is not None and _opposite(o, term, sizes)), None)
        if other is None:
            done.append(term)
        else:
            done.remove(other)
            done += _difference(other, term, sizes)
    return done


def _opposite(a: Term, b: Term, sizes: Mapping[str, int]) -> bool:
    return (
        a.table_indices == b.table_indices
        and (a.in_memory and b.in_memory)
        and a.coefficient * b.coefficient < 0
        and all(same_vector(a.vectors.get(index), b.vectors.get(index)) for index in sizes)
    )


def _difference(a: Term, b: Term, sizes: Mapping[str, int]) -> list[Term]:
    """Two terms of opposite sign: of entries in both, one keeps the difference, unless that would lose digits."""
    assert a.table is not None
    assert b.table is not None
    positions, known = _positions(a.table, b.table, sizes)
    if not known.any():
        return [a, b]
    c, p, q = _common(a.coefficient, b.coefficient)
    sides = a.table.values * abs(p), b.table.values * abs(q)
    both = np.flatnonzero(known), positions[known]
    left, right = (side[places] for side, places in zip(sides, both))
    apart = np.minimum(left, right) < MIN_MAGNITUDE_RATIO * np.maximum(left, right)
    sides[0][both[0]] = np.where(apart, left, np.maximum(left - right, 0.0))
    sides[1][both[1]] = np.where(apart, right, np.maximum(right - left, 0.0))
    return [
        Term(
            float(np.copysign(c, term.coefficient)),
            term.vectors,
            WeightTable(table.indices, table.coords[v > 0], v[v > 0]),
        )
        for term, table, v in zip((a, b), (a.table, b.table), sides)
        if v.any()
    ]


def _positions(a: WeightTable, b: WeightTable, sizes: Mapping[str, int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Positions of the cells of a in b, a table over the same indices, and which of them are there."""
    own, others = columns_of(a.coords), columns_of(b.coords)
    return find(*pack_pair(own, others, [sizes[index] for index in a.indices], (len(a), len(b))))


def reorder(table: WeightTable | None, indices: tuple[str, ...], sizes: Mapping[str, int]) -> WeightTable | None:
    """The table with its indices in another order."""
    if table is None:
        return None
    ordered = tuple(index for index in indices if index in table.indices)
    if ordered == table.indices:
        return table
    coords = np.ascontiguousarray(table.coords[:, [table.indices.index(index) for index in ordered]])
    return sum_up(WeightTable(ordered, coords, table.values), sizes)


# --- products


def multiply(a: Term, b: Term, indices: tuple[str, ...], sizes: Mapping[str, int]) -> Term:
    """a · b, tables joined."""
    vectors = dict(a.vectors)
    for index, vector in b.vectors.items():
        vectors[index] = vectors[index] * vector if index in vectors else vector
    if a.table is not None and b.table is not None:
        table: WeightTable | None = _joined(a.table, b.table, indices, sizes)
    else:
        table = a.table if a.table is not None else b.table
    return Term(a.coefficient * b.coefficient, vectors, table)


def _joined(a: WeightTable, b: WeightTable, indices: tuple[str, ...], sizes: Mapping[str, int]) -> WeightTable:
    """a(u)·b(v) as a table over u ∪ v: a join on the common indices."""
    if set(a.indices) < set(b.indices):
        a, b = b, a
    common = [index for index in a.indices if index in b.indices]
    left, right = ([table.column(index) for index in common] for table in (a, b))
    left_keys, right_keys = pack_pair(left, right, [sizes[index] for index in common], (len(a), len(b)))
    if len(common) == len(b.indices):
        positions, known = find(left_keys, right_keys)
        return WeightTable(a.indices, a.coords[known], a.values[known] * b.values[positions[known]])
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
    return sum_up(WeightTable(over, coords, a.values[left_rows] * b.values[right_rows]), sizes)


def _refuse_huge(a: WeightTable, b: WeightTable, entries: int, order: int) -> None:
    # Coordinates, values, two row numbers and the sort: about twice the size of the result.
    if entries <= TUNING.max_join_entries and entries * (4 * order + 40) <= memory():
        return
    raise DataError(
        (
            f"a table over [{', '.join(a.indices)}] with {len(a)} entries times a table over "
            f"[{', '.join(b.indices)}] with {len(b)} entries would have {entries} entries."
        ),
        hint=(
            f"Give one of them over all indices [{', '.join(dict.fromkeys(a.indices + b.indices))}], or hide "
            "whole entities of one index."
        ),
    )
