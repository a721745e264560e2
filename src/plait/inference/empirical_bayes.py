"""Empirical Bayes: priors tied over groups of a factor's entries, updated from the posterior; and a normal form of
scales.

With E and log L averaged over a group, B = mean(E), and A solves log A − ψ(A) = log B − mean(log L) (docs/math.md,
section 4). Each update raises the ELBO. All arrays have the inside shape: visible indices, then latent ones.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.executors import Executor
from plait.inference.chains import adapt_chain
from plait.inference.gamma import FactorState, Prior, RowSumKind, latent, solve_concentration, sum_over_rows
from plait.inference.problem import Problem

MIN_GROUP_ENTRIES = 8  # smaller groups adapt their mean only: with one entry A would grow without limit
RANK_ONE = "rank-one"  # the tying B(entity, component) = b · c
RANK_ONE_MEAN_SWEEPS = 20  # sweeps of rank-one means alone: earlier, concentrations would fit the sharp points of EM
MIN_ROW_LINKS = 2.0  # rows of fewer links share one level: one without links would go to 0


def tied_indices(adapt: str | Sequence[str], layout: Layout) -> tuple[str, ...] | None:
    """Indices by whose values the priors differ; None for rank-one means."""
    words: dict[str, tuple[str, ...]] = {"factor": (), "component": layout.latent, "entity": layout.visible}
    if isinstance(adapt, str):
        return None if adapt == RANK_ONE else words[adapt]
    return tuple(adapt)


def full_adaptation_sweep(ties: Mapping[str, str | Sequence[str]], after: int) -> int:
    """The sweep from which on means and concentrations adapt; `after`: the first sweep of the means."""
    return after + (RANK_ONE_MEAN_SWEEPS if RANK_ONE in ties.values() else 0)


def adapt(problem: Problem, ties: Mapping[str, str | Sequence[str]], *, hold: bool = False) -> None:
    """Update the priors of the factors in `ties`, in place; `hold` keeps the concentrations of rank-one priors."""
    for name, tie in ties.items():
        factor = problem.factors[name]
        groups = tied_indices(tie, factor.layout)
        if problem.priors[name].chain:
            problem.priors[name] = adapt_chain(factor, problem.priors[name], groups or (), problem.exposed[name])
        elif groups is None:
            few = problem.links(name) < MIN_ROW_LINKS
            problem.priors[name] = _rank_one(factor, problem.priors[name], problem.exposed[name], few, hold=hold)
        else:
            problem.priors[name] = _grouped(
                factor, problem.priors[name], groups, problem.exposed[name], problem.executor
            )


def _grouped(
    factor: FactorState, old: Prior, groups: tuple[str, ...], exposed: NDArray[np.bool_], executor: Executor
) -> Prior:
    """One prior per group, from its entries that have data."""
    layout = factor.layout
    axes = tuple(n for n, index in enumerate(layout.inside) if index not in groups)
    tied = _tied(old.concentration, axes)
    weights = exposed if layout.pairs is None else exposed * layout.pairs.weights
    counts = _counts(layout, weights, axes)
    if not counts.any():
        return old
    if tied is None:  # given concentrations differ within a group: keep them, as weights of its mean
        weight = np.broadcast_to(old.concentration, layout.sizes) * _by_row(layout, weights)
        total = (weight * layout.unpack(factor.mean)).sum(axis=axes, keepdims=True)
        return Prior(old.concentration, _fill(total, weight.sum(axis=axes, keepdims=True)))
    mean = _fill(_total(factor, "mean", axes, weights, executor), counts)
    concentration = np.array(np.broadcast_to(tied, mean.shape))
    adapts = np.broadcast_to(counts >= MIN_GROUP_ENTRIES, mean.shape)
    if adapts.any():
        log_mean = _fill(_total(factor, "log_geomean", axes, weights, executor), counts)
        solved = np.where(adapts, solve_concentration(np.log(mean) - log_mean, concentration), concentration)
        seen = np.broadcast_to(counts > 0, mean.shape)
        concentration = np.where(seen, solved, solved[seen].mean())
    return Prior(concentration, mean)


def _by_row(layout: Layout, weights: Array | NDArray[np.bool_]) -> Array | NDArray[np.bool_]:
    """Weights of rows, broadcastable to the inside shape."""
    return weights.reshape(layout.sizes[: len(layout.visible)] + (1,) * len(layout.latent))


def _counts(layout: Layout, weights: Array | NDArray[np.bool_], axes: tuple[int, ...]) -> Array | NDArray[np.int64]:
    """Number of entries with data in each group, broadcastable to the groups."""
    visible = tuple(n for n in axes if n < len(layout.visible))
    columns = math.prod(layout.sizes[n] for n in axes if n not in visible)
    return np.asarray(_by_row(layout, weights).sum(axis=visible, keepdims=True) * columns)


def _fill(totals: Array, counts: Array | NDArray[np.int64]) -> Array:
    """Means of groups; a group without data takes the average of the others."""
    seen = np.broadcast_to(counts > 0, totals.shape)
    means = totals / np.where(counts > 0, counts, 1)
    return means if seen.all() else np.where(seen, means, means[seen].mean())


def _total(
    factor: FactorState,
    name: RowSumKind,
    axes: tuple[int, ...],
    weights: Array | NDArray[np.bool_],
    executor: Executor,
) -> Array:
    """Weighted sums of E or log L over some axes, of rows with data."""
    layout, visible = factor.layout, len(factor.layout.visible)
    if axes[:visible] != tuple(range(visible)):
        inside, rows = layout.unpack(getattr(factor, name)), _by_row(layout, weights)
        return np.asarray(np.sum(inside, axis=axes, keepdims=True, dtype=np.float64, where=rows > 0))
    column = weights[:, None].astype(np.float64)
    whole = layout.pairs is None and weights.all()
    row = latent(layout, factor.total(name, executor) if whole else sum_over_rows(factor, name, executor, column))
    inside = row.reshape((1,) * visible + row.shape)
    return np.asarray(inside.sum(axis=axes, keepdims=True))


def _tied(concentration: Array, axes: tuple[int, ...]) -> Array | None:
    """Concentration of each group; None if it differs within a group."""
    if concentration.size == 1:
        return concentration
    low, high = (extreme(concentration, axis=axes, keepdims=True) for extreme in (np.min, np.max))
    return low if np.array_equal(low, high) else None


def _rank_one(
    factor: FactorState, old: Prior, exposed: NDArray[np.bool_], few: NDArray[np.bool_], *, hold: bool
) -> Prior:
    """B(i, r) = b_i c_r by two alternations of b_i = mean_r(E/c_r), c_r = mean_i(E/b_i); one A for the factor.

    Rows marked in `few` share one b. `hold` keeps A.
    """
    layout = factor.layout
    E, log_L = (np.asarray(layout.unpack(a), np.float64) for a in (factor.mean, factor.log_geomean))
    E, log_L = E.reshape(layout.rows, -1), log_L.reshape(layout.rows, -1)
    B = np.broadcast_to(old.mean, layout.sizes).reshape(E.shape)
    A = _tied(old.concentration, tuple(range(len(layout.sizes))))
    weight = None if A is not None else np.broadcast_to(old.concentration, layout.sizes).reshape(E.shape)
    seen = exposed if exposed.any() else np.ones(layout.rows, bool)
    scarce = seen & few
    c = B[seen].mean(axis=0) / B[seen].mean()
    for _ in range(2):
        b = np.average(E / c, axis=1, weights=weight)
        if scarce.any():
            b[scarce] = np.average(b[scarce], weights=None if weight is None else weight[scarce].sum(axis=1))
        c = np.average(E[seen] / b[seen, None], axis=0, weights=None if weight is None else weight[seen])
    b = np.where(seen, b, b[seen].mean())
    B = b[:, None] * c
    concentration = old.concentration
    if E[seen].size >= MIN_GROUP_ENTRIES and A is not None and not hold:
        gap = (E / B)[seen].mean() - 1.0 + np.log(B)[seen].mean() - log_L[seen].mean()
        concentration = solve_concentration(np.full(A.shape, gap), A)
    return Prior(concentration, B.reshape(layout.sizes))


def normalise_scale(means: Sequence[float], R: Array) -> Array:
    """Log-scales of factors that bring the logarithms of their means closest together, at equal products.

    Scales are free as long as the product in every relation stays: log-scales s with R s = 0, R (n_relations,
    n_factors). Priors then do not depend on the start.
    """
    free = np.eye(len(means)) - np.linalg.pinv(R) @ R
    return np.asarray(-free @ np.log(means))
