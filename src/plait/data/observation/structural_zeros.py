"""Cells that a rule makes unobservable: no link is to be expected there, however probable the factors make one.

Pairs and slices that `missing=` tables name by some of the indices are such rules, and so is a diagonal: where two
indices share an axis and hardly any entity is ever observed with itself, self-links are not unknown but senseless.
Single cells of `missing=` and gaps of an array are unknown, and so is all that `hidden=` puts aside for a test.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np

from plait._typing import AnyArray, Flags
from plait.data.observation.weights import Weights, along, diagonal
from plait.data.sparse.keys import Lookup

Tables = dict[tuple[str, ...], AnyArray]

# Of the entities whose self-link is missing by name or open, at most this share may be open.
NEARLY = 0.1


@dataclass(frozen=True, eq=False)
class Closed:
    """tables: coordinates (n, k), distinct and in lexicographic order, over some of the indices of a relation."""

    indices: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    tables: Tables = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tables)

    def contain(self, cells: AnyArray) -> Flags:
        """Which of some cells (m, order), as row numbers, are closed."""
        found = np.zeros(len(cells), bool)
        for over, lookup in self._lookups.items():
            found |= lookup.contain(cells[:, self.places(over)])
        return found

    def places(self, over: Sequence[str]) -> list[int]:
        """Where some indices stand in a cell."""
        return [self.indices.index(index) for index in over]

    @cached_property
    def _lookups(self) -> dict[tuple[str, ...], Lookup]:
        return {over: Lookup(t, [self.shape[k] for k in self.places(over)]) for over, t in self.tables.items()}


def close(weights: Weights, axes: Sequence[str], missing: Tables, hidden: Tables) -> Closed:
    """What is closed of a relation with weights M, whose indices are on these axes.

    missing, hidden: coordinates by some of its indices, of what is missing by name and of what is put aside for a test.
    """
    indices = weights.indices
    tables = {over: coords for over, coords in missing.items() if len(over) < len(indices) and len(coords)}
    for (a, first), (b, second) in combinations(zip(indices, axes), 2):
        if first == second:
            own = _self_links(weights, a, b, missing, hidden)
            known = tables.get((a, b), np.zeros((0, 2), own.dtype))
            if len(own):
                tables[a, b] = np.unique(np.concatenate([known, own]), axis=0)
    return Closed(indices, weights.shape, tables)


def _self_links(weights: Weights, a: str, b: str, missing: Tables, hidden: Tables) -> AnyArray:
    """Coordinates (n, 2) of the entities that are not observed with themselves, if that is a rule; else none."""
    size = weights.sizes[a]
    named = _with_itself({over: t for over, t in missing.items() if a in over and b in over}, a, b, size)
    is_open = (along(diagonal(weights, a, b), [a]) > 0) | (_with_itself(hidden, a, b, size) & ~named)
    rule = np.count_nonzero(is_open) <= NEARLY * np.count_nonzero(is_open | named)
    rows = np.flatnonzero(~is_open) if rule else np.zeros(0, np.int64)
    return np.stack([rows, rows], axis=1)


def _with_itself(tables: Tables, a: str, b: str, size: int) -> Flags:
    """Which entities some tables name together with themselves, or for all entities of the other index."""
    found = np.zeros(size, bool)
    for over, coords in tables.items():
        columns = [coords[:, over.index(index)] for index in (a, b) if index in over]
        if len(columns) == 2:
            found[columns[0][columns[0] == columns[1]]] = True
        elif columns:
            found[columns[0]] = True
        else:
            found[:] = True
    return found
