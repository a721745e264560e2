"""Combinations of latent indices of one term, as of p and q in A[h, p] G[p, q] B[t, q], by their share of the mean.

    share = Σ over all cells of Π E at the combination (without exposures) / Σ over all combinations and terms

The entities of a combination are those of `leading_entities`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from plait._typing import Array
from plait.analysis.explain.component_terms import name_terms, operands, split_indices
from plait.analysis.explain.leading_entities import MIN_LIFT, Standing, characterise
from plait.model import Equation
from plait.model.model import Summand
from plait.model.network import RowBlock, contract
from plait.storage.fitted import Fitted

MAX_COMBINATIONS = 1_000_000  # of a term: more are not listed
MIN_SHARE = 0.005  # of a listed combination


@dataclass(frozen=True)
class CorePair:
    """A combination: its relation and term, the value of each latent index, its share of the relation's mean.

    `entities`: by visible index, the characteristic ones, as row number, weight and lift.
    """

    relation: str
    term: str
    setting: Mapping[str, int]
    share: float
    entities: Mapping[str, tuple[Standing, ...]]


def has_pairs(fit: Fitted, equation: Equation) -> bool:
    """Whether a term has several latent indices, and few enough combinations of them."""
    return any(_several(fit, equation, term) for term in equation.terms)


def core_pairs(fit: Fitted, relation: str, most: int, top: int = 5) -> list[CorePair]:
    """The largest combinations of a relation with `MIN_SHARE` or more, at most `most`."""
    equation = fit.model.equation(relation)
    masses = [_summed_means(fit, equation, term) for term in equation.terms]
    total = sum(float(mass.sum()) for mass in masses) or 1.0
    pairs: list[tuple[float, int, dict[str, int]]] = []
    for number, (term, mass) in enumerate(zip(equation.terms, masses)):
        if not _several(fit, equation, term):
            continue
        for at in np.argsort(-mass, axis=None, kind="stable")[:most]:
            values = np.unravel_index(int(at), mass.shape)
            setting = dict(zip(equation.latent_of(term), map(int, values)))
            pairs.append((float(mass[values]) / total, number, setting))
    largest = sorted((one for one in pairs if one[0] >= MIN_SHARE), key=lambda one: -one[0])[:most]
    leading = [(number, setting) for _, number, setting in largest]
    standings = characterise(fit, equation, leading, np.zeros(len(equation.indices), np.int64), top)
    texts = name_terms(equation)
    return [
        CorePair(relation, texts[number], setting, share, _entities(equation, standings, place, top))
        for place, (share, number, setting) in enumerate(largest)
    ]


def _several(fit: Fitted, equation: Equation, term: Summand) -> bool:
    latent = equation.latent_of(term)
    return len(latent) > 1 and prod(fit.rank[index] for index in latent) <= MAX_COMBINATIONS


def _summed_means(fit: Fitted, equation: Equation, term: Summand) -> Array:
    """Sum of a term's mean over all cells, by value of its latent indices, without exposures."""
    latent = equation.latent_of(term)
    if prod(fit.rank[index] for index in latent) > MAX_COMBINATIONS:
        latent = ()
    blocks = []
    for use in operands(fit, term):
        posterior = fit.factors[use.factor]
        if posterior.pairs is None:
            blocks.append(RowBlock(use.indices, np.asarray(posterior.mean, np.float64)))
        else:  # over the pairs that have rows
            _, inner = split_indices(use, equation)
            blocks.append(RowBlock(inner, posterior.mean[: len(posterior.pairs)].sum(axis=0, dtype=np.float64)))
    return np.asarray(contract(blocks, latent))


def _entities(equation: Equation, standings: list[Standing], place: int, top: int) -> dict[str, tuple[Standing, ...]]:
    own = [s for s in standings if s.component == place and s.rank <= top and s.lift > MIN_LIFT]
    entities = {index: tuple(s for s in own if s.index == index) for index in equation.indices}
    return {index: some for index, some in entities.items() if some}
