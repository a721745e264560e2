"""Entries whose scaled Xhat underflows: counts by log-sum-exp, cell by cell.

Rows with maxima at different components can underflow together although each is scaled. Such entries are rare; this
path is slow and exact.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.plan import Plan
from plait.executors import Stats
from plait.inference.gamma import FactorState
from plait.likelihood import State
from plait.model.network import log_sum
from plait.tuning import TUNING

einsum: Any = np.einsum  # its interleaved form (array, labels, …) has no type


class ImpossibleLinkError(Exception):
    """A link with rate 0 under any update; by row numbers, for the caller to name."""

    def __init__(self, relation: str, cell: dict[str, int]) -> None:
        super().__init__(relation, cell)
        self.relation, self.cell = relation, cell


def underflow_counts(
    plan: Plan, order: Sequence[str], stats: Stats, operands: Sequence[FactorState], state: State | None = None
) -> tuple[list[Array], Array]:
    """Counts of underflowing entries for every operand (stored arrays), and their part of F and of ΣM E[n].

    F is relative to the scale of the rows, unless the true scale matters.
    """
    counts = [np.zeros(operand.exp_mean_log.shape) for operand in operands]
    terms = [_Term(plan, term, operands) for term in range(plan.terms)]
    value = np.zeros(2)
    for piece in _pieces(terms, len(stats.underflow_entries)):
        value += _chunk(plan, order, terms, stats, piece, counts, state or {})
    return counts, value


def log_rates(
    plan: Plan,
    columns: Mapping[str, NDArray[np.integer]],
    exposures: Sequence[Array | None],
    operands: Sequence[FactorState],
) -> Array:
    """log λ_L at cells given by columns, (n_cells,); `exposures`: V of every term there."""
    terms, count = [_Term(plan, term, operands) for term in range(plan.terms)], len(next(iter(columns.values())))
    result = np.empty(count)
    for piece in _pieces(terms, count):
        some = {index: column[piece].astype(np.int64) for index, column in columns.items()}
        logs = [term.logs(some, len(result[piece])) for term in terms]
        with np.errstate(divide="ignore"):
            for own, V in zip(logs, exposures):
                own += 0.0 if V is None else np.log(V[piece])[:, None]
        result[piece] = log_sum(np.stack([log_sum(own, axis=1) for own in logs]), axis=0)
    return result


def _pieces(terms: "Sequence[_Term]", count: int) -> list[slice]:
    chunk = max(TUNING.underflow_chunk // sum(term.size for term in terms), 1)
    return [slice(at, at + chunk) for at in range(0, count, chunk)]


def _chunk(
    plan: Plan,
    order: Sequence[str],
    terms: "Sequence[_Term]",
    stats: Stats,
    piece: slice,
    counts: list[Array],
    state: State,
) -> Array:
    cells, entries, side_values = (
        stats.underflow_cells[piece],
        stats.underflow_entries[piece],
        stats.underflow_side_values[piece].T,
    )
    likelihood, columns = plan.likelihood, dict(zip(order, cells.T))
    values = likelihood.restored(side_values[0]) if likelihood.reads_values else np.ones(len(cells))
    exposures = side_values[1:] if likelihood.reads_values else side_values
    logs = [term.logs(columns, len(cells)) for term in terms]
    if plan.terms == 1:  # relative to the rows' scale, where kernels are
        logs[0] -= terms[0].shifts(columns, len(cells))[:, None]
    with np.errstate(divide="ignore"):
        for term, V in zip(plan.exposed, exposures):
            logs[term] += np.log(V)[:, None]
    peak = np.max([flat.max(axis=1) for flat in logs], axis=0)
    _check_possible(plan, order, cells, peak)
    shares = [np.exp(flat - peak[:, None]) for flat in logs]
    whole = np.sum([share.sum(axis=1) for share in shares], axis=0)
    expected, log_terms = likelihood.expect(values, peak + np.log(whole), state)
    for own, share in zip(terms, shares):
        own.scatter(share * (entries * expected / whole)[:, None], columns, counts)
    return np.array([entries @ log_terms, entries @ expected])


class _Term:
    """Operands of one term, at cells given by columns."""

    def __init__(self, plan: Plan, term: int, operands: Sequence[FactorState]) -> None:
        self.plan, self.operands = plan, operands
        self.positions = [p for p, operand in enumerate(plan.operands) if operand.term == term]
        self.latent = list(dict.fromkeys(i for p in self.positions for i in plan.operands[p].latent))
        self.shape = [plan.ranks[index] for index in self.latent]
        self.size = math.prod(self.shape)

    def logs(self, columns: Mapping[str, NDArray[np.int64]], count: int) -> Array:
        """Σ log L over all settings of the latent indices, (n_cells, n_settings)."""
        logs = np.zeros([count, *self.shape])
        for p in self.positions:
            blocks = _blocks(self.operands[p], self.plan.rows(p, columns))
            logs += _aligned(self.plan, p, self.latent, blocks)
        return logs.reshape(count, -1)

    def shifts(self, columns: Mapping[str, NDArray[np.int64]], count: int) -> Array:
        """Sum of the log-scales of the rows of each cell, (n_cells,)."""
        rows = ((p, self.plan.rows(p, columns)) for p in self.positions)
        return sum((self.operands[p].shift[row] for p, row in rows), np.zeros(count))

    def scatter(self, share: Array, columns: Mapping[str, NDArray[np.int64]], counts: list[Array]) -> None:
        """Add shares (n_cells, n_settings) to the counts of every operand."""
        share = share.reshape(len(share), *self.shape)
        for p in self.positions:
            _scatter(self.plan, p, self.latent, share, self.plan.rows(p, columns), self.operands[p], counts[p])


def _blocks(operand: FactorState, rows: NDArray[np.int64]) -> Array:
    """log L of the rows, without padding, (n_rows, n_entries)."""
    layout = operand.layout
    if not layout.latent:
        return operand.log_geomean[rows]
    return operand.log_geomean[rows].reshape(len(rows), -1, layout.pad)[..., : layout.real].reshape(len(rows), -1)


def _aligned(plan: Plan, position: int, latent: list[str], blocks: Array) -> Array:
    """Latent block of an operand, with axes in the order of the whole latent tensor."""
    own = plan.operands[position].latent
    block = blocks.reshape(len(blocks), *(plan.ranks[index] for index in own))
    block = block.transpose(0, *(1 + own.index(index) for index in latent if index in own))
    return block.reshape(len(blocks), *(plan.ranks[index] if index in own else 1 for index in latent))


def _scatter(
    plan: Plan,
    position: int,
    latent: list[str],
    share: Array,
    rows: NDArray[np.int64],
    operand: FactorState,
    counts: Array,
) -> None:
    """Add the shares, summed over indices that the operand lacks, to its rows."""
    own, layout = plan.operands[position].latent, operand.layout
    letters = {index: n for n, index in enumerate(latent, start=1)}
    block = einsum(share, [0, *letters.values()], [0, *(letters[index] for index in own)])
    stored = np.zeros((len(rows), layout.columns))
    if own:
        stored.reshape(*block.shape[:-1], layout.pad)[..., : layout.real] = block
    else:
        stored[:, 0] = block
    np.add.at(counts, rows, stored)


def _check_possible(plan: Plan, order: Sequence[str], cells: NDArray[np.int64], peak: Array) -> None:
    if np.isneginf(peak).any():
        raise ImpossibleLinkError(plan.relation, dict(zip(order, cells[int(np.argmin(peak))].tolist())))
