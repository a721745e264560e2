"""The links of a relation as sums need them: in memory; or in blocks on disk (`packed_links`), with the same numbers.

What is added up over links is added up leaf by leaf, in the order of the first tree, so that it has the same bits
wherever the links are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.codegen.plan import ALONE, Plan
from plait.data.sparse.csf import CSFCache, CSFTensor, SummedTable, as_fibres, narrow
from plait.data.sparse.csf_index import CSFIndex
from plait.data.sparse.parallel import PIECE
from plait.data.sparse.sorting import is_uniform
from plait.inference.gamma import FactorState
from plait.inference.occurrences import numbered
from plait.inference.underflow import log_rates
from plait.likelihood import Likelihood, Sums

NO_SUMS = Sums(0.0, 0.0, 0.0, 0.0)


class Looked(NamedTuple):
    """Every link: x, M, and log λ_L as some factors have it."""

    values: Array
    weights: Array
    logs: Array


class LinkSums(Protocol):
    """What is asked of the links of a relation; plan: how its sums are computed."""

    @property
    def order(self) -> tuple[str, ...] | None:
        """The order of the indices in blocks on disk; None in memory, where they can be sorted."""

    @property
    def links(self) -> int:
        """How many there are."""

    @property
    def exposed(self) -> tuple[int, ...]:
        """The terms that have an exposure."""

    def tables(self, plan: Plan, forest: CSFCache) -> Sequence[SummedTable]:
        """The links as a table for every pass of a plan."""

    def sums(self, plan: Plan, table: SummedTable) -> Sums:
        """What a likelihood needs to know of all values; table: that of the first pass."""

    def marginals(self, plan: Plan, table: SummedTable, *, valued: bool) -> list[Array]:
        """Over the links of every row of each factor, Σ M·X, or ΣM."""

    def log_exposed(self, plan: Plan) -> float:
        """Σ M·X log V over the links, of the only term."""

    def look(self, plan: Plan, table: SummedTable, factors: Sequence[FactorState]) -> Looked:
        """All links in memory, in the order of the table of the first pass."""


class Nonzeros(NamedTuple):
    """Links in memory: cells sorted, (n, order) or as fibres; X, the weight M, the exposure V of every term.

    An exposure that is None is 1.
    """

    cells: CSFIndex | NDArray[np.integer]
    values: NDArray[Any]
    weights: Array
    exposures: tuple[Array | None, ...] = (None,)

    @property
    def order(self) -> None:
        """They can be sorted."""

    @property
    def links(self) -> int:
        """How many there are."""
        return len(self.values)

    @property
    def exposed(self) -> tuple[int, ...]:
        """The terms that have an exposure."""
        return tuple(term for term, V in enumerate(self.exposures) if V is not None)

    def tables(self, plan: Plan, forest: CSFCache) -> list[CSFTensor]:
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

    def _values(self, likelihood: Likelihood, tree: CSFTensor, part: slice) -> Array:
        """Some values in the order of a tree, which may have them as its entries."""
        if self._plain(likelihood) and not is_uniform(self.values):
            return np.asarray(tree.entries[part], np.float64)
        return _ordered(self.values, tree, part)

    def _fibres(self, plan: Plan) -> CSFIndex:
        cells = np.zeros((self.links, 1), np.uint32) if plan.indices == (ALONE,) else self.cells
        return as_fibres(plan.indices, plan.sizes, cells)

    def sums(self, plan: Plan, table: SummedTable) -> Sums:
        """What a likelihood needs to know of all values."""
        tree, total = cast(CSFTensor, table), NO_SUMS
        for part in _pieces(tree):
            values, weights = self._values(plan.likelihood, tree, part), _ordered(self.weights, tree, part)
            total = total + plan.likelihood.sums(values, weights)
        return total

    def marginals(self, plan: Plan, table: SummedTable, *, valued: bool) -> list[Array]:
        """Over the links of every row of each factor, Σ M·X, or ΣM."""
        tree = cast(CSFTensor, table)
        totals = [np.zeros(layout.rows) for layout in plan.layouts]
        for begin, piece in tree.pieces(PIECE):
            part = tree.part(piece)
            rows = slice(begin, begin + len(part))
            numbers = _ordered(self.weights, tree, rows)
            if valued:
                numbers = self._values(plan.likelihood, tree, rows) * numbers
            columns = {index: part.column(index, len(tree.order) - 1) for index in plan.indices}
            for position, total in enumerate(totals):
                add_up_rows(plan, position, columns, numbers, total)
        return totals

    def log_exposed(self, plan: Plan) -> float:
        """Σ M·X log V over the links, of the only term."""
        entries = plan.likelihood.entries(_as_floats(self.values), self.weights)
        return float(entries @ np.log(cast(Array, self.exposures[0])))

    def look(self, plan: Plan, table: SummedTable, factors: Sequence[FactorState]) -> Looked:
        """All links in memory, in the order of the table of the first pass."""
        tree, every = cast(CSFTensor, table), slice(0, self.links)
        columns = {index: tree.column(index, len(tree.order) - 1) for index in plan.indices}
        exposures = [None if V is None else _ordered(V, tree, every) for V in self.exposures]
        logs = log_rates(plan, columns, exposures, factors)
        return Looked(self._values(plan.likelihood, tree, every), _ordered(self.weights, tree, every), logs)


def is_valued(likelihood: Likelihood) -> bool:
    """Whether kernels multiply by M·X; else by M."""
    return bool(likelihood.entries(np.full(1, 2.0), np.ones(1))[0] == 2.0)


def _as_floats(numbers: NDArray[Any]) -> NDArray[np.floating]:
    """Numbers to reckon with, which narrow integers are not."""
    return numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)


def _numbers(plan: Plan, tree: CSFTensor) -> tuple[NDArray[np.uint32], ...]:
    """The rows of every factor over pairs at the fibres of a tree."""
    pairs = ((layout.pairs, operand.visible) for layout, operand in zip(plan.layouts, plan.operands))
    return tuple(numbered(tree, own, visible) for own, visible in pairs if own is not None)


def _ordered(numbers: AnyArray, tree: CSFTensor, part: slice) -> Array:
    """Some numbers in the order of a tree; one seen many times stays that, for it is added up in another way."""
    some = numbers[part] if tree.turn is None else tree.turn.take(numbers, part)
    return np.asarray(some, np.float64) if is_uniform(some) else np.ascontiguousarray(some, np.float64)


def _pieces(tree: CSFTensor) -> Iterator[slice]:
    """The entries of every leaf in short ranges."""
    begin = 0
    for leaf in tree.leaves:
        end = begin + tree.length(leaf)
        for at in range(begin, end, PIECE):
            yield slice(at, min(at + PIECE, end))
        begin = end


def add_up_rows(plan: Plan, position: int, columns: Mapping[str, AnyArray], numbers: Array, total: Array) -> None:
    """Add numbers, one an entry, to the totals of an operand's rows, one after another."""
    for at in range(0, len(numbers), PIECE):
        part = slice(at, at + PIECE)
        rows = plan.rows(position, {index: column[part] for index, column in columns.items()})
        np.add.at(total, rows, numbers[part])
