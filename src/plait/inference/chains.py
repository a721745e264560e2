"""Gamma Markov chains along ordered axes (Cemgil and Dikmen 2007; docs/math.md, section 16).

    z_t | θ_{t−1} ~ Gamma(a + 1, rate a θ_{t−1}),        θ_t | z_t ~ Gamma(a, rate a z_t)

The auxiliary z are optimal for the present θ whenever the objective is computed, so a chain has no state but θ. Given
counts and exposures, all rows of a chain are updated together: C is known, and log E maximises a concave function with
a tridiagonal Hessian, found by Newton's method. Arrays have the inside shape, or (n_chains, n_periods).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plait import special
from plait._typing import Array
from plait.codegen.layout import Layout
from plait.codegen.step import padded
from plait.executors import Executor
from plait.inference.chain_kernels import chain_terms, update_chains
from plait.inference.gamma import ZERO, FactorState, Prior, RowShape, refresh_points, solve_concentration, writable
from plait.inference.row_kernels import settle_rows
from plait.inference.updates import RowEvidence
from plait.jit import WIDTH

MIN_CHAIN_CONCENTRATION = 2.0  # that is chosen: at 1 the variance of a forecast is infinite
MAX_CHAIN_CONCENTRATION = 1e4
BURSTS = (0.0, 0.01, 0.1, 0.3, 1.0, 3.0, 10.0)  # variance of a period's rate by itself, relative to its square
MAX_SPARSE_EVENTS = 10.0  # per period of a chain; with more, bursts and drift differ
MIN_COUNTS_BEFORE = 0.5  # expected counts of a chain before it is scored
MAX_SCORED_ENTRIES = 200_000  # of chains by which a is chosen: a second
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
    layout, (axis, _), shape = factor.layout, _chain(prior), RowShape.of(factor.layout)
    given = evidence.gradient, evidence.underflow, evidence.exposure, evidence.twice
    gradient, *others = (ZERO if array is None else _by_period(layout, axis, array) for array in given)
    stored = *_parameters(factor, method), factor.log_geomean, factor.exp_mean_log
    in_place = bool(layout.latent) or layout.rows == 1
    own = stored if in_place else [_by_period(layout, axis, array) for array in stored]
    arrays = gradient, *others, *own, factor.shift
    chains = _chains(layout, prior, method)

    def work(lo: int, hi: int) -> float:
        return float(update_chains(lo, hi, *shape, method == "vb", *chains, *arrays))

    factor.version += 1
    value = _over_blocks(work, layout, prior, executor) + _constants(layout, prior, method)
    if not in_place:
        for array, transposed in zip(stored[:3], own):
            if array.size > 1:
                inside = np.moveaxis(array.reshape(layout.sizes), axis, 0)
                inside[...] = transposed[:, : inside[0].size].reshape(inside.shape)
    if not layout.latent:
        if method == "vb":
            settle_rows(0, layout.rows, *shape, *factor.derived)
        else:
            refresh_points(factor, 0, layout.rows)
    return value


def chain_objective(factor: FactorState, prior: Prior, method: Literal["vb", "map"], executor: Executor) -> float:
    """Term of the objective: of VB E[log p(θ, z)] and the entropies, of MAP the log density; at the best z."""
    layout, (real, pad, _) = factor.layout, RowShape.of(factor.layout)
    parameters = [_by_period(layout, _chain(prior)[0], array) for array in _parameters(factor, method)]
    arrays = *_chains(layout, prior, method), *parameters

    def work(lo: int, hi: int) -> float:
        return float(chain_terms(lo, hi, real, pad, method == "vb", *arrays))

    return _over_blocks(work, layout, prior, executor) + _constants(layout, prior, method)


def _parameters(factor: FactorState, method: str) -> tuple[Array, Array]:
    """C and D; of MAP an unused array, and the point."""
    return (factor.parameters[0], factor.parameters[1]) if method == "vb" else (np.ones((1, 1)), factor.mean)


def _by_period(layout: Layout, axis: int, array: Array) -> Array:
    """An array (n_rows or 1, n_columns or 1) as kernels read it: without latent indices as (n_periods, n_chains)."""
    if layout.latent or array.size == 1:
        return writable(array)
    moved = np.moveaxis(array.reshape(layout.sizes), axis, 0).reshape(layout.sizes[axis], -1)
    columns = padded(moved.shape[1])
    if columns == moved.shape[1]:
        return np.array(moved, order="C")
    transposed = np.zeros((len(moved), columns), array.dtype)
    transposed[:, : moved.shape[1]] = moved
    return transposed


def _first(layout: Layout, axis: int) -> Layout:
    """Layout of the first periods, a row for each chain."""
    return replace(layout, sizes=(*layout.sizes[:axis], 1, *layout.sizes[axis + 1 :]))


def _chains(layout: Layout, prior: Prior, method: str) -> tuple[int, int, int, float, float, Array, Array]:
    """Numbers of periods, of rows from one to the next, and of chains; a, s, and A and rate of the first period."""
    axis, a = _chain(prior)
    first, stride = (
        _first(layout, axis),
        math.prod(layout.sizes[axis + 1 : len(layout.visible)]) if layout.latent else 1,
    )
    A, rate = (_by_period(first, axis, first.spread(array)) for array in (prior.concentration, _first_rate(prior)))
    return layout.sizes[axis], stride, first.rows, a, _pair_shape(prior, method), A, rate


def _over_blocks(work: Callable[[int, int], float], layout: Layout, prior: Prior, executor: Executor) -> float:
    """Run the work over blocks of chains."""
    axis, _ = _chain(prior)
    blocks = _first(layout, axis).rows if layout.latent else -(-_first(layout, axis).rows // WIDTH)
    return executor.rows(work, blocks, max(layout.columns, WIDTH) * layout.sizes[axis])


def _constants(layout: Layout, prior: Prior, method: str) -> float:
    """What the objective has for each first period, and for each pair of periods."""
    (axis, a), s = _chain(prior), _pair_shape(prior, method)
    first = _first(layout, axis).sizes
    pair = float(-special.gammaln(a + 1.0) - special.gammaln(a))
    pair += float(special.gammaln(s)) if method == "vb" else s * math.log(2.0) - s + (s + 1.0) * math.log(a)
    of_first = special.xlogy(prior.concentration, _first_rate(prior)) - special.gammaln(prior.concentration)
    count = math.prod(first)
    return float(np.broadcast_to(of_first, first).sum()) + pair * count * (layout.sizes[axis] - 1)


def adapt_chain(factor: FactorState, prior: Prior, groups: Sequence[str], exposed: NDArray[np.bool_]) -> Prior:
    """Mean of the first period, by group of latent indices; and a where it is "auto", once.

    Chains without data do not count.
    """
    layout, (axis, _) = factor.layout, _chain(prior)
    visible, latent = len(layout.visible), len(layout.latent)
    seen = exposed.reshape(layout.sizes[:visible] + (1,) * latent).any(axis=axis, keepdims=True)
    if not seen.any():
        return prior
    first = np.ones(())
    for array in factor.parameters:
        first = first * np.take(layout.unpack(array), [0], axis=axis)
    weight = np.broadcast_to(prior.concentration, first.shape) * seen
    axes = tuple(n for n, index in enumerate(layout.inside) if index not in groups)
    total = weight.sum(axis=axes, keepdims=True)
    mean = (weight * first).sum(axis=axes, keepdims=True) / total
    assert prior.chain is not None
    chain = prior.chain
    if chain.adapts and layout.sizes[axis] > 1:
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
    C, *_ = _filter(a, counts, exposure, first, mean)
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

    def best(score: Callable[[float], float]) -> float:
        found = minimize_scalar(lambda log_a: -score(math.exp(log_a)), bounds=bounds, options={"xatol": 0.02})
        return math.exp(found.x)

    a = best(lambda a: max(_filter(a, counts, exposure, first, mean, burst)[2] for burst in BURSTS))
    if counts.mean() >= MAX_SPARSE_EVENTS:
        return a
    return max(a, best(lambda a: _filter(a, counts, exposure, first, mean)[1]))


def _of_data(layout: Layout, prior: Prior, parameters: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """Counts and exposures behind a posterior, (n_chains, n_periods); prior of the first period, two (n_chains,)."""
    axis, _ = _chain(prior)
    C, D = (np.asarray(layout.unpack(array), np.float64) for array in parameters)
    counts = np.maximum(C - concentrations(layout, prior), 0.0)
    exposure = np.maximum(1.0 / D - _rates(C * D, prior, _pair_shape(prior, "vb")), 0.0)
    of = counts, exposure, prior.concentration, prior.mean
    counts, exposure, first, mean = (_by_chain(array, axis, C.shape) for array in of)
    return counts, exposure, first[:, 0], mean[:, 0]


def _filter(
    a: float, counts: Array, exposure: Array, C: Array, mean: Array, burst: float = 0.0
) -> tuple[Array, float, float]:
    """A filter of Gamma distributions along chains: concentration of the last period, and scores of one-step forecasts.

    The first score is Σ n log m − m of the means m; the second the log probability of counts that also vary by
    themselves, with variance m + `burst` m², so that a count says as much as m/(1 + `burst` m) events. The event by
    which an entity comes into the data is no drift. `C`, `mean` (n_chains,): of the first period.
    """
    by_mean, log_probability, before = 0.0, 0.0, np.zeros(len(counts))
    for t in range(counts.shape[1]):
        if t > 0:
            gap = np.log(C) - special.psi(C) + 1.0 / a
            C = solve_concentration(gap, 0.5 / gap)
        n, rate, scored = counts[:, t], mean * exposure[:, t], before >= MIN_COUNTS_BEFORE
        x, m, shape = n[scored], rate[scored], 1.0 / (1.0 / C[scored] + burst)
        by_mean += float((special.xlogy(x, m) - m).sum())
        share = shape / (shape + m)
        log_probability += float(
            (
                special.gammaln(shape + x)
                - special.gammaln(shape)
                + shape * np.log(share)
                + special.xlogy(x, 1 - share)
            ).sum()
        )
        weight = 1.0 / (1.0 + burst * rate)
        C, mean, before = C + weight * n, mean * (C + weight * n) / (C + weight * rate), before + n
    return C, by_mean, log_probability
