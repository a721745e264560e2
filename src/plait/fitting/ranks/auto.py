"""The rank that predicts best: by rule, and where the data are small enough to try, by links put aside."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from plait.data.bound import Data
from plait.fitting.ranks.hidden import Aside, can_hold, put_aside
from plait.fitting.ranks.rule import Scale, by_rule
from plait.result import Fit
from plait.types import Array

Refit = Callable[[Data, Mapping[str, int], int], Fit]  # data, ranks, seed

FRACTION = 0.1  # of the links that are put aside
FEWEST = 100  # links of a relation by which ranks can be told apart
WORK = 1e8  # products a sweep that a size may take to be tried
MEMBERS = ((1e6, 4), (1e7, 2))  # fits of every size whose mixture is judged: so many if the first takes no more work
SHRUNK = 4  # places down from the rule's size that the search may begin: else it would be about sizes too small
DOUBLE = 2  # places up to a size's double
SURE = 2.0  # standard errors by which another size must predict better


@dataclass(frozen=True)
class Found:
    """The size of every latent index, how it was found, and the mean log-likelihood of a cell put aside, by size."""

    ranks: dict[str, int]
    way: str
    tried: Mapping[int, float] = field(default_factory=dict)


def predicting_rank(scale: Scale, refit: Refit, seed: int, *, alone: bool) -> Found:
    """The ranks that predict links put aside best; by rule where that cannot be asked.

    The search begins at the rule's size and leaves it only for one that predicts surely better: what the rule proposes
    is good for most data, and few links put aside say little. alone: whether one fit will answer, and not the mixture
    of several, which bears larger ranks.
    """
    relation, place = _judged(scale.data), _first(scale)
    rule = Found(scale.ranks(by_rule(scale)), "rule")
    if relation is None or place is None or len(scale.sizes) == 1:
        return rule
    aside = put_aside(scale.data, relation, FRACTION, np.random.default_rng([seed, FEWEST]))
    if aside is None:
        return rule
    members = next((count for work, count in MEMBERS if scale.work(scale.sizes[place]) <= work), 1)
    search = _Search(scale, aside, refit, seed, members, alone, {})
    best = search.climb(place)
    means = {size: float(np.mean(scores)) for size, scores in sorted(search.tried.items())}
    return Found(scale.ranks(scale.sizes[best]), f"links of {relation} put aside", means)


@dataclass(frozen=True)
class _Search:
    """Sizes judged by what was put aside, each once; tried: log-probabilities (n,) of the cells by size."""

    scale: Scale
    aside: Aside
    refit: Refit
    seed: int
    members: int
    alone: bool
    tried: dict[int, Array]

    def climb(self, place: int) -> int:
        """The best place: up by doubles and down by quarters as long as they are better, and what lies around there."""
        ends = self._along(place, DOUBLE), self._along(place, -2 * DOUBLE)
        if ends == (place, place):
            return self._half(place)
        best = max(ends, key=self._mean)
        around = [at for at in (best + DOUBLE, best - DOUBLE) if self._open(at)]
        return max((best, *around), key=self._mean)  # the rule is left: nothing speaks for one of them any more

    def _half(self, place: int) -> int:
        """Half of a size where a quarter was better, though not surely, and the half surely is; else the size."""
        half, quarter = place - DOUBLE, place - 2 * DOUBLE
        hints = self._open(quarter) and self._mean(quarter) > self._mean(place)
        return half if hints and self._better(place, half) else place

    def _mean(self, place: int) -> float:
        return float(self._scores(place).mean())

    def _along(self, place: int, step: int) -> int:
        while self._better(place, place + step):
            place += step
        return place

    def _better(self, here: int, there: int) -> bool:
        """Whether a place can be tried and predicts better than another by more than that is unsure."""
        if not self._open(there):
            return False
        gains = self._scores(there) - self._scores(here)
        return bool(np.mean(gains) > SURE * np.std(gains) / np.sqrt(len(gains)))

    def _open(self, place: int) -> bool:
        return place in range(len(self.scale.sizes)) and _tryable(self.scale, self.scale.sizes[place])

    def _scores(self, place: int) -> Array:
        size = self.scale.sizes[place]
        if size not in self.tried:
            ranks = self.scale.ranks(size)
            fits = [self.refit(self.aside.data, ranks, self.seed + n) for n in range(self.members)]
            teams = [[fit] for fit in fits] if self.alone else [fits]
            self.tried[size] = np.mean([self.aside.score(team) for team in teams], axis=0)
        return self.tried[size]


def _judged(data: Data) -> str | None:
    """The first relation with latent indices and enough links that is to be predicted: its weight is no open one."""
    names = (e.relation for e in data.model.equations if e.latent and not data.relations[e.relation].open_weight)
    found = next((name for name in names if len(data.relations[name].links) >= FEWEST), None)
    return found if found is None or can_hold(data.relations[found]) else None


def _first(scale: Scale) -> int | None:
    """The place of the size to begin with: the rule's, or what can be tried of it; None where that is too small."""
    place = scale.sizes.index(by_rule(scale))
    places = range(place, max(place - SHRUNK, 0) - 1, -1)
    return next((at for at in places if scale.work(scale.sizes[at]) <= WORK), None)


def _tryable(scale: Scale, size: int) -> bool:
    return scale.work(size) <= WORK and scale.affords(size)
