"""Who characterises a component: the entities of each axis that hold much of it, and more of it than of the others.

Popular entities head every component, so weight alone says little. With the geometric means L of the factors (they stay
small where little is known, so a cold entity characterises nothing), summed over all other indices,

    weight = share of the component that the entity holds
    lift   = weight / its share of all components together
    order: 0.6 · log weight + 0.4 · log lift, of those whose lift is 1 or more   (Sievert and Shirley's relevance, 2014)

A component is here what the axis sees of it: the latent indices of the factors that have the axis. In a Tucker model
that is the axis' own latent index. Other visible indices of such a factor are summed out too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.explain.latent import Components, operands
from plait.fitted import Fitted
from plait.model import Equation
from plait.model.network import Block, contract, sum_alone

Array = NDArray[np.float64]

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
    fit: Fitted, equation: Equation, found: Components, row: NDArray[np.int64], shown: int, top: int
) -> list[Standing]:
    """The `top` entities of every axis in the first `shown` components, and the cell's own wherever they stand."""
    result: list[Standing] = []
    for place, index in enumerate(equation.indices):
        own = {i for o in operands(fit, equation) if index in o.indices for i in o.indices if i in found.latent}
        if not any(index in o.indices for o in operands(fit, equation)):
            continue  # only exposures have this index: no component differs along it
        kinds = [_summed(fit, equation, index, kind) for kind in ("geomean", "mean")]
        overall = _held(kinds, index, {})
        seen = tuple(i for i in found.latent if i in own)
        for setting, numbers in _alike(found, seen, shown).items():
            held = _held(kinds, index, dict(zip(seen, setting))) if seen else overall
            for standing in _standings(index, held, overall, int(row[place]), top):
                result.extend(replace(standing, component=number) for number in numbers)
    return sorted(result, key=lambda standing: standing.component)


def _alike(found: Components, seen: tuple[str, ...], shown: int) -> dict[tuple[int, ...], list[int]]:
    """The first components by the values of the latent indices that an axis sees: in a Tucker model many are alike."""
    columns = [found.latent.index(i) for i in seen]
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, setting in enumerate(found.settings[:shown]):
        groups.setdefault(tuple(int(setting[n]) for n in columns), []).append(number)
    return groups


def _summed(fit: Fitted, equation: Equation, index: str, kind: str) -> list[Block]:
    """L or E of the factors, summed over the visible indices that only one of them has, all but `index`."""
    blocks = [Block(tuple(o.indices), getattr(fit.factors[o.factor], kind)) for o in operands(fit, equation)]
    return sum_alone(blocks, (index, *equation.latent))


def _held(kinds: Sequence[Sequence[Block]], index: str, at: dict[str, int]) -> Array:
    """What each entity of an axis holds, with some latent indices fixed: (size of index), adding up to 1, or all 0.

    kinds: the first whose sum is a number counts, for geometric means of cold factors may all underflow.
    """
    for blocks in kinds:
        held = contract([_fixed(block, at) for block in blocks], (index,))
        total = held.sum()
        if 0.0 < total < np.inf:
            return np.asarray(held / total)
    return np.zeros(len(held))


def _fixed(block: Block, at: Mapping[Any, int]) -> Block:
    """The block at these values of some of its indices."""
    where = tuple(at.get(i, slice(None)) for i in block.indices)
    return Block(tuple(i for i in block.indices if i not in at), np.asarray(block.values[where]))


def _standings(index: str, held: Array, overall: Array, own: int, top: int) -> Iterator[Standing]:
    lift = np.divide(held, overall, out=np.zeros(len(held)), where=overall > 0)
    order = held**WEIGHT * lift ** (1.0 - WEIGHT)
    first = _largest(order, top)
    chosen = [int(n) for n in first if lift[n] > LEAST]
    for n in dict.fromkeys([*chosen, own]):
        rank = 1 + int(np.count_nonzero(order > order[n]))
        yield Standing(0, index, n, float(held[n]), float(lift[n]), rank, n == own)


def _largest(order: Array, top: int) -> NDArray[np.intp]:
    """The places of the largest numbers, largest first, of equal ones the first; without sorting a long axis."""
    if top < len(order):
        possible = np.flatnonzero(order >= np.partition(order, -top)[-top])
    else:
        possible = np.arange(len(order))
    return possible[np.argsort(-order[possible], kind="stable")][:top]
