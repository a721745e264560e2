"""Entries whose scaled Xhat underflows: their counts by log-sum-exp, cell by cell.

Rows that peak at different components can underflow together although each is scaled. There are few such entries;
this path is slow, and right whatever the numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.compile.plan import Plan
from plait.execute import Stats
from plait.infer.gamma import Factor

Array = NDArray[np.float64]

einsum: Any = np.einsum  # its interleaved form (array, labels, …) has no type

CHUNK = 1 << 22  # doubles of the latent tensor worked on at a time


class ImpossibleLinkError(Exception):
    """A link whose rate is 0 whatever the updates do; by row numbers, for the caller to name."""

    def __init__(self, relation: str, cell: dict[str, int]) -> None:
        super().__init__(relation, cell)
        self.relation, self.cell = relation, cell


def rare_counts(
    plan: Plan, order: Sequence[str], stats: Stats, operands: Sequence[Factor]
) -> tuple[list[Array], float]:
    """Counts of the rare entries for every operand (stored arrays), and their part of the bound on the rows' scale."""
    counts = [np.zeros(operand.mean.shape) for operand in operands]
    latent = list(dict.fromkeys(index for operand in plan.operands for index in operand.latent))
    size = int(np.prod([plan.ranks[index] for index in latent], dtype=np.int64)) or 1
    rooms = max(CHUNK // size, 1)
    value = 0.0
    for at in range(0, len(stats.rare_entries), rooms):
        piece = slice(at, at + rooms)
        value += _chunk(plan, order, latent, stats, piece, operands, counts)
    return counts, value


def _chunk(
    plan: Plan,
    order: Sequence[str],
    latent: list[str],
    stats: Stats,
    piece: slice,
    operands: Sequence[Factor],
    counts: list[Array],
) -> float:
    cells, entries = stats.rare_cells[piece], stats.rare_entries[piece]
    columns = dict(zip(order, cells.T))
    rows = [plan.rows(position, columns) for position in range(len(operands))]
    shape = [len(cells), *(plan.ranks[index] for index in latent)]
    logs = np.zeros(shape)
    shifts = np.zeros(len(cells))
    for position, operand in enumerate(operands):
        logs += _aligned(plan, position, latent, _blocks(operand, rows[position]) - operand.shift[rows[position], None])
        shifts += operand.shift[rows[position]]
    flat = logs.reshape(len(cells), -1)
    peak = flat.max(axis=1)
    _check_possible(plan, order, cells, peak)
    share = np.exp(flat - peak[:, None])
    log_xhat = peak + np.log(share.sum(axis=1))
    expected, terms = _likelihood(plan, log_xhat, shifts + stats.rare_log_exposure[piece])
    share *= (entries * expected / share.sum(axis=1))[:, None]
    for position in range(len(operands)):
        _scatter(plan, position, latent, share.reshape(shape), rows[position], operands[position], counts[position])
    return float(entries @ terms)


def _likelihood(plan: Plan, log_xhat: Array, scale: Array) -> tuple[Array | float, Array]:
    """E[n] beside x = 1 and the entry's term of the bound (Poisson: on the rows' scale)."""
    if plan.kind == "poisson":
        return 1.0, log_xhat
    log_rate = log_xhat + scale
    rate = np.exp(np.clip(log_rate, -37.0, 700.0))
    miss = -np.expm1(-rate)
    low = log_rate < -37.0
    return np.where(low, 1.0, rate / miss), np.where(low, log_rate, rate + np.log(miss))


def _blocks(operand: Factor, rows: NDArray[np.int64]) -> Array:
    """log L of the rows, without padding: (rows, latent entries)."""
    layout = operand.layout
    if not layout.latent:
        return operand.log_geomean[rows]
    return operand.log_geomean[rows].reshape(len(rows), -1, layout.pad)[..., : layout.real].reshape(len(rows), -1)


def _aligned(plan: Plan, position: int, latent: list[str], blocks: Array) -> Array:
    """An operand's latent block with its axes where the whole latent tensor has them."""
    own = plan.operands[position].latent
    block = blocks.reshape(len(blocks), *(plan.ranks[index] for index in own))
    block = block.transpose(0, *(1 + own.index(index) for index in latent if index in own))
    return block.reshape(len(blocks), *(plan.ranks[index] if index in own else 1 for index in latent))


def _scatter(
    plan: Plan, position: int, latent: list[str], share: Array, rows: NDArray[np.int64], operand: Factor, counts: Array
) -> None:
    """Add the shares, summed over what the operand does not have, to its rows."""
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
