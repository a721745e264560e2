"""Runs a step by dense einsum: slow, obvious, the oracle of every kernel."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.compile.step import Operand, Step, least_rate, padded

Array = NDArray[np.float64]

einsum: Any = np.einsum  # its interleaved form (array, labels, …) has no type


def run(
    step: Step,
    sizes: tuple[int, ...],
    cells: NDArray[np.integer],
    entries: Array,
    arrays: list[Array],
    shifts: list[Array] | None = None,
    log_exposure: Array | None = None,
) -> tuple[list[Array], float, NDArray[np.int64]]:
    """Gradients of the wanted operands (as stored), Σ of the entries' part of the bound, positions of rare entries.

    `cells` (n, levels) are in the step's order; `arrays` are stored operands, `shifts` their rows' log-scales.
    """
    letters = {index: n for n, index in enumerate([*step.order, *(index for index, _ in step.extents)])}
    dense = [_dense(step, operand, sizes, np.asarray(z, np.float64)) for operand, z in zip(step.operands, arrays)]
    labels = [[letters[index] for index in (*o.visible, *o.latent)] for o in step.operands]
    visible = list(range(len(step.order)))
    at, entries = tuple(cells.T), np.asarray(entries, np.float64)
    weights, value, rare = entries, 0.0, np.zeros(0, np.int64)
    if step.kind != "linear":
        operands = [x for pair in zip(dense, labels) for x in pair]
        ones = [x for level, size in enumerate(sizes) for x in (np.ones(size), [level])]
        xhat = einsum(*operands, *ones, visible, optimize=True)[at]
        tiny = least_rate(arrays)
        rare = np.flatnonzero(xhat < tiny)
        fine = np.where(xhat < tiny, 1.0, xhat)
        weights, terms = _likelihood(step, sizes, at, entries, fine, shifts, log_exposure)
        weights[rare] = 0.0
        value = float(np.delete(terms, rare).sum())
    table = np.zeros(sizes)
    np.add.at(table, at, weights)
    return [_gradient(step, position, table, dense, labels) for position in step.wanted], value, rare


def _dense(step: Step, operand: Operand, sizes: tuple[int, ...], stored: Array) -> Array:
    rows = [sizes[step.order.index(index)] for index in operand.visible]
    columns = [step.extent(index) for index in operand.latent]
    if not columns:
        return stored.reshape(rows)
    return stored.reshape(*rows, *columns[:-1], padded(columns[-1]))[..., : columns[-1]]


def _likelihood(
    step: Step,
    sizes: tuple[int, ...],
    at: tuple[NDArray[np.integer], ...],
    entries: Array,
    xhat: Array,
    shifts: list[Array] | None,
    log_exposure: Array | None,
) -> tuple[Array, Array]:
    """What multiplies ∂Xhat, and each entry's part of the bound."""
    if step.kind == "poisson":
        return entries / xhat, entries * np.log(xhat)
    log_rate = np.log(xhat) + (0.0 if log_exposure is None else log_exposure)
    for operand, shift in zip(step.operands, shifts or []):
        levels = [step.order.index(index) for index in operand.visible]
        rows = np.ravel_multi_index([at[n] for n in levels], [sizes[n] for n in levels]) if levels else 0
        log_rate = log_rate + shift[rows]
    rate = np.exp(log_rate)
    miss = -np.expm1(-rate)
    return entries * rate / miss / xhat, entries * (rate + np.log(miss))


def _gradient(step: Step, position: int, table: Array, dense: list[Array], labels: list[list[int]]) -> Array:
    """Δ of one operand: the table contracted with all others, copied along indices that only this operand has."""
    others = [x for n in range(len(dense)) if n != position for x in (dense[n], labels[n])]
    target, own = dense[position], labels[position]
    present = {label for n in range(len(dense)) if n != position for label in labels[n]} | set(range(len(step.order)))
    kept = [label for label in own if label in present]
    small = einsum(table, list(range(len(step.order))), *others, kept, optimize=True)
    full = np.broadcast_to(small.reshape([n if k in kept else 1 for k, n in zip(own, target.shape)]), target.shape)
    operand = step.operands[position]
    if not operand.latent:
        return np.array(full).reshape(-1, 1)
    last = full.shape[-1]
    stored = np.zeros((*full.shape[:-1], padded(last)))
    stored[..., :last] = full
    columns = stored.shape[len(operand.visible) :]
    return stored.reshape(-1, int(np.prod(columns)))
