"""Links of a relation, the cells with X > 0 and M > 0: one interface, wherever they are kept.

`LinksInMemory` keeps them as fibres; `plait.data.outofcore.block_table.LinksOnDisk` reads them from blocks. Only code
that constructs links knows which they are. A cell is asked for in its canonical writing (`undirected`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.observation.observed import Rule, times
from plait.data.observation.symmetry import Groups, in_all_ways
from plait.data.observation.terms import Content, WeightTable, fibre_content
from plait.data.observation.weights import Weights
from plait.data.sparse.cell_draws import Draws
from plait.data.sparse.csf import narrow
from plait.data.sparse.csf_index import CSFIndex, row_type
from plait.data.sparse.keys import Lookup, columns_of, coordinate_type
from plait.data.sparse.parallel import MANY
from plait.data.sparse.sorting import is_uniform, sort_cells

Keep = Callable[[AnyArray], NDArray[np.bool_]]


class LinkArrays(NamedTuple):
    """Some links: cells (n, order) in lexicographic order, X (n,) and M (n,)."""

    cells: AnyArray
    values: Array
    weights: Array

    @classmethod
    def none(cls, order: int) -> "LinkArrays":
        """No links."""
        return cls(np.zeros((0, order), np.uint32), np.zeros(0), np.zeros(0))

    def taken(self, which: Any) -> "LinkArrays":
        """Some of them, by mask, position or slice."""
        return LinkArrays(*(array[which] for array in self))


class Links(ABC):
    """Links over some indices of these sizes, in lexicographic order.

    fibres: the cells. stored: X as it is kept, (n,), empty on disk. weights: M, (n,); on disk that of the relation
    alone, which `read` and `pieces` multiply by the own weight of every link. here: the links in memory, None where
    there are none; of a cell that is on disk, too, what was added to its value. parts: links of one kind each.
    """

    in_memory: ClassVar[bool]

    indices: tuple[str, ...]
    sizes: tuple[int, ...]
    fibres: CSFIndex
    stored: NDArray[Any]
    weights: Array
    here: "LinksInMemory | None"
    parts: "list[Links]"

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def read(self, keep: Keep | None = None) -> LinkArrays:
        """All links, or those of some cells."""

    def cells(self) -> AnyArray:
        """All cells, (n, order)."""
        return self.read().cells

    @property
    def values(self) -> Array:
        """X, (n,)."""
        return self.read().values

    @property
    def arrays(self) -> list[AnyArray]:
        """All arrays that are held in memory."""
        return [] if self.here is None else self.here.arrays

    def pieces(self, size: int) -> Iterator[LinkArrays]:
        """All links, at most `size` at a time, in the order in which they are kept."""
        return in_pieces(self.read(), size)

    @abstractmethod
    def find(self, cells: AnyArray) -> Array:
        """X at some cells (m, order), 0 where there is no link."""

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        """Which of some cells (m, order) are links."""
        return self.find(cells) > 0

    def total(self) -> float:
        """ΣX."""
        return float(self.values.sum())

    def among(self, keep: Keep) -> "Links":
        """Links in memory: those of some cells, or all where they are there already."""
        return LinksInMemory.of(self.indices, self.sizes, *self.read(keep))

    def sample(self, count: int, keep: Keep) -> list[tuple[LinkArrays, float]]:
        """At most `count` of the links of some cells, evenly spread, and how many each stands for; by part."""
        found = self.read(keep)
        every = len(found.values)
        if every <= count:
            return [(found, 1.0)]
        return [(found.taken(np.linspace(0, every - 1, count).astype(np.int64)), every / count)]

    @abstractmethod
    def sized(self, sizes: tuple[int, ...]) -> "Links":
        """The same among more entities, which come after all others."""

    @abstractmethod
    def plus(self, more: LinkArrays) -> "Links":
        """With more links; the values of a cell add up, and it weighs what it did."""

    @abstractmethod
    def times(self, weight: float) -> "Links":
        """With all weights times a number."""

    def with_link_weights(self) -> "Links":
        """With M in an array, where one number stands for all: sums then add it up link by link, as those on disk."""
        return self

    @abstractmethod
    def reweighed(self, draws: Draws, M: Weights, groups: Groups, rule: Rule | None) -> "tuple[Links, Weights]":
        """The links with weights times draws, and M with them."""

    @abstractmethod
    def table(self, coefficient: float, rule: Rule | None) -> WeightTable:
        """A table of a term of M, 1 at all listed cells: those that a run does not write down again."""

    @abstractmethod
    def lists(self, table: WeightTable) -> bool:
        """Whether the cells of a table of M are those of `table`."""

    @abstractmethod
    def content(self) -> Iterator[Content]:
        """What a fingerprint is made from."""

    def outline(self) -> dict[str, str]:
        """Where a run finds the links that it does not keep itself."""
        return {}

    def require_memory(self, name: str, what: str, hint: str) -> None:  # noqa: B027
        """Refuse what cannot be done from disk, for the relation of this name."""


@dataclass(frozen=True, eq=False)
class LinksInMemory(Links):
    """Links as fibres, with X and M."""

    in_memory: ClassVar[bool] = True

    fibres: CSFIndex
    stored: NDArray[Any]
    weights: Array

    @classmethod
    def of(
        cls, indices: tuple[str, ...], sizes: tuple[int, ...], cells: AnyArray, stored: NDArray[Any], weights: Array
    ) -> "LinksInMemory":
        """Links at cells (n, order), distinct and in lexicographic order."""
        return cls(CSFIndex.of(indices, sizes, cells), stored, weights)

    def __len__(self) -> int:
        return len(self.fibres)

    indices = property(lambda self: self.fibres.indices)
    sizes = property(lambda self: self.fibres.sizes)
    here = property(lambda self: self)
    parts = property(lambda self: [self])

    @property
    def arrays(self) -> list[AnyArray]:
        """All arrays that are held in memory."""
        return [*self.fibres.rows, *self.fibres.starts, self.stored, self.weights]

    def cells(self) -> AnyArray:
        """All cells, (n, order)."""
        return self.fibres.cells()

    @property
    def values(self) -> Array:
        """X, (n,)."""
        return self.stored.astype(np.float64, copy=False)

    def read(self, keep: Keep | None = None) -> LinkArrays:
        """All links, or those of some cells."""
        found = LinkArrays(self.cells(), self.values, np.asarray(self.weights))
        return found if keep is None else found.taken(keep(found.cells))

    def among(self, keep: Keep) -> "LinksInMemory":
        """All of them, as they are."""
        return self

    def find(self, cells: AnyArray) -> Array:
        """X at some cells (m, order); many links are looked up in fibres, which takes no memory, a few by keys."""
        if not len(self):
            return np.zeros(len(cells))
        at, there = self.fibres.places(cells) if len(self) >= MANY else self._lookup.find(cells)
        return np.where(there, self.stored[at].astype(np.float64), 0.0)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.cells(), self.sizes)

    def sized(self, sizes: tuple[int, ...]) -> "LinksInMemory":
        """The same among more entities, which come after all others."""
        if sizes == self.sizes:
            return self
        rows = (level.astype(row_type(size), copy=False) for level, size in zip(self.fibres.rows, sizes))
        return replace(self, fibres=replace(self.fibres, sizes=sizes, rows=tuple(rows)))

    def plus(self, more: LinkArrays) -> "LinksInMemory":
        """With more links; the values of a cell add up, and it weighs what it did."""
        if not len(more.values):
            return self
        cells, values, weights = summed([self.read(), more], self.sizes)
        if len(self) and is_uniform(self.weights) and (weights == weights[0]).all():
            weights = np.broadcast_to(weights[0], len(weights))
        return LinksInMemory.of(self.indices, self.sizes, cells, narrow(values), weights)

    def times(self, weight: float) -> "LinksInMemory":
        """With all weights times a number."""
        return replace(self, weights=times(self.weights, weight))

    def with_link_weights(self) -> "LinksInMemory":
        """With M in an array, where one number stands for all; and X in doubles."""
        return replace(self, stored=self.values, weights=np.ascontiguousarray(self.weights))

    def reweighed(self, draws: Draws, M: Weights, groups: Groups, rule: Rule | None) -> tuple[Links, Weights]:
        """The links with weights times draws, and M with them."""
        drawn = draws(columns_of(self.cells()))
        cells, more = in_all_ways(self.fibres, (drawn - 1.0) * self.weights, groups)
        return replace(self, weights=drawn * self.weights), M + Weights.from_sorted(M.indices, M.shape, cells, more)

    def table(self, coefficient: float, rule: Rule | None) -> WeightTable:
        """A table of a term of M, 1 at all links."""
        return WeightTable(self.indices, self.fibres, np.broadcast_to(1.0, len(self)))

    def lists(self, table: WeightTable) -> bool:
        """Whether the cells of a table of M are those of `table`."""
        return table.cells is self.fibres

    def content(self) -> Iterator[Content]:
        """What a fingerprint is made from."""
        yield from fibre_content(self.fibres)
        yield self.stored, np.dtype(np.float32) if self.stored.dtype.itemsize < 4 else None
        yield self.weights, None


def in_pieces(links: LinkArrays, size: int) -> Iterator[LinkArrays]:
    """Links, at most `size` at a time."""
    for lo in range(0, len(links.values), size):
        piece = links.taken(slice(lo, lo + size))
        yield piece._replace(cells=piece.cells.astype(np.int64))


def summed(parts: list[LinkArrays], sizes: tuple[int, ...]) -> LinkArrays:
    """Links of several kinds in one order, each once: its values add up, and it weighs what it does in the first."""
    kind = coordinate_type(sizes)
    cells = np.concatenate([part.cells.astype(kind, copy=False) for part in parts])
    values, weights = (np.concatenate([part[n] for part in parts]) for n in (1, 2))
    order, cells = sort_cells(cells, sizes)
    values, weights = (values, weights) if order is None else (values[order], weights[order])
    first = np.ones(len(cells), bool)
    first[1:] = (cells[1:] != cells[:-1]).any(axis=1)
    at = np.flatnonzero(first)
    if len(at) == len(cells):
        return LinkArrays(cells, values, weights)
    return LinkArrays(cells[at], np.add.reduceat(values, at), weights[at])
