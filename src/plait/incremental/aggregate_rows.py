"""Aggregation of rows that new entities see only by their sum, so that cost depends on links, not on all entities.

Along an index, rows that no link and no weight table names affect new entities only by Σ v(i) E(i), with v the vector
of a weight term. So they become one row per v.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.codegen.layout import Layout
from plait.data.observation.terms import Term, WeightTable, same_vector
from plait.data.observation.weights import Weights
from plait.inference.gamma import FactorState, point, resumed
from plait.inference.state import FactorSnapshot

Vector = Array | None


@dataclass(frozen=True, eq=False)
class AggregatedRows:
    """Kept rows of an index, ascending, and the vectors v of the sums of all others."""

    rows: NDArray[np.int64]
    vectors: tuple[Vector, ...]

    def __len__(self) -> int:
        return len(self.rows) + len(self.vectors)


def aggregate(
    index: str, weights: Sequence[Weights], cells: AnyArray, has: Sequence[bool]
) -> tuple[AggregatedRows, list[Weights], AnyArray] | None:
    """An index with few rows: its rows, and weights and links by them; None where there would not be fewer.

    `weights`: M·V of every term of the equation; `has`: whether a factor of the term has the index.
    """
    place, size = weights[0].indices.index(index), weights[0].sizes[index]
    tables = [t.table for M in weights for t in M.terms if t.table is not None and index in t.table.indices]
    named = [cells[:, place], *(table.column(index) for table in tables)]
    kept = np.unique(np.concatenate([np.asarray(column, np.int64) for column in named]))
    vectors: list[Vector] = []
    for term in (t for M in weights for t in M.terms if index not in t.table_indices):
        if not any(same_vector(term.vectors.get(index), vector) for vector in vectors):
            vectors.append(term.vectors.get(index))
    rows = AggregatedRows(kept, tuple(vectors))
    if 2 * len(rows) > size:
        return None
    shape = tuple(len(rows) if i == index else n for i, n in weights[0].sizes.items())
    fewer = [_fewer(M, index, rows, shape, own) for M, own in zip(weights, has)]
    moved = cells.copy()
    moved[:, place] = np.searchsorted(kept, cells[:, place])
    return rows, fewer, moved


def _fewer(weights: Weights, index: str, lumped: AggregatedRows, shape: tuple[int, ...], has: bool) -> Weights:
    """Weights by few rows; `has`: else the weights, not the factors, hold the sum of the others."""
    rows, size, terms = lumped.rows, weights.sizes[index], []
    for term in weights.terms:
        table, vectors = term.table, dict(term.vectors)
        if table is not None and index in table.indices:
            coords = np.array(table.coords)
            column = coords[:, table.indices.index(index)]
            column[:] = np.searchsorted(rows, column)
            table = WeightTable(table.indices, coords, table.values)
        else:
            v = vectors.pop(index, None)
            own = np.zeros(len(lumped))
            own[: len(rows)] = 1.0 if v is None else v[rows]
            n = next(n for n, vector in enumerate(lumped.vectors) if same_vector(v, vector))
            rest = float(size - len(rows) if v is None else v.sum() - v[rows].sum())
            own[len(rows) + n] = 1.0 if has else rest
            if not (own == 1.0).all():
                vectors[index] = own
        terms.append(Term(term.coefficient, vectors, table))
    return Weights(weights.indices, shape, tuple(terms))


def held(kept: FactorSnapshot, lumped: AggregatedRows | None, sums: dict[object, Array]) -> FactorState:
    """A fixed factor in doubles: all of it, or some rows and sums of the others. `sums`: cache of sums
    over all rows.
    """
    layout = kept.layout
    if lumped is None:
        if kept.mean is not None:
            return point(layout, np.array(kept.mean, np.float64))
        assert kept.concentration is not None
        assert kept.scale is not None
        assert kept.log_geomean is not None
        C, D, logs = (np.array(a, np.float64) for a in (kept.concentration, kept.scale, kept.log_geomean))
        return resumed(layout, C, D, logs)
    rows = lumped.rows
    small = Layout(
        layout.name, layout.indices, layout.visible, layout.latent, (len(lumped), *layout.sizes[1:]), layout.scaled
    )
    mean = np.zeros((len(lumped), layout.columns))
    mean[: len(rows)] = _means(kept, rows)
    for n, vector in enumerate(lumped.vectors):
        own = mean[: len(rows)] if vector is None else mean[: len(rows)] * vector[rows, None]
        mean[len(rows) + n] = np.maximum(_total(kept, vector, sums) - own.sum(axis=0), 0.0)
    if kept.mean is not None:
        return point(small, mean)
    assert kept.log_geomean is not None
    logs = np.full(mean.shape, -np.inf)
    logs[: len(rows)] = kept.log_geomean[rows]
    return resumed(small, mean, np.ones(mean.shape), logs)


def _means(kept: FactorSnapshot, rows: NDArray[np.int64] | slice) -> Array:
    if kept.mean is not None:
        return np.asarray(kept.mean[rows], np.float64)
    assert kept.concentration is not None
    assert kept.scale is not None
    return np.asarray(kept.concentration[rows], np.float64) * kept.scale[rows]


def _total(kept: FactorSnapshot, vector: Vector, sums: dict[object, Array]) -> Array:
    """Σ v E over all rows, as stored."""
    key = (
        kept.layout.name,
        None if vector is None else hashlib.blake2b(np.ascontiguousarray(vector).data, digest_size=16).digest(),
    )
    if key not in sums:
        arrays = [array for array in kept.parameters if array is not None]
        if vector is None:
            sums[key] = np.einsum(",".join(["nr"] * len(arrays)) + "->r", *arrays, dtype=np.float64, casting="unsafe")
        else:
            text = ",".join(["n", *["nr"] * len(arrays)]) + "->r"
            sums[key] = np.einsum(text, vector, *arrays, dtype=np.float64, casting="unsafe")
    return sums[key]
