"""Links in blocks on disk, for sums over them; weights and exposures are looked up when a block is read."""

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
from plait.data.sparse.parallel import CHUNK_ROWS
from plait.inference.gamma import FactorState
from plait.inference.nonzeros import NO_SUMS, Looked, Nonzeros, add_up_rows, is_valued
from plait.inference.underflow import log_rates
from plait.likelihood import Likelihood, Sums


def nonzeros_of(links: Links, exposures: tuple[Weights | None, ...]) -> "Nonzeros | PackedLinks":
    """Links of one relation in memory or on disk; `exposures` has V of every term."""
    if isinstance(links, LinksOnDisk):
        return PackedLinks(links.disk.packed, links.weight, exposures, links.draws)
    cells = links.cells() if any(V is not None for V in exposures) else None
    at_links = tuple(None if cells is None or V is None else V.at(cells) for V in exposures)
    return Nonzeros(links.fibres, links.stored, links.weights, at_links)


@dataclass(frozen=True, eq=False)
class PackedLinks:
    """Links in blocks on disk. `weight`: of every link, times its draw where there are draws; `exposures`: V of every
    term, None for 1.
    """

    packed: PackedRelation
    weight: float
    exposures: tuple[Weights | None, ...] = (None,)
    draws: Draws | None = None

    @property
    def order(self) -> tuple[str, ...]:
        return self.packed.order

    @property
    def links(self) -> int:
        return self.packed.links

    @property
    def exposed(self) -> tuple[int, ...]:
        return tuple(term for term, V in enumerate(self.exposures) if V is not None)

    @property
    def _at_links(self) -> "AtLinks":
        return AtLinks(self.packed.indices, self.weight, self.draws, self.packed.has_weights)

    def tables(self, plan: Plan, forest: CSFCache) -> list[PackedTable]:
        side_values = tuple(V for term in plan.exposed if (V := self.exposures[term]) is not None)
        dress = Dressed(plan.likelihood, self._at_links, side_values)
        return [PackedTable(self.packed.blocks, dress.kind(self.packed.blocks.types[-1]), dress)]

    def sums(self, plan: Plan, table: SummedTable) -> Sums:
        """Sums of the manifest where the weights are those of packing; else by a pass."""
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
        """Marginals of the manifest; for factors with several visible indices and for draws, by a pass
        over all blocks.
        """
        known = [len(operand.visible) == 1 and self.draws is None for operand in plan.operands]
        marginals = [np.zeros(layout.rows) for layout in plan.layouts]
        for position, total in enumerate(marginals):
            if known[position]:
                own = self.packed.marginals[plan.operands[position].visible[0]][0 if valued else 1]
                total[: len(own)] = own * self._times
        for columns, values, weights in () if all(known) else self._pieces():
            numbers = values * weights if valued else np.asarray(weights)
            named = dict(zip(self.packed.indices, columns))
            for position in (position for position, is_known in enumerate(known) if not is_known):
                add_up_rows(plan, position, named, numbers, marginals[position])
        return marginals

    def log_exposed(self, plan: Plan) -> float:
        (V,), total = self.exposures, 0.0
        assert V is not None
        for columns, values, weights in self._pieces():
            total += float(plan.likelihood.entries(values, weights) @ np.log(V.at(np.stack(columns, axis=1))))
        return total

    def look(self, plan: Plan, table: SummedTable, factors: Sequence[FactorState]) -> Looked:
        """All links in memory: some 24 bytes each."""
        looked: list[list[Array]] = [[np.zeros(0)], [np.zeros(0)], [np.zeros(0)]]
        for columns, values, weights in self._pieces():
            cells = np.stack(columns, axis=1)
            given = [None if V is None else V.at(cells) for V in self.exposures]
            logs = log_rates(plan, dict(zip(self.packed.indices, columns)), given, factors)
            for own, numbers in zip(looked, (values, np.asarray(weights), logs)):
                own.append(numbers)
        values, weights, logs = map(np.concatenate, looked)
        alike = self.draws is None and not self.packed.has_weights
        return Looked(values, np.broadcast_to(self.weight, len(values)) if alike else weights, logs)

    def _pieces(self) -> Iterator[tuple[list[AnyArray], Array, Array]]:
        """Row numbers by index, values and weights of chunks of links; no chunk spans two blocks."""
        for tree in PackedTable(self.packed.blocks, self.packed.blocks.types[-1]).trees():
            columns = [tree.column(index, len(tree.order) - 1) for index in self.packed.indices]
            for at in range(0, len(tree), CHUNK_ROWS):
                entries = tree.entries[at : at + CHUNK_ROWS]
                there = slice(None) if entries.min() > 0 else entries > 0
                some = [column[at : at + CHUNK_ROWS][there] for column in columns]
                values = entries[there].astype(np.float64)
                own = tree.side_values[0][at : at + CHUNK_ROWS][there] if tree.side_values else None
                yield some, values, self._at_links(some, len(values), own)


@dataclass(frozen=True)
class AtLinks:
    """Weights M at links: a number, times draws, times the links' own weights.

    `indices`: in the order of the draws; `own`: whether links have their own weights.
    """

    indices: tuple[str, ...]
    weight: float
    draws: Draws | None
    own: bool

    def __call__(self, columns: Sequence[AnyArray], count: int, own: Array | None) -> Array:
        """M at links, (n_links,), from row numbers by index and own weights."""
        M = np.broadcast_to(self.weight, count) if own is None else own * self.weight
        return M if self.draws is None else self.draws(columns) * M

    @property
    def plain(self) -> bool:
        """Whether M is 1 everywhere."""
        return self.weight == 1.0 and self.draws is None and not self.own


@dataclass(frozen=True)
class Dressed:
    """Conversion of blocks to the entries that a likelihood's kernel reads; pickled to workers.
    `exposures`: V to read.
    """

    likelihood: Likelihood
    weights: AtLinks
    exposures: tuple[Weights, ...] = ()

    def kind(self, stored: np.dtype[np.generic]) -> np.dtype[np.generic]:
        """Dtype of the entries."""
        if self._as_stored:
            return stored
        return np.dtype(np.uint8) if self.weights.plain and not self._valued else np.dtype(np.float64)

    @property
    def _valued(self) -> bool:
        return is_valued(self.likelihood)

    @property
    def _as_stored(self) -> bool:
        """Whether entries are those of the blocks."""
        return self._valued and self.weights.plain and not self.likelihood.reads_values

    def __call__(self, tree: CSFTensor) -> CSFTensor:
        """A block with entries, x where kernels read it, and exposures."""
        if self._as_stored and not self.exposures:
            return tree
        needed = self.weights.draws is not None or self.exposures
        columns = [tree.column(index, len(tree.order) - 1) for index in self.weights.indices] if needed else []
        values = tree.entries.astype(np.float64)
        entries = tree.entries if self._as_stored else self._entries(tree, columns, values)
        side_values = (
            [self.likelihood.stored(np.maximum(values, _smallest_positive(values)))]
            if self.likelihood.reads_values
            else []
        )
        side_values += [_at(V, columns) for V in self.exposures]
        return replace(
            tree, entries=entries, side_values=tuple(np.asarray(numbers, np.float64) for numbers in side_values)
        )

    def _entries(self, tree: CSFTensor, columns: Sequence[AnyArray], values: Array) -> AnyArray:
        """M·X, or M, which is 0 at a listed 0."""
        M = np.ascontiguousarray(self.weights(columns, len(tree), tree.side_values[0] if tree.side_values else None))
        if self._valued:
            return self.likelihood.entries(values, M)
        M = np.where(values > 0, M, 0.0) if (values == 0).any() else M
        return M.astype(self.kind(tree.entries.dtype))


def _at(V: Weights, columns: Sequence[AnyArray]) -> Array:
    """V at cells by their row numbers, in chunks."""
    count = len(columns[0])
    pieces = (slice(at, at + CHUNK_ROWS) for at in range(0, count, CHUNK_ROWS))
    return np.concatenate([np.zeros(0), *(V.at(np.stack([c[piece] for c in columns], axis=1)) for piece in pieces)])


def _smallest_positive(values: Array) -> float:
    """Smallest positive value: stands in for a listed 0, which has weight 0."""
    over = values[values > 0]
    return float(over.min()) if len(over) else 1.0
