"""Gamma posteriors row by row: C, D -> E, log L, scaled L and the part of the bound, fused and threaded.

Every row of L is divided by its maximum before exp, so that nothing underflows as a whole; the logarithm of that
maximum is the row's `shift`, added back in the bound and under Bernoulli. Padding columns stay 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from scipy.special import gammaln, psi, xlogy

from plait.compile.layout import Layout
from plait.execute import Executor
from plait.execute.executor import Gradient, here
from plait.execute.threads import LIGHT
from plait.infer.away import Movable, RowShape, change_points, change_vb, writable
from plait.infer.rows import (
    density_rows,
    dot_logs,
    dot_rows,
    kl_rows,
    prior_lgammas,
    prior_rates,
    rows_place,
    rows_point,
    rows_twice,
    rows_vb,
    settle_points,
    settle_rows,
    sum_rows,
)
from plait.jit import WIDTH
from plait.types import Array


@dataclass
class FactorState(Movable):
    """One factor while a fit runs; arrays are as stored and updated in place, by this module only.

    parameters: what it is made from, C and D of a posterior (VB), or Z of a point (EM, MAP, given), whose E = L = Z.
    Where workers own its rows, these come here when they are looked at.
    """

    layout: Layout
    parameters: tuple[Array, ...]
    log_geomean: Array  # log L
    geomean: Array  # L, every row divided by its maximum
    shift: Array  # log of that maximum, one a row
    version: int = 0  # grows with every update: what was computed from the factor can be kept until then
    _totals: dict[str, tuple[int, Array]] = field(default_factory=dict, init=False, repr=False)
    _mean: tuple[int, Array] | None = field(default=None, init=False, repr=False)

    @property
    def is_point(self) -> bool:
        """Whether it is known exactly."""
        return len(self.parameters) == 1

    @property
    def mean(self) -> Array:
        """E as stored. That of a posterior is a product: it is made when asked for, and then kept for the next time."""
        if self.is_point:
            return self.parameters[0]
        C, D = self.parameters
        if self._mean is None:
            self._mean = self.version, C * D
        elif self._mean[0] != self.version:
            self._mean = self.version, np.multiply(C, D, out=self._mean[1])
        return self._mean[1]

    def rows_of(self, name: "Moment", lo: int, hi: int) -> Array:
        """Some rows of E or log L; to be read only."""
        if name == "log_geomean":
            return self.log_geomean[lo:hi]
        first, *others = (array[lo:hi] for array in self.parameters)
        return first * others[0] if others else first

    @property
    def derived(self) -> tuple[Array, Array, Array]:
        """What every update sets besides the parameters."""
        return self.log_geomean, self.geomean, self.shift

    @property
    def shared(self) -> "FactorState":
        """The rows that pairs share, of a factor over pairs; views."""
        assert self.layout.pairs is not None
        own = slice(len(self.layout.pairs), None)
        parameters = tuple(array[own] for array in self.parameters)
        log_geomean, geomean, shift = (array[own] for array in self.derived)
        return FactorState(self.layout.shared, parameters, log_geomean, geomean, shift, self.version)

    def tell_total(self, total: Array) -> None:
        """Say what Σ of E over all rows is, for as long as the factor does not change."""
        self._totals["mean"] = self.version, total

    def forget_totals(self) -> None:
        """Let all that was computed from the factor be computed anew."""
        self._totals.clear()
        self.version += 1

    def total(self, name: "Moment", executor: Executor) -> Array:
        """Σ of E or log L over all rows, as stored; kept until the factor changes."""
        version, total = self._totals.get(name, (-1, self.shift))
        if version != self.version:
            total = sum_over_rows(self, name, executor)
            self._totals[name] = self.version, total
        return total


Moment = Literal["mean", "log_geomean"]


def sum_over_rows(
    factor: FactorState, name: Moment, executor: Executor, weights: Array | None = None, rows: "Range | None" = None
) -> Array:
    """Σ of E or log L over all rows, or some; weights: (rows, 1), by which all rows are multiplied."""
    (first, last), columns, parts = rows or (0, factor.layout.rows), factor.layout.columns, dict[int, Array]()

    def work(lo: int, hi: int) -> float:
        parts[lo] = np.zeros((1, max(columns, WIDTH)))
        stored = factor.rows_of(name, first + lo, first + hi)
        sum_rows(0, hi - lo, stored, _ONE if weights is None else weights[lo:hi], parts[lo])
        return 0.0

    _spread(work, (last - first, columns), executor)
    return sum((parts[lo] for lo in sorted(parts)), np.zeros(1))[0, :columns]


def dot_log(counts: Array, factor: FactorState, executor: Executor, rows: "Range", *, scaled: bool) -> float:
    """Σ counts · log L of some rows, 0 where there is no count; scaled: of L divided by its rows' maxima."""
    shift = factor.shift if scaled else _NONE[0]
    arrays = factor.layout.real, factor.layout.pad, counts, factor.log_geomean, shift
    return _in_range(lambda lo, hi: float(dot_logs(lo, hi, *arrays)), rows, counts.shape[1], executor)


def add_up(arrays: Sequence[Array], executor: Executor) -> Array:
    """The sum of arrays with the same rows, or one row, each."""
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


def join(gradients: Sequence[Gradient], executor: Executor) -> Gradient:
    """The sum of gradients, here; one that is alone stays where it is."""
    return gradients[0] if len(gradients) == 1 else add_up([here(gradient) for gradient in gradients], executor)


def latent(layout: Layout, row: Array) -> Array:
    """One row as stored -> its latent entries, without padding."""
    sizes = layout.sizes[len(layout.visible) :]
    return row.reshape(*sizes[:-1], layout.pad)[..., : layout.real] if sizes else row[0]


def dot_mean(factor: FactorState, other: Array, executor: Executor) -> float:
    """Σ of all products of E with an array of rows × (columns or 1)."""
    other = writable(other)

    def work(lo: int, hi: int) -> float:
        return float(dot_rows(0, hi - lo, factor.rows_of("mean", lo, hi), other[lo:hi]))

    return _spread(work, factor.geomean.shape, executor)


def _spread(work: Callable[[int, int], float], shape: tuple[int, ...], executor: Executor | None) -> float:
    """Run light work over rows of so many columns: on threads only if there is enough of it."""
    rows, columns = shape
    if executor is None or rows * columns < LIGHT:
        return work(0, rows)
    return executor.rows(work, rows, columns)


def point(layout: Layout, stored: Array) -> FactorState:
    """A factor known exactly (EM, MAP, given)."""
    return _made(layout, stored)


def posterior(layout: Layout, concentration: Array, scale: Array) -> FactorState:
    """A factor with a Gamma posterior; `concentration` and `scale` are stored arrays with padding 0."""
    return _made(layout, concentration, scale)


def _made(layout: Layout, *parameters: Array) -> FactorState:
    log_geomean = np.full_like(parameters[0], -np.inf)
    factor = FactorState(layout, parameters, log_geomean, np.zeros_like(log_geomean), np.zeros(layout.rows))
    _follow(factor)
    return factor


def rescale(factor: FactorState, scale: float) -> None:
    """Multiply a factor by a constant, in place."""
    factor.come_home()
    factor.parameters[-1][...] *= scale
    _follow(factor)
    factor.version += 1


def become_posterior(factor: FactorState, concentration: Array, scale: Array) -> None:
    """Make a posterior of a point, in the point's own arrays where these are numbers of the same type."""
    if factor.geomean.dtype != concentration.dtype:
        factor.geomean, factor.log_geomean = np.zeros_like(concentration), np.full_like(concentration, -np.inf)
    factor.parameters = concentration, scale
    _follow(factor)
    factor.version += 1


def _follow(factor: FactorState) -> None:
    """Let all else follow the parameters."""
    rows, (real, pad, scaled) = factor.layout.rows, RowShape.of(factor.layout)
    arrays = *factor.parameters, *factor.derived
    if factor.is_point:
        settle_points(0, rows, real, pad, scaled, *arrays)
    else:
        rows_place(0, rows, real, pad, scaled, *prior_terms(*_FLAT), *arrays)


def resumed(layout: Layout, concentration: Array, scale: Array, log_geomean: Array) -> FactorState:
    """A posterior as an update left it: log L is given, for its last bits are those of that update."""
    geomean, shift = np.zeros_like(log_geomean), np.zeros(layout.rows)
    settle_rows(0, layout.rows, *RowShape.of(layout), log_geomean, geomean, shift)
    return FactorState(layout, (concentration, scale), log_geomean, geomean, shift)


_ONE, _NONE = np.ones((1, 1)), np.zeros((1, 1))
_FLAT = np.ones((1, 1)), np.full((1, 1), np.inf)  # A and B of no prior at all


@dataclass(frozen=True)
class RowEvidence:
    """What the data say about a factor: gradients of F, counts of rare entries beside them, and the exposure.

    twice: the exposure from terms in which the factor stands twice, at its present mean; `exposure`: from others.
    """

    gradient: Gradient
    extra: Array | None
    exposure: Array  # (rows or 1) × (columns or 1)
    twice: Array | None = None

    def stays_away(self, factor: FactorState, prior: "PriorTerms") -> bool:
        """Whether workers have the gradient, and need nothing else that differs from row to row; else all come home."""
        alike = all(len(array) == 1 for array in (self.exposure, *prior))
        factor.movable = factor.movable and alike and self.extra is None and self.twice is None
        return factor.movable and not isinstance(self.gradient, np.ndarray)

    def joined(self, factor: FactorState, A: Array, rate: Array, executor: Executor) -> "RowEvidence":
        """The same for an update here, with one exposure, by which the plain one is that of a factor standing twice."""
        factor.come_home()
        gradient = here(self.gradient)
        if self.twice is None:
            return replace(self, gradient=gradient)
        whole, extra = np.zeros(factor.geomean.shape), _NONE if self.extra is None else self.extra
        exposure, twice = writable(self.exposure), writable(self.twice)
        arrays = gradient, extra, exposure, twice, writable(A), rate, factor.mean, factor.geomean, whole

        def work(lo: int, hi: int) -> float:
            rows_twice(lo, hi, factor.layout.real, factor.layout.pad, *arrays)
            return 0.0

        executor.rows(work, *factor.geomean.shape)
        return RowEvidence(gradient, self.extra, whole)


def update_vb(
    factor: FactorState, evidence: RowEvidence, prior: "PriorTerms", executor: Executor, rows: "Range | None" = None
) -> float:
    """C = A + counts, D = 1/(A/B + exposure) in place, of all rows or of some; returns their −KL(posterior ‖ prior)."""
    if evidence.stays_away(factor, prior):
        return factor.change_there(evidence.gradient, change_vb, evidence.exposure, *prior)
    inputs = _inputs(factor, evidence.joined(factor, prior[0], prior[1], executor), prior)
    arrays = *inputs, *factor.parameters, *factor.derived

    def work(lo: int, hi: int) -> float:
        return float(rows_vb(lo, hi, *arrays))

    factor.version += 1
    return _over_rows(work, factor, prior, _divergences, executor, rows)


def update_map(
    factor: FactorState, evidence: RowEvidence, prior: "PriorTerms", executor: Executor, rows: "Range | None" = None
) -> float:
    """Z = (A − 1 + counts)/(A/B + exposure) in place; returns the log prior density of Z."""
    if evidence.stays_away(factor, prior):
        return factor.change_there(evidence.gradient, change_points, evidence.exposure, *prior)
    evidence = evidence.joined(factor, prior[0] - 1.0, prior[1], executor)
    arrays = *_inputs(factor, evidence, prior[:2]), *factor.parameters, *factor.derived
    density = _density(factor, prior)

    def work(lo: int, hi: int) -> float:
        rows_point(lo, hi, *arrays)
        return density(lo, hi)

    factor.version += 1
    return _over_rows(work, factor, prior, _densities, executor, rows)


def update_em(factor: FactorState, evidence: RowEvidence, executor: Executor, rows: "Range | None" = None) -> None:
    """Z = counts/exposure in place (exposure 0: Z is kept): MAP under a flat prior, whose density says nothing."""
    flat = prior_terms(*_FLAT)[:2]
    if evidence.stays_away(factor, flat):
        factor.change_there(evidence.gradient, change_points, evidence.exposure, *flat)
        return
    inputs = _inputs(factor, evidence.joined(factor, _NONE, flat[1], executor), flat)
    arrays = *inputs, *factor.parameters, *factor.derived

    def work(lo: int, hi: int) -> float:
        rows_point(lo, hi, *arrays)
        return 0.0

    factor.version += 1
    _in_range(work, rows or (0, factor.layout.rows), factor.layout.columns, executor)


def place_vb(factor: FactorState, A: Array, B: Array, executor: Executor) -> float:
    """Let a factor follow its C and D, which were changed in place, here; returns −KL(posterior ‖ prior)."""
    prior = prior_terms(A, B, executor)
    arrays = *RowShape.of(factor.layout), *prior, *factor.parameters, *factor.derived

    def work(lo: int, hi: int) -> float:
        return float(rows_place(lo, hi, *arrays))

    factor.version += 1
    return _over_rows(work, factor, prior, _divergences, executor)


def place_em(factor: FactorState, executor: Executor) -> None:
    """Let a factor follow its Z, which were changed in place."""

    def work(lo: int, hi: int) -> float:
        settle_points(lo, hi, *RowShape.of(factor.layout), factor.mean, *factor.derived)
        return 0.0

    factor.version += 1
    executor.rows(work, *factor.geomean.shape)


def place_map(factor: FactorState, A: Array, B: Array, executor: Executor) -> float:
    """The same; returns the log prior density of Z."""
    place_em(factor, executor)
    prior = prior_terms(A, B, executor)
    return _over_rows(_density(factor, prior), factor, prior, _densities, executor)


def divergence(factor: FactorState, A: Array, B: Array) -> float:
    """−KL(posterior ‖ prior) of a factor as it is."""
    layout, prior = factor.layout, prior_terms(A, B)
    arrays = layout.real, layout.pad, *factor.parameters, *prior
    return _over_rows(lambda lo, hi: -float(kl_rows(lo, hi, *arrays)), factor, prior, _divergences, None)


def log_density(factor: FactorState, A: Array, B: Array) -> float:
    """Log prior density of a factor known exactly."""
    prior = prior_terms(A, B)
    return _over_rows(_density(factor, prior), factor, prior, _densities, None)


def _over_rows(
    work: Callable[[int, int], float],
    factor: FactorState,
    prior: Sequence[Array],
    again: "Again",
    executor: Executor | None,
    some: "Range | None" = None,
) -> float:
    """Work over all rows, and what it returns added up; rows that pairs share count as often as there are pairs.

    again: the same of these rows alone, (rows, columns).
    """
    (rows, columns), pairs = factor.geomean.shape, factor.layout.pairs
    if some is not None:
        return _in_range(work, some, columns, executor)
    own = rows if pairs is None else len(pairs)
    result = work(0, own) if executor is None else executor.rows(work, own, columns)
    if pairs is None:
        return result
    work(own, rows)
    shared, shape = factor.shared, (rows - own, columns)
    here = (np.broadcast_to(array[own:] if len(array) > 1 else array, shape) for array in prior)
    parts = again(shared, *(shared.layout.unpack(array) for array in here))
    return result + float(pairs.others @ parts.reshape(len(parts), -1).sum(axis=1))


def _in_range(work: Callable[[int, int], float], rows: "Range", columns: int, executor: Executor | None) -> float:
    """Work over some rows, and what it returns added up."""
    first, last = rows
    if executor is None:
        return work(first, last)
    return executor.rows(lambda lo, hi: work(first + lo, first + hi), last - first, columns)


Again = Callable[[FactorState, Array, Array, Array, Array], Array]
Range = tuple[int, int]  # of rows
PriorTerms = Sequence[Array]  # A, A/B, log(A/B) and log Γ(A)


def _divergences(factor: FactorState, A: Array, rate: Array, log_rate: Array, log_gamma: Array) -> Array:
    """−KL of every entry."""
    C, D = (np.asarray(factor.layout.unpack(a), np.float64) for a in factor.parameters)
    kl = (C - A) * psi(C) + log_gamma - gammaln(C) - A * (np.log(D) + log_rate) + C * (D * rate - 1.0)
    return np.asarray(-kl)


def _densities(factor: FactorState, A: Array, rate: Array, log_rate: Array, log_gamma: Array) -> Array:
    """The log prior density of every entry."""
    Z = np.asarray(factor.layout.unpack(factor.mean), np.float64)
    return np.asarray(xlogy(A - 1.0, Z) - rate * Z + A * log_rate - log_gamma)


def _density(factor: FactorState, prior: Sequence[Array]) -> Callable[[int, int], float]:
    """The log prior density of some rows of a factor known exactly."""
    columns = factor.layout.real, factor.layout.pad
    return lambda lo, hi: float(density_rows(lo, hi, *columns, factor.mean, factor.log_geomean, *prior))


def _inputs(factor: FactorState, evidence: RowEvidence, prior: Sequence[Array]) -> tuple[Any, ...]:
    """What the row kernels read: the shape of a row, the gradient, then arrays of (rows or 1) × (columns or 1)."""
    extra = _NONE if evidence.extra is None else evidence.extra
    return *RowShape.of(factor.layout), evidence.gradient, extra, writable(evidence.exposure), *prior


def prior_terms(A: Array, B: Array, executor: Executor | None = None) -> list[Array]:
    """A, A/B, log(A/B) and log Γ(A), each computed once for every group of tied entries."""
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
