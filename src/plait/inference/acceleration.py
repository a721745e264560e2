"""How long a fit waits: for EM to sort components out before VB begins, and for VB to settle before priors adapt.

The sweeps that are allotted to both (`loop`) are what little data need. Of much data a dozen sweeps sort
components out, and the others change next to nothing; with `accelerate=True` these are not waited for. What decides is
the history alone, so that a fit which is taken up goes on as if it had not been left.

Momentum: after a sweep, go on a little in the direction in which the last two sweeps went.

A sweep takes the parameters x (C and D of every posterior; Z of a point) from where they are to x₁. Where the sweep
before came to x₀, entry by entry, and so that nothing can become negative,

    y = x₁ · ((1+β) x₁ + (1−β) x₀) / ((1−β) x₁ + (1+β) x₀)        ≈ x₁ · (x₁/x₀)^β,   β = n/(n + 3),

n being the leaps in a row (Nesterov's momentum on the logarithms, the power by its Padé approximant). Any y is a
posterior, so its bound is one: the leap stands if that is not below the bound before the sweep, else it is undone and n
is halved. An accepted leap costs the rows only, for its counts are those that the next sweep needs.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plait.inference.expected_counts import ExpectedCounts
from plait.inference.problem import Problem
from plait.inference.row_kernels import extrapolate
from plait.inference.state import MomentumState, Record
from plait.tuning import TUNING

FLAT = 1e-4  # of the bound that a sweep changes it by where there is nothing to wait for; little data never get there
ROSE = 1e-3  # and that an earlier one must have: a start that is still at rest is flat, too
ROUGH = 5  # sweeps of a random start that change much whatever comes of it
SETTLE = 5  # sweeps of VB before it can be told


def warm(history: Sequence[Record]) -> bool:
    """Whether EM has sorted components out: it rose, and does so no more."""
    return history[-1].change < FLAT and any(record.change > ROSE for record in history[ROUGH:])


def settled(history: Sequence[Record]) -> bool:
    """Whether VB has come to rest, at its last sweep or before, after a warm-up that ended early."""
    before = [record.sweep for record in history if record.warm_up]
    early = bool(before) and before[-1] < -1
    return early and any(record.change < FLAT for record in history[len(before) :] if record.sweep >= SETTLE)


# Sweeps before the first extrapolation, unless the fit has converged after its warm-up: while components still change,
# momentum leads to poorer optima.
WARM_UP = 20


def _work(*arguments: Any) -> Callable[[int, int], float]:
    def work(lo: int, hi: int) -> float:
        extrapolate(lo, hi, *arguments)
        return 0.0

    return work


class Momentum:
    """The leaps of one fit. Holds one copy of the free factors' parameters: as they were after the last sweep."""

    def __init__(self, trail: MomentumState) -> None:
        self.n_accepted, self.extrapolated = trail.n_accepted, trail.extrapolated
        self.before = {name: [array.copy() for array in arrays] for name, arrays in trail.before.items()}

    @property
    def trail(self) -> MomentumState:
        """What the next leap needs; the arrays are not copied."""
        return MomentumState(
            self.n_accepted, self.extrapolated, {name: tuple(arrays) for name, arrays in self.before.items()}
        )

    def forget(self) -> None:
        """Begin anew: the problem has another shape."""
        self.n_accepted, self.before = 1, {}

    def count(self, problem: Problem, history: Sequence[Record], tol: float, sweeps: int) -> Sequence[ExpectedCounts]:
        """Leap from the end of a sweep, and count there; if the bound is below the last one, go back and count.

        A sweep that follows a change below tol stays plain: only such a one can tell that the fit has converged. So
        does the last one: what holds at the end of a sweep (EM: expected totals are those of the data) holds of a fit.
        """
        self.extrapolated = False
        if self._rests(history, tol, sweeps):
            if history[-1].sweep >= WARM_UP - 1 or settled(history):
                self._remember(problem)
                self.n_accepted = max(self.n_accepted, 1)
            return problem.expected_counts()
        rates, divergences = list(problem.rates), dict(problem.divergences)
        self._leap(problem)
        problem.cache_exposures()
        counted = problem.expected_counts()
        if problem.objective(counted) >= history[-1].objective:  # a bound that is not a number is refused too
            self.n_accepted, self.extrapolated = self.n_accepted + 1, True
            return counted
        self.n_accepted //= 2
        self._return(problem)
        problem.rates, problem.divergences = rates, divergences
        return problem.expected_counts()

    def _rests(self, history: Sequence[Record], tol: float, sweeps: int) -> bool:
        """Whether a sweep stays plain."""
        last = history[-1]
        early = last.change > TUNING.max_momentum_change or not (last.sweep >= WARM_UP or settled(history))
        ending = abs(last.change) < tol or last.sweep + 1 >= sweeps
        return early or ending or not self.n_accepted or not self.before

    def _remember(self, problem: Problem) -> None:
        for name in problem.free:
            arrays = problem.parameters(name)
            if name not in self.before:
                self.before[name] = [np.empty_like(array) for array in arrays]
            for kept, array in zip(self.before[name], arrays):
                np.copyto(kept, array)

    def _leap(self, problem: Problem) -> None:
        beta = self.n_accepted / (self.n_accepted + TUNING.momentum_delay)
        for name in problem.free:
            if name not in problem.exposed:  # it waits for its turn
                continue
            moves = problem.exposed[name].copy()  # what nothing was observed of keeps its prior
            for now, before in zip(problem.parameters(name), self.before[name]):
                problem.executor.rows(_work(beta, moves, now, before), *now.shape)
            problem.place(name)

    def _return(self, problem: Problem) -> None:
        for name in problem.free:
            for now, before in zip(problem.parameters(name), self.before[name]):
                np.copyto(now, before)
            problem.place(name)
