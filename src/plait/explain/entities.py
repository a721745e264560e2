"""Who characterises a component: the entities of each axis that hold much of it, and more of it than of the others.

Popular entities head every component, so weight alone says little. With the geometric means L of the factors (they stay
small where little is known, so a cold entity characterises nothing), summed over all other indices,

    weight = share of the component that the entity holds
    lift   = weight / its share of all components together
    order: 0.6 · log weight + 0.4 · log lift, of those whose lift is 1 or more   (Sievert and Shirley's relevance, 2014)

A component is here what the axis sees of it: the latent indices of the factors that have the axis. In a Tucker model
that is the axis' own latent index. Other visible indices of such a factor are summed out too.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait.explain.latent import Components, operands
from plait.model import Equation

if TYPE_CHECKING:
    from plait.model.model import Occurrence
    from plait.result import Fit

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
    fit: "Fit", equation: Equation, found: Components, row: NDArray[np.int64], shown: int, top: int
) -> list[Standing]:
    """The `top` entities of every axis in the first `shown` components, and the cell's own wherever they stand."""
    result: list[Standing] = []
    for place, index in enumerate(equation.indices):
        own = {i for o in operands(fit, equation) if index in o.indices for i in o.indices if i in found.latent}
        if not any(index in o.indices for o in operands(fit, equation)):
            continue  # only exposures have this index: no component differs along it
        overall = _held(fit, equation, index, {})
        for number, setting in enumerate(found.settings[:shown]):
            at = {i: int(value) for i, value in zip(found.latent, setting) if i in own}
            held = _held(fit, equation, index, at) if at else overall
            result.extend(_standings(number, index, held, overall, int(row[place]), top))
    return sorted(result, key=lambda standing: standing.component)


def _held(fit: "Fit", equation: Equation, index: str, at: dict[str, int]) -> Array:
    """What each entity of an axis holds, with some latent indices fixed: (size of index), adding up to 1, or all 0."""
    for word in ("geomean", "mean"):  # geometric means of cold factors may all underflow
        arrays = [getattr(fit.factors[o.factor], word) for o in operands(fit, equation)]
        held = _contracted(arrays, operands(fit, equation), index, at)
        total = held.sum()
        if 0.0 < total < np.inf:
            return np.asarray(held / total)
    return np.zeros(len(held))


def _contracted(arrays: Sequence[Array], over: "Sequence[Occurrence]", index: str, at: dict[str, int]) -> Array:
    """Σ Π of the factors over all indices but one; some latent ones fixed."""
    import opt_einsum

    inputs: list[Any] = []
    for array, occurrence in zip(arrays, over):
        where = tuple(at.get(i, slice(None)) for i in occurrence.indices)
        inputs += [array[where], [i for i in occurrence.indices if i not in at]]
    return np.asarray(opt_einsum.contract(*inputs, [index]), np.float64)


def _standings(number: int, index: str, held: Array, overall: Array, own: int, top: int) -> Iterator[Standing]:
    lift = np.divide(held, overall, out=np.zeros(len(held)), where=overall > 0)
    order = held**WEIGHT * lift ** (1.0 - WEIGHT)
    first = np.argsort(-order, kind="stable")[:top]
    chosen = [int(n) for n in first if lift[n] > LEAST]
    for n in dict.fromkeys([*chosen, own]):
        rank = 1 + int(np.count_nonzero(order > order[n]))
        yield Standing(number, index, n, float(held[n]), float(lift[n]), rank, n == own)
