"""Rule for the rank: how many components a latent index can use, and the size at which a search starts
(decision 19).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from plait.data.bound import Data
from plait.machine import memory
from plait.model.model import Equation, Summand
from plait.tuning import TUNING

VB_NUMBERS_PER_COORDINATE = 1.5  # numbers in all factors per coordinate of a link, …
POINT_NUMBERS_PER_COORDINATE = 0.2  # … and under EM and MAP, which overfit
MAX_RULE_RANK = 64  # larger ranks must be shown to predict better
MAX_MEMORY_SHARE = 0.25  # of the machine's, for all arrays of all factors
ARRAYS_PER_FACTOR = 12  # in a fit and its result
NUMBER_BYTES = 8  # of a double


@dataclass(frozen=True)
class Scale:
    """Ranks of all latent indices as functions of one size, up to what each can use; `given`: fixed sizes.

    `generous`: numbers in all factors per coordinate of a link.
    """

    data: Data
    max_ranks: Mapping[str, int]
    given: Mapping[str, int]
    generous: float = VB_NUMBERS_PER_COORDINATE

    def ranks(self, size: int) -> dict[str, int]:
        """Size of every latent index, in the model's order."""
        axis = self.data.model.axis
        limits = {axis(i): min(self.max_ranks[j] for j in self.max_ranks if axis(j) == axis(i)) for i in self.max_ranks}
        return {i: self.given[i] if i in self.given else min(size, limits[axis(i)]) for i in self.data.model.latent}

    @property
    def max_size(self) -> int:
        """The size beyond which nothing grows."""
        return max(self.max_ranks.values(), default=1)

    @property
    def sizes(self) -> list[int]:
        """Ascending sizes to choose from; a few for all data, since kernels are compiled for each."""
        return [size for size in TUNING.rank_sizes if size <= self.max_size]

    def work(self, size: int) -> float:
        """Products per sweep: for every link, the number of components of its terms."""
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
        # Factors over pairs do not depend on the size of the others.
        woven = [factor for factor in factors if factor.latent and len(factor.visible) < 2]
        return float(sum(math.prod(sizes[i] for i in factor.indices) for factor in woven))

    @property
    def coordinates(self) -> float:
        """Number of coordinates of all links of relations with latent indices."""
        relations = [self.data.relations[equation.relation] for equation in self._woven]
        return float(sum(len(relation.links) * len(relation.shape) for relation in relations))

    def affords(self, size: int) -> bool:
        """Whether a fit of this size fits the limits of memory and time."""
        return (
            NUMBER_BYTES * ARRAYS_PER_FACTOR * self.numbers(size) <= MAX_MEMORY_SHARE * memory()
            and self.work(size) <= TUNING.max_sweep_products
        )

    @property
    def _woven(self) -> Iterator[Equation]:
        return (equation for equation in self.data.model.equations if equation.latent)


def scale_of(data: Data, given: Mapping[str, int], generous: float = VB_NUMBERS_PER_COORDINATE) -> Scale:
    """Scale of a model on its data; `given`: sizes of indices of given factors."""
    open_indices = [index for index in data.model.latent if index not in given]
    return Scale(data, {index: max(1, _max_rank_of(data, index)) for index in open_indices}, given, generous)


def rank_by_rule(scale: Scale) -> int:
    """The size with `generous` numbers per coordinate of a link.

    One and a half is generous: under VB superfluous components do little harm, above all in an average of several fits.
    """
    wanted = scale.generous * scale.coordinates
    sizes = [size for size in scale.sizes if size <= MAX_RULE_RANK and scale.affords(size)] or scale.sizes[:1]
    return min(sizes, key=lambda size: abs(math.log(max(scale.numbers(size), 1.0) / max(wanted, 1.0))))


def _max_rank_of(data: Data, index: str) -> int:
    """The most components that any term can use."""
    holders = [name for name in data.model.factors if index in data.model.factor(name).latent]
    if len(holders) == 1 and len(data.model.factor(holders[0]).visible) > 1:
        return 1  # only a factor over pairs has it: its values would be summed
    return max(
        _max_rank_in(data, equation, term, index)
        for equation in data.model.equations
        for term in equation.terms
        if index in term.indices
    )


def _max_rank_in(data: Data, equation: Equation, term: Summand, index: str) -> int:
    """At most the number of links, and of components that explain all cells exactly.

    Between two factors an index is that of a matrix product, whose rank is at most the number of visible cells on
    either side. Among more factors it is that of rank-one tensors: all cells without those of the largest visible
    index.
    """
    relation = data.relations[equation.relation]
    holders = [o for o in term.occurrences if index in o.indices]
    shape = [data.sizes[i] for i in equation.indices if i in term.indices]
    cells = math.prod(shape) // max(shape, default=1)
    if len(holders) == 2:
        sides = [math.prod(data.sizes[i] for i in o.indices if i in equation.indices) for o in holders]
        plain = [side for o, side in zip(holders, sides) if not set(o.indices) & set(equation.latent) - {index}]
        cells = min([*plain, relation.total_cells])  # a core adds its other indices to a side
    return min(cells, len(relation.links))
