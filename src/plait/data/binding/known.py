"""What a fit remembers of a relation's data: its links, what rules close, and the names of its columns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from plait.data.cells.fibres import Fibres, FoundElsewhere, Keep
from plait.data.cells.keys import Lookup, columns_of
from plait.data.cells.ranges import MANY
from plait.data.observing.closed import Closed
from plait.data.observing.rule import Box, Rule, together
from plait.data.observing.undirected import Groups, canonical, written
from plait.data.observing.weights import Weights
from plait.types import AnyArray, Array

if TYPE_CHECKING:
    from plait.data.bound import BoundRelation


@dataclass(frozen=True, eq=False)
class Known:
    """Cells with X > 0 and M > 0: cells (n, order) in lexicographic order, values (n,) X, weights (n,) M.

    links and stored are what they are made from when first asked for: a fit keeps no more. closed: cells that no link
    is expected in, by a rule. columns, value: how the table of the data named its indices and values, where it did.
    groups: places of indices whose order says nothing (`observing.undirected`); cells are in their canonical writing,
    and every question here may be asked in any. kind: whose table the data were, which is what `top` answers with.
    Of links on disk, weights are those of the relation alone: `among` and `pieces` know what each of them weighs.
    rule, boxes: how cells of new entities would be observed, and M in boxes; none in runs of earlier versions.
    """

    shape: tuple[int, ...]
    links: AnyArray | Fibres
    stored: NDArray[np.floating]
    weights: Array
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
            relation.shape, relation.links, relation.stored, relation.cell_weights, relation.closed, relation.columns,
            relation.value, relation.groups, relation.kind, relation.rule,
            () if relation.rule is None else (Box((0,) * len(relation.shape), relation.weights),),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.links)

    @cached_property
    def _read(self) -> tuple[AnyArray, Array]:
        """Cells and values; those on disk are read as a whole."""
        if isinstance(self.links, FoundElsewhere):
            found = self.links.read()
            return found.cells, found.values
        cells = self.links.cells() if isinstance(self.links, Fibres) else self.links
        return cells, self.stored.astype(np.float64, copy=False)

    @property
    def cells(self) -> AnyArray:
        """Coordinates (n, order) in lexicographic order."""
        return self._read[0]

    @property
    def values(self) -> Array:
        """X at the cells, (n,)."""
        return self._read[1]

    def total(self) -> float:
        """What all values add up to."""
        return self.links.total() if isinstance(self.links, FoundElsewhere) else float(self.values.sum())

    def pieces(self, size: int) -> Iterator[tuple[NDArray[np.int64], Array, Array]]:
        """All of them, so many at a time: cells (m, order), values and weights (m,); of blocks as these have them."""
        if isinstance(self.links, FoundElsewhere):
            for cells, values, own in self.links.pieces(size):
                yield np.asarray(cells, np.int64), values, own * self.weights[0]
            return
        weights = np.broadcast_to(np.asarray(self.weights, np.float64), len(self))
        for lo in range(0, len(self), size):
            piece = slice(lo, lo + size)
            yield self.cells[piece].astype(np.int64), self.values[piece], weights[piece]

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        """Which of some cells (m, order), as row numbers, are known links."""
        if isinstance(self.links, FoundElsewhere):
            return self.values_at(cells) > 0
        return self._find(self.canonical(cells))[1]

    def values_at(self, cells: AnyArray) -> Array:
        """X at some cells (m, order), 0 where there is no known link."""
        if isinstance(self.links, FoundElsewhere):
            return self.links.find(self.canonical(cells))
        at, known = self._find(self.canonical(cells))
        return np.where(known, self.stored[at].astype(np.float64), 0.0) if len(self) else np.zeros(len(cells))

    def _find(self, cells: AnyArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where cells stand; many links are looked up in their fibres, which takes no memory, a few by keys."""
        if isinstance(self.links, Fibres) and len(self) >= MANY:
            return self.links.places(cells)
        return self._lookup.find(cells)

    def columns_of_links(self) -> list[AnyArray]:
        """The row numbers of the links, (n,) each; nothing stays of them."""
        if isinstance(self.links, Fibres) and not isinstance(self.links, FoundElsewhere):
            return [self.links.column(index) for index in self.links.indices]
        return columns_of(self.cells)

    def canonical(self, cells: AnyArray) -> AnyArray:
        """Cells (m, order), as row numbers, in the writing in which known ones are kept."""
        return canonical(cells, self.groups)

    def among(self, keep: Keep) -> "Known":
        """Where links are on disk, those of them that are wanted, in memory; else all, as they are."""
        if not isinstance(self.links, FoundElsewhere):
            return self
        cells, values, own = self.links.read(keep)
        return replace(self, links=cells, stored=values, weights=own * self.weights[: len(values)])

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

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.cells, self.shape)
