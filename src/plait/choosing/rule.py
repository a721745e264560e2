"""A rank by rule: how many components a latent index can use, and a size from which a search may begin.

What the constants rest on is measured in docs/decisions/0019-rank.md.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from plait.data.bind import Data
from plait.machine import memory
from plait.model.model import Equation

SHARE = 4.0  # the rule's rank is √links ÷ this, …
LEAST, MOST = 2, 64  # … but no smaller and no larger
ENTRIES = 2e9  # links × products of ranks that a sweep may take
MEMORY = 0.25  # of the machine's that all arrays of all factors may take
ARRAYS = 12  # of a factor's size that a fit holds, and keeps
BYTES = 8


@dataclass(frozen=True)
class Scale:
    """Ranks of all latent indices that grow with one number, up to what each can use; given: sizes that are fixed."""

    data: Data
    room: Mapping[str, int]
    given: Mapping[str, int]

    def ranks(self, size: int) -> dict[str, int]:
        """The size of every latent index, in the model's order."""
        return {i: self.given[i] if i in self.given else min(size, self.room[i]) for i in self.data.model.latent}

    @property
    def most(self) -> int:
        """The size beyond which nothing grows any more."""
        return max(self.room.values(), default=1)

    def work(self, size: int) -> float:
        """Products that a sweep takes: for every link, as many as its equation has combinations of components."""
        ranks = self.ranks(size)
        return float(
            sum(len(self.data.relations[e.relation].links) * math.prod(ranks[i] for i in e.latent) for e in self._woven)
        )

    def bytes(self, size: int) -> float:
        """Memory of all factors in a fit."""
        sizes = {**self.data.sizes, **self.ranks(size)}
        factors = [self.data.model.factor(name) for name in self.data.model.factors]
        return float(BYTES * ARRAYS * sum(math.prod(sizes[i] for i in f.indices) for f in factors if f.latent))

    def affords(self, size: int) -> bool:
        """Whether a fit of this size stays within memory and a sweep within a time that one can wait for."""
        return self.bytes(size) <= MEMORY * memory() and self.work(size) <= ENTRIES

    @property
    def _woven(self) -> Iterator[Equation]:
        return (equation for equation in self.data.model.equations if equation.latent)


def scale_of(data: Data, given: Mapping[str, int]) -> Scale:
    """How the ranks of a model may grow on its data; given: the sizes of indices that a given factor has."""
    open_indices = [index for index in data.model.latent if index not in given]
    return Scale(data, {index: max(1, _room(data, index, given)) for index in open_indices}, given)


def by_rule(scale: Scale, links: int) -> int:
    """A size from the number of links: generous, for components too many do little harm, within what is afforded."""
    wanted = min(max(math.sqrt(links) / SHARE, LEAST), MOST)
    size = min(2 ** round(math.log2(wanted)), scale.most)
    while size > 1 and not scale.affords(size):
        size //= 2
    return max(size, 1)


def _room(data: Data, index: str, given: Collection[str]) -> int:
    """The most components that any relation can use."""
    return max(_room_in(data, equation, index) for equation in data.model.equations if index in equation.latent)


def _room_in(data: Data, equation: Equation, index: str) -> int:
    """No more than there are links, nor than explain all cells exactly.

    Between two factors an index is that of a matrix product, whose rank is at most what either side has of visible
    cells. Among more factors it is one of rank-one tensors: all cells without those of the largest visible index.
    """
    relation = data.relations[equation.relation]
    holders = [o for o in equation.occurrences if index in o.indices]
    cells = relation.total_cells // max(relation.shape, default=1)
    if len(holders) == 2:
        sides = [math.prod(data.sizes[i] for i in o.indices if i in equation.indices) for o in holders]
        plain = [side for o, side in zip(holders, sides) if not set(o.indices) & set(equation.latent) - {index}]
        cells = min([*plain, relation.total_cells])  # a core's side is as wide as its other indices make it
    return min(cells, len(relation.links))
