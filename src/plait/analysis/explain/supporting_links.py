"""Supporting links of a cell: known links of every relation that share a factor row with it, and their expected counts
there.

A known link adds expected counts n_l s_lk to entry k of each row that it uses, where n_l is M·x (Bernoulli: M·E[n],
E[n] = λ/(1 − e^−λ)) and s_lk is the part that goes through the entry: V ΠL/λ_L, summed over all terms with the row and
over the latent indices that it lacks. In a single product Σ_k s_lk = 1; in a sum other terms have the rest. A factor
that occurs twice has two rows in a link.

Under EM, C is the total of these counts; under MAP, A − 1 + that total. Factors without a visible index (cores,
weights) are left out: all links of a relation share them.
"""

import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.analysis.explain.component_terms import (
    latent_sizes,
    log_rates,
    operands,
    rows_at,
    share,
    split_indices,
    terms_at,
)
from plait.model import Equation
from plait.model.model import Occurrence
from plait.model.network import CELLS, contract, log_contract
from plait.storage.fitted import Fitted, prior_concentration

Key = tuple[str, tuple[int, ...]]

CHUNK_DOUBLES = 1 << 20  # gathered of one factor at a time
MAX_CACHED_CHUNKS = 4  # per group, which is read two or three times
CACHE_BYTES = 96_000_000  # of rows, from one explanation to the next
MIN_RATE = 1e-200  # smaller Xhat_L may have lost components to underflow: computed in logarithms


@dataclass(frozen=True, eq=False)
class Row:
    """A row of a factor that the cell uses.

    `indices`, `rows`: its visible indices, as named in the cell's equation, and their row numbers. Arrays are over its
    other indices. `shares`: share of the cell's mean through each entry, in all terms. `concentration`: C (EM, MAP: ∞
    until `counted`). `prior`: the part of C that does not come from links.
    """

    factor: str
    indices: tuple[str, ...]
    rows: tuple[int, ...]
    shares: Array
    concentration: Array
    prior: Array

    @property
    def key(self) -> Key:
        return self.factor, self.rows


@dataclass(frozen=True, eq=False)
class Touching:
    """Numbers of the known links of one relation that use a row of the cell."""

    relation: str
    row: Row
    numbers: Rows
    kept: "list[LinkGroup]" = field(default_factory=list, repr=False)  # cached chunks, if few
    inverses: "list[Array]" = field(default_factory=list, repr=False)  # K⁻¹ of the row (`influence`), once it is known


def used_rows(fit: Fitted, equation: Equation, cell: Rows) -> list[Row]:
    """Rows of free factors with visible indices that a cell uses, each once; shares are those of its mean."""
    terms = terms_at(fit, equation, cell[None, :], "mean")
    log_rate = log_rates(terms)
    rows: dict[Key, Row] = {}
    for blocks, term in zip(terms, equation.terms):
        for use in operands(fit, term):
            visible, latent = split_indices(use, equation)
            if visible and use.factor in fit.state.divergences:
                at = tuple(int(cell[equation.indices.index(index)]) for index in visible)
                shares = share(log_contract(blocks, (CELLS, *latent))[0], float(log_rate[0]))
                if (row := rows.get((use.factor, at))) is not None:
                    rows[row.key] = replace(row, shares=row.shares + shares)
                else:
                    new = Row(use.factor, visible, at, shares, *_gamma(fit, use, equation, cell))
                    rows[new.key] = new
    return list(rows.values())


def _gamma(fit: Fitted, use: Occurrence, equation: Equation, cell: Rows) -> tuple[Array, Array]:
    """C of a row (∞ for points), and its part from the prior: A, under MAP A − 1, under EM 0."""
    posterior, prior = fit.factors[use.factor], fit.prior.get(use.factor)
    excess = 1.0 if fit.method == "map" else 0.0
    A = np.zeros(()) if prior is None else prior_concentration(fit, use.factor) - excess
    if posterior.pairs is not None:
        A = posterior.pairs.for_rows(A)
    whole = (posterior.concentration, np.broadcast_to(A, posterior.mean.shape))
    first, second = (rows_at(array, posterior.pairs, use, equation, cell[None, :]).values[0] for array in whole)
    return first, second


def touching(fit: Fitted, rows: Sequence[Row]) -> list[Touching]:
    """Known links that use a row, by relation and row. Explanations of one fit share them: they and what is computed
    of them do not depend on the cell.
    """
    cache: OrderedDict[tuple[str, Key], Touching] = fit._cached_answers.setdefault("touching links", OrderedDict())
    result = []
    for equation in fit.model.equations:
        cells = fit.known[equation.relation].cells
        for row in rows:
            uses = dict.fromkeys(o for o in equation.occurrences if o.factor == row.factor)
            if uses:
                links = cache.pop((equation.relation, row.key), None)  # the last one used is the last to go
                if links is None:
                    on_row = np.any([_on_row(equation, use, row, cells) for use in uses], axis=0)
                    links = Touching(equation.relation, row, np.flatnonzero(on_row))
                cache[equation.relation, row.key] = links
                result.append(replace(links, row=row))  # with its lists, which later explanations read
    size = sum(map(_bytes, cache.copy().values()))
    while size > CACHE_BYTES and len(cache) > len(result):
        size -= _bytes(cache.popitem(last=False)[1])
    return result


def _bytes(group: Touching) -> int:
    """Memory of a group with its chunks and K⁻¹."""
    columns = group.row.shares.size
    return int(8 * (len(group.numbers) * (columns + 3) + columns * columns))


def _on_row(equation: Equation, use: Occurrence, row: Row, cells: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Cells (n, order) at which an occurrence of the factor takes this row."""
    result = np.ones(len(cells), bool)
    for index, at in zip(split_indices(use, equation)[0], row.rows):
        result &= cells[:, equation.indices.index(index)] == at
    return result


def counted(fit: Fitted, groups: Sequence[Touching]) -> list[Touching]:
    """EM and MAP: set C to the counts of all links of the row (MAP: + A − 1). VB: unchanged."""
    if fit.method == "vb":
        return list(groups)
    totals = {group.row.key: group.row.prior.copy() for group in groups}
    for group in groups:
        for piece in pieces(fit, group):
            totals[group.row.key] += piece.total().reshape(group.row.shares.shape)
    return [replace(g, row=replace(g.row, concentration=totals[g.row.key])) for g in groups]


def sources(row: Row) -> tuple[float, float]:
    """Shares of data, Σ share · (C − prior)/C, and of the prior in the cell's use of a row.

    They add up to 1; in a cell of rate 0 both are 0.
    """
    C, used = row.concentration, float(row.shares.sum())
    if not used > 0:
        return 0.0, 0.0
    fraction = np.divide(C - row.prior, C, out=np.zeros(C.shape), where=C > 0)
    data = float(np.clip((row.shares * fraction).sum() / used, 0.0, 1.0))
    return data, 1.0 - data


@dataclass(frozen=True, eq=False)
class LinkGroup:
    """A chunk of links of a group.

    `counts` (n,): M·x, or M·E[n]; `shares` (n, n_entries): s; `follow` (n,): d log counts / d log λ, 0 under Poisson.
    """

    counts: Array
    shares: Array
    follow: Array

    def total(self) -> Array:
        """Counts that the links add to the row, (n_entries,)."""
        return np.asarray(self.counts @ self.shares)


def pieces(fit: Fitted, group: Touching) -> Iterator[LinkGroup]:
    """Links of a group in order, in chunks; cached if few."""
    if group.kept:
        yield from group.kept
        return
    equation = fit.model.equation(group.relation)
    step = max(CHUNK_DOUBLES // _gathered_per_link(fit, equation), 1)
    few = len(group.numbers) <= MAX_CACHED_CHUNKS * step
    groups: list[LinkGroup] = []
    for at in range(0, len(group.numbers), step):
        piece = _link_group(fit, equation, group.row, group.numbers[at : at + step])
        if few:
            groups.append(piece)
        yield piece
    group.kept[:] = groups  # threads may do so at the same time


def _gathered_per_link(fit: Fitted, equation: Equation) -> int:
    """Doubles of the widest row of a factor: contractions with it are no wider. Sparse factors stay sparse."""
    most = [1]
    for number, (term, rank) in enumerate(zip(equation.terms, latent_sizes(fit, equation))):
        if fit.exposures.summed_in(equation.relation, number) is None:
            most.extend(math.prod(rank.get(index, 1) for index in use.indices) for use in term.occurrences)
    return max(most)


def _link_group(fit: Fitted, equation: Equation, row: Row, numbers: Rows) -> LinkGroup:
    known = fit.known[equation.relation]
    cells = known.cells[numbers].astype(np.int64)
    parts, rate = _through(fit, equation, row, cells, logs=False)
    underflow = ~((rate > MIN_RATE) & np.isfinite(rate))
    shares = np.divide(parts, rate[:, None], out=np.zeros(parts.shape), where=~underflow[:, None])
    logs = np.full(len(rate), -np.inf)
    np.log(rate, out=logs, where=rate > 0)
    if underflow.any():
        entries, logs[underflow] = _through(fit, equation, row, cells[underflow], logs=True)
        shares[underflow] = share(entries, logs[underflow, None])
    expected, follow = expected_counts(fit, equation.relation, known.values[numbers], logs)
    return LinkGroup(known.weights[numbers] * expected, shares, follow)


def _through(fit: Fitted, equation: Equation, row: Row, cells: Rows, *, logs: bool) -> tuple[Array, Array]:
    """Part of the rates λ_L of links through each entry of a row, (n, n_entries), and λ_L, (n,); or logarithms."""
    summed, added, nothing = (log_contract, np.logaddexp, -np.inf) if logs else (contract, np.add, 0.0)
    parts, rate = np.full((len(cells), *row.shares.shape), nothing), np.full(len(cells), nothing)
    for blocks, term in zip(terms_at(fit, equation, cells, "exp_mean_log", logs=logs), equation.terms):
        rate = added(rate, summed(blocks, (CELLS,)))
        for use in operands(fit, term):
            if use.factor == row.factor and (here := _on_row(equation, use, row, cells)).any():
                own = summed(blocks, (CELLS, *split_indices(use, equation)[1]))
                parts[here] = added(parts[here], own[here])
    return parts.reshape(len(cells), -1), rate


def expected_counts(fit: Fitted, relation: str, values: Array, log_rate: Array) -> tuple[Array, Array]:
    """E[n] of values x at log λ_L, and η = d log E[n] / d log λ = Var[n] / E[n], both (n,).

    Poisson: x and 0. Bernoulli: λ/(1 − e^−λ) and 1 − λ/(e^λ − 1). Both are 0 for x = 0.
    """
    likelihood, state, some = fit.likelihood[relation], fit.likelihood_params[relation], values > 0
    mean, follow = np.zeros(len(values)), np.zeros(len(values))
    mean[some] = likelihood.expect(values[some], log_rate[some], state)[0]
    follow[some] = likelihood.follow(values[some], log_rate[some], state)
    return mean, follow
