"""Acceleration: extrapolation with momentum, and early ends of the warm-up and of the wait before priors adapt.

After a sweep, the parameters x (C and D of a posterior, Z of a point) move on in the direction of the last two sweeps.
With x₀ after the previous sweep and x₁ after this one, entry by entry,

    y = x₁ · ((1+β) x₁ + (1−β) x₀) / ((1−β) x₁ + (1+β) x₀)        ≈ x₁ · (x₁/x₀)^β,   β = n/(n + 3)

where n counts the extrapolations accepted in a row. This is Nesterov's momentum (1983) on logarithms; the Padé
approximant of the power keeps y positive. An extrapolation is kept if its objective is not below that before the sweep.
Otherwise it is rolled back and n is halved. An accepted one costs a pass over rows only: the next sweep needs its
counts anyway.

On large data a dozen sweeps separate the components. With `accelerate=True` the loop then ends the warm-up and the wait
before priors adapt. Both decisions depend on the history alone, so a resumed fit takes the same ones.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plait.inference.expected_counts import ExpectedCounts
from plait.inference.problem import Problem
from plait.inference.row_kernels import extrapolate
from plait.inference.state import MomentumState, Record
from plait.tuning import TUNING

MAX_FLAT_CHANGE = 1e-4  # relative change of the objective per sweep; fits of small data do not get below it early
MIN_EARLIER_CHANGE = 1e-3  # that an earlier sweep must have had: the first sweeps of a random start are flat, too
MIN_WARMUP_SWEEPS = 5  # the first sweeps of a random start change much in any case
MIN_VB_SWEEPS = 5  # the first sweeps of VB follow the end of the warm-up


def has_warmed_up(history: Sequence[Record]) -> bool:
    """Whether EM has separated the components: the objective has risen and is flat now."""
    return history[-1].change < MAX_FLAT_CHANGE and any(
        record.change > MIN_EARLIER_CHANGE for record in history[MIN_WARMUP_SWEEPS:]
    )


def has_converged_early(history: Sequence[Record]) -> bool:
    """Whether VB was flat at any sweep so far, after a warm-up that ended early."""
    before = [record.sweep for record in history if record.warm_up]
    early = bool(before) and before[-1] < -1
    return early and any(
        record.change < MAX_FLAT_CHANGE for record in history[len(before) :] if record.sweep >= MIN_VB_SWEEPS
    )


# Sweeps before the first extrapolation, unless the fit has converged after its warm-up: while components still change,
# momentum leads to poorer optima.
MIN_MOMENTUM_SWEEPS = 20


def _work(*arguments: Any) -> Callable[[int, int], float]:
    def work(lo: int, hi: int) -> float:
        extrapolate(lo, hi, *arguments)
        return 0.0

    return work


class Momentum:
    """Extrapolations of one fit, with one copy of the parameters of the free factors: those after the last sweep."""

    def __init__(self, state: MomentumState) -> None:
        self.n_accepted, self.extrapolated = state.n_accepted, state.extrapolated
        self.before = {name: [array.copy() for array in arrays] for name, arrays in state.before.items()}

    @property
    def state(self) -> MomentumState:
        """State for a checkpoint; arrays are not copied."""
        return MomentumState(
            self.n_accepted, self.extrapolated, {name: tuple(arrays) for name, arrays in self.before.items()}
        )

    def reset(self) -> None:
        """Start again after the shape of the problem has changed."""
        self.n_accepted, self.before = 1, {}

    def count(self, problem: Problem, history: Sequence[Record], tol: float, sweeps: int) -> Sequence[ExpectedCounts]:
        """Extrapolate after a sweep and count there; if the objective falls, roll back and count.

        There is no extrapolation after a change below `tol`, since only a plain sweep shows convergence, nor after the
        last sweep: the end of a plain sweep has properties that a fit must have (EM: expected totals equal those of the
        data).
        """
        self.extrapolated = False
        if self._is_plain(history, tol, sweeps):
            if history[-1].sweep >= MIN_MOMENTUM_SWEEPS - 1 or has_converged_early(history):
                self._snapshot(problem)
                self.n_accepted = max(self.n_accepted, 1)
            return problem.expected_counts()
        rates, divergences = list(problem.rates), dict(problem.divergences)
        self._extrapolate(problem)
        problem.cache_exposures()
        counted = problem.expected_counts()
        if problem.objective(counted) >= history[-1].objective:  # False for NaN
            self.n_accepted, self.extrapolated = self.n_accepted + 1, True
            return counted
        self.n_accepted //= 2
        self._rollback(problem)
        problem.rates, problem.divergences = rates, divergences
        return problem.expected_counts()

    def _is_plain(self, history: Sequence[Record], tol: float, sweeps: int) -> bool:
        last = history[-1]
        early = last.change > TUNING.max_momentum_change or not (
            last.sweep >= MIN_MOMENTUM_SWEEPS or has_converged_early(history)
        )
        ending = abs(last.change) < tol or last.sweep + 1 >= sweeps
        return early or ending or not self.n_accepted or not self.before

    def _snapshot(self, problem: Problem) -> None:
        for name in problem.free:
            arrays = problem.parameters(name)
            if name not in self.before:
                self.before[name] = [np.empty_like(array) for array in arrays]
            for kept, array in zip(self.before[name], arrays):
                np.copyto(kept, array)

    def _extrapolate(self, problem: Problem) -> None:
        beta = self.n_accepted / (self.n_accepted + TUNING.momentum_delay)
        for name in problem.free:
            if name not in problem.exposed:  # it joins later
                continue
            moves = problem.exposed[name].copy()  # rows without data keep their prior
            for now, before in zip(problem.parameters(name), self.before[name]):
                problem.executor.rows(_work(beta, moves, now, before), *now.shape)
            problem.refresh(name)

    def _rollback(self, problem: Problem) -> None:
        for name in problem.free:
            for now, before in zip(problem.parameters(name), self.before[name]):
                np.copyto(now, before)
            problem.refresh(name)
