"""Dense reference of a step, by einsum: the oracle of every kernel."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.step import Operand, Step, least_rate, padded
from plait.likelihood import State

Places = tuple[NDArray[np.integer], ...]

einsum: Any = np.einsum  # its interleaved form (array, labels, …) has no type


def run(
    step: Step,
    sizes: tuple[int, ...],
    cells: NDArray[np.integer],
    entries: Array,
    arrays: list[Array],
    side_values: Sequence[Array] = (),
    numbers: Mapping[int, NDArray[np.int64]] | None = None,
    state: State | None = None,
) -> tuple[list[Array], Array, NDArray[np.int64]]:
    """Gradients of the wanted operands (as stored), Σ of the entries' parts of F and of M·E[n], underflowing entries.

    `cells` (n, n_levels) are in the step's order; `arrays` are stored operands, `side_values` the stored x of entries,
    where they are read, and the V of exposed terms. `numbers`: row at every entry, of operands over pairs. `state`: of
    the likelihood.
    """
    numbers = numbers or {}
    stored = [_combined(step, p, sizes, cells, z, numbers[p]) if p in numbers else z for p, z in enumerate(arrays)]
    letters = {index: n for n, index in enumerate([*step.order, *(index for index, _ in step.extents)])}
    dense = [_dense(step, operand, sizes, np.asarray(z, np.float64)) for operand, z in zip(step.operands, stored)]
    labels = [[letters[index] for index in (*o.visible, *o.latent)] for o in step.operands]
    at, entries = tuple(cells.T), np.asarray(entries, np.float64)
    exposures = side_values[1:] if step.valued else side_values
    V = dict(zip(step.exposed, exposures))
    weights, value, underflow = entries, np.zeros(2), np.zeros(0, np.int64)
    if step.likelihood is not None:
        rates = [_rate(step, term, sizes, dense, labels)[at] * V.get(term, 1.0) for term in range(step.terms)]
        xhat, tiny = np.sum(rates, axis=0), least_rate(arrays)
        underflow = np.flatnonzero(xhat < tiny)
        fine = np.where(xhat < tiny, 1.0, xhat)
        values = step.likelihood.restored(side_values[0]) if step.valued else np.ones(len(entries))
        expected, terms = step.likelihood.expect(values, np.log(fine), state or {})
        weights = np.where(xhat < tiny, 0.0, entries * expected / fine)
        value = np.array([np.delete(entries * each, underflow).sum() for each in (terms, expected)])
    tables = [_table(sizes, at, weights * V.get(term, 1.0)) for term in range(step.terms)]
    gradients = [_gradient(step, p, tables[step.operands[p].term], dense, labels) for p in step.wanted]
    for n, p in enumerate(step.wanted):
        if p in numbers:
            gradient = np.zeros(arrays[p].shape)
            gradient[numbers[p]] = gradients[n][_places(step, p, sizes, cells)]
            gradients[n] = gradient
    return gradients, value, underflow


def _places(step: Step, position: int, sizes: tuple[int, ...], cells: NDArray[np.integer]) -> NDArray[np.int64]:
    """Rows of entries, had the operand one for every combination of its visible indices."""
    levels = [step.order.index(index) for index in step.operands[position].visible]
    return np.asarray(np.ravel_multi_index([cells[:, n] for n in levels], [sizes[n] for n in levels]), np.int64)


def _combined(
    step: Step, position: int, sizes: tuple[int, ...], cells: NDArray[np.integer], stored: Array, rows: Any
) -> Array:
    """An operand over pairs with a row for every combination; 0 without an entry."""
    count = math.prod(sizes[step.order.index(index)] for index in step.operands[position].visible)
    whole = np.zeros((count, stored.shape[1]))
    whole[_places(step, position, sizes, cells)] = stored[rows]
    return whole


def _table(sizes: tuple[int, ...], at: Places, weights: Array) -> Array:
    table = np.zeros(sizes)
    np.add.at(table, at, weights)
    return table


def _rate(step: Step, term: int, sizes: tuple[int, ...], dense: list[Array], labels: list[list[int]]) -> Array:
    """Σ_latent Π of a term's operands, at every cell."""
    own = [x for o, z, label in zip(step.operands, dense, labels) if o.term == term for x in (z, label)]
    ones = [x for level, size in enumerate(sizes) for x in (np.ones(size), [level])]
    return np.asarray(einsum(*own, *ones, list(range(len(sizes))), optimize=True))


def _dense(step: Step, operand: Operand, sizes: tuple[int, ...], stored: Array) -> Array:
    rows = [sizes[step.order.index(index)] for index in operand.visible]
    columns = [step.extent(index) for index in operand.latent]
    if not columns:
        return stored.reshape(rows)
    return stored.reshape(*rows, *columns[:-1], padded(columns[-1]))[..., : columns[-1]]


def _gradient(step: Step, position: int, table: Array, dense: list[Array], labels: list[list[int]]) -> Array:
    """Δ of one operand: the table contracted with all others of its term, broadcast along indices that only it has."""
    term = step.operands[position].term
    others = [n for n, operand in enumerate(step.operands) if operand.term == term and n != position]
    target, own = dense[position], labels[position]
    present = {label for n in others for label in labels[n]} | set(range(len(step.order)))
    kept = [label for label in own if label in present]
    operands = [x for n in others for x in (dense[n], labels[n])]
    small = einsum(table, list(range(len(step.order))), *operands, kept, optimize=True)
    full = np.broadcast_to(small.reshape([n if k in kept else 1 for k, n in zip(own, target.shape)]), target.shape)
    operand = step.operands[position]
    if not operand.latent:
        return np.array(full).reshape(-1, 1)
    last = full.shape[-1]
    stored = np.zeros((*full.shape[:-1], padded(last)))
    stored[..., :last] = full
    columns = stored.shape[len(operand.visible) :]
    return stored.reshape(-1, int(np.prod(columns)))
