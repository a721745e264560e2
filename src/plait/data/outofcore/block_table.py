"""Blocks on disk as a table that is summed leaf by leaf with read-ahead, as cells, and as links with
later ones in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.observation.links import Keep, LinkArrays, Links, LinksInMemory, in_pieces, summed
from plait.data.observation.observed import Rule
from plait.data.observation.symmetry import Groups, canonical
from plait.data.observation.terms import Content, Sizes, Term, Vectors, WeightTable
from plait.data.observation.weights import Weights
from plait.data.outofcore.block_file import ReadPool, shared
from plait.data.outofcore.packed import PackedBlocks, PackedRelation
from plait.data.sparse.cell_draws import Draws, Weighing
from plait.data.sparse.csf import CSFCache, CSFChunk, CSFTensor
from plait.data.sparse.csf_index import CSFIndex
from plait.data.sparse.keys import columns_of, coordinate_type
from plait.data.sparse.leaves import Extent, Leaf
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.data.sparse.sorting import sort_cells
from plait.errors import ParameterError, TableLocation

Dress = Callable[[CSFTensor], CSFTensor]


def as_stored(tree: CSFTensor) -> CSFTensor:
    """The block with its values as entries."""
    return tree


@dataclass(frozen=True, eq=False)
class PackedTable:
    """Blocks on disk, to be summed; `dress` replaces values by the entries of a kernel, of dtype `kind`."""

    blocks: PackedBlocks
    kind: np.dtype[Any]
    dress: Dress = as_stored

    @cached_property
    def _pool(self) -> ReadPool:
        """Buffers of its passes, kept as long as the table."""
        return shared()

    def __getstate__(self) -> dict[str, Any]:
        """Buffers are not pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "_pool"}

    @property
    def order(self) -> tuple[str, ...]:
        return self.blocks.order

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.blocks.sizes

    @property
    def types(self) -> tuple[np.dtype[Any], ...]:
        return *self.blocks.types[:-1], self.kind

    @property
    def arrays(self) -> list[AnyArray]:
        return []

    @property
    def leaf_count(self) -> int:
        return len(self.blocks)

    def __len__(self) -> int:
        return self.blocks.entries

    def walk(self, lo: int = 0, hi: int | None = None) -> Iterator[CSFChunk]:
        for number, tree, release in self.blocks.stream(lo=lo, hi=hi, pool=self._pool):
            yield CSFChunk(number, self.dress(tree), self._leaf(number, tree), release)

    def _leaf(self, number: int, tree: CSFTensor) -> Leaf:
        inside = (0, len(tree.rows[1])) if self.blocks.files[number]["inside"] else None
        return Leaf(0, len(tree.rows[0]), inside)

    def extents(self) -> list[Extent]:
        return [Extent(*(int(file[word]) for word in Extent._fields)) for file in self.blocks.files]

    def trees(self) -> Iterable[CSFTensor]:
        """Blocks in order; a tree is valid until the next one."""
        for _, tree, release in self.blocks.stream(pool=self._pool):
            yield self.dress(tree)
            release()


@dataclass(frozen=True)
class Weighed:
    """Constant entries, whatever the values; times vectors at the rows of some indices.

    `indices`: of the cells, in the order of draws; `table`: a further factor.
    """

    number: float
    kind: np.dtype[Any]
    vectors: Mapping[str, Array]
    indices: tuple[str, ...]
    table: Weighing | None

    def __call__(self, tree: CSFTensor) -> CSFTensor:
        entries, last = np.full(len(tree), self.number, self.kind), len(tree.order) - 1
        for index, vector in self.vectors.items():
            entries *= vector[tree.column(index, last)]
        if self.table is not None:
            columns = [tree.column(index, last) for index in self.indices]
            entries *= self.table(columns, tree.entries, tree.side_values[0] if tree.side_values else None)
        return replace(tree, entries=entries, side_values=())


@dataclass(frozen=True, eq=False)
class CellsOnDisk:
    """Cells of a packed relation, of which most queries need only the number.

    `groups`: exchangeable positions: a cell is stored in one orientation, and looked up in any. `listed`: whether
    listed zeros are included. `table`: values of a table of weights there.
    """

    packed: PackedRelation
    groups: Groups = ()
    listed: bool = False
    table: Weighing | None = None

    def __len__(self) -> int:
        return self.packed.entries if self.listed else self.packed.links

    def sized(self, sizes: tuple[int, ...]) -> "CellsOnDisk":
        return replace(self, packed=self.packed.sized(sizes))

    def weighing(self, table: Weighing) -> "CellsOnDisk":
        """All listed cells, for a table of weights."""
        return replace(self, listed=True, table=table)

    def cells(self) -> AnyArray:
        return self.read().cells

    def column(self, index: str) -> AnyArray:
        return self.cells()[:, self.packed.indices.index(index)]

    def find(self, cells: AnyArray) -> Array:
        """Values of cells (m, order), 0 for unlisted ones."""
        return self.packed.find(canonical(cells, self.groups)).values

    def contain(self, cells: AnyArray) -> NDArray[np.bool_]:
        lookup = self.packed.find(canonical(cells, self.groups))
        return lookup.listed if self.listed else lookup.values > 0

    def own_weights(self, cells: AnyArray) -> Array:
        """Weights of cells (m, order) relative to that of their relation; 1 without a link."""
        if not self.packed.has_weights:
            return np.ones(len(cells))
        lookup = self.packed.find(canonical(cells, self.groups))
        return np.where(lookup.values > 0, lookup.weights, 1.0)

    def numbers(self, cells: AnyArray) -> Array:
        """Values of a table of weights at cells (m, order); 0 elsewhere."""
        if self.table is None:
            return np.asarray(self.contain(cells), np.float64)
        cells = canonical(cells, self.groups)
        lookup = self.packed.find(cells)
        own = lookup.weights if self.packed.has_weights else None
        return np.where(lookup.listed, self.table(columns_of(cells), lookup.values, own), 0.0)

    def total(self) -> float:
        """Sum of all values; from the manifest, unless each has its own weight."""
        if self.packed.has_weights:
            return sum(float(piece.values.sum()) for piece in self.pieces(CHUNK_ROWS))
        return self.packed.sums.value / (self.packed.weight or 1.0)

    def read(self, keep: Keep | None = None) -> LinkArrays:
        """All or some cells into memory, in lexicographic order."""
        return self._select(lambda entries: entries >= 0 if self.listed else entries > 0, keep)

    def pieces(self, size: int) -> Iterator[LinkArrays]:
        """All cells in chunks of at most `size`, in the order of the blocks."""
        places = [self.packed.order.index(index) for index in self.packed.indices]
        for tree in PackedTable(self.packed.blocks, self.packed.blocks.types[-1]).trees():
            for lo in range(0, len(tree), size):
                entries = tree.entries[lo : lo + size]
                at = np.arange(len(entries)) if self.listed else np.flatnonzero(entries > 0)
                own = tree.side_values[0][lo + at] if tree.side_values else np.broadcast_to(1.0, len(at))
                yield LinkArrays(tree.cells(lo + at)[:, places], entries[at].astype(np.float64), own)

    def choose(self, count: int) -> LinkArrays:
        """About `count` links, evenly spread over the blocks, in lexicographic order."""
        wanted = np.linspace(0, self.packed.entries - 1, count).astype(np.int64)
        every, number = wanted[np.diff(wanted, prepend=-1) > 0], 0
        cells, values, weights = [np.zeros((0, len(self.packed.indices)), np.int64)], [np.zeros(0)], [np.zeros(0)]
        places = [self.packed.order.index(index) for index in self.packed.indices]
        for tree in PackedTable(self.packed.blocks, self.packed.blocks.types[-1]).trees():
            at = every[(every >= number) & (every < number + len(tree))] - number
            at, number = at[tree.entries[at] > 0], number + len(tree)
            cells.append(tree.cells(at)[:, places])
            values.append(tree.entries[at].astype(np.float64))
            weights.append(np.asarray(tree.side_values[0][at]) if tree.side_values else np.ones(len(at)))
        order, ordered = sort_cells(np.concatenate(cells), self.packed.shape)
        joined, own = np.concatenate(values), np.concatenate(weights)
        return LinkArrays(ordered, joined, own) if order is None else LinkArrays(ordered, joined[order], own[order])

    def zeros(self) -> AnyArray:
        """Listed zeros, (n, order) in lexicographic order, into memory."""
        none = np.zeros((0, len(self.packed.indices)), np.int64)
        return self._select(lambda entries: entries == 0, None).cells if self.packed.zeros else none

    def _select(self, which: Callable[[AnyArray], Any], keep: Keep | None) -> LinkArrays:
        kind = coordinate_type(self.packed.shape)
        cells: list[AnyArray] = [np.zeros((0, len(self.packed.indices)), kind)]
        values, weights = [np.zeros(0)], [np.zeros(0)]
        for tree in PackedTable(self.packed.blocks, self.packed.blocks.types[-1]).trees():
            last = len(tree.order) - 1
            columns = [tree.column(index, last) for index in self.packed.indices]
            here = np.stack(columns, axis=1).astype(kind, copy=False)
            there = np.asarray(which(tree.entries))
            if keep is not None:
                there &= keep(here)
            cells.append(here[there])
            values.append(tree.entries[there].astype(np.float64))
            weights.extend(own[there] for own in tree.side_values)
        order, ordered = sort_cells(np.concatenate(cells), self.packed.shape)
        joined, own = np.concatenate(values), np.concatenate(weights)
        if not self.packed.has_weights:
            own = np.broadcast_to(1.0, len(joined))
        return LinkArrays(ordered, joined, own) if order is None else LinkArrays(ordered, joined[order], own[order])


def has_own_weights(packed: PackedRelation) -> bool:
    """Whether listed cells have different weights."""
    return packed.has_weights or (packed.zeros > 0 and not isinstance(packed.options["observed"], str))


@dataclass(frozen=True, eq=False)
class TableOnDisk(WeightTable):
    """Listed cells of blocks as a table of weights: one number, times its `Weighing`."""

    in_memory: ClassVar[bool] = False

    cells: CellsOnDisk  # type: ignore[assignment]

    @classmethod
    def of(cls, cells: CellsOnDisk) -> "TableOnDisk":
        """The table that is 1 at cells, times their `Weighing`."""
        return cls(cells.packed.indices, cells, np.broadcast_to(1.0, len(cells)))

    @property
    def arrays(self) -> list[AnyArray]:
        return [self.values]

    def held(self) -> WeightTable:
        return self._at(self.cells.cells())

    def _at(self, coords: AnyArray) -> WeightTable:
        """Some of its cells in memory."""
        return WeightTable(self.indices, coords, self.cells.numbers(coords) * self.values[: len(coords)])

    def at(self, columns: Sequence[AnyArray], sizes: Mapping[str, int]) -> Array:
        return self.cells.numbers(np.stack(columns, axis=1)) * float(self.values[0])

    def placed(self, starts: Mapping[str, int], shape: tuple[int, ...]) -> WeightTable:
        """The table in a larger tensor: blocks hold the first entities."""
        return replace(self, cells=self.cells.sized(shape))

    def on_diagonal(self, a: str, b: str) -> WeightTable:
        first, second = self.indices.index(a), self.indices.index(b)
        return self._at(self.cells.read(lambda cells: cells[:, first] == cells[:, second]).cells)

    def maybe_zeros(self) -> AnyArray:
        """Listed zeros (m, k)."""
        return self.cells.zeros()

    def tree(
        self, number: float, vectors: Vectors, sizes: Sizes, order: tuple[str, ...], forest: CSFCache
    ) -> PackedTable:
        """Blocks times a number and vectors, in the order of packing."""
        cells, number = self.cells, float(self.values[0]) * number
        inside = {index: vectors[index] for index in self.indices if index in vectors}
        kind = np.dtype(np.uint8 if number == 1.0 and not inside and cells.table is None else np.float64)
        return PackedTable(cells.packed.blocks, kind, Weighed(number, kind, inside, cells.packed.indices, cells.table))


@dataclass(frozen=True, eq=False)
class LinksOnDisk(Links):
    """Links in blocks, and later ones in memory; `weight`: of the relation; `draws`: factors of the weights.

    `later`: added to the values of cells, which may be on disk already.
    """

    in_memory: ClassVar[bool] = False

    disk: CellsOnDisk
    weight: float
    later: LinksInMemory | None = None
    draws: Draws | None = None

    @classmethod
    def of(cls, packed: PackedRelation, groups: Groups = (), weight: float | None = None) -> "LinksOnDisk":
        """Links of a packed relation; `weight`: in place of that of packing."""
        return cls(CellsOnDisk(packed, groups), packed.weight if weight is None else weight)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        new = 0 if self.later is None else int(np.count_nonzero(~self.disk.contain(self.later.cells())))
        return len(self.disk) + new

    indices = property(lambda self: self.disk.packed.indices)
    sizes = property(lambda self: self.disk.packed.shape)
    here = property(lambda self: self.later)
    stored = property(lambda self: np.zeros(0, np.float32))
    weights = property(lambda self: np.broadcast_to(self.weight, len(self)))
    fibres = property(lambda self: CSFIndex.of(self.indices, self.sizes, self.cells()))

    @property
    def parts(self) -> list[Links]:  # type: ignore[override]
        return [self] if self.later is None else [replace(self, later=None), self.later]

    def read(self, keep: Keep | None = None) -> LinkArrays:
        links = self._weighed(self.disk.read(keep))
        return links if self.later is None else summed([links, self.later.read(keep)], self.sizes)

    def _weighed(self, links: LinkArrays) -> LinkArrays:
        return links._replace(weights=links.weights * self.weight)

    def pieces(self, size: int) -> Iterator[LinkArrays]:
        """All links in chunks of at most `size`: those on disk, then the others."""
        for piece in map(self._weighed, self.disk.pieces(size)):
            more = 0.0 if self.later is None else self.later.find(piece.cells)
            yield piece._replace(cells=np.asarray(piece.cells, np.int64), values=piece.values + more)
        if self.later is not None:
            yield from in_pieces(self.later.read(lambda cells: ~self.disk.contain(cells)), size)

    def find(self, cells: AnyArray) -> Array:
        lookup = self.disk.find(cells)
        return lookup if self.later is None else lookup + self.later.find(cells)

    def total(self) -> float:
        return self.disk.total() + (0.0 if self.later is None else self.later.total())

    def sized(self, sizes: tuple[int, ...]) -> "LinksOnDisk":
        return replace(self, disk=self.disk.sized(sizes), later=self.later and self.later.sized(sizes))

    def plus(self, more: LinkArrays) -> "LinksOnDisk":
        if not len(more.values):
            return self
        weights = self.disk.own_weights(more.cells) * self.weight
        later = summed(
            [*([] if self.later is None else [self.later.read()]), more._replace(weights=weights)], self.sizes
        )
        return replace(self, later=LinksInMemory.of(self.indices, self.sizes, *later))

    def times(self, weight: float) -> "LinksOnDisk":
        return replace(self, weight=self.weight * weight, later=self.later and self.later.times(weight))

    def sample(self, count: int, keep: Keep) -> list[tuple[LinkArrays, float]]:
        """At most `count` links of some cells, evenly spread, and the number that each represents; later
        ones separately.
        """
        if len(self) <= count:
            return super().sample(count, keep)
        some = self._weighed(self.disk.choose(count))
        later = [] if self.later is None else self.later.sample(count, keep)
        each = len(self.disk) / max(len(some.values), 1)
        return [(some, each), *((links, own) for links, own in later if len(links.values))]

    def reweighed(self, draws: Draws, M: Weights, groups: Groups, rule: Rule | None) -> tuple[Links, Weights]:
        """The links with weights times draws, and M with them; draws are computed when blocks are read."""
        assert rule is not None
        terms = [term for term in M.terms if term.in_memory]
        for sign in (-1.0, 1.0) if rule.unlisted > 0 else (1.0,):
            table = self.disk.weighing(Weighing(rule.unlisted, rule.zero, sign, draws))
            terms.append(Term(sign * rule.weight, {}, TableOnDisk.of(table)))
        return replace(self, draws=draws), replace(M, terms=tuple(terms))

    def table(self, coefficient: float, rule: Rule | None) -> WeightTable:
        if rule is None or not has_own_weights(self.disk.packed):
            return TableOnDisk.of(replace(self.disk, listed=True))
        return TableOnDisk.of(self.disk.weighing(Weighing(rule.unlisted, rule.zero, 1.0 if coefficient > 0 else -1.0)))

    def lists(self, table: WeightTable) -> bool:
        return not table.in_memory

    def content(self) -> Iterator[Content]:
        yield f"cells {len(self)}"
        yield f"blocks {self.disk.packed.fingerprint}"
        yield self.stored, None
        yield self.weights, None

    def outline(self) -> dict[str, str]:
        """Path and fingerprint of the blocks."""
        packed = self.disk.packed
        return {"blocks": str(packed.blocks.place.resolve()), "blocks_sha256": packed.fingerprint}

    def require_memory(self, name: str, what: str, hint: str) -> None:
        raise ParameterError(
            f"{what} requires all links in memory, but the links of {name} are on disk.",
            location=TableLocation(name),
            hint=hint,
        )
