"""A rank by rule: how many components a latent index can use, and a size from which a search may begin.

What the constants rest on is measured in docs/decisions/0019-rank.md.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from plait.data.bound import Data
from plait.machine import memory
from plait.model.model import Equation, Summand
from plait.tuning import TUNING

GENEROUS = 1.5  # numbers in all factors for every coordinate of a link that the data list, …
SPARING = 0.2  # … and under EM and MAP, which fit noise as soon as they have numbers for it
MOST = 64  # that the rule proposes: more has to be shown to predict better
MEMORY = 0.25  # of the machine's that all arrays of all factors may take
ARRAYS = 12  # of a factor's size that a fit holds, and keeps
BYTES = 8


@dataclass(frozen=True)
class Scale:
    """Ranks of all latent indices that grow with one number, up to what each can use; given: sizes that are fixed.

    generous: numbers in all factors that the rule gives for every coordinate of a link.
    """

    data: Data
    room: Mapping[str, int]
    given: Mapping[str, int]
    generous: float = GENEROUS

    def ranks(self, size: int) -> dict[str, int]:
        """The size of every latent index, in the model's order."""
        axis = self.data.model.axis
        room = {axis(i): min(self.room[j] for j in self.room if axis(j) == axis(i)) for i in self.room}
        return {i: self.given[i] if i in self.given else min(size, room[axis(i)]) for i in self.data.model.latent}

    @property
    def most(self) -> int:
        """The size beyond which nothing grows any more."""
        return max(self.room.values(), default=1)

    @property
    def sizes(self) -> list[int]:
        """The sizes to choose from, in order; a few that all data share, for kernels are compiled for each."""
        return [size for size in TUNING.rank_sizes if size <= self.most]

    def work(self, size: int) -> float:
        """Products that a sweep takes: for every link, as many as its terms have combinations of components."""
        ranks = self.ranks(size)
        return float(
            sum(
                len(self.data.relations[equation.relation].links)
                * math.prod(ranks[i] for i in equation.latent_of(term))
                for equation in self._woven
                for term in equation.terms
            )
        )

    def numbers(self, size: int) -> float:
        """Numbers in all factors with latent indices."""
        sizes = {**self.data.sizes, **self.ranks(size)}
        factors = [self.data.model.factor(name) for name in self.data.model.factors]
        # What a factor remembers of pairs says nothing about the size of the others.
        woven = [factor for factor in factors if factor.latent and len(factor.visible) < 2]
        return float(sum(math.prod(sizes[i] for i in factor.indices) for factor in woven))

    @property
    def coordinates(self) -> float:
        """Coordinates of all links of relations with latent indices."""
        relations = [self.data.relations[equation.relation] for equation in self._woven]
        return float(sum(len(relation.links) * len(relation.shape) for relation in relations))

    def affords(self, size: int) -> bool:
        """Whether a fit of this size stays within memory and a sweep within a time that one can wait for."""
        return BYTES * ARRAYS * self.numbers(size) <= MEMORY * memory() and self.work(size) <= TUNING.max_sweep_products

    @property
    def _woven(self) -> Iterator[Equation]:
        return (equation for equation in self.data.model.equations if equation.latent)


def scale_of(data: Data, given: Mapping[str, int], generous: float = GENEROUS) -> Scale:
    """How the ranks of a model may grow on its data; given: the sizes of indices that a given factor has."""
    open_indices = [index for index in data.model.latent if index not in given]
    return Scale(data, {index: max(1, _room(data, index)) for index in open_indices}, given, generous)


def rank_by_rule(scale: Scale) -> int:
    """The size with which the factors hold about so many numbers for every coordinate of a link.

    One and a half are generous: under variational Bayes components too many do little harm, above all where several
    fits are averaged.
    """
    wanted = scale.generous * scale.coordinates
    sizes = [size for size in scale.sizes if size <= MOST and scale.affords(size)] or scale.sizes[:1]
    return min(sizes, key=lambda size: abs(math.log(max(scale.numbers(size), 1.0) / max(wanted, 1.0))))


def _room(data: Data, index: str) -> int:
    """The most components that any term can use."""
    holders = [name for name in data.model.factors if index in data.model.factor(name).latent]
    if len(holders) == 1 and len(data.model.factor(holders[0]).visible) > 1:
        return 1  # a factor over pairs has it to itself: its values would only be added up
    return max(
        _room_in(data, equation, term, index)
        for equation in data.model.equations
        for term in equation.terms
        if index in term.indices
    )


def _room_in(data: Data, equation: Equation, term: Summand, index: str) -> int:
    """No more than there are links, nor than explain all cells exactly.

    Between two factors an index is that of a matrix product, whose rank is at most what either side has of visible
    cells. Among more factors it is one of rank-one tensors: all cells without those of the largest visible index.
    """
    relation = data.relations[equation.relation]
    holders = [o for o in term.occurrences if index in o.indices]
    shape = [data.sizes[i] for i in equation.indices if i in term.indices]
    cells = math.prod(shape) // max(shape, default=1)
    if len(holders) == 2:
        sides = [math.prod(data.sizes[i] for i in o.indices if i in equation.indices) for o in holders]
        plain = [side for o, side in zip(holders, sides) if not set(o.indices) & set(equation.latent) - {index}]
        cells = min([*plain, relation.total_cells])  # a core's side is as wide as its other indices make it
    return min(cells, len(relation.links))
