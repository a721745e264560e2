"""Compiled loops of `draws`.

Random numbers that belong to cells: the same ones whoever draws them, in whatever order, in memory or on disk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait._typing import AnyArray, Array

LEAST = 1e-3  # of a draw: lighter links are none, and would be taken away from a total digit by digit


@dataclass(frozen=True)
class Draws:
    """Exp(1) draws, of mean 1; seed: two whole numbers, the second small."""

    seed: tuple[int, int]

    def __call__(self, columns: Sequence[AnyArray]) -> Array:
        """Those of cells by the row numbers of their indices, (n,) each."""

        from plait.data.sparse.sparse_kernels import exponential, mix

        words = np.full(len(columns[0]) if columns else 1, self._start, np.uint64)
        for column in columns:
            mix(words, np.ascontiguousarray(column))
        draws = np.empty(len(words))
        exponential(words, LEAST, draws)
        return draws

    @property
    def _start(self) -> np.uint64:
        """Where the words of all cells begin."""
        return np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Weighing:
    """What a table of weights has at listed cells, beside a base that all cells weigh.

    sign: +1 for what is added to the base, −1 for what is taken from it; 0 elsewhere. zero: the weight of a listed 0,
    where cells have none of their own; draws: what the weights of links are multiplied by.
    """

    base: float
    zero: float
    sign: float
    draws: Draws | None = None

    def __call__(self, columns: Sequence[AnyArray], values: AnyArray, own: AnyArray | None) -> Array:
        """At cells with these values and, where there are any, weights of their own, (n,)."""
        weights = np.where(values > 0, 1.0, self.zero) if own is None else np.asarray(own, np.float64)
        if self.draws is not None:
            weights = np.where(values > 0, self.draws(columns) * weights, weights)
        return np.maximum(self.sign * (weights - self.base), 0.0)
