"""Counts of one relation: L ∘ ∂F/∂L of its factors, and the relation's part F of the bound."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from plait.compile.plan import ALONE, Plan
from plait.data.blocks import FibreTree, Forest
from plait.execute import Executor, Stats
from plait.infer.gamma import Factor
from plait.infer.rare import rare_counts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Counted:
    """Sums of one relation: gradients and counts of rare entries by factor, and F (0 if not asked for)."""

    gradients: dict[str, Array]
    extras: dict[str, Array]
    value: float


class Nonzeros(NamedTuple):
    """The links of a relation: cells (n, order) sorted, X, the weight M and the exposure V (None: 1) at each."""

    cells: NDArray[np.integer]
    values: Array
    weights: Array
    exposure: Array | None


class Counts:
    """The nonzeros of one relation in the trees of its plan.

    Poisson: entries are M·X. Bernoulli: entries are M, and the exposure V at the cells matters.
    """

    def __init__(self, plan: Plan, nonzeros: Nonzeros, forest: Forest) -> None:
        self.plan = plan
        cells, values, weights, exposure = nonzeros
        binary = plan.kind == "bernoulli"
        entries = weights if binary else weights * values
        logs = None if exposure is None else np.log(exposure)
        if plan.indices == (ALONE,):
            cells = np.zeros((len(entries), 1), np.uint32)
        self.trees: list[FibreTree] = []
        for part in plan.passes:
            tree = forest.tree(plan.indices, plan.sizes, cells, entries, part.order)
            self.trees.append(tree.with_entries(entries, logs) if plan.exposed else tree)
        self.constant = 0.0
        self.marginals: list[Array] = []
        if not binary:
            self.constant = float(-(weights * gammaln(values + 1.0)).sum() + (0.0 if logs is None else entries @ logs))
            self.marginals = [self._marginal(position, cells, entries) for position in range(len(plan.operands))]

    def _marginal(self, position: int, cells: NDArray[np.integer], entries: Array) -> Array:
        """Σ M X of every row of a factor: what multiplies the row's log-scale in F."""
        row = self.plan.rows(position, dict(zip(self.plan.indices, cells.T)))
        return np.bincount(row, entries, minlength=self.plan.layouts[position].rows).astype(np.float64, copy=False)

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
            value += self.constant + sum(float(f.shift @ marginal) for f, marginal in zip(operands, self.marginals))
        return Counted(gradients, extras, value)

    def _pass(
        self, number: int, serves: tuple[int, ...], operands: Sequence[Factor], executor: Executor, *, bound: bool
    ) -> Stats:
        step = self.plan.step(number, serves, bound=bound)
        shifts = [factor.shift for factor in operands] if self.plan.kind == "bernoulli" else None
        return executor.sum(step, [self.trees[number]], [factor.geomean for factor in operands], shifts)
