"""Regions of a search under exposures V (docs/math.md, section 7), one V per term: cells listed in their tables, and
all others.

V is a sum of products of vectors and at most one sparse table. Cells that no table lists see vectors only, which fold
into the factors. The entries of a table form an axis along which the table's indices run together; there every V is
again a sum of products of vectors. Each V is bounded by its region, so a search through all regions finds every cell
that can be among the best. For few cells V is an array.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import cast

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.topk.contraction import Axis, ContractionPart, Product
from plait.data.observation.terms import Term
from plait.data.observation.weights import Weights, along
from plait.model import Equation, Model
from plait.storage.fitted import Factors, Fitted, sparse_sums
from plait.tuning import TUNING

Indices = tuple[str, ...]

TERM = "term of the exposure"  # a latent index; names of a model have no spaces
ENTRIES = "entries of a table"


@dataclass(frozen=True, eq=False)
class Region:
    """Axes that cover some cells, and V of each term there, as parts over its free axes.

    No parts: V is 1; None: V is 0, and so is the term. `bound`: whether a V may be smaller.
    """

    axes: tuple[Axis, ...]
    exposures: tuple[Product | None, ...]
    bound: bool


def exposures_of(fit: Fitted, equation: Equation) -> list[Weights | None]:
    """V of every term of an equation; None for 1."""
    return [fit.exposures.of(equation.relation, number) for number in range(len(equation.terms))]


def regions(
    weights: Sequence[Weights | None], axes: Sequence[Axis], most: int, pairs: Sequence[Weights] = ()
) -> Iterator[Region]:
    """Regions that cover all cells with any V > 0, in each of which V is a sum of products of vectors.

    Listed cells come first, `most` entries at a time. `pairs`: tables of the pairs of factors over pairs. A V over
    few cells is an array, and all cells are one region.
    """
    here = [None if V is None else chosen(V, axes) for V in weights]
    if not pairs and math.prod(map(len, axes)) <= TUNING.contracted_cells and any(map(_has_table, here)):
        dense = tuple(() if V is None else _dense(V) for V in here)
        if any(parts is not None for parts in dense):
            yield Region(tuple(axes), dense, False)
        return
    every = [V for V in (*weights, *pairs) if V is not None]
    free = {index: n for V in every for n, index in enumerate(V.indices) if len(axes[n]) != 1}
    tables = _patterns([V for V in (*here, *(chosen(own, axes) for own in pairs)) if V is not None])
    for over, coords in tables.items():
        places = [free[index] for index in over]
        others = [axis for n, axis in enumerate(axes) if n not in places]
        for at in range(0, len(coords), most):
            some = coords[at : at + most].astype(np.int64)
            rows = np.stack([axes[n].rows[some[:, k], 0] for k, n in enumerate(places)], axis=1)
            own = Axis(tuple(places), rows)
            along = [None if V is None else _along(V, over, some) for V in here]
            yield from _region((own, *others), along, True)
    yield from _region(tuple(axes), [None if V is None else _without_tables(V) for V in here], bool(tables))


def _has_table(weights: Weights | None) -> bool:
    return weights is not None and any(term.table is not None for term in weights.terms)


def _dense(weights: Weights) -> Product | None:
    """V as one array over all free axes; None where it is 0."""
    values = np.maximum(along(weights, weights.indices), 0.0)
    return (ContractionPart(tuple(range(values.ndim)), (), values),) if values.any() else None


def _region(axes: tuple[Axis, ...], weights: Sequence[Weights | None], bound: bool) -> Iterator[Region]:
    """The region with these weights, which have no tables; none where all are 0."""
    regions: list[Product | None] = []
    for V in weights:
        parts, dropped = ((), False) if V is None else _parts(V)
        regions.append(parts if V is None or V.terms else None)
        bound |= dropped
    if any(parts is not None for parts in regions):
        yield Region(axes, tuple(regions), bound)


def _without_tables(weights: Weights) -> Weights:
    return Weights(weights.indices, weights.shape, tuple(term for term in weights.terms if term.table is None))


def chosen(weights: Weights, axes: Sequence[Axis]) -> Weights:
    """Weights of the chosen rows, over the indices that are still free; one axis per index, in order."""
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


def _patterns(exposures: Sequence[Weights]) -> dict[Indices, Rows]:
    """Listed coordinates by index set, closed under joins: tables over (i, j) and (j, k) give one over (i, j, k)."""
    patterns: dict[Indices, Weights] = {}
    ones = [
        (t.table.indices, Weights.from_table(V.indices, V.shape, t.table.indices, t.table.coords))
        for V in exposures
        for t in V.terms
        if t.table is not None
    ]
    for over, pattern in ones:
        patterns[over] = patterns[over] + pattern if over in patterns else pattern
    before = -1
    while (entries := sum(pattern.entries for pattern in patterns.values())) != before:
        before = entries
        for a, b in combinations(list(patterns), 2):
            union = tuple(index for index in exposures[0].indices if index in a or index in b)
            if union not in (a, b) and (both := patterns[a] * patterns[b]).terms:
                patterns[union] = patterns[union] + both if union in patterns else both
    return {over: t.table.coords for over, w in patterns.items() for t in w.terms if t.table is not None}


def _along(weights: Weights, over: Indices, coords: Rows) -> Weights:
    """Weights along entries (n, len(over)): the entries are the first index, the others follow.

    Only terms whose tables have no other index: cells of other tables belong to a larger region.
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


def _parts(weights: Weights) -> tuple[tuple[ContractionPart, ...], bool]:
    """Terms of vectors as non-negative parts, and whether a negative part was dropped."""
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
    parts = [ContractionPart((), (TERM,), np.array([coefficient for coefficient, _ in terms]))]
    for index in names:
        if any(index in vectors for _, vectors in terms):
            ones = np.ones(weights.sizes[index])
            stacked = np.stack([vectors.get(index, ones) for _, vectors in terms], axis=1)
            single = index not in free
            parts.append(
                ContractionPart(() if single else (free.index(index),), (TERM,), stacked[0] if single else stacked)
            )
    return tuple(parts), dropped


def _signed(vector: Array) -> list[tuple[float, Array]]:
    """A vector as a difference of two non-negative ones, without zero vectors."""
    halves = [(1.0, np.maximum(vector, 0.0)), (-1.0, np.maximum(-vector, 0.0))]
    return [(sign, half) for sign, half in halves if half.any()]


def with_summed_rates(fit: Fitted) -> Fitted:
    """The fit with the mean of Σ_q w[q] N as a given factor of each term: a search then needs no sums over q."""
    summed = fit.exposures.summed
    if not summed:
        return fit
    if "searched" not in fit._cached_answers:
        fit._cached_answers["searched"] = _with_summed_rates(fit)
    return cast(Fitted, fit._cached_answers["searched"])


def _with_summed_rates(fit: Fitted) -> Fitted:
    exposures, weights = dict(fit.exposures.terms), {sparse.weights for sparse in fit.exposures.summed.values()}
    for key, sparse in fit.exposures.summed.items():
        mean = np.mean([sparse_sums(member, sparse)[0] for member in fit.members], axis=0)
        rates = Weights.from_table(sparse.indices, sparse.shape, sparse.indices, sparse.cells, mean)
        exposures[key] = exposures[key] * rates if key in exposures else rates
    lines = []
    for equation in fit.model.equations:
        terms = []
        for number, term in enumerate(equation.terms):
            summed = fit.exposures.summed_in(equation.relation, number)
            own = [o for o in term.occurrences if summed is None or o.factor != summed.weights]
            terms.append(
                " ".join(
                    f"{o.factor}[{', '.join(equation.indices)}]" if summed and o.factor == summed.factor else str(o)
                    for o in own
                )
            )
        lines.append(f"{equation.relation}[{', '.join(equation.indices)}] = {' + '.join(terms)}")
    model = Model("\n".join([*lines, *fit.model._declarations]))

    def searched(one: Fitted) -> Fitted:
        factors = Factors({name: one.factors._given[name] for name in one.factors if name not in weights})
        return replace(
            one, model=model, factors=factors, exposures=replace(one.exposures, terms=exposures, summed={}),
            ensemble=tuple(map(searched, one.ensemble)),
        )  # fmt: skip

    return searched(fit)
