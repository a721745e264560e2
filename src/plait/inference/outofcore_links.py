"""Links in blocks on disk as sums need them: what weighs or exposes a link is found when its block is read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from plait._typing import AnyArray, Array
from plait.codegen.plan import Plan
from plait.data.observation.links import Links
from plait.data.observation.weights import Weights
from plait.data.outofcore.block_table import LinksOnDisk, PackedTable
from plait.data.outofcore.packed import PackedRelation
from plait.data.sparse.cell_draws import Draws
from plait.data.sparse.csf import CSFCache, CSFTensor, SummedTable
from plait.data.sparse.parallel import PIECE
from plait.inference.gamma import FactorState
from plait.inference.nonzeros import NO_SUMS, Looked, Nonzeros, add_up_rows, is_valued
from plait.inference.underflow import log_rates
from plait.likelihood import Likelihood, Sums


def nonzeros_of(links: Links, exposures: tuple[Weights | None, ...]) -> "Nonzeros | PackedLinks":
    """The links of one part as sums need them; exposures: V of every term."""
    if isinstance(links, LinksOnDisk):
        return PackedLinks(links.disk.packed, links.weight, exposures, links.draws)
    cells = links.cells() if any(V is not None for V in exposures) else None
    at_links = tuple(None if cells is None or V is None else V.at(cells) for V in exposures)
    return Nonzeros(links.fibres, links.stored, links.weights, at_links)


@dataclass(frozen=True, eq=False)
class PackedLinks:
    """Links in blocks on disk. weight: what all of them weigh, times a draw for each where there are draws.

    exposures: V of every term; None where it is 1.
    """

    packed: PackedRelation
    weight: float
    exposures: tuple[Weights | None, ...] = (None,)
    draws: Draws | None = None

    @property
    def order(self) -> tuple[str, ...]:
        """That of the blocks."""
        return self.packed.order

    @property
    def links(self) -> int:
        """How many there are."""
        return self.packed.links

    @property
    def exposed(self) -> tuple[int, ...]:
        """The terms that have an exposure."""
        return tuple(term for term, V in enumerate(self.exposures) if V is not None)

    @property
    def _at_links(self) -> "AtLinks":
        return AtLinks(self.packed.indices, self.weight, self.draws, self.packed.has_weights)

    def tables(self, plan: Plan, forest: CSFCache) -> list[PackedTable]:
        """The blocks, for the only pass of a plan."""
        beside = tuple(V for term in plan.exposed if (V := self.exposures[term]) is not None)
        dress = Dressed(plan.likelihood, self._at_links, beside)
        return [PackedTable(self.packed.blocks, dress.kind(self.packed.blocks.types[-1]), dress)]

    def sums(self, plan: Plan, table: SummedTable) -> Sums:
        """Those of the manifest, which are of links that weigh what they did when they were packed; or by a pass."""
        if self.draws is None:
            return Sums(*(number * self._times for number in self.packed.sums))
        total = NO_SUMS
        for _, values, weights in self._pieces():
            total = total + plan.likelihood.sums(values, weights)
        return total

    @cached_property
    def _times(self) -> float:
        return 1.0 if self.weight == self.packed.weight else self.weight / self.packed.weight  # both may be 0

    def marginals(self, plan: Plan, table: SummedTable, *, valued: bool) -> list[Array]:
        """Those of the manifest; of factors with several visible indices, and of draws, by a pass over all blocks."""
        known = [len(operand.visible) == 1 and self.draws is None for operand in plan.operands]
        found = [np.zeros(layout.rows) for layout in plan.layouts]
        for position, total in enumerate(found):
            if known[position]:
                own = self.packed.marginals[plan.operands[position].visible[0]][0 if valued else 1]
                total[: len(own)] = own * self._times
        for columns, values, weights in () if all(known) else self._pieces():
            numbers = values * weights if valued else np.asarray(weights)
            named = dict(zip(self.packed.indices, columns))
            for position in (position for position, is_known in enumerate(known) if not is_known):
                add_up_rows(plan, position, named, numbers, found[position])
        return found

    def log_exposed(self, plan: Plan) -> float:
        """Σ M·X log V over the links, of the only term."""
        (V,), total = self.exposures, 0.0
        assert V is not None
        for columns, values, weights in self._pieces():
            total += float(plan.likelihood.entries(values, weights) @ np.log(V.at(np.stack(columns, axis=1))))
        return total

    def look(self, plan: Plan, table: SummedTable, factors: Sequence[FactorState]) -> Looked:
        """All links in memory: some 24 bytes each."""
        found: list[list[Array]] = [[np.zeros(0)], [np.zeros(0)], [np.zeros(0)]]
        for columns, values, weights in self._pieces():
            cells = np.stack(columns, axis=1)
            given = [None if V is None else V.at(cells) for V in self.exposures]
            logs = log_rates(plan, dict(zip(self.packed.indices, columns)), given, factors)
            for own, numbers in zip(found, (values, np.asarray(weights), logs)):
                own.append(numbers)
        values, weights, logs = map(np.concatenate, found)
        alike = self.draws is None and not self.packed.has_weights
        return Looked(values, np.broadcast_to(self.weight, len(values)) if alike else weights, logs)

    def _pieces(self) -> Iterator[tuple[list[AnyArray], Array, Array]]:
        """Row numbers by index, values and weights of some links at a time, none of two blocks."""
        for tree in PackedTable(self.packed.blocks, self.packed.blocks.types[-1]).trees():
            columns = [tree.column(index, len(tree.order) - 1) for index in self.packed.indices]
            for at in range(0, len(tree), PIECE):
                entries = tree.entries[at : at + PIECE]
                there = slice(None) if entries.min() > 0 else entries > 0
                some = [column[at : at + PIECE][there] for column in columns]
                values = entries[there].astype(np.float64)
                own = tree.beside[0][at : at + PIECE][there] if tree.beside else None
                yield some, values, self._at_links(some, len(values), own)


@dataclass(frozen=True)
class AtLinks:
    """M at links: a number, times a draw for each where there are draws, and the weights that they have themselves.

    indices: in the order that draws take; own: whether they have any.
    """

    indices: tuple[str, ...]
    weight: float
    draws: Draws | None
    own: bool

    def __call__(self, columns: Sequence[AnyArray], count: int, own: Array | None) -> Array:
        """At links by the row numbers of the indices, and their own weights."""
        M = np.broadcast_to(self.weight, count) if own is None else own * self.weight
        return M if self.draws is None else self.draws(columns) * M

    @property
    def plain(self) -> bool:
        """Whether it is 1 everywhere."""
        return self.weight == 1.0 and self.draws is None and not self.own


@dataclass(frozen=True)
class Dressed:
    """Blocks as a likelihood's kernel reads them; a module's class, for workers are sent it. exposures: V to read."""

    likelihood: Likelihood
    weights: AtLinks
    exposures: tuple[Weights, ...] = ()

    def kind(self, stored: np.dtype[np.generic]) -> np.dtype[np.generic]:
        """What the entries are kept in."""
        if self._as_stored:
            return stored
        return np.dtype(np.uint8) if self.weights.plain and not self._valued else np.dtype(np.float64)

    @property
    def _valued(self) -> bool:
        return is_valued(self.likelihood)

    @property
    def _as_stored(self) -> bool:
        """Whether entries are those of the blocks."""
        return self._valued and self.weights.plain and not self.likelihood.beside

    def __call__(self, tree: CSFTensor) -> CSFTensor:
        """A block with these entries; beside them x where it is read, then exposures."""
        if self._as_stored and not self.exposures:
            return tree
        needed = self.weights.draws is not None or self.exposures
        columns = [tree.column(index, len(tree.order) - 1) for index in self.weights.indices] if needed else []
        values = tree.entries.astype(np.float64)
        entries = tree.entries if self._as_stored else self._entries(tree, columns, values)
        beside = [self.likelihood.stored(np.maximum(values, _least(values)))] if self.likelihood.beside else []
        beside += [_at(V, columns) for V in self.exposures]
        return replace(tree, entries=entries, beside=tuple(np.asarray(numbers, np.float64) for numbers in beside))

    def _entries(self, tree: CSFTensor, columns: Sequence[AnyArray], values: Array) -> AnyArray:
        """M·X, or M, which of a listed 0 is none."""
        M = np.ascontiguousarray(self.weights(columns, len(tree), tree.beside[0] if tree.beside else None))
        if self._valued:
            return self.likelihood.entries(values, M)
        M = np.where(values > 0, M, 0.0) if (values == 0).any() else M
        return M.astype(self.kind(tree.entries.dtype))


def _at(V: Weights, columns: Sequence[AnyArray]) -> Array:
    """V at cells by their row numbers, a piece at a time."""
    count = len(columns[0])
    pieces = (slice(at, at + PIECE) for at in range(0, count, PIECE))
    return np.concatenate([np.zeros(0), *(V.at(np.stack([c[piece] for c in columns], axis=1)) for piece in pieces)])


def _least(values: Array) -> float:
    """The smallest value over 0: what stands beside a listed 0, which weighs nothing."""
    over = values[values > 0]
    return float(over.min()) if len(over) else 1.0
