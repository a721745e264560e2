"""Links of a relation, the cells with X > 0 and M > 0: one interface for memory and disk.

`LinksInMemory` holds them as CSF; `plait.data.outofcore.block_table.LinksOnDisk` reads them from blocks. Only code that
constructs links knows which they are. Cells are looked up in canonical orientation (`symmetry`).
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
from plait.data.sparse.sorting import is_uniform, sort_cells
from plait.tuning import TUNING

Keep = Callable[[AnyArray], NDArray[np.bool_]]


class LinkArrays(NamedTuple):
    """Some links: cells (n, order) in lexicographic order, X (n,) and M (n,)."""

    cells: AnyArray
    values: Array
    weights: Array

    @classmethod
    def none(cls, order: int) -> "LinkArrays":
        return cls(np.zeros((0, order), np.uint32), np.zeros(0), np.zeros(0))

    def take(self, which: Any) -> "LinkArrays":
        """Some of them, by mask, position or slice."""
        return LinkArrays(*(array[which] for array in self))


class Links(ABC):
    """Links over some indices of these sizes, in lexicographic order.

    `fibres`: the cells. `stored`: X as stored, (n,), empty on disk. `weights`: M, (n,); on disk that of the relation,
    which `read` and `pieces` multiply by the own weight of every link. `here`: the links in memory, None without any;
    for a cell that is also on disk, the amount added to its value. `parts`: links in memory and on disk.
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
        return self.read().cells

    @property
    def values(self) -> Array:
        return self.read().values

    @property
    def arrays(self) -> list[AnyArray]:
        """All arrays in memory."""
        return [] if self.here is None else self.here.arrays

    def pieces(self, size: int) -> Iterator[LinkArrays]:
        """All links in chunks of at most `size`, in stored order."""
        return in_pieces(self.read(), size)

    @abstractmethod
    def find(self, cells: AnyArray) -> Array:
        """X at cells (m, order), 0 without a link."""

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        return self.find(cells) > 0

    def total(self) -> float:
        """ΣX."""
        return float(self.values.sum())

    def among(self, keep: Keep) -> "Links":
        """Links in memory: those of some cells, or all where they are there already."""
        return LinksInMemory.of(self.indices, self.sizes, *self.read(keep))

    def sample(self, count: int, keep: Keep) -> list[tuple[LinkArrays, float]]:
        """At most `count` links of some cells, evenly spread, and the number that each represents; by part."""
        links = self.read(keep)
        every = len(links.values)
        if every <= count:
            return [(links, 1.0)]
        return [(links.take(np.linspace(0, every - 1, count).astype(np.int64)), every / count)]

    @abstractmethod
    def sized(self, sizes: tuple[int, ...]) -> "Links":
        """The links among more entities, which follow the others."""

    @abstractmethod
    def plus(self, more: LinkArrays) -> "Links":
        """With more links; values of a cell add up, its weight stays."""

    @abstractmethod
    def times(self, weight: float) -> "Links":
        """With all weights times a number."""

    def with_link_weights(self) -> "Links":
        """With M as a full array: it is then summed link by link, as on disk."""
        return self

    @abstractmethod
    def reweighed(self, draws: Draws, M: Weights, groups: Groups, rule: Rule | None) -> "tuple[Links, Weights]":
        """The links with weights times draws, and M with them."""

    @abstractmethod
    def table(self, coefficient: float, rule: Rule | None) -> WeightTable:
        """Table of a term of M, 1 at all listed cells, which a run does not store again."""

    @abstractmethod
    def lists(self, table: WeightTable) -> bool:
        """Whether the cells of a table of M are those of `table`."""

    @abstractmethod
    def content(self) -> Iterator[Content]:
        """Content of a fingerprint."""

    def outline(self) -> dict[str, str]:
        """Where a run finds the links that it does not store itself."""
        return {}

    def require_memory(self, name: str, what: str, hint: str) -> None:  # noqa: B027
        """Refuse an operation that needs links in memory, for the relation of this name."""


@dataclass(frozen=True, eq=False)
class LinksInMemory(Links):
    """Links as CSF, with X and M."""

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
        return [*self.fibres.rows, *self.fibres.starts, self.stored, self.weights]

    def cells(self) -> AnyArray:
        return self.fibres.cells()

    @property
    def values(self) -> Array:
        return self.stored.astype(np.float64, copy=False)

    def read(self, keep: Keep | None = None) -> LinkArrays:
        arrays = LinkArrays(self.cells(), self.values, np.asarray(self.weights))
        return arrays if keep is None else arrays.take(keep(arrays.cells))

    def among(self, keep: Keep) -> "LinksInMemory":
        return self

    def find(self, cells: AnyArray) -> Array:
        """X at cells (m, order); many links are looked up in the CSF, which takes no memory, few by keys."""
        if not len(self):
            return np.zeros(len(cells))
        at, there = self.fibres.places(cells) if len(self) >= TUNING.min_threaded_rows else self._lookup.find(cells)
        return np.where(there, self.stored[at].astype(np.float64), 0.0)

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.cells(), self.sizes)

    def sized(self, sizes: tuple[int, ...]) -> "LinksInMemory":
        if sizes == self.sizes:
            return self
        rows = (level.astype(row_type(size), copy=False) for level, size in zip(self.fibres.rows, sizes))
        return replace(self, fibres=replace(self.fibres, sizes=sizes, rows=tuple(rows)))

    def plus(self, more: LinkArrays) -> "LinksInMemory":
        if not len(more.values):
            return self
        cells, values, weights = summed([self.read(), more], self.sizes)
        if len(self) and is_uniform(self.weights) and (weights == weights[0]).all():
            weights = np.broadcast_to(weights[0], len(weights))
        return LinksInMemory.of(self.indices, self.sizes, cells, narrow(values), weights)

    def times(self, weight: float) -> "LinksInMemory":
        return replace(self, weights=times(self.weights, weight))

    def with_link_weights(self) -> "LinksInMemory":
        """With M as a full array, and X in doubles."""
        return replace(self, stored=self.values, weights=np.ascontiguousarray(self.weights))

    def reweighed(self, draws: Draws, M: Weights, groups: Groups, rule: Rule | None) -> tuple[Links, Weights]:
        drawn = draws(columns_of(self.cells()))
        cells, more = in_all_ways(self.fibres, (drawn - 1.0) * self.weights, groups)
        return replace(self, weights=drawn * self.weights), M + Weights.from_sorted(M.indices, M.shape, cells, more)

    def table(self, coefficient: float, rule: Rule | None) -> WeightTable:
        return WeightTable(self.indices, self.fibres, np.broadcast_to(1.0, len(self)))

    def lists(self, table: WeightTable) -> bool:
        return table.cells is self.fibres

    def content(self) -> Iterator[Content]:
        yield from fibre_content(self.fibres)
        yield self.stored, np.dtype(np.float32) if self.stored.dtype.itemsize < 4 else None
        yield self.weights, None


def in_pieces(links: LinkArrays, size: int) -> Iterator[LinkArrays]:
    """Links in chunks of at most `size`."""
    for lo in range(0, len(links.values), size):
        piece = links.take(slice(lo, lo + size))
        yield piece._replace(cells=piece.cells.astype(np.int64))


def summed(parts: list[LinkArrays], sizes: tuple[int, ...]) -> LinkArrays:
    """Links of several parts, sorted and each once: values add up, the weight is that of the first part."""
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
