"""A packed relation as executors and binding know data: a table whose leaves are read ahead, and its cells."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.data.blocks.buffers import Buffers, shared
from plait.data.blocks.packed import PackedBlocks, PackedRelation
from plait.data.cells.draws import Draws, Weighing
from plait.data.cells.fibres import Fibres, FoundElsewhere, Keep, Read
from plait.data.cells.keys import columns_of, coordinate_type
from plait.data.cells.leaves import Extent, Leaf
from plait.data.cells.ranges import PIECE
from plait.data.cells.sorting import sort_cells
from plait.data.cells.trees import FibreTree, Piece
from plait.data.observing.undirected import Groups, canonical
from plait.types import AnyArray, Array

Dress = Callable[[FibreTree], FibreTree]


def as_stored(tree: FibreTree) -> FibreTree:
    """A block as it is: its entries are the values."""
    return tree


@dataclass(frozen=True, eq=False)
class PackedTable:
    """Blocks on disk, to be summed; dress: the entries that a kernel is to see in place of the values; kind: theirs."""

    blocks: PackedBlocks
    kind: np.dtype[Any]
    dress: Dress = as_stored

    @cached_property
    def _room(self) -> Buffers:
        """What its passes read into is there as long as the table is."""
        return shared()

    def __getstate__(self) -> dict[str, Any]:
        """Another process has its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_room"}

    @property
    def order(self) -> tuple[str, ...]:
        """The indices, root first."""
        return self.blocks.order

    @property
    def sizes(self) -> tuple[int, ...]:
        """Their sizes."""
        return self.blocks.sizes

    @property
    def types(self) -> tuple[np.dtype[Any], ...]:
        """Those of starts, of the row numbers of every level, and of the entries."""
        return *self.blocks.types[:-1], self.kind

    @property
    def arrays(self) -> list[AnyArray]:
        """None: all is on disk."""
        return []

    @property
    def leaf_count(self) -> int:
        """How many blocks there are."""
        return len(self.blocks)

    def __len__(self) -> int:
        return self.blocks.entries

    def walk(self, lo: int = 0, hi: int | None = None) -> Iterator[Piece]:
        """The blocks, or some of them, one after another, read ahead."""
        for number, tree, release in self.blocks.stream(lo=lo, hi=hi, room=self._room):
            yield Piece(number, self.dress(tree), self._leaf(number, tree), release)

    def _leaf(self, number: int, tree: FibreTree) -> Leaf:
        inside = (0, len(tree.rows[1])) if self.blocks.files[number]["inside"] else None
        return Leaf(0, len(tree.rows[0]), inside)

    def extents(self) -> list[Extent]:
        """Where every block lies."""
        return [Extent(*(int(file[word]) for word in Extent._fields)) for file in self.blocks.files]

    def trees(self) -> Iterable[FibreTree]:
        """The blocks, one after another; a tree is valid until the next one is asked for."""
        for _, tree, release in self.blocks.stream(room=self._room):
            yield self.dress(tree)
            release()


@dataclass(frozen=True)
class Weighed:
    """Entries that are all one number, whatever the values; times a vector at the rows of some indices.

    indices: those of the cells, in the order in which draws take them; table: what else they are multiplied by.
    """

    number: float
    kind: np.dtype[Any]
    vectors: Mapping[str, Array]
    indices: tuple[str, ...]
    table: Weighing | None

    def __call__(self, tree: FibreTree) -> FibreTree:
        """The block with these entries."""
        entries, last = np.full(len(tree), self.number, self.kind), len(tree.order) - 1
        for index, vector in self.vectors.items():
            entries *= vector[tree.column(index, last)]
        if self.table is not None:
            columns = [tree.column(index, last) for index in self.indices]
            entries *= self.table(columns, tree.entries, tree.beside[0] if tree.beside else None)
        return replace(tree, entries=entries, beside=())


def weighed(cells: "CellsOnDisk", number: float, vectors: Mapping[str, Array]) -> PackedTable:
    """Blocks as a table that is one number at every listed cell, times a vector at the rows of some indices."""
    kind = np.dtype(np.uint8 if number == 1.0 and not vectors and cells.table is None else np.float64)
    return PackedTable(cells.packed.blocks, kind, Weighed(number, kind, vectors, cells.indices, cells.table))


@dataclass(frozen=True, eq=False)
class CellsOnDisk(FoundElsewhere):
    """The cells of a packed relation where sorted cells are wanted. Most questions need no more than how many; a
    column, or all cells, are read into memory.

    groups: places of indices whose order says nothing: a cell is there in one writing, and looked up in any. listed:
    whether listed zeros are among them, or links only. draws: what each link weighs beside its weight; table: what a
    table of weights has there.
    """

    packed: PackedRelation
    groups: Groups
    listed: bool
    draws: Draws | None = None
    table: Weighing | None = None

    @classmethod
    def of_packed(cls, packed: PackedRelation, groups: Groups = (), *, listed: bool = False) -> "CellsOnDisk":
        """Those of a relation."""
        count = packed.entries if listed else packed.links
        return cls(packed.indices, packed.shape, (), (), count, packed, groups, listed)

    def sized(self, sizes: tuple[int, ...]) -> "CellsOnDisk":
        """The same among more entities, which come after all others."""
        return replace(self, sizes=sizes, packed=self.packed.sized(sizes))

    def drawn(self, draws: Draws) -> "CellsOnDisk":
        """The same links, each of which weighs a draw."""
        return replace(self, draws=draws)

    def weighing(self, table: Weighing) -> "CellsOnDisk":
        """All that is listed, for a table of weights."""
        return replace(self.of_packed(self.packed, self.groups, listed=True), table=table)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return 0

    def equals(self, other: Fibres) -> bool:
        """Whether these are the same cells: those of the same folder."""
        return isinstance(other, CellsOnDisk) and other.packed.blocks.place == self.packed.blocks.place

    def column(self, index: str) -> AnyArray:
        """The row numbers of one index, (n,)."""
        return self.cells()[:, self.indices.index(index)]

    def cells(self) -> AnyArray:
        """All of them, (n, order)."""
        return self.read().cells

    def find(self, cells: AnyArray) -> Array:
        """The values of some cells (m, order), 0 where there is none."""
        return self.packed.find(canonical(cells, self.groups)).values

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        """Which of some cells (m, order) are among these."""
        found = self.packed.find(canonical(cells, self.groups))
        return found.listed if self.listed else found.values > 0

    def own_weights(self, cells: AnyArray) -> Array:
        """What some cells (m, order) weigh beside the weight of their relation; 1 where there is no link."""
        found = self.packed.find(canonical(cells, self.groups))
        return np.where(found.values > 0, found.weights, 1.0)

    def numbers(self, cells: AnyArray) -> Array:
        """What a table of weights with these cells has at some cells (m, order); 0 elsewhere."""
        if self.table is None:
            return super().numbers(cells)
        cells = canonical(cells, self.groups)
        found = self.packed.find(cells)
        own = found.weights if self.packed.has_weights else None
        return np.where(found.listed, self.table(columns_of(cells), found.values, own), 0.0)

    def total(self) -> float:
        """What all values add up to; the manifest says it, unless they were weighed one by one."""
        if self.packed.has_weights:
            return sum(float(piece.values.sum()) for piece in self.pieces(PIECE))
        return self.packed.sums.value / (self.packed.weight or 1.0)

    def read(self, keep: Keep | None = None) -> Read:
        """All or some into memory, in lexicographic order."""
        return self._taken(lambda entries: entries >= 0 if self.listed else entries > 0, keep)

    def pieces(self, size: int) -> Iterator[Read]:
        """All cells, at most so many at a time, in the order of the blocks."""
        places = [self.packed.order.index(index) for index in self.indices]
        for tree in PackedTable(self.packed.blocks, self.packed.blocks.types[-1]).trees():
            for lo in range(0, len(tree), size):
                entries = tree.entries[lo : lo + size]
                at = np.arange(len(entries)) if self.listed else np.flatnonzero(entries > 0)
                own = tree.beside[0][lo + at] if tree.beside else np.broadcast_to(1.0, len(at))
                yield Read(tree.cells(lo + at)[:, places], entries[at].astype(np.float64), own)

    def choose(self, count: int) -> Read:
        """About so many links, evenly spread over the blocks, in lexicographic order."""
        wanted = np.linspace(0, self.packed.entries - 1, count).astype(np.int64)
        every, number = wanted[np.diff(wanted, prepend=-1) > 0], 0
        cells, values, weights = [np.zeros((0, len(self.indices)), np.int64)], [np.zeros(0)], [np.zeros(0)]
        places = [self.packed.order.index(index) for index in self.indices]
        for tree in PackedTable(self.packed.blocks, self.packed.blocks.types[-1]).trees():
            at = every[(every >= number) & (every < number + len(tree))] - number
            at, number = at[tree.entries[at] > 0], number + len(tree)
            cells.append(tree.cells(at)[:, places])
            values.append(tree.entries[at].astype(np.float64))
            weights.append(np.asarray(tree.beside[0][at]) if tree.beside else np.ones(len(at)))
        order, ordered = sort_cells(np.concatenate(cells), self.sizes)
        joined, own = np.concatenate(values), np.concatenate(weights)
        return Read(ordered, joined, own) if order is None else Read(ordered, joined[order], own[order])

    def zeros(self) -> AnyArray:
        """Listed zeros, (n, order) in lexicographic order, into memory."""
        none = np.zeros((0, len(self.indices)), np.int64)
        return self._taken(lambda entries: entries == 0, None).cells if self.packed.zeros else none

    def _taken(self, which: Callable[[AnyArray], Any], keep: Keep | None) -> Read:
        """Some entries."""
        kind = coordinate_type(self.sizes)
        cells: list[AnyArray] = [np.zeros((0, len(self.indices)), kind)]
        values, weights = [np.zeros(0)], [np.zeros(0)]
        for tree in PackedTable(self.packed.blocks, self.packed.blocks.types[-1]).trees():
            last = len(tree.order) - 1
            here = np.stack([tree.column(index, last) for index in self.indices], axis=1).astype(kind, copy=False)
            there = np.asarray(which(tree.entries))
            if keep is not None:
                there &= keep(here)
            cells.append(here[there])
            values.append(tree.entries[there].astype(np.float64))
            weights.extend(own[there] for own in tree.beside)
        order, ordered = sort_cells(np.concatenate(cells), self.sizes)
        joined, own = np.concatenate(values), np.concatenate(weights)
        if not self.packed.has_weights:
            own = np.broadcast_to(1.0, len(joined))
        return Read(ordered, joined, own) if order is None else Read(ordered, joined[order], own[order])
