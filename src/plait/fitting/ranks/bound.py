"""How many groups there are: the rank with the best bound.

Ranks are doubled until the bound falls. Then components are dropped one at a time, from the best fit and from the one
beyond it, as long as the bound does not fall when the others have taken over. A fit of too many components that loses
some ends higher than one that began with so many: the random start of the latter may have missed a group.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from plait.fitting.ranks.rule import Scale
from plait.result import Fit
from plait.types import Array

Means = dict[str, Array]
Refit = Callable[..., Fit]  # ranks, seed; and perhaps init=, sweeps=

STARTS = 2  # of every size; the best counts
WEAKEST = 16  # components of an index that may be dropped next
GLANCE = 20  # sweeps after which it is seen which drop costs least
CLOSEST = 2  # drops that are then fitted to the end
TINIEST = 1e-100  # that a factor may start from


class Bounded(NamedTuple):
    """The ranks with the best bound, the fit that has it, and the bounds of the sizes that were doubled."""

    ranks: dict[str, int]
    fit: Fit
    tried: Mapping[int, float]


def bounding_rank(scale: Scale, refit: Refit, seed: int) -> Bounded:
    """The ranks of a model with the best bound."""
    tried: dict[int, Fit] = {}
    for size in _doubled(scale):
        starts = [refit(scale.ranks(size), seed + start) for start in range(STARTS)]
        tried[size] = max(starts, key=lambda fit: fit.bound)
        if tried[size].bound < max(fit.bound for fit in tried.values()):
            break
    last = list(tried.values())[-2:]
    fit = max((dropped(fit, scale, refit, seed) for fit in last), key=lambda fit: fit.bound)
    return Bounded(dict(fit.rank), fit, {size: one.bound for size, one in tried.items()})


def _doubled(scale: Scale) -> Iterator[int]:
    size = 1
    while scale.affords(size):
        yield size
        if size >= scale.most:
            return
        size = min(2 * size, scale.most)


def dropped(fit: Fit, scale: Scale, refit: Refit, seed: int) -> Fit:
    """Leave out one component at a time as long as the bound does not fall by it."""
    while (fewer := _without_one(fit, scale, refit, seed)) is not None:
        fit = fewer
    return fit


def _without_one(fit: Fit, scale: Scale, refit: Refit, seed: int) -> Fit | None:
    """The fit of one component less that has the best bound, if it is no lower."""
    glances = []
    for index in scale.room:
        ranks = fit.rank | {index: fit.rank[index] - 1}
        for component in np.argsort(strength(fit, index), kind="stable")[:WEAKEST] if ranks[index] else ():
            rest = without(fit, index, int(component))
            glances.append((refit(ranks, seed, init=rest, sweeps=GLANCE).bound, ranks, rest))
    for _, ranks, rest in sorted(glances, key=lambda glance: -glance[0])[:CLOSEST]:
        fewer = refit(ranks, seed, init=rest)
        if fewer.bound >= fit.bound:
            return fewer
    return None


def strength(fit: Fit, index: str) -> Array:
    """How much each component of an index amounts to: its entries' sum, multiplied over the factors that have it."""
    sums = [_sums(factor, index) for factor in fit.factors.values() if index in factor.indices]
    return np.asarray(np.prod(sums, axis=0))


def _sums(factor: Any, index: str) -> Array:
    at = factor.indices.index(index)
    return np.asarray(factor.mean.sum(axis=tuple(axis for axis in range(factor.mean.ndim) if axis != at)))


def without(fit: Fit, index: str, component: int) -> Means:
    """The means of the free factors, one component of an index left out."""
    free = {name: fit.factors[name] for name in fit.prior}
    return {
        name: _positive(
            np.delete(factor.mean, component, axis=factor.indices.index(index))
            if index in factor.indices
            else factor.mean
        )
        for name, factor in free.items()
    }


def means_of(fit: Fit) -> Means:
    """The means of the free factors, to start from."""
    return {name: _positive(fit.factors[name].mean) for name in fit.prior}


def _positive(array: Array) -> Array:
    return np.maximum(array, TINIEST)
