"""Rows of a factor that workers own: what is kept of them, the operand made of it, and updates.

What is kept is what a state keeps: C, D and log L of a posterior, Z of a point. All else follows from it with the same
bits as in `plait.infer.gamma`, and what is added up is added up over the same pieces. `make_operand` and the changes
are what workers run.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from plait.compile.layout import Layout
from plait.execute.changing import AwayGradient
from plait.execute.executor import Gradient
from plait.execute.keeping import News, Recipe, Work
from plait.execute.owned import Owned
from plait.infer.rows import density_rows, rows_point, rows_vb, settle_points, settle_rows, sum_rows
from plait.jit import WIDTH
from plait.types import Array

Arrays = tuple[Array, ...]
Change = Callable[..., tuple[Arrays, News]]

ROWS = ("parameters", "log_geomean", "geomean")  # what is missing while workers own the rows, until somebody looks

_ONE, _NONE = np.ones((1, 1)), np.zeros((1, 1))


class RowShape(NamedTuple):
    """The shape of a row, and whether L is kept divided by its maximum."""

    real: int
    pad: int
    scaled: bool

    @classmethod
    def of(cls, layout: Layout) -> "RowShape":
        """That of a factor."""
        return cls(layout.real, layout.pad, layout.scaled)


class Movable:
    """What a factor can do besides, if workers own its rows: those come here when somebody looks at them."""

    layout: Layout
    parameters: Arrays
    log_geomean: Array
    geomean: Array
    shift: Array
    version: int
    _mean: tuple[int, Array] | None
    _totals: dict[str, tuple[int, Array]]
    movable = False  # whether workers may own its rows
    away: Owned | None = None  # where they are, if they do

    if not TYPE_CHECKING:  # a checker would believe in attributes of any name

        def __getattr__(self, name: str) -> Any:
            """Rows that only workers have: they come here, and are with both."""
            if name not in ROWS or self.away is None:
                raise AttributeError(f"{type(self).__name__} has no {name}")
            kept = self.away.fetch()
            self.parameters = kept[:2]
            self.log_geomean, self.geomean, _ = _derive(kept, RowShape.of(self.layout))
            return self.__dict__[name]

    @property
    def shape(self) -> tuple[int, int]:
        """Of the stored arrays."""
        return self.layout.rows, self.layout.columns

    @property
    def dtype(self) -> np.dtype[Any]:
        """What they are stored in."""
        return self.geomean.dtype if self.away is None else self.away.dtype

    def here(self) -> Array:
        """L, as an operand of sums."""
        return self.geomean

    def kept(self) -> Arrays:
        """What all else follows from."""
        return self.parameters if len(self.parameters) == 1 else (*self.parameters, self.log_geomean)

    @property
    def recipe(self) -> Recipe:
        """How L follows from it."""
        return Recipe(make_operand, RowShape.of(self.layout))

    def come_home(self) -> None:
        """Its rows are here and nowhere else."""
        assert self.parameters
        self.away = None

    def change_there(self, gradient: Gradient, change: "Change", *given: Array) -> float:
        """Let workers update the rows that they own, with arrays of one row; returns the part of the bound."""
        assert isinstance(gradient, AwayGradient)
        told = Told.of(gradient.change(Work(change, (RowShape.of(self.layout), *map(writable, given)))))
        for name in ROWS:
            self.__dict__.pop(name, None)
        self.version, self.shift = self.version + 1, told.shift
        self._mean, self._totals = None, {n: (self.version, t) for n, t in told.totals.items()}
        return told.value


class Told(NamedTuple):
    """What an update tells of all rows: its part of the bound, Σ of E and of log L, and the shifts."""

    value: float
    totals: dict[str, Array]
    shift: Array

    @classmethod
    def of(cls, news: News) -> "Told":
        """From what it tells of every piece."""
        values, columns = np.ascontiguousarray(news.pieces[:, 0]), news.pieces.shape[1] // 2
        sums = (sum(part, np.zeros(1)) for part in np.split(news.pieces[:, 1:], [columns], axis=1))
        return cls(float(values.sum()), dict(zip(("mean", "log_geomean"), sums)), news.rows)


def make_operand(arrays: Arrays, real: int, pad: int, scaled: bool) -> Array:
    """L of some rows."""
    return _derive(arrays, RowShape(real, pad, scaled))[1]


def change_vb(
    arrays: Arrays, gradient: Array, cuts: Sequence[int], row: RowShape, exposure: Array, *prior: Array
) -> tuple[Arrays, News]:
    """New posteriors, as `update_vb` makes them; D is the same in all rows, for exposure and prior are."""
    C, D, log_geomean = (np.array(np.broadcast_to(array, gradient.shape), order="C") for array in arrays)
    _, geomean, shift = _derive((C, D, log_geomean), row)
    given = *row, gradient, _NONE, exposure, *prior, C, D, log_geomean, geomean, shift
    pieces = [_piece(rows_vb(lo, hi, *given), C[lo:hi] * D[lo:hi], log_geomean[lo:hi]) for lo, hi in pairwise(cuts)]
    return (C, D[:1].copy(), log_geomean), News(np.array(pieces), shift)


def change_points(
    arrays: Arrays, gradient: Array, cuts: Sequence[int], row: RowShape, exposure: Array, *prior: Array
) -> tuple[Arrays, News]:
    """New points, as `update_map` makes them, or `update_em`, whose prior has no density: A and A/B alone."""
    Z = arrays[0].copy()
    log_geomean, geomean, shift = _derive((Z,), row)
    given = *row, gradient, _NONE, exposure, *prior[:2], Z, log_geomean, geomean, shift
    pieces = []
    for lo, hi in pairwise(cuts):
        rows_point(lo, hi, *given)
        density = density_rows(lo, hi, *row[:2], Z, log_geomean, *prior) if len(prior) > 2 else 0.0
        pieces.append(_piece(density, Z[lo:hi], log_geomean[lo:hi]))
    return (Z,), News(np.array(pieces), shift)


def _derive(arrays: Arrays, row: RowShape) -> tuple[Array, Array, Array]:
    """log L, L and the shifts."""
    last = writable(arrays[-1])
    geomean, shift = np.zeros_like(last), np.zeros(len(last))
    if len(arrays) > 1:
        settle_rows(0, len(last), *row, last, geomean, shift)
        return last, geomean, shift
    log_geomean = np.full_like(last, -np.inf)
    settle_points(0, len(last), *row, last, log_geomean, geomean, shift)
    return log_geomean, geomean, shift


def writable(array: Array) -> Array:
    """A contiguous array that numba knows by the same type as all others; what came over a wire is copied."""
    array = np.require(array, requirements=("C", "A"))
    return array if array.flags.writeable else array.copy()


def _piece(value: float, mean: Array, log_geomean: Array) -> Array:
    """What is told of a piece."""
    return np.concatenate([[value], _sum(mean), _sum(log_geomean)])


def _sum(rows: Array) -> Array:
    sums = np.zeros((1, max(rows.shape[1], WIDTH)))
    sum_rows(0, len(rows), rows, _ONE, sums)
    return sums[0, : rows.shape[1]]
