"""Components of an equation at cells, in logarithms, so that nothing underflows and no core tensor is formed.

A cell selects one row of every factor, an array over its latent indices. A component is a term with one setting of its
latent indices; it adds V times the product of these rows to the cell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from plait import special
from plait._typing import Array, Rows
from plait.data.binding.sparse_factors import SparseFactor
from plait.data.observation.pairs import Pairs
from plait.model import Equation
from plait.model.model import Occurrence, Summand
from plait.model.network import CELLS, RowBlock, gather, log_contract, log_sum, sizes_of
from plait.storage.fitted import Fitted, Posterior

Kind = Literal["mean", "exp_mean_log"]

MAX_DENSE_ENTRIES = 1 << 22  # of a sparse given factor at cells of which components are wanted


def operands(fit: Fitted, term: Summand) -> list[Occurrence]:
    """Factors of a term that are not exposures."""
    return [occurrence for occurrence in term.occurrences if occurrence.factor in fit.factors]


def split_indices(occurrence: Occurrence, equation: Equation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Visible and latent indices of an occurrence."""
    visible = tuple(index for index in occurrence.indices if index in equation.indices)
    return visible, tuple(index for index in occurrence.indices if index not in visible)


def latent_sizes(fit: Fitted, equation: Equation) -> list[dict[str, int]]:
    """Ranks of the latent indices of every term, in order."""
    sizes = []
    for term in equation.terms:
        sizes.append({index: fit.rank[index] for index in equation.latent_of(term)})
    return sizes


def rows_at(array: Array, pairs: Pairs | None, occurrence: Occurrence, equation: Equation, cells: Rows) -> RowBlock:
    """Rows of a factor (as written) at cells (n, order). `pairs`: of a factor over pairs."""
    places = {index: n for n, index in enumerate(equation.indices)}
    if pairs is None:
        return gather(array, occurrence.indices, places, cells)
    here = dict(zip(pairs.indices, occurrence.indices))
    at = pairs.find([cells[:, places[here[index]]] for index in pairs.visible])
    return RowBlock((CELLS, *(here[index] for index in pairs.indices if index not in pairs.visible)), array[at])


def free_name(name: str, equation: Equation) -> str:
    """`name`, changed if an index of the equation has it."""
    return f"{name}_" if name in (*equation.indices, *equation.latent) else name


def name_terms(equation: Equation) -> list[str]:
    """Names of the terms of a sum: their factors, in full where these are not unique; "" for a single term."""
    short = [" ".join(term.factors) for term in equation.terms]
    return [""] if len(short) == 1 else short if len(set(short)) == len(short) else list(map(str, equation.terms))


def terms_at(fit: Fitted, equation: Equation, cells: Rows, kind: Kind, *, logs: bool = True) -> list[list[RowBlock]]:
    """Logarithms of V, (n,), and of E or L of the rows at cells (n, order), term by term; with `logs=False` the
    numbers.

    A term without an exposure has V = 1.
    """
    terms = []
    for number, term in enumerate(equation.terms):
        given = fit.exposures.at(equation.relation, number, cells)
        V = np.ones(len(cells)) if given is None else given
        with np.errstate(divide="ignore"):
            blocks = [RowBlock((CELLS,), np.log(V) if logs else V)]
        if (sparse := fit.exposures.summed_in(equation.relation, number)) is not None:
            blocks.extend(_summed_blocks(fit, sparse, cells, kind, logs))
            terms.append(blocks)
            continue
        for o in operands(fit, term):
            posterior = fit.factors[o.factor]
            own = rows_at(getattr(posterior, kind), posterior.pairs, o, equation, cells)
            blocks.append(RowBlock(own.indices, _logs(kind, posterior, o, equation, cells)) if logs else own)
        terms.append(blocks)
    return terms


def _summed_blocks(fit: Fitted, sparse: SparseFactor, cells: Rows, kind: Kind, logs: bool) -> list[RowBlock]:
    """Blocks of a term with a sparse given factor; for many cells one of its sums over the index."""
    weights, rows = getattr(fit.factors[sparse.weights], kind), sparse.rows(cells)
    blocks = [RowBlock((CELLS,), rows @ weights)]
    if len(cells) * sparse.size <= MAX_DENSE_ENTRIES:
        blocks = [RowBlock((CELLS, sparse.index), rows.toarray()), RowBlock((sparse.index,), weights)]
    with np.errstate(divide="ignore"):
        return [RowBlock(block.indices, np.log(block.values)) for block in blocks] if logs else blocks


def _logs(kind: Kind, posterior: Posterior, occurrence: Occurrence, equation: Equation, cells: Rows) -> Array:
    """log E = log C + log D, log L = ψ(C) + log D; for points log Z, −∞ where Z = 0."""
    arrays = (posterior.concentration, posterior.scale, posterior.mean)
    C, D, mean = (rows_at(array, posterior.pairs, occurrence, equation, cells).values for array in arrays)
    with np.errstate(divide="ignore"):
        return np.asarray(
            np.log(mean) if np.isinf(C).any() else (np.log if kind == "mean" else special.psi)(C) + np.log(D)
        )


def log_rates(terms: Sequence[Sequence[RowBlock]]) -> Array:
    """log Σ_terms V Σ Π at cells, (n,), from the logarithms of `terms_at`."""
    return log_sum(np.stack([log_contract(blocks, (CELLS,)) for blocks in terms]), axis=0)


@dataclass(frozen=True, eq=False)
class Components:
    """Leading components of n cells, largest share first.

    `latent`: indices of all terms. `terms` (n, k): term numbers; `settings` (n, k, n_latent): values of the indices, −1
    for indices that the term lacks; `shares` (n, k). `total`: number of components of a cell. `log_rates` (n,): log of
    the sum of all components; where it is −∞ all shares are 0.
    """

    latent: tuple[str, ...]
    terms: Rows
    settings: Rows
    shares: Array
    total: int
    log_rates: Array

    @property
    def remainder(self) -> Array:
        """Share of the components that are not listed, (n,)."""
        listed = self.shares.shape[1] == self.total or np.isneginf(self.log_rates)
        return np.where(listed, 0.0, np.maximum(0.0, 1.0 - self.shares.sum(axis=1)))


def components(terms: Sequence[Sequence[RowBlock]], latent: Sequence[tuple[str, ...]], most: int) -> Components:
    """Leading components of cells by share, V Π / Σ of all such products.

    `terms`: logarithms of `terms_at`; `latent`: latent indices of each term.
    """
    names = tuple(dict.fromkeys(index for own in latent for index in own))
    leading = [_leading(blocks, own, most) for blocks, own in zip(terms, latent)]
    settings = np.concatenate([_spread_settings(one, own, names) for (one, _), own in zip(leading, latent)], axis=1)
    numbers = np.concatenate([np.full(logs.shape, n) for n, (_, logs) in enumerate(leading)], axis=1)
    logs, rates = np.concatenate([logs for _, logs in leading], axis=1), log_rates(terms)
    order = np.argsort(-logs, axis=1, kind="stable")[:, :most]
    sizes = [sizes_of(blocks) for blocks in terms]
    total = sum(math.prod(own[index] for index in indices) for own, indices in zip(sizes, latent))
    shares = share(np.take_along_axis(logs, order, 1), rates[:, None])
    settings = np.take_along_axis(settings, order[:, :, None], 1)
    return Components(names, np.take_along_axis(numbers, order, 1), settings, shares, total, rates)


def _leading(blocks: Sequence[RowBlock], latent: tuple[str, ...], most: int) -> tuple[Rows, Array]:
    """Leading settings of one term, (n, k, n_latent), and the logarithms of their contributions, (n, k).

    Beam search, index by index, over the `most` prefixes with the largest shares. The share of a prefix is that of all
    its components, so only a leading component with a weak prefix could be missed.
    """
    sizes = sizes_of(blocks)
    cells = sizes.get(CELLS, 1)
    settings, logs = np.zeros((cells, 1, 0), np.int64), log_contract(blocks, (CELLS,))[:, None]
    for depth, index in enumerate(latent):
        begun = [_continued(block, latent[:depth], settings) for block in blocks]
        every = RowBlock((CELLS,), np.zeros(settings.shape[0] * settings.shape[1]))
        here = log_contract([every, *begun], (CELLS, index)).reshape(cells, -1)
        order = np.argsort(-here, axis=1, kind="stable")[:, :most]
        before, value = np.divmod(order, sizes[index])
        settings = np.take_along_axis(settings, before[:, :, None], 1)
        settings, logs = np.concatenate([settings, value[:, :, None]], axis=2), np.take_along_axis(here, order, 1)
    return settings, logs


def _continued(block: RowBlock, fixed: tuple[str, ...], settings: Rows) -> RowBlock:
    """The block at values (n, k, n_fixed) of some of its indices; n · k cells from here on."""
    own = [index for index in fixed if index in block.indices]
    n, k = settings.shape[:2]
    at = [settings[:, :, fixed.index(index)].ravel() for index in own]
    if CELLS in block.indices:
        own, at = [CELLS, *own], [np.repeat(np.arange(n), k), *at]
    if not own:
        return block
    rest = [index for index in block.indices if index not in own]
    moved = block.values.transpose([block.indices.index(index) for index in (*own, *rest)])
    return RowBlock((CELLS, *rest), moved[tuple(at)])


def _spread_settings(settings: Rows, latent: tuple[str, ...], names: tuple[str, ...]) -> Rows:
    """Settings (n, k, n_latent) as values of all names; −1 for names that are not latent here."""
    result = np.full((*settings.shape[:2], len(names)), -1)
    result[:, :, [names.index(index) for index in latent]] = settings
    return result


def share(logs: Array, log_rate: Array | float) -> Array:
    """exp(logs) / exp(log_rate); 0 where the rate is 0."""
    nothing = np.isneginf(log_rate)
    return np.where(nothing, 0.0, np.exp(logs - np.where(nothing, 0.0, log_rate)))
