"""The terms of an equation at cells, in logarithms: nothing underflows, and no whole core is ever formed.

A cell picks one row of every factor. What is left of the factor, an array over its latent indices, is a block of a
term; a *component* is a term with one setting of its latent indices, and V · Π of the blocks there is what it adds to
the cell.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import digamma

from plait._typing import Array, Rows
from plait.data.observation.pairs import Pairs
from plait.model import Equation
from plait.model.model import Occurrence, Summand
from plait.model.network import CELLS, RowBlock, gather, log_contract, log_sum, sizes_of
from plait.storage.fitted import Fitted, Posterior

Kind = Literal["mean", "exp_mean_log"]


def operands(fit: Fitted, term: Summand) -> list[Occurrence]:
    """The factors of a term that are not exposures."""
    return [occurrence for occurrence in term.occurrences if occurrence.factor in fit.factors]


def split_indices(occurrence: Occurrence, equation: Equation) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The visible and the latent indices of a factor's use."""
    visible = tuple(index for index in occurrence.indices if index in equation.indices)
    return visible, tuple(index for index in occurrence.indices if index not in visible)


def latent_sizes(fit: Fitted, equation: Equation) -> list[dict[str, int]]:
    """The ranks of the latent indices of every term, in their order."""
    found = []
    for term in equation.terms:
        found.append({index: fit.rank[index] for index in equation.latent_of(term)})
    return found


def rows_at(array: Array, pairs: Pairs | None, occurrence: Occurrence, equation: Equation, cells: Rows) -> RowBlock:
    """The rows of a factor (as written) that cells (n, order) use: the one place where they are looked up.

    pairs: what the rows of the array stand for, where they are those of pairs.
    """
    places = {index: n for n, index in enumerate(equation.indices)}
    if pairs is None:
        return gather(array, occurrence.indices, places, cells)
    here = dict(zip(pairs.indices, occurrence.indices))
    at = pairs.find([cells[:, places[here[index]]] for index in pairs.visible])
    return RowBlock((CELLS, *(here[index] for index in pairs.indices if index not in pairs.visible)), array[at])


def free_name(name: str, equation: Equation) -> str:
    """A name for something beside the indices of an equation, in a table or a setting."""
    return f"{name}_" if name in (*equation.indices, *equation.latent) else name


def name_terms(equation: Equation) -> list[str]:
    """What the terms of a sum are called: by their factors, in full where that is not enough; "" if there is one."""
    short = [" ".join(term.factors) for term in equation.terms]
    return [""] if len(short) == 1 else short if len(set(short)) == len(short) else list(map(str, equation.terms))


def terms_at(fit: Fitted, equation: Equation, cells: Rows, kind: Kind, *, logs: bool = True) -> list[list[RowBlock]]:
    """Term by term the logarithms of V, (n,), and of E or L of the rows that cells (n, order) use; or these themselves.

    A term without an exposure has V = 1 there, so that no cell is lost.
    """
    found = []
    for number, term in enumerate(equation.terms):
        given = fit.exposures.at(equation.relation, number, cells)
        V = np.ones(len(cells)) if given is None else given
        with np.errstate(divide="ignore"):
            blocks = [RowBlock((CELLS,), np.log(V) if logs else V)]
        for o in operands(fit, term):
            posterior = fit.factors[o.factor]
            own = rows_at(getattr(posterior, kind), posterior.pairs, o, equation, cells)
            blocks.append(RowBlock(own.indices, _logs(kind, posterior, o, equation, cells)) if logs else own)
        found.append(blocks)
    return found


def _logs(kind: Kind, posterior: Posterior, occurrence: Occurrence, equation: Equation, cells: Rows) -> Array:
    """log E = log C + log D, log L = ψ(C) + log D; of points log Z, −∞ where Z = 0."""
    arrays = (posterior.concentration, posterior.scale, posterior.mean)
    C, D, mean = (rows_at(array, posterior.pairs, occurrence, equation, cells).values for array in arrays)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(mean) if np.isinf(C).any() else (np.log if kind == "mean" else digamma)(C) + np.log(D))


def log_rates(terms: Sequence[Sequence[RowBlock]]) -> Array:
    """log Σ_terms V Σ Π of cells, from the logarithms of `terms_at`: (n,)."""
    return log_sum(np.stack([log_contract(blocks, (CELLS,)) for blocks in terms]), axis=0)


@dataclass(frozen=True, eq=False)
class Components:
    """The leading components of n cells, largest share first.

    latent: indices of all terms. terms (n, k): numbers of terms; settings (n, k, latent): values of the indices, −1 for
    one that the term has not; shares (n, k). total: how many components a cell has. log_rates (n,): log Σ of them all,
    −∞ where the model gives a cell rate 0; then all its shares are 0.
    """

    latent: tuple[str, ...]
    terms: Rows
    settings: Rows
    shares: Array
    total: int
    log_rates: Array

    @property
    def remainder(self) -> Array:
        """The share of the components that are not listed, (n,)."""
        listed = self.shares.shape[1] == self.total or np.isneginf(self.log_rates)
        return np.where(listed, 0.0, np.maximum(0.0, 1.0 - self.shares.sum(axis=1)))


def components(terms: Sequence[Sequence[RowBlock]], latent: Sequence[tuple[str, ...]], most: int) -> Components:
    """The leading components of cells by share, V Π / Σ of all such products.

    terms: logarithms, as `terms_at` has them; latent: the indices that each term sums out.
    """
    names = tuple(dict.fromkeys(index for own in latent for index in own))
    found = [_leading(blocks, own, most) for blocks, own in zip(terms, latent)]
    settings = np.concatenate([_spread_settings(one, own, names) for (one, _), own in zip(found, latent)], axis=1)
    numbers = np.concatenate([np.full(logs.shape, n) for n, (_, logs) in enumerate(found)], axis=1)
    logs, rates = np.concatenate([logs for _, logs in found], axis=1), log_rates(terms)
    order = np.argsort(-logs, axis=1, kind="stable")[:, :most]
    sizes = [sizes_of(blocks) for blocks in terms]
    total = sum(math.prod(own[index] for index in indices) for own, indices in zip(sizes, latent))
    shares = share(np.take_along_axis(logs, order, 1), rates[:, None])
    settings = np.take_along_axis(settings, order[:, :, None], 1)
    return Components(names, np.take_along_axis(numbers, order, 1), settings, shares, total, rates)


def _leading(blocks: Sequence[RowBlock], latent: tuple[str, ...], most: int) -> tuple[Rows, Array]:
    """The leading settings of one term, (n, k, latent), and the logarithms of what they add, (n, k).

    Index by index, the beginnings with the largest shares are continued, `most` of them: a beginning's share is that of
    all components that go on from it, so only a component that begins weakly and yet leads could be missed.
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
    """The block at the values (n, k, fixed) of some of its indices: cells are n · k from here on."""
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
    """Settings (n, k, latent) as values of all names: −1 for those that are not among the latent indices."""
    result = np.full((*settings.shape[:2], len(names)), -1)
    result[:, :, [names.index(index) for index in latent]] = settings
    return result


def share(logs: Array, log_rate: Array | float) -> Array:
    """exp(logs) / exp(log_rate); 0 where there is nothing to share."""
    nothing = np.isneginf(log_rate)
    return np.where(nothing, 0.0, np.exp(logs - np.where(nothing, 0.0, log_rate)))
