"""Counts of one relation: L ∘ ∂F/∂L of its factors, and the relation's part F of the bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from plait.compile.plan import ALONE, Plan
from plait.data.cells.fibres import Fibres
from plait.data.cells.ranges import PIECE, by_pieces
from plait.data.cells.trees import FibreTree, Forest, as_fibres, narrow
from plait.execute import Executor, Stats
from plait.infer.gamma import FactorState, add_up
from plait.infer.members import numbered
from plait.infer.rare import log_rates, rare_counts
from plait.likelihood import Likelihood, State, Sums
from plait.types import Array


@dataclass(frozen=True)
class Counted:
    """Sums of one relation: gradients and counts of rare entries by factor, F and ΣM E[n] (0 if not asked for)."""

    gradients: dict[str, Array]
    extras: dict[str, Array]
    value: float
    events: float = 0.0


class Nonzeros(NamedTuple):
    """The links of a relation: cells sorted, (n, order) or as fibres; X, the weight M, the exposure V of every term.

    An exposure that is None is 1.
    """

    cells: Fibres | NDArray[np.integer]
    values: NDArray[np.floating]
    weights: Array
    exposures: tuple[Array | None, ...] = (None,)


def sum_values(likelihood: Likelihood, nonzeros: Nonzeros) -> Sums:
    """What a likelihood needs to know of all values."""
    parts: dict[int, Sums] = {}

    def add(rows: slice) -> None:
        parts[rows.start] = likelihood.sums(nonzeros.values[rows], nonzeros.weights[rows])

    by_pieces(add, len(nonzeros.values))
    return reduce(Sums.__add__, (parts[start] for start in sorted(parts)), Sums(0.0, 0.0, 0.0, 0.0))


def _joined(parts: Mapping[str, Sequence[Array]], executor: Executor) -> dict[str, Array]:
    """By factor the sum over its occurrences."""
    return {name: add_up(arrays, executor) for name, arrays in parts.items()}


class Counts:
    """The nonzeros of one relation in the trees of its plan; sums: those of its values.

    Entries are M, or M·X where a likelihood needs no more. The exposure V at the cells matters where λ's size does.
    """

    def __init__(self, plan: Plan, nonzeros: Nonzeros, sums: Sums, forest: Forest) -> None:
        self.plan, self.sums = plan, sums
        cells, values, weights, exposures = nonzeros
        entries = plan.likelihood.entries(values, weights)
        stored = narrow(entries)
        beside = [plan.likelihood.stored(values).astype(np.float64)] if plan.likelihood.beside else []
        beside += [cast(Array, exposures[term]) for term in plan.exposed]
        if plan.indices == (ALONE,):
            cells = np.zeros((len(entries), 1), np.uint32)
        links = as_fibres(plan.indices, plan.sizes, cells)
        self.trees: list[FibreTree] = []
        for part in plan.passes:
            tree = forest.tree(plan.indices, plan.sizes, links, stored, part.order)
            tree = tree.with_entries(stored, *beside) if beside else tree
            self.trees.append(replace(tree, numbers=self._numbers(tree)))
        self.exposed = 0.0  # what the exposure gives to F, where the entries' part does not have it
        self.marginals: list[Array] = []
        if not plan.likelihood.true_scale:
            alone = exposures[0] if plan.terms == 1 else None
            self.exposed = 0.0 if alone is None else float(entries @ np.log(alone))
            self.marginals = self.marginals_of(links, entries)

    def _numbers(self, tree: FibreTree) -> tuple[NDArray[np.uint32], ...]:
        """The rows of every factor over pairs at the fibres of a tree."""
        pairs = ((layout.pairs, operand.visible) for layout, operand in zip(self.plan.layouts, self.plan.operands))
        return tuple(numbered(tree, own, visible) for own, visible in pairs if own is not None)

    def marginals_of(self, cells: Fibres | NDArray[np.integer], numbers: NDArray[np.floating]) -> list[Array]:
        """The sums of numbers, one a link, over the links of every row of each factor."""
        plan = self.plan
        if plan.indices == (ALONE,):
            cells = np.zeros((len(numbers), 1), np.uint32)
        links = as_fibres(plan.indices, plan.sizes, cells)
        return [self._marginal(position, links, numbers) for position in range(len(plan.operands))]

    def _marginal(self, position: int, links: Fibres, entries: NDArray[np.floating]) -> Array:
        """Σ M X of every row of a factor: what multiplies the row's log-scale in F."""
        visible, rows = self.plan.operands[position].visible, self.plan.layouts[position].rows
        if not visible:
            return np.full(rows, entries.sum(dtype=np.float64))
        columns = {index: links.column(index) for index in visible}
        total, piece = np.zeros(rows), max(rows, PIECE)  # by pieces, for NumPy counts 64-bit rows only
        for at in range(0, len(entries), piece):
            part = slice(at, at + piece)
            row = self.plan.rows(position, {index: column[part] for index, column in columns.items()})
            total += np.bincount(row, entries[part], minlength=rows)
        return total

    def __call__(
        self,
        factors: Mapping[str, FactorState],
        state: State,
        executor: Executor,
        wanted: Sequence[str],
        *,
        bound: bool,
    ) -> Counted:
        """Gradients of the wanted factors, over all their occurrences, with the bound's part if asked for.

        state: of the likelihood.
        """
        plan = self.plan
        operands = [factors[name] for name in plan.names]
        gradients: dict[str, list[Array]] = {}
        extras: dict[str, list[Array]] = {}
        value = np.zeros(2)
        for number, part in enumerate(plan.passes):
            serves = tuple(position for position in part.serves if plan.names[position] in wanted)
            scored = bound and number == 0
            if not serves and not scored:
                continue
            stats = self._pass(number, serves, operands, state, executor, bound=scored)
            for position, gradient in zip(serves, stats.gradients):
                gradients.setdefault(plan.names[position], []).append(gradient)
            value += (stats.value, stats.events) if scored else 0.0
            if len(stats.rare_entries):
                counts, more = rare_counts(plan, part.order, stats, operands, state)
                for position in serves:
                    extras.setdefault(plan.names[position], []).append(counts[position])
                value += more if scored else 0.0
        own, events = value.tolist()
        if bound:
            own += self.constant(state) + sum(
                float(np.einsum("n,n->", f.shift, m))
                for f, m in zip(operands, self.marginals if plan.terms == 1 else ())
            )
        return Counted(_joined(gradients, executor), _joined(extras, executor), own, events)

    def constant(self, state: State) -> float:
        """The part of F that no factor changes."""
        return self.exposed + self.plan.likelihood.constant(self.sums, state)

    def _pass(
        self,
        number: int,
        serves: tuple[int, ...],
        operands: Sequence[FactorState],
        state: State,
        executor: Executor,
        *,
        bound: bool,
    ) -> Stats:
        step = self.plan.step(number, serves, bound=bound)
        return executor.sum(step, self.trees[number], [factor.geomean for factor in operands], state)

    def log_rates(self, nonzeros: Nonzeros, factors: Mapping[str, FactorState]) -> Array:
        """log λ_L of every nonzero."""
        plan = self.plan
        alone = plan.indices == (ALONE,)
        cells = np.zeros((len(nonzeros.values), 1), np.uint32) if alone else nonzeros.cells
        links = as_fibres(plan.indices, plan.sizes, cells)
        columns = {index: links.column(index) for index in plan.indices}
        return log_rates(plan, columns, nonzeros.exposures, [factors[name] for name in plan.names])
