"""Gamma posteriors row by row: C, D -> E, log L, scaled L and the part of the bound, fused and threaded.

Every row of L is divided by its maximum before exp, so that nothing underflows as a whole; the logarithm of that maximum is
the row's `shift`, added back in the bound and under Bernoulli. Padding columns stay 0.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait.compile.layout import Layout
from plait.execute import Executor
from plait.jit import digamma_lgamma, kernel

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


def point(layout: Layout, stored: Array) -> Factor:
    """A factor known exactly (EM, MAP, given)."""
    factor = Factor(layout, stored, np.full(stored.shape, -np.inf), np.zeros(stored.shape), np.zeros(layout.rows))
    _settle_points(0, layout.rows, layout.real, layout.pad, stored, factor.log_geomean, factor.geomean, factor.shift)
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
    _settle_posterior(0, layout.rows, *columns, concentration, scale, factor.log_geomean, factor.geomean, factor.shift)
    return factor


@dataclass(frozen=True)
class Evidence:
    """What the data say about a factor: gradients of F, counts of rare entries beside them, and the exposure."""

    gradient: Array
    extra: Array | None
    exposure: Array  # (rows or 1) × (columns or 1)


def update_vb(factor: Factor, evidence: Evidence, A: Array, B: Array, executor: Executor) -> float:
    """C = A + counts, D = 1/(A/B + exposure) in place; returns −KL(posterior ‖ prior)."""
    assert factor.concentration is not None
    assert factor.scale is not None
    spread, columns = _spreader(factor), (factor.layout.real, factor.layout.pad)
    a, b, log_gamma = spread(A), spread(B), spread(_lgamma(A))
    extra, exposure = spread(_or_zero(evidence.extra)), spread(evidence.exposure)

    def work(lo: int, hi: int) -> float:
        return _rows_vb(
            lo, hi, *columns, evidence.gradient, extra, exposure, a, b, log_gamma,
            factor.concentration, factor.scale, factor.mean, factor.log_geomean, factor.geomean, factor.shift,
        )  # fmt: skip

    factor.version += 1
    return executor.rows(work, factor.layout.rows)


def update_em(factor: Factor, evidence: Evidence, executor: Executor) -> float:
    """Z = counts/exposure in place (exposure 0: Z is kept); maximum likelihood has no prior term."""
    return _update_point(factor, evidence, None, None, executor)


def update_map(factor: Factor, evidence: Evidence, A: Array, B: Array, executor: Executor) -> float:
    """Z = (A − 1 + counts)/(A/B + exposure) in place; returns the log prior density of Z."""
    return _update_point(factor, evidence, A, B, executor)


def _update_point(factor: Factor, evidence: Evidence, A: Array | None, B: Array | None, executor: Executor) -> float:
    spread, columns = _spreader(factor), (factor.layout.real, factor.layout.pad)
    flat = A is None or B is None  # no prior: A = 1 with infinite mean, whose density is left out
    one = np.ones((1, 1))
    a, b, log_gamma = (
        (spread(one), spread(one * np.inf), spread(one)) if flat else (spread(A), spread(B), spread(_lgamma(A)))
    )  # type: ignore[arg-type]
    extra, exposure = spread(_or_zero(evidence.extra)), spread(evidence.exposure)

    def work(lo: int, hi: int) -> float:
        density = _rows_point(
            lo, hi, *columns, evidence.gradient, extra, exposure, a, b, log_gamma,
            factor.mean, factor.log_geomean, factor.geomean, factor.shift,
        )  # fmt: skip
        return 0.0 if flat else density

    factor.version += 1
    return executor.rows(work, factor.layout.rows)


def divergence(factor: Factor, A: Array, B: Array) -> float:
    """−KL(posterior ‖ prior) of a factor as it is."""
    spread = _spreader(factor)
    layout = factor.layout
    return -float(
        _kl_rows(
            layout.rows, layout.real, layout.pad, factor.concentration, factor.scale,
            spread(A), spread(B), spread(_lgamma(A)),
        )
    )  # fmt: skip


def log_density(factor: Factor, A: Array, B: Array) -> float:
    """Log prior density of a factor known exactly."""
    layout, Z = factor.layout, factor.layout.unpack(factor.mean)
    a, b = (_inside(layout, prior) for prior in (A, B))
    from scipy.special import gammaln, xlogy

    return float(np.sum(xlogy(a - 1.0, Z) - a * Z / b + a * np.log(a / b) - gammaln(a) + 0.0 * Z))


def _inside(layout: Layout, prior: Array) -> Array:
    return layout.unpack(np.array(np.broadcast_to(prior, (layout.rows, layout.columns))))


def _spreader(factor: Factor):  # type: ignore[no-untyped-def]
    shape = factor.mean.shape
    return lambda small: np.broadcast_to(small, shape)


def _or_zero(extra: Array | None) -> Array:
    return np.zeros((1, 1)) if extra is None else extra


def _lgamma(A: Array) -> Array:
    """log Γ by the kernels' own function, so that a posterior equal to its prior has a KL of exactly 0."""
    flat = np.ascontiguousarray(A).ravel()
    out = np.empty_like(flat)
    _lgamma_all(flat, out)
    return out.reshape(A.shape)


@kernel
def _lgamma_all(x, out):  # type: ignore[no-untyped-def]
    for n in range(x.size):
        out[n] = digamma_lgamma(max(x[n], 1e-300))[1]  # padding holds 0


@kernel
def _settle(row, real, pad, log_geomean, geomean, shift):  # type: ignore[no-untyped-def]
    """L = exp(log L − its row's maximum)."""
    peak = -math.inf
    for c in range(log_geomean.shape[1]):
        if c % pad < real:
            peak = max(peak, log_geomean[row, c])
    shift[row] = peak if peak > -math.inf else 0.0
    for c in range(log_geomean.shape[1]):
        if c % pad < real:
            geomean[row, c] = math.exp(log_geomean[row, c] - shift[row])


@kernel
def _settle_points(lo, hi, real, pad, Z, log_geomean, geomean, shift):  # type: ignore[no-untyped-def]
    for row in range(lo, hi):
        peak = 0.0
        for c in range(Z.shape[1]):
            peak = max(peak, Z[row, c])
        shift[row] = math.log(peak) if peak > 0.0 else 0.0
        for c in range(Z.shape[1]):
            if c % pad < real:
                log_geomean[row, c] = math.log(Z[row, c]) if Z[row, c] > 0.0 else -math.inf
                geomean[row, c] = Z[row, c] / peak if peak > 0.0 else 0.0


@kernel
def _settle_posterior(lo, hi, real, pad, C, D, log_geomean, geomean, shift):  # type: ignore[no-untyped-def]
    for row in range(lo, hi):
        for c in range(C.shape[1]):
            if c % pad < real:
                log_geomean[row, c] = digamma_lgamma(C[row, c])[0] + math.log(D[row, c])
        _settle(row, real, pad, log_geomean, geomean, shift)


@kernel
def _rows_vb(  # type: ignore[no-untyped-def]
    lo, hi, real, pad, gradient, extra, exposure, A, B, log_gamma, C, D, E, log_geomean, geomean, shift
):
    """−KL = −Σ (C−A) ψ(C) − log Γ(C) + log Γ(A) + A log(1+t) − C t/(1+t),  t = exposure · B/A."""
    kl = 0.0
    for row in range(lo, hi):
        for c in range(C.shape[1]):
            if c % pad < real:
                a = A[row, c]
                counts = gradient[row, c] * geomean[row, c] + extra[row, c]
                rate = a / B[row, c]
                t = exposure[row, c] / rate
                c_new = a + counts
                psi, lgamma = digamma_lgamma(c_new)
                log1t = math.log1p(t)
                C[row, c] = c_new
                D[row, c] = 1.0 / (rate + exposure[row, c])
                E[row, c] = c_new * D[row, c]
                log_geomean[row, c] = psi - math.log(rate + exposure[row, c])
                kl += counts * psi - lgamma + log_gamma[row, c] + a * log1t - c_new * (t / (1.0 + t))
        _settle(row, real, pad, log_geomean, geomean, shift)
    return -kl


@kernel
def _rows_point(  # type: ignore[no-untyped-def]
    lo, hi, real, pad, gradient, extra, exposure, A, B, log_gamma, Z, log_geomean, geomean, shift
):
    """Returns Σ (A−1) log Z − A Z/B + A log(A/B) − log Γ(A)."""
    density = 0.0
    for row in range(lo, hi):
        for c in range(Z.shape[1]):
            if c % pad < real:
                a = A[row, c]
                rate = a / B[row, c]
                counts = gradient[row, c] * geomean[row, c] + extra[row, c]
                bottom = rate + exposure[row, c]
                if bottom > 0.0:
                    Z[row, c] = (a - 1.0 + counts) / bottom
                z = Z[row, c]
                if a != 1.0:
                    density += (a - 1.0) * math.log(z)
                density += a * math.log(rate) - rate * z - log_gamma[row, c]
        _settle_points(row, row + 1, real, pad, Z, log_geomean, geomean, shift)
    return density


@kernel
def _kl_rows(rows, real, pad, C, D, A, B, log_gamma):  # type: ignore[no-untyped-def]
    kl = 0.0
    for row in range(rows):
        for c in range(C.shape[1]):
            if c % pad < real:
                a, scale = A[row, c], B[row, c] / A[row, c]
                psi, lgamma = digamma_lgamma(C[row, c])
                kl += (C[row, c] - a) * psi - lgamma + log_gamma[row, c]
                kl += a * math.log(scale / D[row, c]) + C[row, c] * (D[row, c] / scale - 1.0)
    return kl
