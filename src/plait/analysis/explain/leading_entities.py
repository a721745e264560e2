"""Entities that characterise a component: large weight and high lift (relevance of Sievert and Shirley, 2014).

Popular entities lead every component, so weight alone says little. With the geometric means L of the factors, which
stay small for entities with little data, summed over all other indices,

    weight = share of the component that the entity holds
    lift   = weight / its share of all components together
    order: 0.6 · log weight + 0.4 · log lift, of entities with lift 1 or more

Components are here the settings of the latent indices of factors with the axis; in a Tucker model those of the axis'
own latent index. Other visible indices of such a factor are summed out. All components are those of the same term.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.analysis.explain.component_terms import operands
from plait.model import Equation
from plait.model.model import Occurrence, Summand
from plait.model.network import RowBlock, contract, sum_alone
from plait.storage.fitted import Fitted, Posterior

LOG_WEIGHT_SHARE = 0.6  # of the log weight in the order; the rest is that of the lift
MIN_LIFT = 1.0 - 1e-9  # 1 up to rounding


@dataclass(frozen=True)
class Standing:
    """One entity in one component: its row number, weight and lift, its rank from 1, and whether the cell names it."""

    component: int
    index: str
    row: int
    weight: float
    lift: float
    rank: int
    of_cell: bool


def characterise(
    fit: Fitted, equation: Equation, leading: Sequence[tuple[int, Mapping[str, int]]], row: NDArray[np.int64], top: int
) -> list[Standing]:
    """The `top` entities of every axis in the leading components, and the cell's own at any rank.

    `leading`: the term and the setting of each component. Axes that the term lacks, or has only in an exposure, are
    left out.
    """
    result: list[Standing] = []
    for number, term in enumerate(equation.terms):
        own = {place: setting for place, (of, setting) in enumerate(leading) if of == number}
        for place, index in enumerate(equation.indices):
            if own and any(index in o.indices for o in operands(fit, term)):
                result.extend(_along(fit, equation, term, index, own, int(row[place]), top))
    return sorted(result, key=lambda standing: standing.component)


def _along(
    fit: Fitted, equation: Equation, term: Summand, index: str, own: Mapping[int, Mapping[str, int]], row: int, top: int
) -> Iterator[Standing]:
    """Leading entities of components of a term along one index."""
    latent = equation.latent_of(term)
    kinds = [_summed(fit, term, (index, *latent), kind) for kind in ("exp_mean_log", "mean")]
    overall = _entity_shares(kinds, index, {})
    has = {i for o in operands(fit, term) if index in o.indices for i in o.indices}
    seen = tuple(i for i in latent if i in has)
    alike: dict[tuple[int, ...], list[int]] = {}  # many components of a Tucker model are equal along this axis
    for place, setting in own.items():
        alike.setdefault(tuple(setting[i] for i in seen), []).append(place)
    for values, places in alike.items():
        held = _entity_shares(kinds, index, dict(zip(seen, values))) if seen else overall
        for standing in _standings(index, held, overall, row, top):
            yield from (replace(standing, component=place) for place in places)


def _summed(fit: Fitted, term: Summand, keep: tuple[str, ...], kind: str) -> list[RowBlock]:
    """L or E of the factors, summed over visible indices that only one of them has, except `keep`."""
    return sum_alone([_whole(fit.factors[o.factor], o, keep, kind) for o in operands(fit, term)], keep)


def _whole(posterior: Posterior, use: Occurrence, keep: tuple[str, ...], kind: str) -> RowBlock:
    """L or E of a factor; for one over pairs, sums over the pairs with rows."""
    array, pairs = getattr(posterior, kind), posterior.pairs
    if pairs is None:
        return RowBlock(use.indices, array)
    here = dict(zip(pairs.indices, use.indices))
    latent = tuple(here[index] for index in pairs.indices if index not in pairs.visible)
    for place, index in enumerate(pairs.visible):
        if here[index] in keep:
            held = np.zeros((pairs.sizes[place], *array.shape[1:]))
            np.add.at(held, pairs.coords[:, place], array[: len(pairs)])
            return RowBlock((here[index], *latent), held)
    return RowBlock(latent, array[: len(pairs)].sum(axis=0))


def _entity_shares(kinds: Sequence[Sequence[RowBlock]], index: str, at: dict[str, int]) -> Array:
    """Share of each entity of an axis at some latent indices, (n_entities,), adding up to 1, or all 0.

    The first of `kinds` with a positive sum counts: geometric means of factors without data may underflow.
    """
    for blocks in kinds:
        held = contract([_fixed(block, at) for block in blocks], (index,))
        total = held.sum()
        if 0.0 < total < np.inf:
            return np.asarray(held / total)
    return np.zeros(len(held))


def _fixed(block: RowBlock, at: Mapping[Any, int]) -> RowBlock:
    """The block at values of some of its indices."""
    where = tuple(at.get(i, slice(None)) for i in block.indices)
    return RowBlock(tuple(i for i in block.indices if i not in at), np.asarray(block.values[where]))


def _standings(index: str, held: Array, overall: Array, own: int, top: int) -> Iterator[Standing]:
    lift = np.divide(held, overall, out=np.zeros(len(held)), where=overall > 0)
    order = held**LOG_WEIGHT_SHARE * lift ** (1.0 - LOG_WEIGHT_SHARE)
    first = largest(order, top)
    chosen = [int(n) for n in first if lift[n] > MIN_LIFT]
    for n in dict.fromkeys([*chosen, own]):
        rank = 1 + int(np.count_nonzero(order > order[n]))
        yield Standing(0, index, n, float(held[n]), float(lift[n]), rank, n == own)


def largest(order: Array, top: int) -> NDArray[np.intp]:
    """Positions of the largest numbers, largest first, ties by position; without sorting a long axis."""
    if top < len(order):
        # Many entities have the value of the prior: sorting without them takes a tenth of the time.
        possible = np.flatnonzero(order >= -np.partition(-order, top - 1)[top - 1])
    else:
        possible = np.arange(len(order))
    return possible[np.argsort(-order[possible], kind="stable")][:top]
