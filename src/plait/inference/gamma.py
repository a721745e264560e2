"""Factors of a fit: points, or Gamma posteriors with parameters C, D and the statistics E, log L and scaled L.

Each row of L is divided by its maximum before exp, so a row never underflows as a whole; the logarithm of the maximum
is the row's `shift`, added back in the ELBO and under Bernoulli. Padding columns stay 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.errors import ParameterError
from plait.executors import Executor
from plait.executors.threads import MIN_THREADED_NUMBERS
from plait.inference.row_kernels import (
    dot_rows,
    prior_lgammas,
    prior_rates,
    refresh_rows,
    rows_point,
    settle_rows,
    sum_rows,
)
from plait.jit import WIDTH, exact_kernel, log_minus_digamma

MIN_CONCENTRATION, MAX_CONCENTRATION = 1e-3, 1e4  # that adapt


@dataclass(frozen=True, eq=False)
class Gamma:
    """Gamma prior of a factor, by concentration and mean.

    Parameters
    ----------
    concentration : float or array, default 0.5
        Concentration (shape) A. Values below 1 favour sparse factors.
    mean : float or array, default 10.0
        Mean B. The scale is B/A and the standard deviation B/√A.

    Raises
    ------
    plait.errors.ParameterError
        If a number is not positive and finite.

    Notes
    -----
    Arrays broadcast to the factor as written in the model.

    Examples
    --------
    >>> prior = {"U": plait.Gamma(concentration=0.1), "P": plait.Gamma(1.0, mean=2.0)}
    >>> fit = plait.fit(model, {"visits": visits}, prior=prior, **quick)
    >>> prior["P"]
    Gamma(concentration=1, mean=2)
    """

    concentration: ArrayLike = 0.5
    mean: ArrayLike = 10.0

    def __post_init__(self) -> None:
        for word in ("concentration", "mean"):
            given = getattr(self, word)
            try:
                value = np.asarray(given, np.float64)
            except (TypeError, ValueError):
                raise ParameterError.must_be(word, "a number or an array of numbers", given) from None
            if not (np.isfinite(value).all() and (value > 0).all()):
                raise ParameterError.must_be(word, "positive and finite", given)
            object.__setattr__(self, word, value)

    def __repr__(self) -> str:
        def show(value: Array) -> str:
            return f"{value.item():g}" if value.size == 1 else f"array of shape {value.shape}"

        return f"Gamma(concentration={show(self.concentration)}, mean={show(self.mean)})"  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class GammaChain:
    """Prior of a factor that changes slowly along an ordered axis: a Gamma Markov chain.

    Parameters
    ----------
    concentration : float or "auto", default "auto"
        How closely a period follows the one before: the relative standard deviation of a
        step is √(2/(a − 1)), a > 1. ``"auto"`` is 10 until priors adapt, and then chosen from
        the data (VB).
    start : Gamma or None, default None
        Prior of the first period; by default that of other factors. Its mean adapts.

    Raises
    ------
    plait.errors.ParameterError
        If the concentration is not above 1, or the start is not a `Gamma`.

    Notes
    -----
    Every free factor with an index of an ordered axis has this prior, one chain for each
    combination of its other indices, unless ``prior`` names a `Gamma` for it. The mean of a
    period is the value of the one before. ``"auto"`` chooses the concentration that
    predicts the expected counts of each period best from those of all periods before it. Where
    counts are few it is too small, by about half at 0.3 events per period.

    Examples
    --------
    >>> monthly = plait.Model("visits[user, month] = U[user, r] T[month, r]; month: ordered")
    >>> table = pl.DataFrame({"user": ["ann", "bob", "ann"], "month": [1, 2, 4]})
    >>> chain = plait.GammaChain(concentration=20.0)
    >>> fit = plait.fit(monthly, {"visits": table}, prior={"T": chain}, **quick)
    >>> fit.factors["T"].mean.shape
    (4, 2)
    """

    concentration: float | Literal["auto"] = "auto"
    start: Gamma | None = None

    def __post_init__(self) -> None:
        given = self.concentration
        if given != "auto":
            number = isinstance(given, (int, float, np.integer, np.floating)) and not isinstance(given, bool)
            if not (number and 1.0 < float(given) < np.inf):
                raise ParameterError.must_be("concentration", 'a finite number above 1, or "auto"', given)
            object.__setattr__(self, "concentration", float(given))
        if self.start is not None and not isinstance(self.start, Gamma):
            raise ParameterError.must_be("start", "a plait.Gamma or None", self.start)

    def __repr__(self) -> str:
        shown = '"auto"' if self.concentration == "auto" else f"{self.concentration:g}"
        return f"GammaChain(concentration={shown}{'' if self.start is None else f', start={self.start!r}'})"


@dataclass(frozen=True)
class Chain:
    """Chain along one visible axis of a factor; `adapts`: whether its concentration is still to be chosen."""

    axis: int
    concentration: float
    adapts: bool


@dataclass
class Prior:
    """Prior of a factor with the inside shape; axes of length 1 where tied. With a chain, that of its first period."""

    concentration: Array
    mean: Array
    chain: Chain | None = None


class RowShape(NamedTuple):
    """Shape of a row, and whether L is divided by its maximum."""

    real: int
    pad: int
    scaled: bool

    @classmethod
    def of(cls, layout: Layout) -> "RowShape":
        return cls(layout.real, layout.pad, layout.scaled)


@dataclass
class FactorState:
    """One factor during a fit; stored arrays, updated in place by this module only.

    `parameters` are C and D of a posterior (VB), or Z of a point (EM, MAP, given), for which E = L = Z.
    """

    layout: Layout
    parameters: tuple[Array, ...]
    log_geomean: Array  # log L
    exp_mean_log: Array  # L, every row divided by its maximum
    shift: Array  # log of that maximum, (n_rows,)
    version: int = 0  # incremented by every update, for caches
    _totals: dict[str, tuple[int, Array]] = field(default_factory=dict, init=False, repr=False)
    _mean: tuple[int, Array] | None = field(default=None, init=False, repr=False)

    @property
    def is_point(self) -> bool:
        return len(self.parameters) == 1

    @property
    def mean(self) -> Array:
        """E as stored; that of a posterior is computed when first needed."""
        if self.is_point:
            return self.parameters[0]
        C, D = self.parameters
        if self._mean is None:
            self._mean = self.version, C * D
        elif self._mean[0] != self.version:
            self._mean = self.version, np.multiply(C, D, out=self._mean[1])
        return self._mean[1]

    def rows_of(self, name: "RowSumKind", lo: int, hi: int) -> Array:
        """Rows of E or log L; read-only."""
        if name == "log_geomean":
            return self.log_geomean[lo:hi]
        first, *others = (array[lo:hi] for array in self.parameters)
        return first * others[0] if others else first

    @property
    def derived(self) -> tuple[Array, Array, Array]:
        """Arrays that follow from the parameters."""
        return self.log_geomean, self.exp_mean_log, self.shift

    @property
    def shared(self) -> "FactorState":
        """The rows that pairs share, of a factor over pairs; views."""
        assert self.layout.pairs is not None
        own = slice(len(self.layout.pairs), None)
        parameters = tuple(array[own] for array in self.parameters)
        log_geomean, exp_mean_log, shift = (array[own] for array in self.derived)
        return FactorState(self.layout.shared, parameters, log_geomean, exp_mean_log, shift, self.version)

    def total(self, name: "RowSumKind", executor: Executor) -> Array:
        """Σ of E or log L over all rows, as stored; cached by version."""
        version, total = self._totals.get(name, (-1, self.shift))
        if version != self.version:
            total = sum_over_rows(self, name, executor)
            self._totals[name] = self.version, total
        return total


RowSumKind = Literal["mean", "log_geomean"]
PriorTerms = Sequence[Array]  # A, A/B, log(A/B) and log Γ(A)


def sum_over_rows(factor: FactorState, name: RowSumKind, executor: Executor, weights: Array | None = None) -> Array:
    """Σ of E or log L over all rows, with optional `weights` (n_rows, 1)."""
    rows, columns, parts = factor.layout.rows, factor.layout.columns, dict[int, Array]()

    def work(lo: int, hi: int) -> float:
        parts[lo] = np.zeros((1, max(columns, WIDTH)))
        stored = factor.rows_of(name, lo, hi)
        sum_rows(0, hi - lo, stored, _ONE if weights is None else weights[lo:hi], parts[lo])
        return 0.0

    _spread(work, (rows, columns), executor)
    return sum((parts[lo] for lo in sorted(parts)), np.zeros(1))[0, :columns]


def add_up(arrays: Sequence[Array], executor: Executor) -> Array:
    """Sum of arrays of equal shape or with one row."""
    if len(arrays) == 1:
        return arrays[0]
    total = np.empty(np.broadcast_shapes(*(array.shape for array in arrays)), np.result_type(*arrays))

    def work(lo: int, hi: int) -> float:
        first, second, *others = (array[lo:hi] if len(array) > 1 else array for array in arrays)
        sums = np.add(first, second, out=total[lo:hi])
        for other in others:
            sums += other
        return 0.0

    _spread(work, total.shape, executor)
    return total


def writable(array: Array) -> Array:
    """Contiguous, aligned, writable array, so that numba sees one type; a read-only one is copied."""
    array = np.require(array, requirements=("C", "A"))
    return array if array.flags.writeable else array.copy()


def latent(layout: Layout, row: Array) -> Array:
    """Latent entries of a stored row, without padding."""
    sizes = layout.sizes[len(layout.visible) :]
    return row.reshape(*sizes[:-1], layout.pad)[..., : layout.real] if sizes else row[0]


def dot_mean(factor: FactorState, other: Array, executor: Executor) -> float:
    """Σ E · other, with `other` (n_rows, n_columns or 1)."""
    other = writable(other)

    def work(lo: int, hi: int) -> float:
        return float(dot_rows(0, hi - lo, factor.rows_of("mean", lo, hi), other[lo:hi]))

    return _spread(work, factor.exp_mean_log.shape, executor)


def _spread(work: Callable[[int, int], float], shape: tuple[int, ...], executor: Executor | None) -> float:
    """Run light work over rows, on threads only if there is enough of it."""
    rows, columns = shape
    if executor is None or rows * columns < MIN_THREADED_NUMBERS:
        return work(0, rows)
    return executor.rows(work, rows, columns)


def point(layout: Layout, stored: Array) -> FactorState:
    """A factor that is known exactly (EM, MAP, given)."""
    return _new_factor(layout, stored)


def posterior(layout: Layout, concentration: Array, scale: Array) -> FactorState:
    """A factor with a Gamma posterior; `concentration` and `scale` are stored arrays with padding 0."""
    return _new_factor(layout, concentration, scale)


def _new_factor(layout: Layout, *parameters: Array) -> FactorState:
    log_geomean = np.full_like(parameters[0], -np.inf)
    factor = FactorState(layout, parameters, log_geomean, np.zeros_like(log_geomean), np.zeros(layout.rows))
    _follow(factor)
    return factor


def rescale(factor: FactorState, scale: float) -> None:
    """Multiply a factor by a constant, in place."""
    factor.parameters[-1][...] *= scale
    _follow(factor)
    factor.version += 1


def become_posterior(factor: FactorState, concentration: Array, scale: Array) -> None:
    """Turn a point into a posterior, in its own arrays where the dtype is equal."""
    if factor.exp_mean_log.dtype != concentration.dtype:
        factor.exp_mean_log, factor.log_geomean = np.zeros_like(concentration), np.full_like(concentration, -np.inf)
    factor.parameters = concentration, scale
    _follow(factor)
    factor.version += 1


def _follow(factor: FactorState) -> None:
    """Recompute the derived arrays from the parameters."""
    if factor.is_point:
        refresh_points(factor, 0, factor.layout.rows)
        return
    arrays = *prior_terms(*NO_PRIOR), *factor.parameters, *factor.derived
    refresh_rows(0, factor.layout.rows, *RowShape.of(factor.layout), *arrays)


def refresh_points(factor: FactorState, lo: int, hi: int) -> None:
    """Recompute the statistics of rows lo … hi − 1 of a point: an update without data, prior or exposure."""
    shape, nothing = RowShape.of(factor.layout), (ZERO,) * 5
    rows_point(lo, hi, *shape, *nothing, writable(factor.mean), *factor.derived)


def resumed(layout: Layout, concentration: Array, scale: Array, log_geomean: Array) -> FactorState:
    """Posterior of a checkpoint, with log L as stored: recomputing it may change its last bits."""
    exp_mean_log, shift = np.zeros_like(log_geomean), np.zeros(layout.rows)
    settle_rows(0, layout.rows, *RowShape.of(layout), log_geomean, exp_mean_log, shift)
    return FactorState(layout, (concentration, scale), log_geomean, exp_mean_log, shift)


_ONE, ZERO = np.ones((1, 1)), np.zeros((1, 1))
NO_PRIOR = np.ones((1, 1)), np.full((1, 1), np.inf)  # A and B of a flat prior


def prior_terms(A: Array, B: Array, executor: Executor | None = None) -> list[Array]:
    """A, A/B, log(A/B) and log Γ(A), computed once per group of tied entries."""
    A, B = writable(A), writable(B)
    rate = np.empty(np.broadcast_shapes(A.shape, B.shape))
    log_rate, log_gamma = np.empty_like(rate), np.empty_like(A)

    def rates(lo: int, hi: int) -> float:
        prior_rates(lo, hi, A, B, rate, log_rate)
        return 0.0

    def lgammas(lo: int, hi: int) -> float:
        prior_lgammas(lo, hi, A, log_gamma)
        return 0.0

    _spread(rates, rate.shape, executor)
    _spread(lgammas, A.shape, executor)
    return [A, rate, log_rate, log_gamma]


def solve_concentration(gap: Array, start: Array) -> Array:
    """Solve log A − ψ(A) = gap by Newton's method from `start`, halving instead of going non-positive; clipped."""
    A: Array = np.empty(gap.shape)  # contiguous, so that ravel() is no copy
    np.minimum(np.maximum(start, MIN_CONCENTRATION), MAX_CONCENTRATION, out=A)
    goal = np.maximum(gap, 0.25 / MAX_CONCENTRATION)  # at MAX_CONCENTRATION the gap is about twice this
    _newton(A.ravel(), goal.ravel())
    return A


@exact_kernel
def _newton(A: Array, goal: Array) -> None:
    for n in range(A.size):
        for _ in range(60):
            old = A[n]
            value, slope = log_minus_digamma(old)
            new = old - (value - goal[n]) / slope
            A[n] = min(max(new if new > 0.0 else old / 2.0, MIN_CONCENTRATION), MAX_CONCENTRATION)
            if not abs(A[n] - old) > 1e-10 * old:
                break
