"""Negative sampling: cells without a link, drawn from all cells or by replacing one entity of a link.

Only entities with a known or tested link in the relation are drawn. A fit does not record which other cells were zeros
and which were missing because the entity occurs in other relations only. Structural zeros, such as self-links, are
never drawn.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from plait._typing import Flags, Rows
from plait.data.binding.known import Known
from plait.data.observation.structural_zeros import StructuralZeros
from plait.data.observation.symmetry import canonical, writing, written
from plait.data.sparse.keys import FibreLookup, columns_of, find, pack_pair
from plait.tuning import TUNING

# Rounds of draws of a large tensor before fewer negatives are returned.
MAX_DRAW_ROUNDS = 1000
COUNTED_CELLS = 1 << 17  # drawn to estimate how many cells are no links


class KnownLinks:
    """All known or tested links of a relation; cells (n, order) by row numbers, sorted, each once.

    In an undirected relation each is in canonical orientation; `written` has all of them.
    """

    def __init__(self, known: Known, structural_zeros: StructuralZeros, tested: Rows, axes: Sequence[str]):
        both = np.concatenate([known.cells.astype(np.int64), known.canonical(tested)])
        self.shape = known.shape
        self.groups = known.groups
        self.structural_zeros = structural_zeros
        self.axes = tuple(axes)
        self.cells: Rows = np.unique(both, axis=0) if both.shape[1] else both[:1]

    def contain(self, cells: Rows) -> Flags:
        """Which cells (m, order) are links."""
        counts, cells = (len(cells), len(self.cells)), canonical(cells, self.groups)
        needles, keys = pack_pair(columns_of(cells), columns_of(self.cells), self.shape, counts)
        return find(needles, keys)[1]

    def refuse(self, cells: Rows) -> Flags:
        """Which cells (m, order) are not negatives: links or structural zeros."""
        return (
            self.contain(cells) | self.structural_zeros.contain(cells) if self.structural_zeros else self.contain(cells)
        )

    @cached_property
    def written(self) -> Rows:
        """The links in all their orientations, (m, order)."""
        return written(self.cells, self.shape, self.groups)

    def mark_fibres(self, cells: Rows, place: int, marked: Flags) -> None:
        """Mark links and structural zeros among cells (m, order) with any entity at one place; marked (m, size)."""
        if place not in self._fibres:
            self._fibres[place] = FibreLookup(self.written, self.shape, place)
        which, _, entity = self._fibres[place].find(cells)
        marked[which, entity] = True
        self.structural_zeros.mark_fibres(cells, place, marked)

    @cached_property
    def _fibres(self) -> dict[int, FibreLookup]:
        return {}

    @cached_property
    def present(self) -> tuple[Rows, ...]:
        """Entities with a link, for each index; indices on one axis share them."""
        seen = {axis: np.zeros(size, bool) for axis, size in zip(self.axes, self.shape)}
        for k, axis in enumerate(self.axes):
            seen[axis][self.cells[:, k]] = True
        return tuple(np.flatnonzero(seen[axis]) for axis in self.axes)


def count_non_links(links: KnownLinks) -> float:
    """Number of cells that `uniform` draws from; of a large tensor, an estimate from a sample with a fixed seed."""
    entities = links.present
    count = math.prod(map(len, entities))
    if not entities or count <= TUNING.max_negatives_listed:
        return float(len(_list_cells(links)))
    rng = np.random.default_rng(0)
    cells = np.stack([rng.choice(own, COUNTED_CELLS) for own in entities], axis=1)
    return count * float(np.mean((writing(cells, links.groups) == 0) & ~links.refuse(cells)))


def _list_cells(links: KnownLinks) -> Rows:
    """All cells (n, order) of entities with a link that are no links."""
    if not links.present:  # one cell, and it is a link
        return links.cells[:0]
    cells = np.stack([grid.ravel() for grid in np.meshgrid(*links.present, indexing="ij")], axis=1)
    return np.asarray(cells[(writing(cells, links.groups) == 0) & ~links.refuse(cells)])


def uniform(links: KnownLinks, count: int, rng: np.random.Generator) -> Rows:
    """Cells (count, order) drawn uniformly, with replacement, from those that are no links; empty if there are none."""
    entities = links.present
    if not entities or math.prod(map(len, entities)) <= TUNING.max_negatives_listed:
        cells = _list_cells(links)
        return np.asarray(cells[rng.integers(len(cells), size=count)]) if len(cells) else cells
    samples: list[Rows] = []
    # Links are held in memory, so among a million cells and more they are rare and this ends soon; but structural zeros
    # may be nearly all others.
    for _ in range(MAX_DRAW_ROUNDS):
        cells = np.stack([rng.choice(own, max(count, 1024)) for own in entities], axis=1)
        samples.append(cells[~links.refuse(cells)])
        if sum(map(len, samples)) >= count:
            break
    return canonical(np.concatenate(samples)[:count], links.groups)


def corrupted(links: KnownLinks, cells: Rows, place: int, rng: np.random.Generator) -> tuple[Rows, Flags]:
    """Cells (n, order) with the entity at one position replaced, uniformly among those that make no link.

    Also which of them have such an entity (n,); the others stay.
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
