"""The rank that predicts best: by rule, and where the data are small enough to try, by links put aside."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from plait.choosing.hidden import Aside, put_aside
from plait.choosing.rule import Scale, by_rule
from plait.data.bind import Data
from plait.result import Fit

Refit = Callable[[Data, Mapping[str, int], int], Fit]  # data, ranks, seed

FRACTION = 0.1  # of the links that are put aside
FEWEST = 100  # links of a relation by which ranks can be told apart
MEMBERS = 2  # fits of every rank; their mixture is judged
WORK = 2e7  # products a sweep that a rank may take to be tried


@dataclass(frozen=True)
class Found:
    """A rank, the way it was found in words, and what was tried: size -> mean log-likelihood of a cell put aside."""

    ranks: dict[str, int]
    way: str
    tried: Mapping[int, float]


def find_rank(scale: Scale, refit: Refit, seed: int) -> Found:
    """The ranks that predict links put aside best, on a grid of powers of two; by rule where that cannot be asked.

    The search begins at the rule's size and goes up or down as long as the prediction gets better.
    """
    relation = _judged(scale.data)
    size = by_rule(scale, _links(scale.data))
    if not scale.room:
        return Found(scale.ranks(size), "given", {})
    if relation is None or scale.work(size) > WORK:
        return Found(scale.ranks(size), "rule", {})
    rng = np.random.default_rng([seed, 0])
    aside = put_aside(scale.data, relation, FRACTION, rng)
    if aside is None:
        return Found(scale.ranks(size), "rule", {})
    tried: dict[int, float] = {}
    for step in _climb(scale, size, tried):
        tried[step] = _score(aside, scale, step, refit, seed)
    best = max(tried, key=lambda size: (tried[size], -size))
    return Found(scale.ranks(best), f"hidden links of {relation}", tried)


def _links(data: Data) -> int:
    """Links of the largest relation: those that the components of most latent indices are learnt from."""
    return max((len(data.relations[e.relation].links) for e in data.model.equations if e.latent), default=0)


def _judged(data: Data) -> str | None:
    """The first relation with latent indices and enough links."""
    names = (equation.relation for equation in data.model.equations if equation.latent)
    return next((name for name in names if len(data.relations[name].links) >= FEWEST), None)


def _climb(scale: Scale, size: int, tried: Mapping[int, float]) -> Iterator[int]:
    """Sizes to try: the first, its double, and on in the better direction until it gets worse."""
    yield size
    for factor in (2, 0.5):
        at = size
        while (after := int(min(at * factor, scale.most))) not in (at, 0) and scale.work(after) <= WORK:
            if scale.bytes(after) > scale.bytes(1) and not scale.affords(after):
                break
            yield after
            if tried[after] <= tried[at]:
                break
            at = after
        if at != size:
            return


def _score(aside: Aside, scale: Scale, size: int, refit: Refit, seed: int) -> float:
    fits = [refit(aside.data, scale.ranks(size), seed + member) for member in range(MEMBERS)]
    return float(np.mean(aside.score(fits)))
