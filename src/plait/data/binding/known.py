"""Known links of a fit: links, structural zeros and column names; and the Bayesian bootstrap (Rubin, 1981), which
reweights links by Exp(1) draws.

The bootstrap keeps the weights of zeros: with many zeros per link, draws for them would not change a fit.
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
from plait.data.observation.structural_zeros import StructuralZeros
from plait.data.observation.symmetry import Groups, canonical, written
from plait.data.observation.weights import Weights
from plait.data.sparse.cell_draws import Draws

if TYPE_CHECKING:
    from plait.data.bound import BoundRelation


@dataclass(frozen=True, eq=False)
class Known:
    """Cells with X > 0 and M > 0: cells (n, order) in lexicographic order, values (n,) X, weights (n,) M.

    `links`: their source, read when first used. `structural_zeros`: cells that a rule excludes.
    `columns`, `value`: column names of the data, if it was a table. `groups`: exchangeable positions
    (`observation.symmetry`); cells are in canonical orientation, queries may have any. `kind`: library of the table,
    in which `top` answers. `rule`, `boxes`: observation of cells of new entities, and M in boxes; None in runs of
    earlier versions.
    """

    shape: tuple[int, ...]
    links: Links
    structural_zeros: StructuralZeros = field(default_factory=StructuralZeros)
    columns: Mapping[str, str] = field(default_factory=dict)
    value: str | None = None
    groups: Groups = ()
    kind: str = "polars"
    rule: Rule | None = None
    boxes: tuple[Box, ...] = ()

    @classmethod
    def of(cls, relation: "BoundRelation") -> Self:
        return cls(
            relation.shape, relation.links, relation.structural_zeros, relation.columns, relation.value,
            relation.groups, relation.kind, relation.rule,
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
        """M at the cells, (n,); for links on disk, the weight of the relation."""
        return self.links.weights

    def total(self) -> float:
        """ΣX."""
        return self.links.total()

    def pieces(self, size: int) -> Iterator[LinkArrays]:
        """All links in chunks of at most `size`, in stored order."""
        return self.links.pieces(size)

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        """Which cells (m, order), as row numbers, are known links."""
        return self.links.contain(self.canonical(cells))

    def values_at(self, cells: AnyArray) -> Array:
        """X at cells (m, order), 0 without a known link."""
        return self.links.find(self.canonical(cells))

    def canonical(self, cells: AnyArray) -> AnyArray:
        """Cells (m, order), as row numbers, in canonical orientation."""
        return canonical(cells, self.groups)

    def among(self, keep: Keep) -> "Known":
        """Wanted links of those on disk, in memory; links in memory are returned unchanged."""
        links = self.links.among(keep)
        return self if links is self.links else replace(self, links=links)

    @cached_property
    def observed(self) -> Weights:
        """M of all cells; requires a rule."""
        if len(self.boxes) == 1 and self.boxes[0].weights.shape == self.shape:
            return self.boxes[0].weights
        return together(self.boxes[0].weights.indices, self.shape, self.boxes, self.groups)

    @property
    def written(self) -> AnyArray:
        """Known links in all their orientations, (m, order), in lexicographic order."""
        return self.written_in(self.cells)

    def written_in(self, cells: AnyArray) -> AnyArray:
        """Known links (n, order) in all their orientations, (m, order), in lexicographic order."""
        return written(cells, self.shape, self.groups)


def reweighed(data: Data, seed: int) -> Data:
    """The data with each link's weight times a draw of mean 1; draws depend on the seed and the cell."""
    relations = {
        name: _reweighed(relation, Draws((seed, number)))
        for number, (name, relation) in enumerate(data.relations.items())
    }
    return replace(data, relations=relations)


def _reweighed(relation: BoundRelation, draws: Draws) -> BoundRelation:
    links, weights = relation.links.reweighed(draws, relation.weights, relation.groups, relation.rule)
    return replace(relation, links=links, weights=weights)
