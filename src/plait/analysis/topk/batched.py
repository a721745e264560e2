"""Top-k cells of many entities in one pass, if each has few cells.

A batch has several queries and all cells of each, (n_queries, n_cells). Its rates are one matrix product; excluded
cells are set to −∞, and the best of each row are found by partition. When ranked by a probability, cells are scored
best first while 1 − e^−rate, an upper bound, is above the k-th best score of their row. Memory is bounded by one batch.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import opt_einsum
from numpy.typing import NDArray

from plait._typing import AnyArray, Array, Rows
from plait.analysis.topk.contraction import Axis, ContractionPart, Product, free_axes, parts_of, simplified
from plait.analysis.topk.exposure_regions import chosen, exposures_of
from plait.analysis.topk.heap import TIE_TOLERANCE
from plait.data.observation.structural_zeros import DiagonalSlices
from plait.data.observation.weights import Weights, along
from plait.data.sparse.parallel import in_pieces
from plait.model.model import Equation
from plait.model.network import contract, sizes_of, subscripts
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

Score = Callable[[Rows], Array]
Ranges = tuple[range, ...]

MAX_INTERMEDIATE_DOUBLES = 1 << 23  # of the contraction
CHUNK_CELLS = 1 << 17  # that a thread partitions at a time


class Blocks:
    """All cells of a relation as (n_queries, n_cells): rows of the axes at `places` by those of the others.

    `refused`: excluded cells, pairs or slices, as coordinates (n, k) by k places; `diagonals`: excluded slices of
    diagonals. `again`: which cells (m, order) are another orientation of an earlier one, the same for all queries.
    `calibrated`: from cells and their rates to bounds of their rates after calibration.
    """

    def __init__(
        self,
        fit: Fitted,
        equation: Equation,
        axes: Sequence[Axis],
        places: Sequence[int],
        refused: Sequence[tuple[Sequence[int], NDArray[np.integer]]],
        diagonals: Sequence[DiagonalSlices] = (),
        again: Callable[[Rows], NDArray[np.bool_]] | None = None,
        calibrated: Callable[[Rows, Array], Array] | None = None,
    ):
        self.fit, self.equation, self.axes, self.places = fit, equation, list(axes), list(places)
        self.calibrated = calibrated
        self.others = [n for n in range(len(axes)) if n not in places]
        self.weights = exposures_of(fit, equation)
        self.refused: list[_Refused | _RefusedDiagonal] = [
            *(_Refused.of(over, coords, self.axes, self.places[0] if places else None) for over, coords in refused),
            *(_RefusedDiagonal.of(slices, self.axes) for slices in diagonals),
        ]
        self.cells = math.prod(len(self.axes[n]) for n in self.others)
        self.at_once = self._at_once() if self.cells <= TUNING.all_cells else 0
        self.again = np.flatnonzero(again(self._first_line())) if again is not None and self.at_once else None

    def best(self, k: int, score: Score | None) -> Iterator[tuple[int, Rows, Array]]:
        """Batches of queries in order: their number, the k best cells (m, order) of each query, and their scores."""
        for ranges in _ranges([len(self.axes[place]) for place in self.places], self.at_once):
            rates = self._rates(ranges)
            if self.calibrated is not None:
                at = np.nonzero(rates > -np.inf)
                rates[at] = self.calibrated(self._rows(ranges, *at), rates[at])
            lines, columns, cells = _by_rate(rates, k) if score is None else self._by_score(ranges, rates, k, score)
            yield len(rates), self._rows(ranges, lines, columns), cells

    def _at_once(self) -> int:
        """Number of queries per batch; 0 where the memory does not suffice for one."""
        lengths = [len(self.axes[place]) for place in self.places]
        some = max(1, TUNING.block_cells // self.cells)
        while some:
            if max(map(_widest, self._terms(self._within(next(_ranges(lengths, some)))))) <= MAX_INTERMEDIATE_DOUBLES:
                return some
            some //= 2
        return 0

    def _within(self, ranges: Ranges) -> list[Axis]:
        """The axes with the rows of a batch."""
        axes = list(self.axes)
        for place, some in zip(self.places, ranges):
            if len(some) < len(axes[place]):
                axes[place] = Axis((place,), axes[place].rows[some.start : some.stop])
        return axes

    def _terms(self, axes: Sequence[Axis]) -> list[Product]:
        """Factors of each term, contracted where that is free, and ones for axes that none of them has."""
        terms = [simplified(parts_of(self.fit, self.equation, term, axes)) for term in self.equation.terms]
        shape = [len(axis) for axis in free_axes(axes)]
        there = [{n for part in parts for n in part.axes} for parts in terms]
        ones = [ContractionPart((n,), (), np.ones(size)) for n, size in enumerate(shape)]
        return [(*parts, *(one for one in ones if one.axes[0] not in has)) for parts, has in zip(terms, there)]

    def _rates(self, ranges: Ranges) -> Array:
        """Rates of a batch (n_queries, n_cells); −∞ at excluded cells."""
        axes = self._within(ranges)
        free, lengths = free_axes(axes), [len(axis) for axis in axes]
        rates, exposed = np.zeros([len(axis) for axis in free]), np.zeros([len(axis) for axis in free], bool)
        for parts, weights in zip(self._terms(axes), self.weights):
            V = np.ones(()) if weights is None else _dense(weights, axes)
            rates += contract([part.block for part in parts], range(len(free))) * V
            exposed |= V > 0
        rates[~exposed] = -np.inf
        rates = rates.reshape(lengths)
        for table in self.refused:
            table.strike(rates, self.places, ranges)
        ordered = np.ascontiguousarray(rates.transpose(*self.places, *self.others))
        lines = ordered.reshape(math.prod(map(len, ranges)), self.cells)
        if self.again is not None:
            lines[:, self.again] = -np.inf
        return lines

    def _first_line(self) -> Rows:
        """Row numbers (n_cells, order) of all cells of the first query."""
        return self._rows((range(1),) * len(self.places), np.zeros(self.cells, np.int64), np.arange(self.cells))

    def _rows(self, ranges: Ranges, lines: Rows, columns: Rows) -> Rows:
        """Row numbers (m, order) of cells of a batch."""
        rows = np.empty((len(lines), len(self.axes)), np.int64)
        queries = np.unravel_index(lines, [len(some) for some in ranges]) if ranges else ()
        for n, at, some in zip(self.places, queries, ranges):
            rows[:, n] = self.axes[n].rows[at + some.start, 0]
        shape = [len(self.axes[n]) for n in self.others]
        for n, at in zip(self.others, np.unravel_index(columns, shape)):
            rows[:, n] = self.axes[n].rows[at, 0]
        return rows

    def _by_score(self, ranges: Ranges, rates: Array, k: int, score: Score) -> tuple[Rows, Rows, Array]:
        """The k best cells of each row by a score of at most 1 − e^−rate; `rates` are overwritten."""
        lines, columns, scores = np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
        floor = np.full(len(rates), -np.inf)
        active, some = np.arange(len(rates)), k
        while len(active):
            here, at, values = _by_rate(rates if len(active) == len(rates) else rates[active], some)
            promising = values > floor[active[here]]
            here, at = active[here[promising]], at[promising]
            rates[here, at] = -np.inf
            new = score(self._rows(ranges, here, at))
            lines, columns = np.concatenate([lines, here]), np.concatenate([columns, at])
            scores = np.concatenate([scores, new])
            order = np.lexsort((columns, -scores, lines))
            rank = _rank(lines[order])
            kept = order[rank < k]
            last = order[rank == k - 1]
            with np.errstate(divide="ignore"):  # where the k-th score is 1 nothing can be better
                floor[lines[last]] = -np.log1p(-np.minimum(scores[last], 1.0)) * (1 + TIE_TOLERANCE)
            lines, columns, scores = lines[kept], columns[kept], scores[kept]
            active, some = active[rates[active].max(axis=1) > floor[active]], 4 * some
        return lines, columns, scores


def _rank(lines: Rows) -> Rows:
    """Number of each entry within its row; `lines` ascending."""
    number = np.arange(len(lines))
    return number - np.searchsorted(lines, lines)


def _by_rate(rates: Array, k: int) -> tuple[Rows, Rows, Array]:
    """Row, column and value of the k largest of each row that are not −∞, row by row."""
    count, cells = rates.shape
    k = min(k, cells)
    columns = np.empty((count, k), np.int64)

    def work(lo: int, hi: int) -> None:
        columns[lo:hi] = np.argpartition(rates[lo:hi], cells - k, axis=1)[:, cells - k :]

    in_pieces(work, count, max(1, CHUNK_CELLS // cells))
    lines, values = np.repeat(np.arange(count), k), np.take_along_axis(rates, columns, axis=1).ravel()
    there = values > -np.inf
    return lines[there], columns.ravel()[there], values[there]


@dataclass(frozen=True, eq=False)
class _Refused:
    """Excluded cells, pairs or slices: positions (n, k) along the axes at k places.

    Sorted by the axis along which batches proceed, if they have it (`leading`: its column).
    """

    places: tuple[int, ...]
    positions: Rows
    leading: int | None

    @classmethod
    def of(
        cls, places: Sequence[int], coords: NDArray[np.integer], axes: Sequence[Axis], first: int | None
    ) -> "_Refused":
        positions = _positions(coords, [axes[place] for place in places])
        leading = list(places).index(first) if first is not None and first in places else None
        if leading is not None:
            positions = positions[np.argsort(positions[:, leading], kind="stable")]
        return cls(tuple(places), positions, leading)

    def strike(self, rates: Array, places: Sequence[int], ranges: Ranges) -> None:
        """Set excluded entries to −∞ in an array over all axes, of which those at these places have ranges of rows."""
        start, stop = dict(zip(places, (r.start for r in ranges))), dict(zip(places, (r.stop for r in ranges)))
        some = self.positions
        if self.leading is not None:
            lo, hi = np.searchsorted(some[:, self.leading], [ranges[0].start, ranges[0].stop])
            some = some[lo:hi]
        inside = np.ones(len(some), bool)
        for column, place in enumerate(self.places):
            if place in start:
                inside &= (some[:, column] >= start[place]) & (some[:, column] < stop[place])
        some = some[inside]
        at: list[slice | Rows] = [slice(None)] * rates.ndim
        for column, place in enumerate(self.places):
            at[place] = some[:, column] - start.get(place, 0)
        rates[tuple(at)] = -np.inf


@dataclass(frozen=True, eq=False)
class _RefusedDiagonal:
    """Excluded slices of a diagonal: positions of the pair (n, 2), and of the slices (m, k)."""

    slices: DiagonalSlices
    pairs: Rows
    coords: Rows

    @classmethod
    def of(cls, slices: DiagonalSlices, axes: Sequence[Axis]) -> "_RefusedDiagonal":
        own = axes[slices.pair[0]].rows[:, 0]
        pairs = _positions(np.stack([own, own], axis=1), [axes[place] for place in slices.pair])
        return cls(slices, pairs, _positions(slices.coords, [axes[place] for place in slices.over]))

    def strike(self, rates: Array, places: Sequence[int], ranges: Ranges) -> None:
        inside, at = dict(zip(places, ranges)), [slice(None)] * rates.ndim
        for over, positions, shape in (
            (self.slices.pair, self.pairs, (-1, 1)),
            (self.slices.over, self.coords, (1, -1)),
        ):
            some = np.ones(len(positions), bool)
            for place, column in zip(over, positions.T):
                own = inside.get(place, range(rates.shape[place]))
                some &= (column >= own.start) & (column < own.stop)
            for place, column in zip(over, positions[some].T):
                at[place] = (column - inside.get(place, range(1)).start).reshape(shape)
        rates[tuple(at)] = -np.inf


def _positions(coords: AnyArray, axes: Sequence[Axis]) -> Rows:
    """Positions of coordinates (n, k) along k axes, of those that are there."""
    positions, inside = np.empty(coords.shape, np.int64), np.ones(len(coords), bool)
    for column, axis in enumerate(axes):
        rows = axis.rows[:, 0]  # ascending
        at = np.minimum(np.searchsorted(rows, coords[:, column]), max(len(rows) - 1, 0))
        positions[:, column] = at
        inside &= rows[at] == coords[:, column] if len(rows) else False
    return positions[inside]


def _ranges(lengths: Sequence[int], most: int) -> Iterator[Ranges]:
    """All combinations of rows of axes of these lengths, in order, as boxes of at most max(most, 1) of them."""
    if not lengths:
        yield ()
        return
    inner = math.prod(lengths[1:])
    if inner <= most:
        step = max(1, most // max(inner, 1))
        for lo in range(0, lengths[0], step):
            yield (range(lo, min(lo + step, lengths[0])), *(range(n) for n in lengths[1:]))
        return
    for row in range(lengths[0]):
        for rest in _ranges(lengths[1:], most):
            yield (range(row, row + 1), *rest)


def _dense(weights: Weights, axes: Sequence[Axis]) -> Array:
    """Weights of the rows of all axes, as an array over the free ones."""
    here = chosen(weights, axes)
    return along(here, here.indices)


def _widest(parts: Sequence[ContractionPart]) -> int:
    """Doubles of the widest intermediate of a contraction to all axes."""
    blocks = [part.block for part in parts]
    text = subscripts([b.indices for b in blocks], [label for label in sizes_of(blocks) if isinstance(label, int)])
    shapes = [block.values.shape for block in blocks]
    return int(opt_einsum.contract_path(text, *shapes, shapes=True)[1].largest_intermediate) if parts else 1
