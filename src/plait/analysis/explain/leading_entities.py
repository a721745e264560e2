"""Who characterises a component: the entities of each axis that hold much of it, and more of it than of the others.

Popular entities head every component, so weight alone says little. With the geometric means L of the factors (they stay
small where little is known, so a cold entity characterises nothing), summed over all other indices,

    weight = share of the component that the entity holds
    lift   = weight / its share of all components together
    order: 0.6 · log weight + 0.4 · log lift, of those whose lift is 1 or more   (Sievert and Shirley's relevance, 2014)

A component is here what the axis sees of it: the latent indices of the factors that have the axis. In a Tucker model
that is the axis' own latent index. Other visible indices of such a factor are summed out too. All
components are those of the same term.
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

WEIGHT = 0.6  # of the logarithm of the weight in the order; the lift has the rest
LEAST = 1.0 - 1e-9  # lift of an entity that characterises a component, but for rounding


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
    """The `top` entities of every axis in the leading components, and the cell's own wherever they stand.

    leading: the term and the setting of each. An axis that its term has not, or only in an exposure, tells nothing.
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
    """Who characterises components of a term, settings by their places, along one index."""
    latent = equation.latent_of(term)
    kinds = [_summed(fit, term, (index, *latent), kind) for kind in ("exp_mean_log", "mean")]
    overall = _held(kinds, index, {})
    has = {i for o in operands(fit, term) if index in o.indices for i in o.indices}
    seen = tuple(i for i in latent if i in has)
    alike: dict[tuple[int, ...], list[int]] = {}  # in a Tucker model many are, as far as this axis sees
    for place, setting in own.items():
        alike.setdefault(tuple(setting[i] for i in seen), []).append(place)
    for values, places in alike.items():
        held = _held(kinds, index, dict(zip(seen, values))) if seen else overall
        for standing in _standings(index, held, overall, row, top):
            yield from (replace(standing, component=place) for place in places)


def _summed(fit: Fitted, term: Summand, keep: tuple[str, ...], kind: str) -> list[RowBlock]:
    """L or E of the factors, summed over the visible indices that only one of them has, all but `combine`."""
    return sum_alone([_whole(fit.factors[o.factor], o, keep, kind) for o in operands(fit, term)], keep)


def _whole(posterior: Posterior, use: Occurrence, keep: tuple[str, ...], kind: str) -> RowBlock:
    """L or E of a factor; of one over pairs the pairs that it remembers, added up for the entities of one index."""
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


def _held(kinds: Sequence[Sequence[RowBlock]], index: str, at: dict[str, int]) -> Array:
    """What each entity of an axis holds, with some latent indices fixed: (size of index), adding up to 1, or all 0.

    kinds: the first whose sum is a number counts, for geometric means of cold factors may all underflow.
    """
    for blocks in kinds:
        held = contract([_fixed(block, at) for block in blocks], (index,))
        total = held.sum()
        if 0.0 < total < np.inf:
            return np.asarray(held / total)
    return np.zeros(len(held))


def _fixed(block: RowBlock, at: Mapping[Any, int]) -> RowBlock:
    """The block at these values of some of its indices."""
    where = tuple(at.get(i, slice(None)) for i in block.indices)
    return RowBlock(tuple(i for i in block.indices if i not in at), np.asarray(block.values[where]))


def _standings(index: str, held: Array, overall: Array, own: int, top: int) -> Iterator[Standing]:
    lift = np.divide(held, overall, out=np.zeros(len(held)), where=overall > 0)
    order = held**WEIGHT * lift ** (1.0 - WEIGHT)
    first = largest(order, top)
    chosen = [int(n) for n in first if lift[n] > LEAST]
    for n in dict.fromkeys([*chosen, own]):
        rank = 1 + int(np.count_nonzero(order > order[n]))
        yield Standing(0, index, n, float(held[n]), float(lift[n]), rank, n == own)


def largest(order: Array, top: int) -> NDArray[np.intp]:
    """The places of the largest numbers, largest first, of equal ones the first; without sorting a long axis."""
    if top < len(order):
        # Many entities hold the same, what the prior gives: with these at the end of the order it takes a tenth.
        possible = np.flatnonzero(order >= -np.partition(-order, top - 1)[top - 1])
    else:
        possible = np.arange(len(order))
    return possible[np.argsort(-order[possible], kind="stable")][:top]
