"""Gamma Markov chains along ordered axes (Cemgil and Dikmen 2007; docs/math.md, section 16).

    z_t | θ_{t−1} ~ Gamma(a + 1, rate a θ_{t−1}),        θ_t | z_t ~ Gamma(a, rate a z_t)

The auxiliary z are optimal for the present θ whenever the objective is computed, so a chain has no state but θ. Given
counts and exposures, all rows of a chain are updated together: C is known, and log E maximises a concave function with
a tridiagonal Hessian, found by Newton's method. Arrays have the inside shape, or (n_chains, n_periods).
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plait import special
from plait._typing import Array
from plait.codegen.layout import Layout
from plait.executors import Executor
from plait.inference.gamma import FactorState, Prior, PriorTerms, solve_concentration
from plait.inference.updates import RowEvidence, update_map, update_vb
from plait.jit import exact_kernel

MIN_CHAIN_CONCENTRATION = 2.0  # that is chosen: at 1 the variance of a forecast is infinite
MAX_CHAIN_CONCENTRATION = 1e4
BURSTS = (0.0, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0)  # variance of a period's rate by itself, relative to its square
MAX_SPARSE_EVENTS = 10.0  # per period of a chain; with more, bursts and drift differ
MIN_COUNTS_BEFORE = 0.5  # expected counts of a chain before it is scored
MAX_SCORED_ENTRIES = 200_000  # of chains by which a is chosen: a second
MAX_NEWTON_STEPS = 50
MAX_NEWTON_CHANGE = 3.0  # of log E in a step
MAX_LAST_CHANGE = 0.03  # of log E, in the last step of a sweep: so small a step needs no search
MIN_START = 1e-8  # smallest mean at which a chain starts, relative to the mean of the factor


def concentrations(layout: Layout, prior: Prior) -> Array:
    """A of every period given z: a₀ or a from the past, a + 1 from the future; length 1 where tied."""
    axis, a, periods = *_chain(prior), layout.sizes[_chain(prior)[0]]
    shape = [n if at != axis else periods for at, n in enumerate(prior.concentration.shape)]
    A = np.full(shape, a)
    first = np.moveaxis(A, axis, 0)
    first[0] = np.moveaxis(prior.concentration, axis, 0)[0]
    first[:-1] += a + 1.0
    return A


def update_chain(
    factor: FactorState, evidence: RowEvidence, prior: Prior, method: Literal["vb", "map"], executor: Executor
) -> float:
    """Update a factor and its z, in place; returns their term of the objective."""
    layout, (axis, _) = factor.layout, _chain(prior)
    A, excess, s = concentrations(layout, prior), 0.0 if method == "vb" else 1.0, _pair_shape(prior, method)
    counts = np.asarray(evidence.gradient * factor.exp_mean_log, np.float64)
    counts = layout.unpack(counts if evidence.underflow is None else counts + evidence.underflow)
    start = np.asarray(layout.unpack(factor.mean), np.float64)
    exposed = [_inside(layout, array) for array in (evidence.exposure, evidence.twice) if array is not None]
    quadratic = exposed[1] / np.where(start > 0, start, np.inf) if len(exposed) > 1 else np.zeros((1,) * start.ndim)
    inputs = (start, A - excess + counts, exposed[0], quadratic, _first_rate(prior))
    x, C, exposure, square, first = (_by_chain(array, axis, start.shape) for array in inputs)
    if x.shape[1] > 1:
        exposure[:, 0] += first[:, 0]

        def work(lo: int, hi: int) -> float:
            solve_chains(lo, hi, s, C, exposure, square, x)
            return 0.0

        executor.rows(work, *x.shape)
    mean = np.moveaxis(x.reshape(*np.delete(start.shape, axis), -1), -1, axis)
    terms = _prior_terms(layout, A, _rates(mean, prior, s))
    (update_vb if method == "vb" else update_map)(factor, evidence, terms, executor)
    return chain_objective(factor, prior, method)


def chain_objective(factor: FactorState, prior: Prior, method: Literal["vb", "map"]) -> float:
    """Term of the objective: of VB E[log p(θ, z)] and the entropies, of MAP the log density; at the best z."""
    layout, (axis, a) = factor.layout, _chain(prior)
    A, s = concentrations(layout, prior), _pair_shape(prior, method)
    if method == "vb":
        C, D = (np.asarray(layout.unpack(array), np.float64) for array in factor.parameters)
        E, digamma, log_D = C * D, special.psi(C), np.log(D)
        value = float(((A - 1.0) * (digamma + log_D) + C + log_D + special.gammaln(C) + (1.0 - C) * digamma).sum())
        constant = special.gammaln(s) - special.gammaln(a + 1.0) - special.gammaln(a)
    else:
        E = np.asarray(layout.unpack(factor.mean), np.float64)
        value = float(special.xlogy(A - 1.0, E).sum())
        constant = s * math.log(2.0) - s + (s + 1.0) * math.log(a) - special.gammaln(a + 1.0) - special.gammaln(a)
    first, rate = np.take(E, [0], axis=axis), _first_rate(prior)
    value += float(
        (special.xlogy(prior.concentration, rate) - special.gammaln(prior.concentration) - rate * first).sum()
    )
    sums = _pair_sums(E, axis)
    return value + float(constant) * sums.size - s * float(np.log(sums).sum())


def adapt_chain(factor: FactorState, prior: Prior, groups: Sequence[str], exposed: NDArray[np.bool_]) -> Prior:
    """Mean of the first period, by group of latent indices; and a where it is "auto", once.

    Chains without data do not count.
    """
    layout, (axis, _) = factor.layout, _chain(prior)
    E = np.asarray(layout.unpack(factor.mean), np.float64)
    visible = len(layout.visible)
    seen = exposed.reshape(layout.sizes[:visible] + (1,) * (E.ndim - visible)).any(axis=axis, keepdims=True)
    if not seen.any():
        return prior
    first = np.take(E, [0], axis=axis)
    weight = np.broadcast_to(prior.concentration, first.shape) * seen
    axes = tuple(n for n, index in enumerate(layout.inside) if index not in groups)
    total = weight.sum(axis=axes, keepdims=True)
    mean = (weight * first).sum(axis=axes, keepdims=True) / total
    assert prior.chain is not None
    chain = prior.chain
    if chain.adapts and E.shape[axis] > 1:
        chain = replace(chain, concentration=_choose_concentration(factor, prior, np.asarray(seen)), adapts=False)
    return Prior(prior.concentration, mean, chain)


def blend(layout: Layout, prior: Prior, mean: Array) -> None:
    """Mix every period of stored means with the mean of its chain, in place: EM has zeros where there are no links."""
    inside, (axis, _) = layout.unpack(mean), _chain(prior)
    inside += inside.mean(axis=axis, keepdims=True)
    inside *= 0.5
    np.maximum(inside, MIN_START * float(inside.mean()), out=inside)


def given_neighbours(layout: Layout, prior: Prior, mean: Array, method: Literal["vb", "map"]) -> tuple[Array, Array]:
    """A and rate of every entry at stored means, as stored."""
    inside = np.asarray(layout.unpack(mean), np.float64)
    rates = _rates(inside, prior, _pair_shape(prior, method))
    return layout.spread(concentrations(layout, prior)), layout.pack(rates)


def next_periods(layout: Layout, prior: Prior, parameters: Sequence[Array], steps: int) -> tuple[Array, Array]:
    """Concentrations and means of the periods after the last one, inside.

    A step keeps the mean and takes 1/a from E[log θ]; the Gamma distribution with both is the closest one.
    """
    axis, a = _chain(prior)
    if len(parameters) > 1:
        last = last_concentrations(layout, prior, parameters)
        mean, gap = parameters[0] * parameters[1], np.log(last) - special.psi(last)
    else:
        mean, gap = parameters[0], np.zeros(())
    mean = np.take(np.asarray(layout.unpack(mean), np.float64), [-1], axis=axis)
    ahead = np.arange(1, steps + 1).reshape([-1 if at == axis else 1 for at in range(mean.ndim)])
    gap = gap + ahead / a + np.zeros(mean.shape)
    concentration = solve_concentration(gap, 0.5 / gap)
    return concentration, np.broadcast_to(mean, concentration.shape)


def last_concentrations(layout: Layout, prior: Prior, parameters: Sequence[Array]) -> Array:
    """Concentration of the last period given all periods, inside, with an axis of length 1 for the period.

    It is that of a filter along the chain: a posterior that factorises over periods is too certain, since it takes the
    period before as known.
    """
    axis, a = _chain(prior)
    counts, exposure, first, mean = _of_data(layout, prior, parameters)
    C, _ = _filter(a, counts, exposure, first, mean)
    shape = layout.sizes
    return np.expand_dims(C.reshape(np.delete(shape, axis)), axis)


def _chain(prior: Prior) -> tuple[int, float]:
    """Axis and concentration."""
    assert prior.chain is not None
    return prior.chain.axis, prior.chain.concentration


def _pair_shape(prior: Prior, method: str) -> float:
    """s in −s log(E_{t−1} + E_t), what z leaves behind: 2a + 1, of its mode 2a."""
    return 2.0 * _chain(prior)[1] + (1.0 if method == "vb" else 0.0)


def _first_rate(prior: Prior) -> Array:
    return np.asarray(prior.concentration / prior.mean)


def _pair_sums(array: Array, axis: int) -> Array:
    """Sums of neighbours along an axis."""
    moved = np.moveaxis(array, axis, 0)
    return np.moveaxis(moved[:-1] + moved[1:], 0, axis)


def _rates(E: Array, prior: Prior, s: float) -> Array:
    """Rate of every period given the best z: s/(E_{t−1} + E_t) + s/(E_t + E_{t+1}), and a₀/b₀ of the first."""
    axis, _ = _chain(prior)
    rates, pairs = np.zeros(E.shape), s / _pair_sums(E, axis)
    moved, pairs = np.moveaxis(rates, axis, 0), np.moveaxis(pairs, axis, 0)
    moved[1:] += pairs
    moved[:-1] += pairs
    moved[0] += np.moveaxis(_first_rate(prior), axis, 0)[0]
    return rates


def _prior_terms(layout: Layout, A: Array, rates: Array) -> PriorTerms:
    """A and rates as the row kernels read them."""
    logs = np.log(rates)
    return [layout.spread(A), layout.pack(rates), layout.pack(logs), layout.spread(special.gammaln(A))]


def _inside(layout: Layout, array: Array) -> Array:
    """An array (n_rows or 1, n_columns or 1) in the inside shape, read-only."""
    if array.shape[1] == 1:  # equal in every column, without padding
        whole = np.broadcast_to(array, (layout.rows, 1))
        return whole.reshape(layout.sizes[: len(layout.visible)] + (1,) * len(layout.latent))
    return layout.unpack(np.ascontiguousarray(np.broadcast_to(array, (layout.rows, layout.columns))))


def _by_chain(array: Array, axis: int, shape: tuple[int, ...]) -> Array:
    """An array that broadcasts to the inside shape as (n_chains, n_periods), a copy."""
    moved = np.moveaxis(np.broadcast_to(array, shape), axis, -1)
    return np.array(moved, np.float64, order="C").reshape(-1, shape[axis])


def _choose_concentration(factor: FactorState, prior: Prior, seen: NDArray[np.bool_]) -> float:
    """a that predicts the counts of each period best from those of all periods before it (decision 41).

    By probabilities. These take bursts for drift where events are few, so there a is at least that of the best means;
    where events are many, the means of all small a are alike.
    """
    from scipy.optimize import minimize_scalar  # a third of a second to import, which answers do not need

    layout, (axis, _) = factor.layout, _chain(prior)
    arrays = _of_data(layout, prior, factor.parameters)
    chains = np.flatnonzero(_by_chain(seen.astype(np.float64), axis, layout.sizes)[:, 0])
    most = max(MAX_SCORED_ENTRIES // layout.sizes[axis], 1)
    if len(chains) > most:
        chains = chains[np.linspace(0, len(chains) - 1, most).astype(int)]
    counts, exposure, first, mean = (array[chains] for array in arrays)

    bounds = math.log(MIN_CHAIN_CONCENTRATION), math.log(MAX_CHAIN_CONCENTRATION)

    def best(some: slice) -> float:
        def loss(log_a: float) -> float:
            return -float(_filter(math.exp(log_a), counts, exposure, first, mean)[1][some].max())

        return math.exp(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 0.02}).x)

    a = best(slice(1, None))
    return max(a, best(slice(1))) if counts.mean() < MAX_SPARSE_EVENTS else a


def _of_data(layout: Layout, prior: Prior, parameters: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """Counts and exposures behind a posterior, (n_chains, n_periods); prior of the first period, two (n_chains,)."""
    axis, _ = _chain(prior)
    C, D = (np.asarray(layout.unpack(array), np.float64) for array in parameters)
    counts = np.maximum(C - concentrations(layout, prior), 0.0)
    exposure = np.maximum(1.0 / D - _rates(C * D, prior, _pair_shape(prior, "vb")), 0.0)
    of = counts, exposure, prior.concentration, prior.mean
    counts, exposure, first, mean = (_by_chain(array, axis, C.shape) for array in of)
    return counts, exposure, first[:, 0], mean[:, 0]


def _filter(a: float, counts: Array, exposure: Array, C: Array, mean: Array) -> tuple[Array, Array]:
    """A filter of Gamma distributions along chains: concentration of the last period, and scores of one-step forecasts.

    The first score is Σ n log m − m of the means m. The others, one for each of BURSTS, are log probabilities of counts
    that also vary by themselves. The event by which an entity comes into the data is no drift.
    `C`, `mean` (n_chains,): of the first period.
    """
    scores, before = np.zeros(1 + len(BURSTS)), np.zeros(len(counts))
    for t in range(counts.shape[1]):
        if t > 0:
            gap = np.log(C) - special.psi(C) + 1.0 / a
            C = solve_concentration(gap, 0.5 / gap)
        n, rate, scored = counts[:, t], mean * exposure[:, t], before >= MIN_COUNTS_BEFORE
        scores[0] += float((special.xlogy(n, rate) - rate)[scored].sum())
        for k, burst in enumerate(BURSTS, 1):
            shape = 1.0 / (1.0 / C[scored] + burst)
            share, x = shape / (shape + rate[scored]), n[scored]
            scores[k] += float(
                (
                    special.gammaln(shape + x)
                    - special.gammaln(shape)
                    + shape * np.log(share)
                    + special.xlogy(x, 1 - share)
                ).sum()
            )
        C, mean, before = C + n, mean * (C + n) / (C + rate), before + n
    return C, scores


@exact_kernel
def solve_chains(lo: int, hi: int, s: float, C: Array, exposure: Array, square: Array, E: Array) -> None:
    """Raise Σ C x − b e^x − q e^2x / 2 − s Σ log(e^x_{t−1} + e^x_t) over x = log E, chain by chain, in place.

    Newton steps until one is small: maxima are reached in a few sweeps.
    """
    periods = E.shape[1]
    x, step, trial = np.empty(periods), np.empty(periods), np.empty(periods)
    diagonal, below, gradient = np.empty(periods), np.empty(periods), np.empty(periods)
    for chain in range(lo, hi):
        floor = 0.0
        for t in range(periods):
            floor = max(floor, E[chain, t])
        floor = floor * 1e-12 if floor > 0.0 else 1.0
        for t in range(periods):
            x[t] = math.log(E[chain, t] if E[chain, t] > 0.0 else floor)
        for _ in range(MAX_NEWTON_STEPS):
            for t in range(periods):
                e = math.exp(x[t])
                slope, bend = exposure[chain, t] * e, square[chain, t] * e * e
                gradient[t] = C[chain, t] - slope - bend
                diagonal[t] = slope + 2.0 * bend
            for t in range(1, periods):
                share = 1.0 / (1.0 + math.exp(x[t] - x[t - 1]))  # of the earlier period
                gradient[t - 1] -= s * share
                gradient[t] -= s * (1.0 - share)
                below[t] = -s * share * (1.0 - share)
                diagonal[t - 1] -= below[t]
                diagonal[t] -= below[t]
            for t in range(1, periods):
                ratio = below[t] / diagonal[t - 1]
                diagonal[t] -= ratio * below[t]
                gradient[t] -= ratio * gradient[t - 1]
            largest = 0.0
            for back in range(periods):
                t = periods - 1 - back
                ahead = below[t + 1] * step[t + 1] if back > 0 else 0.0
                step[t] = (gradient[t] - ahead) / diagonal[t]
                largest = max(largest, abs(step[t]))
            if largest <= MAX_LAST_CHANGE:
                for t in range(periods):
                    x[t] += step[t]
                break
            value, size = chain_value(chain, s, C, exposure, square, x), min(1.0, MAX_NEWTON_CHANGE / largest)
            better = False
            for _ in range(30):
                for t in range(periods):
                    trial[t] = x[t] + size * step[t]
                if chain_value(chain, s, C, exposure, square, trial) >= value:
                    better = True
                    break
                size *= 0.5
            if not better:  # the rounding of the value is reached
                break
            for t in range(periods):
                x[t] = trial[t]
        for t in range(periods):
            E[chain, t] = math.exp(x[t])


@exact_kernel
def chain_value(chain: int, s: float, C: Array, exposure: Array, square: Array, x: Array) -> float:
    """The function that `solve_chains` raises."""
    value = 0.0
    for t in range(x.shape[0]):
        e = math.exp(x[t])
        value += C[chain, t] * x[t] - exposure[chain, t] * e - 0.5 * square[chain, t] * e * e
        if t > 0:
            high = max(x[t], x[t - 1])
            value -= s * (high + math.log1p(math.exp(min(x[t], x[t - 1]) - high)))
    return value
