"""Row kernels: fused update of every entry of a factor, for a range of rows (docs/math.md, sections 2 to 4).

Columns are blocks of `pad`, of which the first `real` count; the rest is padding and stays 0 (−∞ in log L). Arrays of
priors, exposure and underflow counts have shape (n_rows or 1, n_columns or 1), and `read` broadcasts them. Broadcasting
by strides would give a type per pattern, each compiled by numba.

Stored arrays may be float32; arithmetic is in float64 and exact, so a posterior equal to its prior has a KL of 0.
"""

import math

import numpy as np

from plait.jit import (
    WIDTH,
    cut,
    digamma_lgamma8,
    exact_kernel,
    exp8,
    first,
    inlined,
    largest,
    load,
    log8,
    log_any8,
    maximum,
    root,
    rounded,
    splat,
    store,
    total,
    where_positive,
)

N_TERMS = 6  # rows of the buffer of `find_terms`


@inlined
def read(array, row, column):
    """WIDTH columns of a row of a broadcast array."""
    own = np.uint64(row if array.shape[0] > 1 else 0)
    return load(array, own, column) if array.shape[1] > 1 else splat(np.float64(array[own, 0]))


@inlined
def write(array, row, column, value):
    """Set WIDTH columns of a row, or the only one."""
    if array.shape[1] > 1:
        store(array, np.uint64(row), column, value)
    else:
        array[row, 0] = first(value)


@exact_kernel
def prior_rates(lo, hi, A, B, rate, log_rate):
    """A/B and its logarithm; 0 in padding and without a prior."""
    none = splat(0.0)
    for row in range(lo, hi):
        for c in range(0, rate.shape[1], WIDTH):
            b = read(B, row, c)
            ratio = where_positive(b, read(A, row, c) / b, none)
            write(rate, row, c, ratio)
            write(log_rate, row, c, where_positive(ratio, log_any8(ratio), none))


@exact_kernel
def prior_lgammas(lo, hi, A, log_gamma):
    """log Γ(A) by the function that updates use; 0 in padding."""
    for row in range(lo, hi):
        for c in range(0, A.shape[1], WIDTH):
            a = read(A, row, c)
            write(log_gamma, row, c, where_positive(a, digamma_lgamma8(a)[1], splat(0.0)))


@inlined
def settle(row, real, pad, scaled, peaks, log_geomean, exp_mean_log, shift):
    """L = exp(log L − maximum of the row), with the maximum among `peaks`; L itself if not `scaled`."""
    peak = largest(peaks)
    peak = peak if scaled and peak > -math.inf else 0.0
    shift[row] = peak
    peaks = splat(peak)
    for block in range(0, log_geomean.shape[1], pad):
        for c in range(block, block + real, WIDTH):
            write(exp_mean_log, row, c, exp8(read(log_geomean, row, c) - peaks))


@exact_kernel
def settle_rows(lo, hi, real, pad, scaled, log_geomean, exp_mean_log, shift):
    """Scaled L and shift of rows, from log L."""
    for row in range(lo, hi):
        peaks = splat(-math.inf)
        for block in range(0, log_geomean.shape[1], pad):
            for c in range(block, block + real, WIDTH):
                peaks = maximum(peaks, cut(read(log_geomean, row, c), block + real - c, -math.inf))
        settle(row, real, pad, scaled, peaks, log_geomean, exp_mean_log, shift)


@inlined
def settle_point(row, real, pad, scaled, Z, log_geomean, exp_mean_log, shift):
    """log L, L and shift of one row of a point."""
    peaks = splat(0.0)
    for c in range(0, Z.shape[1], WIDTH):
        peaks = maximum(peaks, read(Z, row, c))
    peak = largest(peaks) if scaled else 0.0
    shift[row] = math.log(peak) if peak > 0.0 else 0.0
    peaks = splat(peak if peak > 0.0 else 1.0)
    for block in range(0, Z.shape[1], pad):
        for c in range(block, block + real, WIDTH):
            z = read(Z, row, c)
            write(log_geomean, row, c, log_any8(z))
            write(exp_mean_log, row, c, z / peaks)


@inlined
def put(row, c, width, concentration, scale, log_geomeans, C, D, log_geomean):
    """Store the first `width` entries of posteriors; return log L as stored."""
    concentration, scale = cut(concentration, width, 0.0), cut(scale, width, 0.0)
    write(C, row, c, concentration)
    write(D, row, c, scale)
    log_geomeans = rounded(cut(log_geomeans, width, -math.inf), log_geomean)
    write(log_geomean, row, c, log_geomeans)
    return log_geomeans


@inlined
def find_terms(row, real, pad, underflow, exposure, A, rate, log_rate, log_gamma, terms):
    """Terms of the update of a row without the gradient, for all its columns.

    D = 1/(rate + exposure), log D, A, underflow counts, log Γ(A) − A log(D·rate), exposure·D.
    """
    for block in range(0, terms.shape[1], pad if pad > WIDTH else WIDTH):
        for c in range(block, block + real, WIDTH):
            a, exposed = read(A, row, c), read(exposure, row, c)
            bottom = read(rate, row, c) + exposed
            scale, log_scale = splat(1.0) / bottom, splat(0.0) - log8(bottom)
            store(terms, np.uint64(0), c, scale)
            store(terms, np.uint64(1), c, log_scale)
            store(terms, np.uint64(2), c, a)
            store(terms, np.uint64(3), c, read(underflow, row, c))
            store(terms, np.uint64(4), c, read(log_gamma, row, c) - a * (log_scale + read(log_rate, row, c)))
            store(terms, np.uint64(5), c, exposed * scale)


@inlined
def new_entries(row, c, width, gradient, terms, C, D, log_geomean, exp_mean_log):
    """VB update of WIDTH entries: C = A + counts, log L = ψ(C) + log D; returns their KL and log L."""
    counts = read(gradient, row, c) * read(exp_mean_log, row, c) + load(terms, np.uint64(3), c)
    concentration = load(terms, np.uint64(2), c) + counts
    psi, lgamma = digamma_lgamma8(concentration)
    log_geomeans = psi + load(terms, np.uint64(1), c)
    log_geomeans = put(row, c, width, concentration, load(terms, np.uint64(0), c), log_geomeans, C, D, log_geomean)
    kl = counts * psi + (load(terms, np.uint64(4), c) - lgamma) - concentration * load(terms, np.uint64(5), c)
    return cut(kl, width, 0.0), log_geomeans


@exact_kernel
def rows_vb(
    lo,
    hi,
    real,
    pad,
    scaled,
    gradient,
    underflow,
    exposure,
    A,
    rate,
    log_rate,
    log_gamma,
    C,
    D,
    log_geomean,
    exp_mean_log,
    shift,
    terms,
):
    """VB update of rows lo … hi − 1 (docs/math.md, section 4): C = A + L·gradient + underflow counts,
    D = 1/(rate + exposure), log L = ψ(C) + log D, with rate = A/B.

    Returns −KL = −Σ (C−A) ψ(C) − log Γ(C) + log Γ(A) − A log(D·rate) − C·exposure·D; rows without data add exactly 0.
    Columns of the buffer `terms` are those of `find_terms`.
    """
    kl = splat(0.0)
    alike = underflow.shape[0] == 1 and exposure.shape[0] == 1 and A.shape[0] == 1 and rate.shape[0] == 1
    for row in range(lo, hi):
        if row == lo or not alike:
            find_terms(row, real, pad, underflow, exposure, A, rate, log_rate, log_gamma, terms)
        peaks = splat(-math.inf)
        for block in range(0, C.shape[1], pad):
            for c in range(block, block + real, WIDTH):
                width = block + real - c
                more, logs = new_entries(row, c, width, gradient, terms, C, D, log_geomean, exp_mean_log)
                kl, peaks = kl + more, maximum(peaks, logs)
        settle(row, real, pad, scaled, peaks, log_geomean, exp_mean_log, shift)
    return -total(kl)


@inlined
def given_entries(row, c, width, C, D, A, rate, log_rate, log_gamma):
    """KL, ψ(C) and log D of WIDTH entries."""
    a, concentration, scale = read(A, row, c), read(C, row, c), read(D, row, c)
    psi, lgamma = digamma_lgamma8(concentration)
    log_scale = log8(scale)
    kl = (concentration - a) * psi + (read(log_gamma, row, c) - lgamma) - a * (log_scale + read(log_rate, row, c))
    kl = kl + concentration * (scale * read(rate, row, c) - splat(1.0))
    return cut(kl, width, 0.0), psi, log_scale


@exact_kernel
def refresh_rows(lo, hi, real, pad, scaled, A, rate, log_rate, log_gamma, C, D, log_geomean, exp_mean_log, shift):
    """Recompute the statistics from C and D; returns −Σ KL(Gamma(C, D) ‖ Gamma(A, 1/rate))."""
    kl = splat(0.0)
    for row in range(lo, hi):
        peaks = splat(-math.inf)
        for block in range(0, C.shape[1], pad):
            for c in range(block, block + real, WIDTH):
                width = block + real - c
                more, psi, log_scale = given_entries(row, c, width, C, D, A, rate, log_rate, log_gamma)
                concentration, scale = read(C, row, c), read(D, row, c)
                logs = put(row, c, width, concentration, scale, psi + log_scale, C, D, log_geomean)
                kl, peaks = kl + more, maximum(peaks, logs)
        settle(row, real, pad, scaled, peaks, log_geomean, exp_mean_log, shift)
    return -total(kl)


@exact_kernel
def kl_rows(lo, hi, real, pad, C, D, A, rate, log_rate, log_gamma):
    """Σ KL(Gamma(C, D) ‖ Gamma(A, 1/rate))."""
    kl = splat(0.0)
    for row in range(lo, hi):
        for block in range(0, C.shape[1], pad):
            for c in range(block, block + real, WIDTH):
                kl = kl + given_entries(row, c, block + real - c, C, D, A, rate, log_rate, log_gamma)[0]
    return total(kl)


@exact_kernel
def rows_point(lo, hi, real, pad, scaled, gradient, underflow, exposure, A, rate, Z, log_geomean, exp_mean_log, shift):
    """New points; where rate and exposure are 0 they stay, and only their statistics are computed again."""
    for row in range(lo, hi):
        for block in range(0, Z.shape[1], pad):
            for c in range(block, block + real, WIDTH):
                bottom = read(rate, row, c) + read(exposure, row, c)
                counts = read(gradient, row, c) * read(exp_mean_log, row, c) + read(underflow, row, c)
                z = where_positive(bottom, (read(A, row, c) - splat(1.0) + counts) / bottom, read(Z, row, c))
                write(Z, row, c, cut(z, block + real - c, 0.0))
        settle_point(row, real, pad, scaled, Z, log_geomean, exp_mean_log, shift)


@exact_kernel
def rows_twice(lo, hi, real, pad, gradient, underflow, exposure, twice, A, rate, E, exp_mean_log, whole):
    """Exposure with which the plain update is that of a factor that occurs twice in terms (docs/math.md, section 9).

    With `twice`, the exposure from those terms, a = twice/E and b = rate + exposure, it is whole = exposure + 2 a C /
    (b + √(b² + 4 a C)), where C = A + counts (MAP and EM: A − 1 + counts). Where C is 0, any positive exposure gives 0.
    """
    two, four, none, most = splat(2.0), splat(4.0), splat(0.0), splat(1e300)
    for row in range(lo, hi):
        for block in range(0, whole.shape[1], pad):
            for c in range(block, block + real, WIDTH):
                e, b = read(E, row, c), read(rate, row, c) + read(exposure, row, c)
                C = read(A, row, c) + read(gradient, row, c) * read(exp_mean_log, row, c) + read(underflow, row, c)
                again = read(twice, row, c)
                aC = where_positive(e, again * (C / e), none)
                aC = where_positive(aC - most, most, aC)  # its square root, and nothing else, is what E is made of
                more = where_positive(aC, two * aC / (b + root(b * b + four * aC)), again)
                write(whole, row, c, cut(read(exposure, row, c) + more, block + real - c, 0.0))


@exact_kernel
def density_rows(lo, hi, real, pad, Z, log_geomean, A, rate, log_rate, log_gamma):
    """Σ (A−1) log Z − A Z/B + A log(A/B) − log Γ(A), where 0 · log 0 = 0."""
    density, none = splat(0.0), splat(0.0)
    for row in range(lo, hi):
        for block in range(0, Z.shape[1], pad):
            for c in range(block, block + real, WIDTH):
                a = read(A, row, c)
                excess = a - splat(1.0)
                part = where_positive(excess * excess, excess * read(log_geomean, row, c), none)
                part = part + a * read(log_rate, row, c) - read(rate, row, c) * read(Z, row, c)
                density = density + cut(part - read(log_gamma, row, c), block + real - c, 0.0)
    return total(density)


@exact_kernel
def extrapolate(lo, hi, beta, moves, now, before):
    """x₁ · (x₁/x₀)^β by its Padé approximant, in rows that move; 0 stays 0. `before` is set to the old `now`."""
    for row in range(lo, hi):
        for c in range(now.shape[1]):
            x, x0 = float(now[row, c]), float(before[row, c])
            before[row, c] = now[row, c]
            if moves[row] and x > 0.0 and x0 > 0.0:
                step = beta * (x - x0)
                now[row, c] = x * ((x + x0 + step) / (x + x0 - step))


@exact_kernel
def sum_rows(lo, hi, array, weights, sums):
    """Add weights · array to `sums` (1, n_columns), column by column."""
    for row in range(lo, hi):
        weight = splat(weights[row if weights.shape[0] > 1 else 0, 0])
        for c in range(0, array.shape[1], WIDTH):
            store(sums, np.uint64(0), c, load(sums, np.uint64(0), c) + weight * read(array, row, c))


@exact_kernel
def dot_rows(lo, hi, array, other):
    """Σ array · other, with `other` (n_rows or 1, n_columns or 1)."""
    sums = splat(0.0)
    for row in range(lo, hi):
        for c in range(0, array.shape[1], WIDTH):
            sums = sums + read(array, row, c) * read(other, row, c)
    return total(sums) if array.shape[1] > 1 else first(sums)
