"""Entities that a fit cannot tell apart: their rows of all factors of all members are equal, as those without data are.

Whatever is predicted for one holds for the others, so it is computed once.
"""

from collections.abc import Sequence

import numpy as np

from plait.answer.predict.operands import meetings
from plait.run.record import Fitted
from plait.types import Array, Rows


def alike(fit: Fitted, relation: str) -> tuple[Rows, ...]:
    """For every index of a relation and each of its entities one that is predicted alike: itself, or an earlier one."""
    indices = fit.model.equation(relation).indices
    # An exposure tells entities apart; and whether two indices have one entity matters where rows of a factor meet.
    needed = fit.exposures.indices(relation).union(indices[place] for pair in meetings(fit, relation) for place in pair)
    # So does a factor that remembers pairs.
    remembered = [o for o in fit.model.equation(relation).occurrences if o.factor in fit.factors]
    needed = needed.union(i for o in remembered if fit.factors[o.factor].pairs is not None for i in o.indices)
    return tuple(
        np.arange(size) if index in needed else _first_equal(_tables(fit, relation, index, size), size)
        for index, size in zip(indices, fit.known[relation].shape)
    )


def _tables(fit: Fitted, relation: str, index: str, size: int) -> list[Array]:
    """What prediction takes of an index's entities: arrays (size, columns)."""
    return [
        np.moveaxis(array, place, 0).reshape(size, -1)
        for member in fit.members
        for occurrence in fit.model.equation(relation).occurrences
        if occurrence.factor in member.factors
        for place, own in enumerate(occurrence.indices)
        if own == index
        for array in (member.factors[occurrence.factor].mean, member.factors[occurrence.factor].scale)
    ]


def _first_equal(tables: Sequence[Array], size: int) -> Rows:
    """For each row the first one that is equal in all tables (size, columns)."""
    key, rng = np.zeros(size), np.random.default_rng(0)
    for table in tables:
        key += table @ rng.random(table.shape[1])
    _, first, which = np.unique(key, return_index=True, return_inverse=True)
    found = first[which.reshape(-1)]
    same = np.ones(size, bool)  # equal sums are not equal rows, though they hardly ever differ
    for table in tables:
        same &= (table == table[found]).all(axis=1)
    return np.asarray(np.where(same, found, np.arange(size)), np.int64)
