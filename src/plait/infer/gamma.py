"""Gamma posteriors row by row: C, D -> E, log L, scaled L and the part of the bound, fused and threaded.

Every row of L is divided by its maximum before exp, so that nothing underflows as a whole; the logarithm of that
maximum is the row's `shift`, added back in the bound and under Bernoulli. Padding columns stay 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from plait.compile.layout import Layout
from plait.execute import Executor
from plait.infer.rows import kl_rows, prior_logs, rows_point, rows_vb, settle_points, settle_posteriors, settle_rows

Array = NDArray[np.float64]


@dataclass
class Factor:
    """One factor while a fit runs; arrays are as stored and updated in place, by this module only.

    VB: `concentration` C and `scale` D of the posterior. EM, MAP and given factors: both None, and E = L = Z.
    """

    layout: Layout
    mean: Array  # E
    log_geomean: Array  # log L
    geomean: Array  # L, every row divided by its maximum
    shift: Array  # log of that maximum, one a row
    concentration: Array | None = None
    scale: Array | None = None
    version: int = 0  # grows with every update: what was computed from the factor can be kept until then

    @property
    def derived(self) -> tuple[Array, Array, Array, Array]:
        """What every update sets besides the posterior's parameters."""
        return self.mean, self.log_geomean, self.geomean, self.shift


def point(layout: Layout, stored: Array) -> Factor:
    """A factor known exactly (EM, MAP, given)."""
    factor = Factor(layout, stored, np.full(stored.shape, -np.inf), np.zeros(stored.shape), np.zeros(layout.rows))
    settle_points(0, layout.rows, layout.real, layout.pad, stored, factor.log_geomean, factor.geomean, factor.shift)
    return factor


def posterior(layout: Layout, concentration: Array, scale: Array) -> Factor:
    """A factor with a Gamma posterior; `concentration` and `scale` are stored arrays with padding 0."""
    shape = concentration.shape
    factor = Factor(
        layout,
        concentration * scale,
        np.full(shape, -np.inf),
        np.zeros(shape),
        np.zeros(layout.rows),
        concentration,
        scale,
    )
    columns = layout.real, layout.pad
    settle_posteriors(0, layout.rows, *columns, concentration, scale, factor.log_geomean, factor.geomean, factor.shift)
    return factor


def resumed(layout: Layout, concentration: Array, scale: Array, log_geomean: Array) -> Factor:
    """A posterior as an update left it: log L is given, for its last bits are those of that update."""
    geomean, shift = np.zeros(log_geomean.shape), np.zeros(layout.rows)
    settle_rows(0, layout.rows, layout.real, layout.pad, log_geomean, geomean, shift)
    return Factor(layout, concentration * scale, log_geomean, geomean, shift, concentration, scale)


@dataclass(frozen=True)
class Evidence:
    """What the data say about a factor: gradients of F, counts of rare entries beside them, and the exposure."""

    gradient: Array
    extra: Array | None
    exposure: Array  # (rows or 1) × (columns or 1)


def update_vb(factor: Factor, evidence: Evidence, A: Array, B: Array, executor: Executor) -> float:
    """C = A + counts, D = 1/(A/B + exposure) in place; returns −KL(posterior ‖ prior)."""
    arrays = (*_inputs(factor, evidence, A, B), factor.concentration, factor.scale, *factor.derived)

    def work(lo: int, hi: int) -> float:
        return float(rows_vb(lo, hi, *arrays))

    factor.version += 1
    return executor.rows(work, factor.layout.rows)


def update_map(factor: Factor, evidence: Evidence, A: Array, B: Array, executor: Executor) -> float:
    """Z = (A − 1 + counts)/(A/B + exposure) in place; returns the log prior density of Z."""
    arrays = (*_inputs(factor, evidence, A, B), *factor.derived)

    def work(lo: int, hi: int) -> float:
        return float(rows_point(lo, hi, *arrays))

    factor.version += 1
    return executor.rows(work, factor.layout.rows)


def update_em(factor: Factor, evidence: Evidence, executor: Executor) -> None:
    """Z = counts/exposure in place (exposure 0: Z is kept): MAP under a flat prior, whose density says nothing."""
    flat = np.ones((1, 1))
    update_map(factor, evidence, flat, flat * np.inf, executor)


def _inputs(factor: Factor, evidence: Evidence, A: Array, B: Array) -> tuple[Any, ...]:
    """What the row kernels read: the shape of a row, the gradient, then arrays of (rows or 1) × (columns or 1)."""
    layout, extra = factor.layout, np.zeros((1, 1)) if evidence.extra is None else evidence.extra
    return layout.real, layout.pad, evidence.gradient, extra, _writable(evidence.exposure), *_prior(A, B)


def _writable(array: Array) -> Array:
    """A contiguous array that numba knows by the same type as all others."""
    array = np.ascontiguousarray(array)
    return array if array.flags.writeable else array.copy()


def _prior(A: Array, B: Array) -> list[Array]:
    """A, A/B, log(A/B) and log Γ(A), each computed once for every group of tied entries."""
    A, B = np.broadcast_arrays(A, B)
    a, rate = np.array(A, order="C"), np.zeros(A.shape)
    np.divide(A, B, out=rate, where=B > 0)  # padding holds 0
    log_rate, log_gamma = np.empty(A.shape), np.empty(A.shape)
    prior_logs(a.ravel(), rate.ravel(), log_rate.ravel(), log_gamma.ravel())
    return [a, rate, log_rate, log_gamma]


def divergence(factor: Factor, A: Array, B: Array) -> float:
    """−KL(posterior ‖ prior) of a factor as it is."""
    layout = factor.layout
    C, D = factor.concentration, factor.scale
    return -float(kl_rows(layout.rows, layout.real, layout.pad, C, D, *_prior(A, B)))


def log_density(factor: Factor, A: Array, B: Array) -> float:
    """Log prior density of a factor known exactly."""
    layout = factor.layout
    Z = layout.unpack(factor.mean)
    a, b = (layout.unpack(np.array(np.broadcast_to(small, factor.mean.shape))) for small in (A, B))
    return float(np.sum(xlogy(a - 1.0, Z) - a * Z / b + a * np.log(a / b) - gammaln(a)))
