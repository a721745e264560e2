"""Data in which one cell is another: a zero that was observed, missing, or a link."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plait.data.bound import BoundRelation, Data
from plait.data.observing.link_store import LinksInMemory
from plait.data.observing.undirected import written
from plait.data.observing.weights import Weights
from plait.errors import DataError
from plait.likelihood import Likelihood
from plait.types import AnyArray, Array, Rows


@dataclass(frozen=True, eq=False)
class Change:
    """What becomes of a cell, given by row numbers (order,), in the writing in which links are kept.

    value: 0 makes it an observed zero (x = 0, its weight M as it is), None missing (M = 0), anything else a link. A
    known link keeps its weight; a new one weighs what links of its relation weigh.
    """

    relation: str
    cell: Rows
    value: float | None


def changed(data: Data, change: Change) -> Data:
    """The data with one cell changed."""
    relation = _changed(data.relations[change.relation], np.asarray(change.cell), change.value)
    return replace(data, relations={**data.relations, change.relation: relation})


def check_value(likelihood: Likelihood, value: float, relation: str) -> None:
    """Refuse a value that no link of a relation can have."""
    if not 0 < value < np.inf or likelihood.bad(np.array([value]))[0]:
        what = "a value over 0" if not 0 < value < np.inf else likelihood.wanted
        raise DataError(
            f"{value:g} is no value of a link: the likelihood is {likelihood}.",
            location=relation,
            actual=value,
            expected=what,
            hint=f"{likelihood.wanted}; those of links are over 0.",
        )


def _changed(relation: BoundRelation, cell: Rows, value: float | None) -> BoundRelation:
    cells, at = relation.cells, cell[None, :]
    number = np.flatnonzero((cells == cell).all(axis=1))
    before = float(relation.weights.at(at)[0])
    others, values, own = _without(relation, cells, number)
    if value is None or value == 0:
        after = 0.0 if value is None else before
    else:
        check_value(relation.likelihood, value, relation.name)
        after = float(relation.cell_weights[number[0]]) if len(number) else _weight_of_links(relation)
        others, order = _inserted(others, at)
        values, own = np.append(values, value)[order], np.append(own, after)[order]
    return replace(
        relation,
        links=LinksInMemory.of(relation.indices, relation.shape, others, values, own),
        weights=_weighing(relation, at, before, after),
        observed_cells=relation.observed_cells + int(after > 0) - int(before > 0),
    )


def _without(relation: BoundRelation, cells: AnyArray, number: Rows) -> tuple[AnyArray, Any, Array]:
    """Cells, values and weights of all links but some."""
    weights = np.asarray(relation.cell_weights, np.float64)
    return np.delete(cells, number, axis=0), np.delete(relation.links.stored, number), np.delete(weights, number)


def _inserted(cells: AnyArray, cell: AnyArray) -> tuple[AnyArray, Rows]:
    """Cells and one more, in lexicographic order, and where each comes from."""
    more = np.concatenate([cells, cell.astype(cells.dtype)])
    order = np.lexsort(more.T[::-1]) if more.shape[1] else np.arange(len(more))
    return more[order], order


def _weight_of_links(relation: BoundRelation) -> float:
    return 1.0 if relation.rule is None else relation.rule.weight


def _weighing(relation: BoundRelation, cell: AnyArray, before: float, after: float) -> Weights:
    """M with another weight of a cell, in all its writings."""
    if after == before:
        return relation.weights
    cells = written(cell, relation.shape, relation.groups)
    change = np.full(len(cells), after - before)
    return relation.weights + Weights.from_table(relation.indices, relation.shape, relation.indices, cells, change)
