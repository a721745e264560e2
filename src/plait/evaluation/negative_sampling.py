"""Cells that are no links, drawn at random: from all cells, or by replacing one entity of a link.

Only entities that have a link in the relation, known or tested, are drawn. A fit does not remember which others were
zeros there and which were missing because they occur in other relations only; and the latter are no test of anything.
Nor are cells that a rule closes, such as self-links.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from plait._typing import Flags, Rows
from plait.data.binding.known import Known
from plait.data.observation.symmetry import canonical, writing, written
from plait.data.sparse.keys import columns_of, find, pack_pair
from plait.tuning import TUNING

# Draws of cells of a large tensor before fewer of them must do.
MOST_ROUNDS = 1000


class KnownLinks:
    """All links of a relation that are known or tested; cells (n, order) by row numbers, sorted, each once.

    Of a relation without a direction: each in its canonical writing; `written` has all of them.
    """

    def __init__(self, known: Known, tested: Rows, axes: Sequence[str]):
        both = np.concatenate([known.cells.astype(np.int64), known.canonical(tested)])
        self.shape = known.shape
        self.groups = known.groups
        self.closed = known.closed
        self.axes = tuple(axes)
        self.cells: Rows = np.unique(both, axis=0) if both.shape[1] else both[:1]

    def contain(self, cells: Rows) -> Flags:
        """Which cells (m, order) are links."""
        counts, cells = (len(cells), len(self.cells)), canonical(cells, self.groups)
        needles, keys = pack_pair(columns_of(cells), columns_of(self.cells), self.shape, counts)
        return find(needles, keys)[1]

    def refuse(self, cells: Rows) -> Flags:
        """Which cells (m, order) are no non-links: they are links, or a rule closes them."""
        return self.contain(cells) | self.closed.contain(cells) if self.closed else self.contain(cells)

    @cached_property
    def written(self) -> Rows:
        """The links in all their writings, (m, order)."""
        return written(self.cells, self.shape, self.groups)

    @cached_property
    def present(self) -> tuple[Rows, ...]:
        """The entities with a link, for each index; indices on one axis have the same."""
        seen = {axis: np.zeros(size, bool) for axis, size in zip(self.axes, self.shape)}
        for k, axis in enumerate(self.axes):
            seen[axis][self.cells[:, k]] = True
        return tuple(np.flatnonzero(seen[axis]) for axis in self.axes)


def uniform(links: KnownLinks, count: int, rng: np.random.Generator) -> Rows:
    """Cells (count, order) drawn uniformly, with replacement, from those that are no links; none if there are none."""
    entities = links.present
    if not entities:  # one cell, and it is a link
        return links.cells[:0]
    if math.prod(map(len, entities)) <= TUNING.max_negatives_listed:
        cells = np.stack([grid.ravel() for grid in np.meshgrid(*entities, indexing="ij")], axis=1)
        cells = cells[(writing(cells, links.groups) == 0) & ~links.refuse(cells)]
        return np.asarray(cells[rng.integers(len(cells), size=count)]) if len(cells) else cells
    found: list[Rows] = []
    # Links are held in memory, so among a million cells and more they are rare enough for this to end soon; but rules
    # may close nearly all others.
    for _ in range(MOST_ROUNDS):
        cells = np.stack([rng.choice(own, max(count, 1024)) for own in entities], axis=1)
        found.append(cells[~links.refuse(cells)])
        if sum(map(len, found)) >= count:
            break
    return canonical(np.concatenate(found)[:count], links.groups)


def corrupted(links: KnownLinks, cells: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, Flags]:
    """Cells (n, order) with the entity at one place replaced, uniformly by those with which they are no links.

    Also which of them have such an entity at all (n,); the others are left as they are.
    """
    entities = links.present[place]
    result = cells.copy()
    waiting = np.arange(len(cells))
    for _ in range(TUNING.negative_rounds):
        result[waiting, place] = rng.choice(entities, len(waiting))
        waiting = waiting[links.refuse(result[waiting])]
        if not len(waiting):
            break
    possible = np.ones(len(cells), bool)
    for at in waiting:
        fibre = np.repeat(cells[at : at + 1], len(entities), axis=0)
        fibre[:, place] = entities
        free = fibre[~links.refuse(fibre)]
        possible[at] = len(free) > 0
        result[at] = free[rng.integers(len(free))] if len(free) else cells[at]
    return result, possible
