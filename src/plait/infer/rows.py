"""Row kernels: what happens to every entry of a factor in an update, fused, one range of rows a call.

Columns are blocks of `pad`, of which the first `real` count; the rest is padding and stays 0. Arrays of priors,
exposure and rare counts have (rows or 1) × (columns or 1) entries: `at` picks the one that belongs to an entry. (Arrays
broadcast by strides would have another type for every pattern, and numba would compile for each.)
"""

import math

from plait.jit import digamma_lgamma, inlined, kernel


@kernel
def prior_logs(A, rate, log_rate, log_gamma):
    """log rate and log Γ(A), by the functions of the update: a posterior equal to its prior has a KL of exactly 0."""
    for n in range(A.size):
        log_rate[n] = math.log(rate[n]) if rate[n] > 0.0 else 0.0  # padding, or no prior at all
        log_gamma[n] = digamma_lgamma(A[n])[1] if A[n] > 0.0 else 0.0


@inlined
def at(small, row, column):
    """The entry of a small array that belongs to a row and column."""
    return small[row if small.shape[0] > 1 else 0, column if small.shape[1] > 1 else 0]


@kernel
def settle(row, real, pad, log_geomean, geomean, shift):
    """L = exp(log L − its row's maximum)."""
    peak = -math.inf
    for block in range(0, log_geomean.shape[1], pad):
        for c in range(block, block + real):
            peak = max(peak, log_geomean[row, c])
    shift[row] = peak if peak > -math.inf else 0.0
    for block in range(0, log_geomean.shape[1], pad):
        for c in range(block, block + real):
            geomean[row, c] = math.exp(log_geomean[row, c] - shift[row])


@kernel
def settle_rows(lo, hi, real, pad, log_geomean, geomean, shift):
    """Scaled L and shift of rows whose log L is known."""
    for row in range(lo, hi):
        settle(row, real, pad, log_geomean, geomean, shift)


@kernel
def settle_points(lo, hi, real, pad, Z, log_geomean, geomean, shift):
    """log L, scaled L and shift of factors known exactly."""
    for row in range(lo, hi):
        peak = 0.0
        for c in range(Z.shape[1]):
            peak = max(peak, Z[row, c])
        shift[row] = math.log(peak) if peak > 0.0 else 0.0
        for block in range(0, Z.shape[1], pad):
            for c in range(block, block + real):
                log_geomean[row, c] = math.log(Z[row, c]) if Z[row, c] > 0.0 else -math.inf
                geomean[row, c] = Z[row, c] / peak if peak > 0.0 else 0.0


@kernel
def settle_posteriors(lo, hi, real, pad, C, D, log_geomean, geomean, shift):
    """log L, scaled L and shift of Gamma posteriors."""
    for row in range(lo, hi):
        for block in range(0, C.shape[1], pad):
            for c in range(block, block + real):
                log_geomean[row, c] = digamma_lgamma(C[row, c])[0] + math.log(D[row, c])
        settle(row, real, pad, log_geomean, geomean, shift)


@kernel
def rows_vb(
    lo, hi, real, pad, gradient, extra, exposure, A, rate, log_rate, log_gamma, C, D, E, log_geomean, geomean, shift
):
    """New posteriors; returns −KL = −Σ (C−A) ψ(C) − log Γ(C) + log Γ(A) + A log(rate·/rate) − C exposure/rate·.

    rate = A/B, rate· = rate + exposure. Where nothing was observed the sum is exactly 0.
    """
    kl = 0.0
    for row in range(lo, hi):
        for block in range(0, C.shape[1], pad):
            for c in range(block, block + real):
                a = at(A, row, c)
                counts = gradient[row, c] * geomean[row, c] + at(extra, row, c)
                concentration, bottom = a + counts, at(rate, row, c) + at(exposure, row, c)
                psi, lgamma = digamma_lgamma(concentration)
                log_bottom, scale = math.log(bottom), 1.0 / bottom
                C[row, c] = concentration
                D[row, c] = scale
                E[row, c] = concentration * scale
                log_geomean[row, c] = psi - log_bottom
                kl += counts * psi - lgamma + at(log_gamma, row, c)
                kl += a * (log_bottom - at(log_rate, row, c)) - concentration * (at(exposure, row, c) * scale)
        settle(row, real, pad, log_geomean, geomean, shift)
    return -kl


@kernel
def rows_point(
    lo, hi, real, pad, gradient, extra, exposure, A, rate, log_rate, log_gamma, Z, log_geomean, geomean, shift
):
    """New points; returns Σ (A−1) log Z − A Z/B + A log(A/B) − log Γ(A)."""
    density = 0.0
    for row in range(lo, hi):
        for block in range(0, Z.shape[1], pad):
            for c in range(block, block + real):
                a, bottom = at(A, row, c), at(rate, row, c) + at(exposure, row, c)
                counts = gradient[row, c] * geomean[row, c] + at(extra, row, c)
                if bottom > 0.0:
                    Z[row, c] = (a - 1.0 + counts) / bottom
                if a != 1.0:
                    density += (a - 1.0) * math.log(Z[row, c])
                density += a * at(log_rate, row, c) - at(rate, row, c) * Z[row, c] - at(log_gamma, row, c)
        settle_points(row, row + 1, real, pad, Z, log_geomean, geomean, shift)
    return density


@kernel
def kl_rows(rows, real, pad, C, D, A, rate, log_rate, log_gamma):
    """KL(Gamma(C, D) ‖ Gamma(A, 1/rate)) added up."""
    kl = 0.0
    for row in range(rows):
        for block in range(0, C.shape[1], pad):
            for c in range(block, block + real):
                a = at(A, row, c)
                psi, lgamma = digamma_lgamma(C[row, c])
                kl += (C[row, c] - a) * psi - lgamma + at(log_gamma, row, c)
                kl += a * (-math.log(D[row, c]) - at(log_rate, row, c))
                kl += C[row, c] * (D[row, c] * at(rate, row, c) - 1.0)
    return kl
