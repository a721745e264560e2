"""The links of a relation as sums need them: in memory, or in blocks on disk. Both give the same numbers.

What is added up over links is added up leaf by leaf, in the order of the first tree, so that it has the same bits
wherever the links are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from plait.compile.plan import ALONE, Plan
from plait.data.blocks.packed import PackedRelation
from plait.data.blocks.table import PackedTable
from plait.data.cells.fibres import Fibres
from plait.data.cells.ranges import PIECE
from plait.data.cells.sorting import is_uniform
from plait.data.cells.trees import FibreTree, Forest, Table, as_fibres, narrow
from plait.infer.gamma import FactorState
from plait.infer.members import numbered
from plait.infer.rare import log_rates
from plait.likelihood import Likelihood, Sums
from plait.types import AnyArray, Array

NO_SUMS = Sums(0.0, 0.0, 0.0, 0.0)


class Looked(NamedTuple):
    """Every link: x, M, and log λ_L as some factors have it."""

    values: Array
    weights: Array
    logs: Array


class Links(Protocol):
    """What is asked of the links of a relation; plan: how its sums are computed."""

    @property
    def links(self) -> int:
        """How many there are."""

    @property
    def exposures(self) -> tuple[Array | None, ...]:
        """V of every term at the links; None where it is 1."""

    def tables(self, plan: Plan, forest: Forest) -> Sequence[Table]:
        """The links as a table for every pass of a plan."""

    def sums(self, plan: Plan, table: Table) -> Sums:
        """What a likelihood needs to know of all values; table: that of the first pass."""

    def marginals(self, plan: Plan, table: Table, *, valued: bool) -> list[Array]:
        """Over the links of every row of each factor, Σ M·X, or ΣM."""

    def look(self, plan: Plan, factors: Sequence[FactorState]) -> Looked:
        """All links in memory."""


class Nonzeros(NamedTuple):
    """Links in memory: cells sorted, (n, order) or as fibres; X, the weight M, the exposure V of every term.

    An exposure that is None is 1.
    """

    cells: Fibres | NDArray[np.integer]
    values: NDArray[Any]
    weights: Array
    exposures: tuple[Array | None, ...] = (None,)

    @property
    def links(self) -> int:
        """How many there are."""
        return len(self.values)

    def tables(self, plan: Plan, forest: Forest) -> list[FibreTree]:
        """A tree for every pass. Entries are M, or M·X where a likelihood needs no more."""
        likelihood, stored = plan.likelihood, self._entries(plan.likelihood)
        beside = [likelihood.stored(_as_floats(self.values)).astype(np.float64)] if likelihood.beside else []
        beside += [cast(Array, self.exposures[term]) for term in plan.exposed]
        links, trees = self._fibres(plan), []
        for part in plan.passes:
            tree = forest.tree(plan.indices, plan.sizes, links, stored, part.order)
            tree = tree.with_entries(stored, *beside) if beside else tree
            trees.append(replace(tree, numbers=_numbers(plan, tree)))
        return trees

    def _entries(self, likelihood: Likelihood) -> NDArray[Any]:
        """What kernels multiply by; where that is x itself, it is not kept twice."""
        if self._plain(likelihood):
            return narrow(self.values)
        return narrow(likelihood.entries(_as_floats(self.values), self.weights))

    def _plain(self, likelihood: Likelihood) -> bool:
        return is_uniform(self.weights) and self.weights[0] == 1 and is_valued(likelihood)

    def _values(self, likelihood: Likelihood, tree: FibreTree, part: slice) -> Array:
        """Some values in the order of a tree, which may have them as its entries."""
        if self._plain(likelihood) and not is_uniform(self.values):
            return np.asarray(tree.entries[part], np.float64)
        return _ordered(self.values, tree, part)

    def _fibres(self, plan: Plan) -> Fibres:
        cells = np.zeros((self.links, 1), np.uint32) if plan.indices == (ALONE,) else self.cells
        return as_fibres(plan.indices, plan.sizes, cells)

    def sums(self, plan: Plan, table: Table) -> Sums:
        """What a likelihood needs to know of all values."""
        tree, total = cast(FibreTree, table), NO_SUMS
        for part in _pieces(tree):
            values, weights = self._values(plan.likelihood, tree, part), _ordered(self.weights, tree, part)
            total = total + plan.likelihood.sums(values, weights)
        return total

    def marginals(self, plan: Plan, table: Table, *, valued: bool) -> list[Array]:
        """Over the links of every row of each factor, Σ M·X, or ΣM."""
        tree = cast(FibreTree, table)
        totals = [np.zeros(layout.rows) for layout in plan.layouts]
        for begin, piece in tree.pieces(PIECE):
            part = tree.part(piece)
            rows = slice(begin, begin + len(part))
            numbers = _ordered(self.weights, tree, rows)
            if valued:
                numbers = self._values(plan.likelihood, tree, rows) * numbers
            columns = {index: part.column(index, len(tree.order) - 1) for index in plan.indices}
            for position, total in enumerate(totals):
                _add_up(plan, position, columns, numbers, total)
        return totals

    def look(self, plan: Plan, factors: Sequence[FactorState]) -> Looked:
        """All links in memory."""
        links = self._fibres(plan)
        columns = {index: links.column(index) for index in plan.indices}
        logs = log_rates(plan, columns, self.exposures, factors)
        return Looked(np.asarray(self.values, np.float64), self.weights, logs)


@dataclass(frozen=True, eq=False)
class PackedLinks:
    """Links in blocks on disk. Those of one number weigh the same; weight: what."""

    packed: PackedRelation
    weight: float
    terms: int = 1

    @property
    def links(self) -> int:
        """How many there are."""
        return self.packed.links

    @property
    def exposures(self) -> tuple[Array | None, ...]:
        """None are given."""
        return (None,) * self.terms

    def tables(self, plan: Plan, forest: Forest) -> list[PackedTable]:
        """The blocks, for the only pass of a plan."""
        dress = _Dressed(plan.likelihood, self.weight)
        return [PackedTable(self.packed.blocks, dress.kind(self.packed.blocks.types[-1]), dress)]

    def sums(self, plan: Plan, table: Table) -> Sums:
        """Those of the manifest, which are of links that weigh what they did when they were packed."""
        return Sums(*(number * self._times for number in self.packed.sums))

    @cached_property
    def _times(self) -> float:
        return self.weight / self.packed.weight

    def marginals(self, plan: Plan, table: Table, *, valued: bool) -> list[Array]:
        """Those of the manifest; of factors with several visible indices by a pass over all blocks."""
        return [self._marginal(plan, position, valued) for position in range(len(plan.operands))]

    def _marginal(self, plan: Plan, position: int, valued: bool) -> Array:
        visible, rows = plan.operands[position].visible, plan.layouts[position].rows
        if len(visible) == 1:
            found = self.packed.marginals[visible[0]][0 if valued else 1] * self._times
            return np.concatenate([found, np.zeros(rows - len(found))])
        total = np.zeros(rows)
        for tree in self.packed.blocks:
            values = tree.entries.astype(np.float64)
            numbers = (values if valued else (values > 0).astype(np.float64)) * self.weight
            columns = {index: tree.column(index, len(tree.order) - 1) for index in plan.indices}
            _add_up(plan, position, columns, numbers, total)
        return total

    def look(self, plan: Plan, factors: Sequence[FactorState]) -> Looked:
        """All links in memory: some 24 bytes each."""
        values, logs = [np.zeros(0)], [np.zeros(0)]
        for tree in self.packed.blocks:
            there = np.flatnonzero(tree.entries > 0)
            columns = dict(zip(tree.order, tree.cells(there).T))
            values.append(tree.entries[there].astype(np.float64))
            logs.append(log_rates(plan, columns, self.exposures, factors))
        found = np.concatenate(values)
        return Looked(found, np.broadcast_to(self.weight, len(found)), np.concatenate(logs))


@dataclass(frozen=True)
class _Dressed:
    """Blocks as a likelihood's kernel reads them; a module's class, for workers are sent it."""

    likelihood: Likelihood
    weight: float

    def kind(self, stored: np.dtype[np.generic]) -> np.dtype[np.generic]:
        """What the entries are kept in."""
        if self._plain:
            return stored
        return np.dtype(np.uint8) if self.weight == 1.0 and not self._valued else np.dtype(np.float64)

    @property
    def _valued(self) -> bool:
        return is_valued(self.likelihood)

    @property
    def _plain(self) -> bool:
        return self._valued and self.weight == 1.0 and not self.likelihood.beside

    def __call__(self, tree: FibreTree) -> FibreTree:
        """A block with these entries, and x beside them where it is read."""
        if self._plain:
            return tree
        values = tree.entries.astype(np.float64)
        if self._valued:
            return replace(tree, entries=self.likelihood.entries(values, np.full(len(tree), self.weight)), beside=())
        M = np.where(values > 0, self.weight, 0.0) if (values == 0).any() else np.full(len(tree), self.weight)
        entries = M.astype(self.kind(tree.entries.dtype))
        if not self.likelihood.beside:
            return replace(tree, entries=entries, beside=())
        stored = self.likelihood.stored(np.maximum(values, _least(values)))
        return replace(tree, entries=entries, beside=(stored.astype(np.float64),))


def is_valued(likelihood: Likelihood) -> bool:
    """Whether kernels multiply by M·X; else by M."""
    return bool(likelihood.entries(np.full(1, 2.0), np.ones(1))[0] == 2.0)


def _as_floats(numbers: NDArray[Any]) -> NDArray[np.floating]:
    """Numbers to reckon with, which narrow integers are not."""
    return numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)


def _least(values: Array) -> float:
    """The smallest value over 0: what stands beside a listed 0, which weighs nothing."""
    over = values[values > 0]
    return float(over.min()) if len(over) else 1.0


def _numbers(plan: Plan, tree: FibreTree) -> tuple[NDArray[np.uint32], ...]:
    """The rows of every factor over pairs at the fibres of a tree."""
    pairs = ((layout.pairs, operand.visible) for layout, operand in zip(plan.layouts, plan.operands))
    return tuple(numbered(tree, own, visible) for own, visible in pairs if own is not None)


def _ordered(numbers: AnyArray, tree: FibreTree, part: slice) -> Array:
    """Some numbers in the order of a tree; one seen many times stays that, for it is added up in another way."""
    some = numbers[part] if tree.turn is None else tree.turn.take(numbers, part)
    return np.asarray(some, np.float64) if is_uniform(some) else np.ascontiguousarray(some, np.float64)


def _pieces(tree: FibreTree) -> Iterator[slice]:
    """The entries of every leaf in short ranges."""
    begin = 0
    for leaf in tree.leaves:
        end = begin + tree.length(leaf)
        for at in range(begin, end, PIECE):
            yield slice(at, min(at + PIECE, end))
        begin = end


def _add_up(plan: Plan, position: int, columns: Mapping[str, AnyArray], numbers: Array, total: Array) -> None:
    """Add numbers, one an entry, to the totals of an operand's rows, one after another."""
    for at in range(0, len(numbers), PIECE):
        part = slice(at, at + PIECE)
        rows = plan.rows(position, {index: column[part] for index, column in columns.items()})
        np.add.at(total, rows, numbers[part])
