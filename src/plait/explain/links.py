"""The known links that bear on a cell: those of every relation that share a factor row with it, and their counts there.

A known link adds expected counts to the rows it touches: n_l s_lk to entry k of a row, where n_l is M·x (Bernoulli:
M·E[n], E[n] = λ/(1 − e^−λ)) and s_lk, Σ_k s_lk = 1, says how they are shared among the row's entries: ΠL/Xhat_L, summed
over the latent indices that the row does not have. How much of the cell's rate a link is responsible for is the subject
of `plait.explain.response`.

EM has no prior: C is the total of the counts there; MAP: A − 1 + that total. Factors without a visible index (cores,
weights) have no row that belongs to an entity; all links of a relation share them, and they are left out.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plait.explain.latent import gathered, log_blocks, one_cell, operands, share
from plait.fitted import Fitted
from plait.model import Equation
from plait.model.network import CELLS, Block, contract, log_contract

if TYPE_CHECKING:
    from plait.model.model import Occurrence

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

PIECE = 1 << 20  # doubles gathered of one factor at a time
RARE = 1e-200  # Xhat_L below this may have lost components to underflow: logarithms from there on


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a factor that the cell uses.

    indices, rows: its visible indices, as the cell's equation names them, and its place. latent: its other indices;
    shares, over these: how much of the cell's mean goes through each entry. concentration: C there (EM, MAP: ∞ until
    `counted`). prior: the part of C that no link has to do with.
    """

    factor: str
    indices: tuple[str, ...]
    rows: tuple[int, ...]
    latent: tuple[str, ...]
    shares: Array
    concentration: Array
    prior: Array


@dataclass(frozen=True, eq=False)
class Touching:
    """The known links of one relation that use a row of the cell: their numbers."""

    relation: str
    row: Row
    numbers: Rows


def used_rows(fit: Fitted, equation: Equation, row: Rows) -> list[Row]:
    """The rows of free factors with visible indices that a cell uses; shares are those of its mean."""
    blocks = one_cell(fit, equation, row, "mean")
    log_rate = float(log_contract(blocks, ()))
    found = []
    for occurrence in operands(fit, equation):
        visible = tuple(index for index in occurrence.indices if index in equation.indices)
        if visible and occurrence.factor in fit.state.divergences:
            latent = tuple(index for index in occurrence.indices if index not in equation.indices)
            at = tuple(int(row[equation.indices.index(index)]) for index in visible)
            C, prior = _gamma(fit, occurrence, equation, row)
            shares = share(log_contract(blocks, latent), log_rate)
            found.append(Row(occurrence.factor, visible, at, latent, shares, C, prior))
    return found


def _gamma(fit: Fitted, occurrence: "Occurrence", equation: Equation, row: Rows) -> tuple[Array, Array]:
    """C of a row (∞ for points), and the part of it that is the prior's: A, under MAP A − 1, under EM nothing."""
    posterior, prior = fit.factors[occurrence.factor], fit.prior.get(occurrence.factor)
    A = np.zeros(()) if prior is None else np.asarray(prior.concentration) - (1.0 if fit.method == "map" else 0.0)
    whole = (posterior.concentration, np.broadcast_to(A, posterior.mean.shape))
    first, second = (gathered(array, occurrence, equation, row[None, :]).values[0] for array in whole)
    return first, second


def touching(fit: Fitted, rows: Sequence[Row]) -> list[Touching]:
    """The known links that use a row, relation by relation and row by row."""
    result = []
    for equation in fit.model.equations:
        for row in rows:
            if row.factor in equation.factors:
                numbers = np.flatnonzero(_on_row(equation, row, fit.known[equation.relation].cells))
                result.append(Touching(equation.relation, row, numbers))
    return result


def _on_row(equation: Equation, row: Row, cells: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Which cells (n, order) use this row; the equation may have other names for its indices."""
    occurrence = next(o for o in equation.occurrences if o.factor == row.factor)
    names = [index for index in occurrence.indices if index in equation.indices]
    result = np.ones(len(cells), bool)
    for index, at in zip(names, row.rows):
        result &= cells[:, equation.indices.index(index)] == at
    return result


def counted(fit: Fitted, groups: Sequence[Touching]) -> list[Touching]:
    """EM and MAP: with C = (A − 1 +) the counts of all links that touch the row. VB: as they are."""
    if fit.method == "vb":
        return list(groups)
    totals = {group.row.factor: group.row.prior.copy() for group in groups}
    for group in groups:
        for piece in pieces(fit, group):
            totals[group.row.factor] += piece.total().reshape(group.row.shares.shape)
    return [replace(g, row=replace(g.row, concentration=totals[g.row.factor])) for g in groups]


def sources(row: Row) -> tuple[float, float]:
    """How much of what the cell uses of a row comes from data, Σ share · (C − prior)/C, and how much from the prior.

    They add up to 1; in a cell of rate 0, which uses nothing, both are 0.
    """
    C, used = row.concentration, float(row.shares.sum())
    fraction = np.divide(C - row.prior, C, out=np.zeros(C.shape), where=C > 0)
    data = float(np.clip((row.shares * fraction).sum(), 0.0, 1.0))
    return data, 1.0 - data if used > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Piece:
    """Some links of a group, few enough to be gathered at once.

    counts (n,): M·x, or M·E[n]; shares (n, entries of the row): s, how they are shared; follow (n,): d log counts /
    d log λ, 0 under Poisson.
    """

    counts: Array
    shares: Array
    follow: Array

    def total(self) -> Array:
        """The counts that the links add to the row: (entries,)."""
        return np.asarray(self.counts @ self.shares)


def pieces(fit: Fitted, group: Touching) -> Iterator[Piece]:
    """The links of a group in their order, some at a time."""
    equation = fit.model.equation(group.relation)
    others = [o for o in operands(fit, equation) if o.factor != group.row.factor]
    latent = [[fit.rank[i] for i in o.indices if i in equation.latent] for o in operands(fit, equation)]
    # What is gathered of a link, and a factor more for what contracting it with a core takes.
    width = max(map(math.prod, latent), default=1) * max((fit.rank[i] for i in equation.latent), default=1)
    step = max(PIECE // width, 1)
    for at in range(0, len(group.numbers), step):
        yield _piece(fit, equation, others, group.row, group.numbers[at : at + step])


def _piece(fit: Fitted, equation: Equation, others: "Sequence[Occurrence]", row: Row, numbers: Rows) -> Piece:
    known = fit.known[equation.relation]
    cells, weights = known.cells[numbers].astype(np.int64), known.weights[numbers]
    mine = next(o for o in equation.occurrences if o.factor == row.factor)
    own = gathered(fit.factors[row.factor].geomean, mine, equation, cells[:1]).values[0]
    blocks = [Block((CELLS,), np.ones(len(cells)))]
    blocks += [gathered(fit.factors[o.factor].geomean, o, equation, cells) for o in others]
    parts = (own * contract(blocks, (CELLS, *row.latent))).reshape(len(cells), -1)
    rate = parts.sum(axis=1)
    rare = ~((rate > RARE) & np.isfinite(rate))
    shares = np.divide(parts, rate[:, None], out=np.zeros(parts.shape), where=~rare[:, None])
    if rare.any():
        shares[rare] = _shares_by_logs(log_blocks(fit, equation, cells[rare], "geomean"), row.latent)
    if fit.likelihood[equation.relation] == "bernoulli":
        exposure = fit.exposures.at(equation.relation, 0, cells)
        expected, follow = expected_counts(rate if exposure is None else rate * exposure)
        return Piece(weights * expected, shares, follow)
    return Piece(weights * known.values[numbers], shares, np.zeros(len(cells)))


def _shares_by_logs(logs: Sequence[Block], latent: tuple[str, ...]) -> Array:
    """The shares of links whose ΠL underflow; 0 where a link is impossible."""
    entries = log_contract(logs, (CELLS, *latent))
    entries = entries.reshape(len(entries), -1)
    whole = log_contract(logs, (CELLS,))[:, None]
    impossible = np.isneginf(whole)
    return np.exp(np.where(impossible, -np.inf, entries - np.where(impossible, 0.0, whole)))


def expected_counts(rate: Array) -> tuple[Array, Array]:
    """E[n] = λ/(1 − e^−λ) of a Poisson count that is not 0, and d log E[n] / d log λ = 1 − λ/(e^λ − 1); λ → 0: 1, 0."""
    small = rate < 1e-12
    safe = np.where(small, 1.0, rate)
    with np.errstate(over="ignore"):
        return np.where(small, 1.0, safe / -np.expm1(-safe)), np.where(small, 0.0, 1.0 - safe / np.expm1(safe))
