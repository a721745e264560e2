"""A relation with some more cells hidden: the same observed cells otherwise, and the same names.

Hidden rows stay in the table, so that every name is still known, and are listed in `hidden=`, so that a fit does not
look at them. Under universe="relation" an entity that no unhidden row mentions would lose its zeros too, though they
are not hidden: one of them is then listed as a row of 0, which changes nothing but that. So the weights M of the result
are exactly those of the original, and 0 at the hidden cells.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.data.cells.fibres import distinct
from plait.data.cells.keys import coordinate_type
from plait.data.observing.along import along
from plait.data.observing.undirected import canonical
from plait.data.observing.weights import Weights
from plait.data.reading.relation import Relation
from plait.data.reading.tables import TableSource, is_table
from plait.evaluation.listing import PIECE
from plait.evaluation.subject import Subject
from plait.types import AnyArray

if TYPE_CHECKING:
    import polars as pl

Hidden = Mapping[tuple[str, ...], AnyArray]

# Random cells of an entity that are tried before its cells are gone through in order.
TRIES = 20


def masked(subject: Subject, name: str, hidden: Hidden) -> Relation:
    """A relation of the subject with more cells hidden; hidden: coordinates (n, k) by some of its indices."""
    relation = subject.relations[name]
    tables = [*relation.hidden_tables, *(_table(subject, name, over, rows) for over, rows in hidden.items())]
    train = replace(relation, hidden=tables)
    zeros = _lost_zeros(subject, name, train)
    return train if zeros is None else _with_zeros(subject, name, train, zeros)


def labelled(subject: Subject, indices: Sequence[str], coords: AnyArray) -> "dict[str, pl.Series]":
    """The names of coordinates (n, k), by index."""
    names = subject.data.labels
    return {index: names[index].names.gather(coords[:, k].astype(np.int64)) for k, index in enumerate(indices)}


def free_name(name: str, source: TableSource) -> str:
    """A name for the column of values that no index is read from: the column of an index may have any name."""
    while name in source.columns.values():
        name = f"{name}_"
    return name


def _table(subject: Subject, name: str, over: Sequence[str], coords: AnyArray) -> "pl.DataFrame":
    import polars as pl

    columns = subject.relations[name].columns or {}
    return pl.DataFrame({columns.get(i, i): names for i, names in labelled(subject, over, coords).items()})


def _lost_zeros(subject: Subject, name: str, train: Relation) -> AnyArray | None:
    """Observed zeros (n, order), one for each entity that only hidden rows mention and that has a cell left."""
    before = subject.data.relations[name]
    if train.universe != "relation" or train.observed == "listed" or not is_table(train.data):
        return None
    after = subject.rebound(name, train)
    if after.unseen == before.unseen:
        return None
    wanted = subject.rebound(name, replace(train, universe="model")).weights
    for index in before.indices:
        here = (along(before.weights, [index]) > 0).astype(np.float64)
        wanted = wanted * Weights.from_vector(before.indices, before.shape, index, here)
    left = {index: along(wanted, [index]) > 0 for index in before.indices}
    found = []
    for k, index in enumerate(before.indices):
        lost = np.flatnonzero(left[index] & (along(after.weights, [index]) == 0))
        found.append(_one_cell_each(wanted, k, lost, [np.flatnonzero(left[i]) for i in before.indices]))
    cells = distinct(canonical(np.concatenate(found), before.groups), before.shape)
    return cells if len(cells) else None


def _one_cell_each(weights: Weights, axis: int, entities: AnyArray, rows: Sequence[AnyArray]) -> AnyArray:
    """A cell with M > 0 for each entity on an axis that has one; rows: which to choose from on the others."""
    rng = np.random.default_rng(0)  # which cells are taken makes no difference to a fit
    cells = np.zeros((len(entities), len(rows)), coordinate_type(weights.shape))
    waiting = np.arange(len(entities))
    for _ in range(TRIES):
        for k, own in enumerate(rows):
            cells[waiting, k] = rng.choice(own, len(waiting)) if k != axis else entities[waiting]
        waiting = waiting[weights.at(cells[waiting]) <= 0]
        if not len(waiting):
            break
    for at in waiting:
        cells[at] = _first_cell(weights, [entities[at : at + 1] if k == axis else r for k, r in enumerate(rows)])
    return cells


def _first_cell(weights: Weights, rows: Sequence[AnyArray]) -> AnyArray:
    """The first cell with M > 0 among these rows; there is one."""
    shape = [len(own) for own in rows]
    total = math.prod(shape)
    for start in range(0, total, PIECE):
        places = np.unravel_index(np.arange(start, min(start + PIECE, total)), shape)
        cells = np.stack([own[at] for own, at in zip(rows, places)], axis=1)
        open_cells = np.flatnonzero(weights.at(cells) > 0)
        if len(open_cells):
            return np.asarray(cells[open_cells[0]])
    raise AssertionError("an entity whose weights add up to more than 0 has a cell with a weight")


def _with_zeros(subject: Subject, name: str, train: Relation, zeros: AnyArray) -> Relation:
    """The relation with rows of 0 below its own; as a polars table, under the same names of columns."""
    import polars as pl

    indices = subject.data.relations[name].indices
    source = train.read(name, indices)
    assert isinstance(source, TableSource)
    value = free_name(source.value_column, source)
    columns: dict[str, Any] = {}
    for index, names in labelled(subject, indices, zeros).items():
        own = source.labels[index]
        columns[source.columns[index]] = pl.concat([own.cast(names.dtype), names])
    columns[value] = np.concatenate([source.values, np.zeros(len(zeros))])
    if source.weights is not None:
        zero = 1.0 if isinstance(train.observed, str) else float(train.observed)
        columns[source.weight_column] = np.concatenate([source.weights, np.full(len(zeros), zero)])
    return train.retabled(pl.DataFrame(columns), value, source)
