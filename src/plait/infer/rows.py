"""Row kernels: what happens to every entry of a factor in an update, fused, one range of rows a call.

Columns are blocks of `pad`, of which the first `real` count; the rest is padding and stays 0. Arrays of priors,
exposure and rare counts are broadcast to the factor's stored shape by the caller.
"""

import math

from plait.jit import digamma_lgamma, kernel


@kernel
def lgamma_all(x, out):
    """log Γ of every number."""
    for n in range(x.size):
        out[n] = digamma_lgamma(max(x[n], 1e-300))[1]  # padding holds 0


@kernel
def settle(row, real, pad, log_geomean, geomean, shift):
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
def settle_points(lo, hi, real, pad, Z, log_geomean, geomean, shift):
    """log L, scaled L and shift of factors known exactly."""
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
def settle_posteriors(lo, hi, real, pad, C, D, log_geomean, geomean, shift):
    """log L, scaled L and shift of Gamma posteriors."""
    for row in range(lo, hi):
        for c in range(C.shape[1]):
            if c % pad < real:
                log_geomean[row, c] = digamma_lgamma(C[row, c])[0] + math.log(D[row, c])
        settle(row, real, pad, log_geomean, geomean, shift)


@kernel
def rows_vb(lo, hi, real, pad, gradient, extra, exposure, A, B, log_gamma, C, D, E, log_geomean, geomean, shift):
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
        settle(row, real, pad, log_geomean, geomean, shift)
    return -kl


@kernel
def rows_point(lo, hi, real, pad, gradient, extra, exposure, A, B, log_gamma, Z, log_geomean, geomean, shift):
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
        settle_points(row, row + 1, real, pad, Z, log_geomean, geomean, shift)
    return density


@kernel
def kl_rows(rows, real, pad, C, D, A, B, log_gamma):
    """KL(Gamma(C, D) ‖ Gamma(A, B/A)) added up."""
    kl = 0.0
    for row in range(rows):
        for c in range(C.shape[1]):
            if c % pad < real:
                a, scale = A[row, c], B[row, c] / A[row, c]
                psi, lgamma = digamma_lgamma(C[row, c])
                kl += (C[row, c] - a) * psi - lgamma + log_gamma[row, c]
                kl += a * math.log(scale / D[row, c]) + C[row, c] * (D[row, c] / scale - 1.0)
    return kl
