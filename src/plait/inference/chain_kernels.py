"""Row kernels of factors with chains along an ordered axis (docs/math.md, section 16).

A block is WIDTH chains or more that are updated together: all columns of the rows of a chain, which are `stride` apart;
or, of a factor without latent indices, whose arrays are transposed to (n_periods, n_chains), WIDTH columns. `A` and
`rate` are those of the first period. Chains do not depend on the others of their block.
"""

import math

import numpy as np

from plait.inference.row_kernels import put, read, settle, settle_point, write
from plait.jit import (
    WIDTH,
    cut,
    digamma_lgamma8,
    exact_kernel,
    exp8,
    inlined,
    largest,
    load,
    log8,
    log_any8,
    maximum,
    root,
    splat,
    store,
    total,
    where_positive,
)

MAX_NEWTON_STEPS = 50
MAX_FULL_STEP = 0.5  # of log E; whole steps up to .89 raise the objective (docs/math.md, section 16)
MIN_START = 1e-12  # of a period at 0, relative to the largest of its chain
MAX_SQUARE = 1e300


@inlined
def shape_of(t, periods, a, first):
    """A of a period: a₀ or a from the past, a + 1 from the future."""
    return (first if t == 0 else splat(a)) + splat(a + 1.0 if t + 1 < periods else 0.0)


@inlined
def newton_step(periods, columns, s, E, C, exposure, square, pivot, slope, link, moves):
    """One damped Newton step of log E in all columns; returns whether chains are left that move far.

    The Hessian is −diag(bend) minus the Laplacian of `link`; its pivots are sums of positive numbers, bend + link. A
    step ν is shortened to log(1 + 2ν)/2, which raises the objective.
    """
    none, one, two = splat(0.0), splat(1.0), splat(2.0)
    row = np.uint64(0)
    for t in range(periods):
        row, before = np.uint64(t), np.uint64(t - 1 if t > 0 else 0)
        for c in range(0, columns, WIDTH):
            e = load(E, row, c)
            fall = load(exposure, row, c) * e
            more = load(square, row, c) * e * e if square.shape[0] > 1 else none
            gradient, bend, joined = load(C, row, c) - fall - more, fall + two * more, none
            if t > 0:
                gradient = gradient - load(slope, row, c)
                passed = load(link, before, c) * load(pivot, before, c)
                bend = bend + passed * load(moves, np.uint64(1), c)
                gradient = gradient + passed * load(slope, before, c)
            if t + 1 < periods:
                share = e / (e + load(E, np.uint64(t + 1), c))
                joined = splat(s) * share
                gradient = gradient - joined
                store(slope, np.uint64(t + 1), c, splat(s) - joined)
                joined = joined * (one - share)
            whole = bend + joined
            store(pivot, row, c, where_positive(whole, one / whole, none))
            store(slope, row, c, gradient)
            store(link, row, c, joined)
            store(moves, np.uint64(1), c, bend)
    for c in range(0, columns, WIDTH):
        store(moves, np.uint64(1), c, none)
    for back in range(periods):
        row = np.uint64(periods - 1 - back)
        for c in range(0, columns, WIDTH):
            gradient = load(slope, row, c)
            if back > 0:
                gradient = gradient + load(link, row, c) * load(slope, np.uint64(periods - back), c)
            step = gradient * load(pivot, row, c)
            store(slope, row, c, step)
            size = maximum(step, none - step)
            store(moves, np.uint64(1), c, maximum(load(moves, np.uint64(1), c), size))
    left = none
    for c in range(0, columns, WIDTH):
        size, moving = load(moves, np.uint64(1), c), load(moves, np.uint64(0), c)
        far = size - splat(MAX_FULL_STEP)
        store(moves, np.uint64(1), c, moving * where_positive(far, log8(one + two * size) / (two * size), one))
        moving = where_positive(far, moving, none)
        store(moves, np.uint64(0), c, moving)
        left = maximum(left, moving)
    for t in range(periods):
        row = np.uint64(t)
        for c in range(0, columns, WIDTH):
            step = load(moves, np.uint64(1), c) * load(slope, row, c)
            store(E, row, c, load(E, row, c) * exp8(step))
    return largest(left) > 0.0


@inlined
def raise_zeros(periods, columns, E):
    """Replace zeros of E, from which Newton's method cannot start."""
    for c in range(0, columns, WIDTH):
        high, low = splat(0.0), splat(-math.inf)
        for t in range(periods):
            e = load(E, np.uint64(t), c)
            high, low = maximum(high, e), maximum(low, splat(0.0) - e)
        if largest(low) == 0.0:
            least = where_positive(high, splat(MIN_START) * high, splat(1.0))
            for t in range(periods):
                e = load(E, np.uint64(t), c)
                store(E, np.uint64(t), c, where_positive(e, e, least))


@exact_kernel
def update_chains(
    lo,
    hi,
    real,
    pad,
    scaled,
    vb,
    periods,
    stride,
    chains,
    a,
    s,
    A,
    rate,
    gradient,
    underflow,
    exposure,
    twice,
    C,
    D,
    log_geomean,
    exp_mean_log,
    shift,
):
    """Update blocks of chains, in place; returns their term of the objective without constants.

    With C = A + counts, a Newton step or more of log E at the best z, then D at the best z for these E. MAP
    (`vb` False): D is the point, and C is not used. Without latent indices L and its shift stay.
    """
    latent, none, one = pad >= WIDTH, splat(0.0), splat(1.0)
    columns, spread = D.shape[1] if latent else WIDTH, max(pad, WIDTH)
    again, excess = twice.size > 1 or twice[0, 0] > 0.0, splat(0.0 if vb else 1.0)
    E, counts, exposed = np.ones((periods, columns)), np.ones((periods, columns)), np.ones((periods, columns))
    square = np.zeros((max(periods, 2) if again else 1, columns))
    pivot, slope, link = np.ones((periods, columns)), np.ones((periods, columns)), np.ones((periods, columns))
    moves = np.zeros((2, columns))
    value = none
    for block in range(lo, hi):
        chain = block if latent else 0
        start = chain // stride * (stride * periods) + chain % stride
        left = 0 if latent else block * WIDTH
        full = real if latent else min(WIDTH, chains - left)
        for t in range(periods):
            row, own = np.uint64(t), start + t * stride
            for begin in range(0, columns, spread):
                for c in range(begin, begin + full, WIDTH):
                    width, at = begin + full - c, left + c
                    e = read(D, own, at)
                    if vb:
                        e = e * read(C, own, at)
                    count = read(gradient, own, at) * read(exp_mean_log, own, at) + read(underflow, own, at) - excess
                    count = count + shape_of(t, periods, a, read(A, chain, at))
                    fall = read(exposure, own, at)
                    if t == 0:
                        fall = fall + read(rate, chain, at)
                    if again:
                        q = where_positive(e, read(twice, own, at) / e, none)
                        q = where_positive(q - splat(MAX_SQUARE), splat(MAX_SQUARE), q)
                        store(square, row, c, cut(q, width, 0.0))
                    store(E, row, c, cut(e, width, 1.0))
                    store(counts, row, c, cut(count, width, 1.0))
                    store(exposed, row, c, cut(fall, width, 1.0))
                    store(moves, np.uint64(0), c, cut(one, width, 0.0))
        raise_zeros(periods, columns, E)
        if periods > 1:
            for _ in range(MAX_NEWTON_STEPS):
                if not newton_step(periods, columns, s, E, counts, exposed, square, pivot, slope, link, moves):
                    break
        for t in range(periods):
            row, own, peaks = np.uint64(t), start + t * stride, splat(-math.inf)
            before = np.uint64(t - 1 if t > 0 else 0)
            for begin in range(0, columns, spread):
                for c in range(begin, begin + full, WIDTH):
                    width, at = begin + full - c, left + c
                    concentration, bottom = load(counts, row, c), load(exposed, row, c)
                    if t > 0:
                        bottom = bottom + load(link, before, c)
                    if t + 1 < periods:
                        pull = splat(s) / (load(E, row, c) + load(E, np.uint64(t + 1), c))
                        store(link, row, c, pull)
                        bottom = bottom + pull
                    if again:
                        both = load(square, row, c) * concentration
                        both = where_positive(both - splat(MAX_SQUARE), splat(MAX_SQUARE), both)
                        more = splat(2.0) * both / (bottom + root(bottom * bottom + splat(4.0) * both))
                        bottom = bottom + where_positive(both, more, none)
                    shape = shape_of(t, periods, a, read(A, chain, at)) - excess
                    if vb:
                        scale, log_scale = one / bottom, none - log8(bottom)
                        psi, lgamma = digamma_lgamma8(concentration)
                        term = concentration + lgamma + (shape - concentration) * psi + shape * log_scale
                        e, logs = concentration * scale, psi + log_scale
                        logs = put(own, at, width, concentration, scale, logs, C, D, log_geomean)
                        peaks = maximum(peaks, logs)
                    else:
                        e = concentration / bottom
                        term = where_positive(shape, shape * log_any8(e), none)
                        write(D, own, at, cut(e, width, 0.0))
                    if t == 0:
                        term = term - read(rate, chain, at) * e
                    else:
                        term = term - splat(s) * log8(e + load(pivot, before, c))
                    store(pivot, row, c, e)
                    value = value + cut(term, width, 0.0)
            if latent and vb:
                settle(own, real, pad, scaled, peaks, log_geomean, exp_mean_log, shift)
            elif latent:
                settle_point(own, real, pad, scaled, D, log_geomean, exp_mean_log, shift)
    return total(value)


@exact_kernel
def chain_terms(lo, hi, real, pad, vb, periods, stride, chains, a, s, A, rate, C, D):
    """The term of the objective of blocks of chains, without constants; see `update_chains`."""
    latent, none, excess = pad >= WIDTH, splat(0.0), splat(0.0 if vb else 1.0)
    columns, spread = D.shape[1] if latent else WIDTH, max(pad, WIDTH)
    last, value = np.ones((1, columns)), none
    for block in range(lo, hi):
        chain = block if latent else 0
        start = chain // stride * (stride * periods) + chain % stride
        left = 0 if latent else block * WIDTH
        full = real if latent else min(WIDTH, chains - left)
        for t in range(periods):
            own = start + t * stride
            for begin in range(0, columns, spread):
                for c in range(begin, begin + full, WIDTH):
                    width, at = begin + full - c, left + c
                    e, shape = read(D, own, at), shape_of(t, periods, a, read(A, chain, at)) - excess
                    if vb:
                        concentration = cut(read(C, own, at), width, 1.0)
                        psi, lgamma = digamma_lgamma8(concentration)
                        term = concentration + lgamma + (shape - concentration) * psi
                        term = term + shape * log8(cut(e, width, 1.0))
                        e = concentration * e
                    else:
                        term = where_positive(shape, shape * log_any8(e), none)
                    if t == 0:
                        term = term - read(rate, chain, at) * e
                    else:
                        term = term - splat(s) * log8(cut(e + load(last, np.uint64(0), c), width, 1.0))
                    store(last, np.uint64(0), c, e)
                    value = value + cut(term, width, 0.0)
    return total(value)
