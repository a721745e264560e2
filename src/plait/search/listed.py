"""A search under an exposure V (MATH.md): the cells that its tables list apart from all others.

V is a sum of terms, each a product of vectors and at most one sparse table. Cells that no table lists see only vectors,
which fold into the factors. The entries of a table are an axis of their own, along which the table's indices run
together; there V is a sum of products of vectors again. So V(cell) never exceeds what one of these regions says of the
cell, and a search through all regions finds every cell that can be among the best.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from plait.data.terms import Term
from plait.data.weights import Weights
from plait.search.form import Axis, Part

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Indices = tuple[str, ...]

TERM = "term of the exposure"  # a latent index that no model can have, as it has spaces
ENTRIES = "entries of a table"


@dataclass(frozen=True, eq=False)
class Region:
    """Axes that cover some cells, and V there as parts over the free ones of them; `bound` if V may be smaller."""

    axes: tuple[Axis, ...]
    parts: tuple[Part, ...]
    bound: bool


def regions(weights: Weights | None, axes: Sequence[Axis], most: int) -> Iterator[Region]:
    """Regions that cover all cells of axes (one for each index) with V > 0, in which V is products of vectors.

    Listed cells come first, `most` entries at a time.
    """
    if weights is None:
        yield Region(tuple(axes), (), False)
        return
    free = [n for n, axis in enumerate(axes) if len(axis) != 1]
    here = chosen(weights, axes)
    tables = _patterns(here)
    for over, coords in tables.items():
        places = [free[here.indices.index(index)] for index in over]
        others = [axis for n, axis in enumerate(axes) if n not in places]
        for at in range(0, len(coords), most):
            some = coords[at : at + most].astype(np.int64)
            rows = np.stack([axes[n].rows[some[:, k], 0] for k, n in enumerate(places)], axis=1)
            own = Axis(tuple(places), rows)
            along = _along(here, over, some)
            if along.terms:
                yield Region((own, *others), _parts(along)[0], True)
    plain = Weights(here.indices, here.shape, tuple(term for term in here.terms if term.table is None))
    if plain.terms:
        parts, dropped = _parts(plain)
        yield Region(tuple(axes), parts, dropped or bool(tables))


def chosen(weights: Weights, axes: Sequence[Axis]) -> Weights:
    """The weights of the chosen rows, over the indices that are still free; axes: one for each index, in order."""
    free = [n for n, axis in enumerate(axes) if len(axis) != 1]
    indices, shape = [weights.indices[n] for n in free], [len(axes[n]) for n in free]
    result = Weights.constant(indices, shape, 0.0)
    for term in weights.terms:
        result = result + _chosen_term(term, weights, axes, indices, shape)
    return result


def _chosen_term(term: Term, weights: Weights, axes: Sequence[Axis], indices: list[str], shape: list[int]) -> Weights:
    rows = {index: axis.rows[:, 0] for index, axis in zip(weights.indices, axes)}
    result = Weights.constant(indices, shape, term.coefficient)
    for index, vector in term.vectors.items():
        values = vector[rows[index]]
        result = result * (Weights.from_vector(indices, shape, index, values) if index in indices else float(values[0]))
    if term.table is None:
        return result
    coords, kept = term.table.coords.astype(np.int64), np.ones(len(term.table), bool)
    for k, index in enumerate(term.table.indices):
        place = np.full(weights.sizes[index], -1)
        place[rows[index]] = np.arange(len(rows[index]))
        coords[:, k] = place[coords[:, k]]
        kept &= coords[:, k] >= 0
    over = [k for k, index in enumerate(term.table.indices) if index in indices]
    values = term.table.values[kept]
    if not over:
        return result * float(values.sum())
    names = [term.table.indices[k] for k in over]
    return result * Weights.from_table(indices, shape, names, coords[kept][:, over], values)


def _patterns(weights: Weights) -> dict[Indices, Rows]:
    """Listed coordinates by index set, closed: what tables over (i, j) and (j, k) list is also there over (i, j, k)."""
    found: dict[Indices, Weights] = {}
    ones = [
        (t.table.indices, Weights.from_table(weights.indices, weights.shape, t.table.indices, t.table.coords))
        for t in weights.terms
        if t.table is not None
    ]
    for over, pattern in ones:
        found[over] = found[over] + pattern if over in found else pattern
    before = -1
    while (entries := sum(pattern.entries for pattern in found.values())) != before:
        before = entries
        for a, b in combinations(list(found), 2):
            union = tuple(index for index in weights.indices if index in a or index in b)
            if union not in (a, b) and (both := found[a] * found[b]).terms:
                found[union] = found[union] + both if union in found else both
    return {over: t.table.coords for over, w in found.items() for t in w.terms if t.table is not None}


def _along(weights: Weights, over: Indices, coords: Rows) -> Weights:
    """What the terms say along entries (n, len(over)): the entries are one index, the first; the others follow.

    Only terms whose tables need no other index: a cell that any other table lists belongs to a larger region.
    """
    sizes = weights.sizes
    indices = (ENTRIES, *(index for index in weights.indices if index not in over))
    shape = (len(coords), *(sizes[index] for index in indices[1:]))
    result = Weights.constant(indices, shape, 0.0)
    for term in weights.terms:
        if not set(term.table_indices) <= set(over):
            continue
        inside = Term(term.coefficient, {i: v for i, v in term.vectors.items() if i in over}, term.table)
        own = Weights(over, tuple(sizes[index] for index in over), (inside,)).at(coords)
        part = Weights.from_vector(indices, shape, ENTRIES, own)
        for index, vector in term.vectors.items():
            if index not in over:
                part = part * Weights.from_vector(indices, shape, index, vector)
        result = result + part
    return result


def _parts(weights: Weights) -> tuple[tuple[Part, ...], bool]:
    """Terms of vectors only as non-negative parts, and whether anything below 0 was dropped."""
    names = list(weights.indices)
    free = [index for n, index in enumerate(names) if weights.shape[n] != 1]
    terms, dropped = [], False
    for term in weights.terms:
        signed = [_signed(vector) for vector in term.vectors.values()]
        for signs in product(*signed):
            sign = np.sign(term.coefficient) * np.prod([s for s, _ in signs])
            dropped |= sign < 0
            if sign > 0:
                terms.append((abs(term.coefficient), dict(zip(term.vectors, (v for _, v in signs)))))
    parts = [Part((), (TERM,), np.array([coefficient for coefficient, _ in terms]))]
    for index in names:
        if any(index in vectors for _, vectors in terms):
            ones = np.ones(weights.sizes[index])
            stacked = np.stack([vectors.get(index, ones) for _, vectors in terms], axis=1)
            single = index not in free
            parts.append(Part(() if single else (free.index(index),), (TERM,), stacked[0] if single else stacked))
    return tuple(parts), dropped


def _signed(vector: Array) -> list[tuple[float, Array]]:
    """A vector as a difference of two that are not negative; only those with anything in them."""
    halves = [(1.0, np.maximum(vector, 0.0)), (-1.0, np.maximum(-vector, 0.0))]
    return [(sign, half) for sign, half in halves if half.any()]
