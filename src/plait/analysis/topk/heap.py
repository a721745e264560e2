"""The k best cells so far, and the rate that another cell must exceed."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.analysis.topk.contraction import Axis

Score = Callable[[Rows], Array]

# Rates with a smaller relative difference are ties, so rounding decides nothing and equal rows do not slow a search.
TIE_TOLERANCE = 1e-12

CHUNK_CELLS = 1 << 14  # scored at a time where the score is not the rate


@dataclass(eq=False)
class TopHeap:
    """Collects cells by row numbers of the whole relation.

    `exact`: rate of cells where the search finds only a bound; a cell may then be offered twice. `score`: ranking
    score, at most 1 − exp(−rate); None ranks by the rate. `min_rate`: rate below which no cell has more than a rate
    after calibration. `max_scored`: cells after whose scoring the search ends, and `is_exact` is False. `allowed`:
    which cells are candidates; None for all.
    """

    k: int
    order: int
    allowed: Callable[[Rows], NDArray[np.bool_]] | None
    exact: Score | None = None
    score: Score | None = None
    min_rate: Callable[[float], float] | None = None
    max_scored: float = math.inf
    is_exact: bool = True
    rows: Rows = field(init=False)
    scores: Array = field(init=False)
    floor: float = -math.inf
    axes: Sequence[Axis] = ()
    _waiting: list[tuple[Rows, Array]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows, self.scores = np.zeros((0, self.order), np.int64), np.zeros(0)

    def within(self, axes: Iterable[Axis]) -> "TopHeap":
        """Take further cells as row numbers of the free ones of these axes."""
        self.axes = tuple(axes)
        return self

    def offer(self, cells: Rows, rates: Array) -> None:
        """Take cells (m, n_free_axes) and their rates, or bounds of them."""
        if self.score is None and self.exact is None:
            self._take(cells, rates)
            return
        best_first = np.argsort(-rates, kind="stable")
        for at in range(0, len(rates), CHUNK_CELLS):
            some = best_first[at : at + CHUNK_CELLS]
            if rates[some[0]] <= self.floor:
                return
            self._take(cells[some], rates[some])

    def _take(self, cells: Rows, rates: Array) -> None:
        above = rates > self.floor
        rows = self._whole(cells[above])
        values = rates[above]
        if self.allowed is not None and len(rows):
            allowed = self.allowed(rows)
            rows, values = rows[allowed], values[allowed]
        if self.exact is not None and len(rows):
            values = self.exact(rows)
            rows, values = rows[values > self.floor], values[values > self.floor]
        if self.score is not None and len(rows):
            values = self.score(rows)
            self.max_scored -= len(rows)
        self._waiting.append((rows, values))
        if 4 * sum(len(waiting) for _, waiting in self._waiting) >= self.k:
            self.settle()
        if self.max_scored < 0:
            self.floor, self.is_exact = math.inf, False

    def _whole(self, cells: Rows) -> Rows:
        rows = np.empty((len(cells), self.order), np.int64)
        column = 0
        for axis in self.axes:
            rows[:, axis.places] = axis.rows if len(axis) == 1 else axis.rows[cells[:, column]]
            column += len(axis) != 1
        return rows

    def settle(self) -> None:
        """Keep the best k, ties by row numbers, and raise the floor to the last of them."""
        rows = np.concatenate([self.rows, *(rows for rows, _ in self._waiting)])
        scores = np.concatenate([self.scores, *(scores for _, scores in self._waiting)])
        self._waiting.clear()
        if self.exact is not None and len(rows):
            first = np.unique(rows, axis=0, return_index=True)[1] if self.order else np.zeros(1, np.int64)
            rows, scores = rows[first], scores[first]
        if len(scores) > self.k:
            likely = scores >= -np.partition(-scores, self.k - 1)[self.k - 1]
            rows, scores = rows[likely], scores[likely]
        kept = np.lexsort((*rows.T[::-1], -scores))[: self.k]
        self.rows, self.scores = rows[kept], scores[kept]
        if len(kept) == self.k:
            self.floor = max(self.floor, self._needed(float(self.scores[-1])))

    def _needed(self, score: float) -> float:
        """Rate below which no cell has more than this score."""
        if self.score is None:
            return score * (1 + TIE_TOLERANCE)
        # P(x > 0) = E[1 − exp(−λ)] ≤ 1 − exp(−E λ), by Jensen
        rate = -math.log1p(-score) if score < 1 else math.inf
        return (rate if self.min_rate is None else self.min_rate(rate)) * (1 + TIE_TOLERANCE)
