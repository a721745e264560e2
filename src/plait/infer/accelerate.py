"""Momentum: after a sweep, go on a little in the direction in which the last two sweeps went.

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

from plait.infer.counts import Counted
from plait.infer.patience import settled
from plait.infer.problem import Problem
from plait.infer.rows import extrapolate
from plait.infer.state import Record, Trail

# Plain sweeps, or those until a fit has settled after its warm-up: while components still sort themselves out, haste
# leads to poorer optima …
WARM_UP = 20
CALM = 1e-3  # … and so does a sweep after one that changed the bound by more than this: Tucker sorts itself out later
DELAY = 3  # the larger, the slower the momentum grows


def _work(*arguments: Any) -> Callable[[int, int], float]:
    def work(lo: int, hi: int) -> float:
        extrapolate(lo, hi, *arguments)
        return 0.0

    return work


class Momentum:
    """The leaps of one fit. Holds one copy of the free factors' parameters: as they were after the last sweep."""

    def __init__(self, trail: Trail) -> None:
        self.streak, self.leapt = trail.streak, trail.leapt
        self.before = {name: [array.copy() for array in arrays] for name, arrays in trail.before.items()}

    @property
    def trail(self) -> Trail:
        """What the next leap needs; the arrays are not copied."""
        return Trail(self.streak, self.leapt, {name: tuple(arrays) for name, arrays in self.before.items()})

    def forget(self) -> None:
        """Begin anew: the problem has another shape."""
        self.streak, self.before = 1, {}

    def count(self, problem: Problem, history: Sequence[Record], tol: float, sweeps: int) -> Sequence[Counted]:
        """Leap from the end of a sweep, and count there; if the bound is below the last one, go back and count.

        A sweep that follows a change below tol stays plain: only such a one can tell that the fit has converged. So
        does the last one: what holds at the end of a sweep (EM: expected totals are those of the data) holds of a fit.
        """
        self.leapt = False
        if self._rests(history, tol, sweeps):
            if history[-1].sweep >= WARM_UP - 1 or settled(history):
                self._remember(problem)
                self.streak = max(self.streak, 1)
            return problem.count()
        rates, divergences = list(problem.rates), dict(problem.divergences)
        self._leap(problem)
        problem.look_ahead()
        counted = problem.count()
        if problem.bound(counted) >= history[-1].bound:  # a bound that is not a number is refused too
            self.streak, self.leapt = self.streak + 1, True
            return counted
        self.streak //= 2
        self._return(problem)
        problem.rates, problem.divergences = rates, divergences
        return problem.count()

    def _rests(self, history: Sequence[Record], tol: float, sweeps: int) -> bool:
        """Whether a sweep stays plain."""
        last = history[-1]
        early = last.change > CALM or not (last.sweep >= WARM_UP or settled(history))
        ending = abs(last.change) < tol or last.sweep + 1 >= sweeps
        return early or ending or not self.streak or not self.before

    def _remember(self, problem: Problem) -> None:
        for name in problem.free:
            arrays = problem.parameters(name)
            if name not in self.before:
                self.before[name] = [np.empty_like(array) for array in arrays]
            for kept, array in zip(self.before[name], arrays):
                np.copyto(kept, array)

    def _leap(self, problem: Problem) -> None:
        beta = self.streak / (self.streak + DELAY)
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
