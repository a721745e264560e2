"""Random numbers by cell: independent of order, threads, and of memory or disk."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait._typing import AnyArray, Array

MIN_DRAW = 1e-3  # lighter links would cancel in differences


@dataclass(frozen=True)
class Draws:
    """Exp(1) draws, of mean 1; `seed`: two integers, the second small."""

    seed: tuple[int, int]

    def __call__(self, columns: Sequence[AnyArray]) -> Array:
        """Draws of cells given by the row numbers of their indices, (n,) each."""

        from plait.data.sparse.sparse_kernels import exponential, mix

        words = np.full(len(columns[0]) if columns else 1, self._start, np.uint64)
        for column in columns:
            mix(words, np.ascontiguousarray(column))
        draws = np.empty(len(words))
        exponential(words, MIN_DRAW, draws)
        return draws

    @property
    def _start(self) -> np.uint64:
        """Initial hash of all cells."""
        return np.random.SeedSequence(self.seed).generate_state(1, np.uint64)[0]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Weighing:
    """Values of a table of weights at listed cells, relative to the base weight of all cells.

    `sign`: +1 for additions to the base, −1 for subtractions; 0 elsewhere. `zero`: weight of a listed 0 without a
    its own weight; `draws`: factors of the weights of links.
    """

    base: float
    zero: float
    sign: float
    draws: Draws | None = None

    def __call__(self, columns: Sequence[AnyArray], values: AnyArray, own: AnyArray | None) -> Array:
        """At cells with these values and, where there are any, own weights, (n,)."""
        weights = np.where(values > 0, 1.0, self.zero) if own is None else np.asarray(own, np.float64)
        if self.draws is not None:
            weights = np.where(values > 0, self.draws(columns) * weights, weights)
        return np.maximum(self.sign * (weights - self.base), 0.0)
