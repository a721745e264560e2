"""Counts of one relation: L ∘ ∂F/∂L of its factors, and the relation's part F of the bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from plait.compile.plan import ALONE, Plan
from plait.data.blocks import FibreTree, Forest, as_fibres, compact
from plait.data.fibres import Fibres
from plait.data.ranges import PIECE, by_pieces
from plait.data.sorting import is_uniform
from plait.execute import Executor, Stats
from plait.infer.gamma import Factor
from plait.infer.rare import rare_counts

Array = NDArray[np.float64]

SMALL = 1024


@dataclass(frozen=True)
class Counted:
    """Sums of one relation: gradients and counts of rare entries by factor, and F (0 if not asked for)."""

    gradients: dict[str, Array]
    extras: dict[str, Array]
    value: float


class Nonzeros(NamedTuple):
    """The links of a relation: cells sorted, (n, order) or as fibres; X, the weight M, the exposure V (None: 1)."""

    cells: Fibres | NDArray[np.integer]
    values: NDArray[np.floating]
    weights: Array
    exposure: Array | None


def _log_factorials(values: NDArray[np.floating], weights: Array) -> float:
    """Σ M log X!."""
    parts: dict[int, float] = {}
    table = gammaln(np.arange(SMALL) + 1.0)  # most counts are small whole numbers

    def add(rows: slice) -> None:
        some = values[rows]
        whole = np.minimum(some, SMALL - 1).astype(np.int64)
        logs = table[whole] if np.array_equal(whole, some) else gammaln(some.astype(np.float64) + 1.0)
        parts[rows.start] = float(weights[rows] @ logs)

    by_pieces(add, len(values))
    return sum(parts[start] for start in sorted(parts))


class Counts:
    """The nonzeros of one relation in the trees of its plan.

    Poisson: entries are M·X. Bernoulli: entries are M, and the exposure V at the cells matters.
    """

    def __init__(self, plan: Plan, nonzeros: Nonzeros, forest: Forest) -> None:
        self.plan = plan
        cells, values, weights, exposure = nonzeros
        binary = plan.kind == "bernoulli"
        plain = is_uniform(weights) and weights[0] == 1
        entries = weights if binary else values if plain else weights * values
        stored = compact(entries)
        logs = None if exposure is None else np.log(exposure)
        if plan.indices == (ALONE,):
            cells = np.zeros((len(entries), 1), np.uint32)
        links = as_fibres(plan.indices, plan.sizes, cells)
        self.trees: list[FibreTree] = []
        for part in plan.passes:
            tree = forest.tree(plan.indices, plan.sizes, links, stored, part.order)
            self.trees.append(tree.with_entries(stored, logs) if plan.exposed else tree)
        self.constant = 0.0
        self.marginals: list[Array] = []
        if not binary:
            self.constant = (0.0 if logs is None else float(entries @ logs)) - _log_factorials(values, weights)
            self.marginals = self.marginals_of(links, entries)

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
        self, factors: Mapping[str, Factor], executor: Executor, wanted: Sequence[str], *, bound: bool
    ) -> Counted:
        """Gradients of the wanted factors, with the bound's part if asked for."""
        plan = self.plan
        operands = [factors[name] for name in plan.names]
        gradients: dict[str, Array] = {}
        extras: dict[str, Array] = {}
        value = 0.0
        for number, part in enumerate(plan.passes):
            serves = tuple(position for position in part.serves if plan.names[position] in wanted)
            scored = bound and number == 0
            if not serves and not scored:
                continue
            stats = self._pass(number, serves, operands, executor, bound=scored)
            gradients |= {plan.names[position]: g for position, g in zip(serves, stats.gradients)}
            value += stats.value if scored else 0.0
            if len(stats.rare_entries):
                counts, more = rare_counts(plan, part.order, stats, operands)
                extras |= {plan.names[position]: counts[position] for position in serves}
                value += more if scored else 0.0
        if bound:
            value += self.constant + sum(
                float(np.einsum("n,n->", f.shift, m)) for f, m in zip(operands, self.marginals)
            )
        return Counted(gradients, extras, value)

    def _pass(
        self, number: int, serves: tuple[int, ...], operands: Sequence[Factor], executor: Executor, *, bound: bool
    ) -> Stats:
        step = self.plan.step(number, serves, bound=bound)
        shifts = [factor.shift for factor in operands] if self.plan.kind == "bernoulli" else None
        return executor.sum(step, [self.trees[number]], [factor.geomean for factor in operands], shifts)
