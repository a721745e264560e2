"""Links of a relation in memory, for sums over them; `outofcore_links` has the same interface for blocks on disk.

Sums over links are added leaf by leaf, in the order of the first tree, so results are bitwise identical in memory and
on disk (decision 27).
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
from plait.data.sparse.parallel import CHUNK_ROWS
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
    """Interface of the links of a relation; `plan` is the plan of its sums."""

    @property
    def order(self) -> tuple[str, ...] | None:
        """Order of the indices in blocks on disk; None in memory, where links can be sorted."""

    @property
    def links(self) -> int:
        """Number of links."""

    @property
    def exposed(self) -> tuple[int, ...]:
        """Positions of the terms that have an exposure."""

    def tables(self, plan: Plan, forest: CSFCache) -> Sequence[SummedTable]:
        """One table per pass of a plan."""

    def sums(self, plan: Plan, table: SummedTable) -> Sums:
        """Sums of values for the likelihood; `table` is that of the first pass."""

    def marginals(self, plan: Plan, table: SummedTable, *, valued: bool) -> list[Array]:
        """Σ M·X (`valued`) or ΣM over the links of each row, by factor."""

    def log_exposed(self, plan: Plan) -> float:
        """Σ M·X log V over the links of the only term."""

    def look(self, plan: Plan, table: SummedTable, factors: Sequence[FactorState]) -> Looked:
        """All links in memory, in the order of the table of the first pass."""


class Nonzeros(NamedTuple):
    """Links in memory: sorted cells (n_links, n_indices) or CSF; X, M, and the exposure V of every term (None: 1)."""

    cells: CSFIndex | NDArray[np.integer]
    values: NDArray[Any]
    weights: Array
    exposures: tuple[Array | None, ...] = (None,)

    @property
    def order(self) -> None:
        return None

    @property
    def links(self) -> int:
        return len(self.values)

    @property
    def exposed(self) -> tuple[int, ...]:
        return tuple(term for term, V in enumerate(self.exposures) if V is not None)

    def tables(self, plan: Plan, forest: CSFCache) -> list[CSFTensor]:
        """One CSF tensor per pass, with entries M, or M·X where the likelihood needs no more."""
        likelihood, stored = plan.likelihood, self._entries(plan.likelihood)
        side_values = [likelihood.stored(_as_floats(self.values)).astype(np.float64)] if likelihood.reads_values else []
        side_values += [cast(Array, self.exposures[term]) for term in plan.exposed]
        links, trees = self._fibres(plan), []
        for part in plan.passes:
            tree = forest.tree(plan.indices, plan.sizes, links, stored, part.order)
            tree = tree.with_entries(stored, *side_values) if side_values else tree
            trees.append(replace(tree, numbers=_numbers(plan, tree)))
        return trees

    def _entries(self, likelihood: Likelihood) -> NDArray[Any]:
        """Numbers that kernels multiply by; no copy where these are x itself."""
        if self._plain(likelihood):
            return narrow(self.values)
        return narrow(likelihood.entries(_as_floats(self.values), self.weights))

    def _plain(self, likelihood: Likelihood) -> bool:
        return is_uniform(self.weights) and self.weights[0] == 1 and is_valued(likelihood)

    def _values(self, likelihood: Likelihood, tree: CSFTensor, part: slice) -> Array:
        """Values of entries `part` in the order of a tree."""
        if self._plain(likelihood) and not is_uniform(self.values):
            return np.asarray(tree.entries[part], np.float64)
        return _ordered(self.values, tree, part)

    def _fibres(self, plan: Plan) -> CSFIndex:
        cells = np.zeros((self.links, 1), np.uint32) if plan.indices == (ALONE,) else self.cells
        return as_fibres(plan.indices, plan.sizes, cells)

    def sums(self, plan: Plan, table: SummedTable) -> Sums:
        tree, total = cast(CSFTensor, table), NO_SUMS
        for part in _pieces(tree):
            values, weights = self._values(plan.likelihood, tree, part), _ordered(self.weights, tree, part)
            total = total + plan.likelihood.sums(values, weights)
        return total

    def marginals(self, plan: Plan, table: SummedTable, *, valued: bool) -> list[Array]:
        tree = cast(CSFTensor, table)
        totals = [np.zeros(layout.rows) for layout in plan.layouts]
        for begin, piece in tree.pieces(CHUNK_ROWS):
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
        entries = plan.likelihood.entries(_as_floats(self.values), self.weights)
        return float(entries @ np.log(cast(Array, self.exposures[0])))

    def look(self, plan: Plan, table: SummedTable, factors: Sequence[FactorState]) -> Looked:
        tree, every = cast(CSFTensor, table), slice(0, self.links)
        columns = {index: tree.column(index, len(tree.order) - 1) for index in plan.indices}
        exposures = [None if V is None else _ordered(V, tree, every) for V in self.exposures]
        logs = log_rates(plan, columns, exposures, factors)
        return Looked(self._values(plan.likelihood, tree, every), _ordered(self.weights, tree, every), logs)


def is_valued(likelihood: Likelihood) -> bool:
    """Whether kernels multiply by M·X; else by M."""
    return bool(likelihood.entries(np.full(1, 2.0), np.ones(1))[0] == 2.0)


def _as_floats(numbers: NDArray[Any]) -> NDArray[np.floating]:
    """Numbers in a floating-point dtype."""
    return numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64)


def _numbers(plan: Plan, tree: CSFTensor) -> tuple[NDArray[np.uint32], ...]:
    """Rows of every factor over pairs at the fibres of a tree."""
    pairs = ((layout.pairs, operand.visible) for layout, operand in zip(plan.layouts, plan.operands))
    return tuple(numbered(tree, own, visible) for own, visible in pairs if own is not None)


def _ordered(numbers: AnyArray, tree: CSFTensor, part: slice) -> Array:
    """Numbers of entries `part` in the order of a tree; a constant stays a broadcast view, which is
    summed differently.
    """
    some = numbers[part] if tree.turn is None else tree.turn.take(numbers, part)
    return np.asarray(some, np.float64) if is_uniform(some) else np.ascontiguousarray(some, np.float64)


def _pieces(tree: CSFTensor) -> Iterator[slice]:
    """Short ranges of the entries of every leaf."""
    begin = 0
    for leaf in tree.leaves:
        end = begin + tree.length(leaf)
        for at in range(begin, end, CHUNK_ROWS):
            yield slice(at, min(at + CHUNK_ROWS, end))
        begin = end


def add_up_rows(plan: Plan, position: int, columns: Mapping[str, AnyArray], numbers: Array, total: Array) -> None:
    """Add `numbers` (n_links,) to the totals of an operand's rows, in order."""
    for at in range(0, len(numbers), CHUNK_ROWS):
        part = slice(at, at + CHUNK_ROWS)
        rows = plan.rows(position, {index: column[part] for index, column in columns.items()})
        np.add.at(total, rows, numbers[part])
