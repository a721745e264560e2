"""Expected counts of one relation, L ∘ ∂F/∂L of its factors, and its part F of the ELBO (docs/math.md, section 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from plait._typing import Array
from plait.codegen.plan import Plan
from plait.data.sparse.csf import CSFCache
from plait.executors import Executor
from plait.inference.gamma import FactorState, add_up
from plait.inference.nonzeros import LinkSums
from plait.inference.underflow import underflow_counts
from plait.likelihood import State


@dataclass(frozen=True)
class ExpectedCounts:
    """Gradients and counts of underflowing entries by factor, F and ΣM E[n] (0 unless requested)."""

    gradients: dict[str, Array]
    underflow: dict[str, Array]
    value: float
    events: float = 0.0


class Counts:
    """The links of one relation as the tables of its plan. The exposure V at the cells is read only where the size of λ
    matters.
    """

    def __init__(self, plan: Plan, nonzeros: LinkSums, forest: CSFCache) -> None:
        self.plan, self.nonzeros = plan, nonzeros
        self.trees = nonzeros.tables(plan, forest)
        self.sums = nonzeros.sums(plan, self.trees[0])
        self.exposed = 0.0  # Σ M·X log V, where the kernels leave it out
        self.marginals: list[Array] = []
        if not plan.likelihood.true_scale:
            if plan.terms == 1 and nonzeros.exposed:
                self.exposed = nonzeros.log_exposed(plan)
            self.marginals = nonzeros.marginals(plan, self.trees[0], valued=True)

    def weights(self) -> list[Array]:
        """ΣM over the links of each row, by factor."""
        return self.nonzeros.marginals(self.plan, self.trees[0], valued=False)

    def __call__(
        self,
        factors: Mapping[str, FactorState],
        state: State,
        executor: Executor,
        wanted: Sequence[str],
        *,
        bound: bool,
    ) -> ExpectedCounts:
        """Gradients of the wanted factors over all their occurrences, and F if `bound`."""
        sums = self._sums(factors, state, executor, wanted, bound=bound)
        if not bound:
            return sums
        return replace(sums, value=sums.value + (self.constant(state) + self._scales(factors)))

    def _scales(self, factors: Mapping[str, FactorState]) -> float:
        """Contribution of the row scales of L to F."""
        shifts = zip(self.plan.names, self.marginals if self.plan.terms == 1 else ())
        return sum(float(np.einsum("n,n->", factors[name].shift, own)) for name, own in shifts)

    def _sums(
        self,
        factors: Mapping[str, FactorState],
        state: State,
        executor: Executor,
        wanted: Sequence[str],
        *,
        bound: bool,
    ) -> ExpectedCounts:
        """Sums over the trees, one per pass; F is relative to the row scales."""
        plan = self.plan
        operands = [factors[name] for name in plan.names]
        arrays = [factor.exp_mean_log for factor in operands]
        gradients: dict[str, list[Array]] = {}
        underflow: dict[str, list[Array]] = {}
        value = np.zeros(2)
        for number, part in enumerate(plan.passes):
            serves = tuple(position for position in part.serves if plan.names[position] in wanted)
            scored = bound and number == 0
            if not serves and not scored:
                continue
            step = plan.step(number, serves, bound=scored)
            stats = executor.sum(step, self.trees[number], arrays, state)
            for position, gradient in zip(serves, stats.gradients):
                gradients.setdefault(plan.names[position], []).append(gradient)
            value += (stats.value, stats.events) if scored else 0.0
            if len(stats.underflow_entries):
                counts, more = underflow_counts(plan, part.order, stats, operands, state)
                for position in serves:
                    underflow.setdefault(plan.names[position], []).append(counts[position])
                value += more if scored else 0.0
        joined = {name: add_up(parts, executor) for name, parts in gradients.items()}
        return ExpectedCounts(
            joined, {name: add_up(parts, executor) for name, parts in underflow.items()}, *value.tolist()
        )

    def constant(self, state: State) -> float:
        """Part of F that does not depend on the factors."""
        return self.exposed + self.plan.likelihood.constant(self.sums, state)
