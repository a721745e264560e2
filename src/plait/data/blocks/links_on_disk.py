"""Links in blocks on disk, with later ones next to them in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from plait.data.blocks.packed import PackedRelation
from plait.data.blocks.table import CellsOnDisk, TableOnDisk, has_own_weights
from plait.data.cells.draws import Draws, Weighing
from plait.data.cells.fibres import Fibres
from plait.data.observing.link_store import Keep, LinkArrays, Links, LinksInMemory, in_pieces, summed
from plait.data.observing.rule import Rule
from plait.data.observing.terms import Content, Table, Term
from plait.data.observing.undirected import Groups
from plait.data.observing.weights import Weights
from plait.errors import SettingError, TableLocation
from plait.types import AnyArray, Array


@dataclass(frozen=True, eq=False)
class LinksOnDisk(Links):
    """Links in blocks, and later ones; weight: of the relation; draws: what the weight of each is multiplied by.

    later: with what they add to the value of a cell, which may be on disk already.
    """

    in_memory: ClassVar[bool] = False

    disk: CellsOnDisk
    weight: float
    later: LinksInMemory | None = None
    draws: Draws | None = None

    @classmethod
    def of(cls, packed: PackedRelation, groups: Groups = (), weight: float | None = None) -> "LinksOnDisk":
        """The links of a packed relation; weight: another than it was packed with."""
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
    fibres = property(lambda self: Fibres.of(self.indices, self.sizes, self.cells()))

    @property
    def parts(self) -> list[Links]:  # type: ignore[override]
        """Those on disk, and the later ones."""
        return [self] if self.later is None else [replace(self, later=None), self.later]

    def read(self, keep: Keep | None = None) -> LinkArrays:
        """All links, or those of some cells, into memory."""
        found = self._weighed(self.disk.read(keep))
        return found if self.later is None else summed([found, self.later.read(keep)], self.sizes)

    def _weighed(self, found: LinkArrays) -> LinkArrays:
        return found._replace(weights=found.weights * self.weight)

    def pieces(self, size: int) -> Iterator[LinkArrays]:
        """All links, at most `size` at a time: those on disk, then all others."""
        for piece in map(self._weighed, self.disk.pieces(size)):
            more = 0.0 if self.later is None else self.later.find(piece.cells)
            yield piece._replace(cells=np.asarray(piece.cells, np.int64), values=piece.values + more)
        if self.later is not None:
            yield from in_pieces(self.later.read(lambda cells: ~self.disk.contain(cells)), size)

    def find(self, cells: AnyArray) -> Array:
        """X at some cells (m, order), 0 where there is no link."""
        found = self.disk.find(cells)
        return found if self.later is None else found + self.later.find(cells)

    def total(self) -> float:
        """ΣX."""
        return self.disk.total() + (0.0 if self.later is None else self.later.total())

    def sized(self, sizes: tuple[int, ...]) -> "LinksOnDisk":
        """The same among more entities, which come after all others."""
        return replace(self, disk=self.disk.sized(sizes), later=self.later and self.later.sized(sizes))

    def plus(self, more: LinkArrays) -> "LinksOnDisk":
        """With more links in memory; the values of a cell add up, and it weighs what it did."""
        if not len(more.values):
            return self
        weights = self.disk.own_weights(more.cells) * self.weight
        found = summed(
            [*([] if self.later is None else [self.later.read()]), more._replace(weights=weights)], self.sizes
        )
        return replace(self, later=LinksInMemory.of(self.indices, self.sizes, *found))

    def times(self, weight: float) -> "LinksOnDisk":
        """With all weights times a number."""
        return replace(self, weight=self.weight * weight, later=self.later and self.later.times(weight))

    def sample(self, count: int, keep: Keep) -> list[tuple[LinkArrays, float]]:
        """At most `count` of the links of some cells, evenly spread, and how many each stands for; later ones apart."""
        if len(self) <= count:
            return super().sample(count, keep)
        some = self._weighed(self.disk.choose(count))
        later = [] if self.later is None else self.later.sample(count, keep)
        each = len(self.disk) / max(len(some.values), 1)
        return [(some, each), *((links, own) for links, own in later if len(links.values))]

    def reweighed(self, draws: Draws, M: Weights, groups: Groups, rule: Rule | None) -> tuple[Links, Weights]:
        """The links with weights times draws, and M with them: draws are made when blocks are read."""
        assert rule is not None
        terms = [term for term in M.terms if term.in_memory]
        for sign in (-1.0, 1.0) if rule.unlisted > 0 else (1.0,):
            table = self.disk.weighing(Weighing(rule.unlisted, rule.zero, sign, draws))
            terms.append(Term(sign * rule.weight, {}, TableOnDisk.of(table)))
        return replace(self, draws=draws), replace(M, terms=tuple(terms))

    def table(self, coefficient: float, rule: Rule | None) -> Table:
        """A table of a term of M, 1 at all cells that blocks list, but for what they weigh."""
        if rule is None or not has_own_weights(self.disk.packed):
            return TableOnDisk.of(replace(self.disk, listed=True))
        return TableOnDisk.of(self.disk.weighing(Weighing(rule.unlisted, rule.zero, 1.0 if coefficient > 0 else -1.0)))

    def lists(self, table: Table) -> bool:
        """Whether the cells of a table of M are those of `table`."""
        return not table.in_memory

    def content(self) -> Iterator[Content]:
        """What a fingerprint is made from."""
        yield f"cells {len(self)}"
        yield f"blocks {self.disk.packed.fingerprint}"
        yield self.stored, None
        yield self.weights, None

    def outline(self) -> dict[str, str]:
        """Where the blocks are, and their fingerprint."""
        packed = self.disk.packed
        return {"blocks": str(packed.blocks.place.resolve()), "blocks_sha256": packed.fingerprint}

    def require_memory(self, name: str, what: str, hint: str) -> None:
        """Refuse what cannot be done from disk."""
        raise SettingError(
            f"{what} needs all links in memory, and those of {name} are on disk.",
            location=TableLocation(name),
            hint=hint,
        )
