"""Momentum for rows that have nothing to do with each other: each new entity goes its own way, fast or slowly.

After an update took a row from y to x₁, and the one before to x₀, it goes on to y' ≈ x₁ (x₁/x₀)^β with β = n/(n + 1), n
being its leaps in a row (as in `plait.infer.accelerate`). Where the update turned back, (log x₁ − log y)·(log x₁ −
log x₀) < 0, the row begins anew with n = 0. Whether a row leaps depends on itself alone, so that entities may be folded
in together or one by one. The last update is a plain one.
"""

import numpy as np
from numpy.typing import NDArray

from plait.infer.problem import Problem
from plait.types import Array

DELAY = 1  # smaller than that of a whole fit: with all else held there is little to sort out


class Haste:
    """The momentum of all rows of a problem's free factors."""

    def __init__(self) -> None:
        self.before: dict[str, tuple[Array, ...]] = {}  # where the last updates ended
        self.begun: dict[str, tuple[Array, ...]] = {}  # where the next update begins
        self.streak: dict[str, Array] = {}

    def leap(self, problem: Problem, name: str) -> None:
        """Let the rows of a factor go on, after an update of it."""
        ends = tuple(array.copy() for array in problem.parameters(name))
        if name in self.before:
            streak = self._streak(name, ends)
            beta = (streak / (streak + DELAY))[:, None]
            for now, end, then in zip(problem.parameters(name), ends, self.before[name]):
                top, bottom = (1 + beta) * end + (1 - beta) * then, (1 - beta) * end + (1 + beta) * then
                np.multiply(end, np.divide(top, bottom, out=np.ones_like(end), where=bottom > 0), out=now)
            problem.place(name)
        self.before[name] = ends
        self.begun[name] = tuple(array.copy() for array in problem.parameters(name))

    def _streak(self, name: str, ends: tuple[Array, ...]) -> Array:
        """How many leaps in a row each row has made, with this one."""
        old = self.streak.get(name, np.zeros(len(ends[0])))
        ahead = np.zeros(len(ends[0]))
        for end, begin, then in zip(ends, self.begun[name], self.before[name]):
            ahead += (_log(end, begin) * _log(end, then)).sum(axis=1)
        self.streak[name] = np.where(ahead < 0, 0.0, old + 1.0)
        return self.streak[name]


def _log(x: Array, y: Array) -> Array:
    there: NDArray[np.bool_] = (x > 0) & (y > 0)
    return np.log(np.divide(x, y, out=np.ones_like(x), where=there))
