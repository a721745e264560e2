"""What a fit remembers of a relation's data: its links, what rules close, and the names of its columns.

Other data that might have been seen: links reweighed by Exp(1) draws, the Bayesian bootstrap.

Zeros keep their weight: where there are many for each link, drawing theirs too changes nothing that a fit could see.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.bound import BoundRelation, Data
from plait.data.observation.links import Keep, LinkArrays, Links
from plait.data.observation.observed import Box, Rule, together
from plait.data.observation.structural_zeros import Closed
from plait.data.observation.symmetry import Groups, canonical, written
from plait.data.observation.weights import Weights
from plait.data.sparse.cell_draws import Draws

if TYPE_CHECKING:
    from plait.data.bound import BoundRelation


@dataclass(frozen=True, eq=False)
class Known:
    """Cells with X > 0 and M > 0: cells (n, order) in lexicographic order, values (n,) X, weights (n,) M.

    links: what they are made from when first asked for: a fit keeps no more. closed: cells that no link is expected
    in, by a rule. columns, value: how the table of the data named its indices and values, where it did.
    groups: places of indices whose order says nothing (`observation.symmetry`); cells are in their canonical writing,
    and every question here may be asked in any. kind: whose table the data were, which is what `top` answers with.
    rule, boxes: how cells of new entities would be observed, and M in boxes; none in runs of earlier versions.
    """

    shape: tuple[int, ...]
    links: Links
    closed: Closed = field(default_factory=Closed)
    columns: Mapping[str, str] = field(default_factory=dict)
    value: str | None = None
    groups: Groups = ()
    kind: str = "polars"
    rule: Rule | None = None
    boxes: tuple[Box, ...] = ()

    @classmethod
    def of(cls, relation: "BoundRelation") -> Self:
        """What is remembered of a bound relation."""
        return cls(
            relation.shape, relation.links, relation.closed, relation.columns, relation.value, relation.groups,
            relation.kind, relation.rule,
            () if relation.rule is None else (Box((0,) * len(relation.shape), relation.weights),),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.links)

    @cached_property
    def _read(self) -> LinkArrays:
        return self.links.read()

    @property
    def cells(self) -> AnyArray:
        """Coordinates (n, order) in lexicographic order."""
        return self._read.cells

    @property
    def values(self) -> Array:
        """X at the cells, (n,)."""
        return self._read.values

    @property
    def weights(self) -> Array:
        """M at the cells, (n,); of links on disk, that of the relation alone."""
        return self.links.weights

    def total(self) -> float:
        """ΣX."""
        return self.links.total()

    def pieces(self, size: int) -> Iterator[LinkArrays]:
        """All of them, at most `size` at a time, in the order in which they are kept."""
        return self.links.pieces(size)

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        """Which of some cells (m, order), as row numbers, are known links."""
        return self.links.contain(self.canonical(cells))

    def values_at(self, cells: AnyArray) -> Array:
        """X at some cells (m, order), 0 where there is no known link."""
        return self.links.find(self.canonical(cells))

    def canonical(self, cells: AnyArray) -> AnyArray:
        """Cells (m, order), as row numbers, in the writing in which known ones are kept."""
        return canonical(cells, self.groups)

    def among(self, keep: Keep) -> "Known":
        """Where links are on disk, those of them that are wanted, in memory; else all, as they are."""
        links = self.links.among(keep)
        return self if links is self.links else replace(self, links=links)

    @cached_property
    def observed(self) -> Weights:
        """M of all cells; only where the rule is known."""
        if len(self.boxes) == 1 and self.boxes[0].weights.shape == self.shape:
            return self.boxes[0].weights
        return together(self.boxes[0].weights.indices, self.shape, self.boxes, self.groups)

    @property
    def written(self) -> AnyArray:
        """The known links in all their writings, (m, order), in lexicographic order."""
        return written(self.cells, self.shape, self.groups)


def reweighed(data: Data, seed: int) -> Data:
    """The same data, each link's weight times a draw of mean 1; the same draws for the same seed and cells."""
    relations = {
        name: _reweighed(relation, Draws((seed, number)))
        for number, (name, relation) in enumerate(data.relations.items())
    }
    return replace(data, relations=relations)


def _reweighed(relation: BoundRelation, draws: Draws) -> BoundRelation:
    links, weights = relation.links.reweighed(draws, relation.weights, relation.groups, relation.rule)
    return replace(relation, links=links, weights=weights)
