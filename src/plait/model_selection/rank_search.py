"""Scores of held-out cells, by which ranks, weights and settings are compared.

The rank that predicts best: by rule, and where the data are small enough to try, by links put aside.

How many groups there are: the rank with the best bound.

Ranks are doubled until the bound falls. Then components are dropped one at a time, from the best fit and from the one
beyond it, as long as the bound does not fall when the others have taken over. A fit of too many components that loses
some ends higher than one that began with so many: the random start of the latter may have missed a group.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from plait._typing import AnyArray, Array
from plait.analysis.predict.prediction import columns
from plait.data.bound import Data
from plait.data.held_out import HeldOut, fits_memory, hold_out
from plait.model_selection.rank_rule import Scale, rank_by_rule
from plait.result import Fit
from plait.tuning import TUNING

MIN_PROBABILITY = 1e-300  # of a cell that a fit holds for impossible


def log_score(held_out: HeldOut, fits: Sequence[Fit], links_only: bool = False) -> Array:
    """Log-probability (n_cells,) of the held-out values under the mixture of some fits.

    links_only: score whether there is a link, not its value, to compare fits of counts with fits of links.
    """
    logs = [log_probability(fit, held_out.relation, held_out.cells, held_out.values, links_only) for fit in fits]
    return np.asarray(logsumexp(logs, axis=0) - math.log(len(logs)))


def link_probability(held_out: HeldOut, fits: Sequence[Fit]) -> Array:
    """Probability (n_cells,) of a link under the mixture of some fits."""
    found = [columns(fit, held_out.relation, held_out.cells, ("probability",))["probability"] for fit in fits]
    return np.asarray(np.mean(found, axis=0))


def log_probability(fit: Fit, relation: str, cells: AnyArray, values: Array, links_only: bool = False) -> Array:
    """Log predictive probability (n_cells,) of values at cells: of the link, or of the value under matched moments."""
    likelihood = fit.likelihood[relation]
    if links_only or likelihood.binary:
        chance = columns(fit, relation, cells, ("probability",))["probability"]
        return np.asarray(np.log(np.maximum(np.where(values > 0, chance, 1.0 - chance), MIN_PROBABILITY)))
    found = columns(fit, relation, cells, ("rate", "variance"))
    rate = np.maximum(found["rate"], MIN_PROBABILITY)
    return likelihood.log_probability_by_moments(values, rate, found["variance"], fit.likelihood_params[relation])


RefitHeldOut = Callable[[Data, Mapping[str, int], int], Fit]  # data, ranks, seed

FRACTION = 0.1  # of the links that are put aside
FEWEST = 100  # links of a relation by which ranks can be told apart
MEMBERS = ((1e6, 4), (1e7, 2))  # fits of every size whose mixture is judged: so many if the first takes no more work
SHRUNK = 4  # places down from the rule's size that the search may begin: else it would be about sizes too small
DOUBLE = 2  # places up to a size's double


@dataclass(frozen=True)
class RankChoice:
    """The size of every latent index, how it was found, and the mean log-likelihood of a cell put aside, by size."""

    ranks: dict[str, int]
    way: str
    tried: Mapping[int, float] = field(default_factory=dict)


def search_rank_by_prediction(scale: Scale, refit: RefitHeldOut, seed: int, *, alone: bool) -> RankChoice:
    """The ranks that predict links put aside best; by rule where that cannot be asked.

    The search begins at the rule's size and leaves it only for one that predicts surely better: what the rule proposes
    is good for most data, and few links put aside say little. alone: whether one fit will answer, and not the mixture
    of several, which bears larger ranks.
    """
    relation, place = _judged(scale.data), _first(scale)
    rule = RankChoice(scale.ranks(rank_by_rule(scale)), "rule")
    if relation is None or place is None or len(scale.sizes) == 1:
        return rule
    held_out = hold_out(scale.data, relation, FRACTION, np.random.default_rng([seed, FEWEST]))
    if held_out is None:
        return rule
    members = next((count for work, count in MEMBERS if scale.work(scale.sizes[place]) <= work), 1)
    search = _RankSearch(scale, held_out, refit, seed, members, alone, {})
    best = search.climb(place)
    means = {size: float(np.mean(scores)) for size, scores in sorted(search.tried.items())}
    return RankChoice(scale.ranks(scale.sizes[best]), f"links of {relation} put aside", means)


@dataclass(frozen=True)
class _RankSearch:
    """Sizes judged by what was put aside, each once; tried: log-probabilities (n,) of the cells by size."""

    scale: Scale
    held_out: HeldOut
    refit: RefitHeldOut
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
        return bool(np.mean(gains) > TUNING.min_gain_errors * np.std(gains) / np.sqrt(len(gains)))

    def _open(self, place: int) -> bool:
        return place in range(len(self.scale.sizes)) and _tryable(self.scale, self.scale.sizes[place])

    def _scores(self, place: int) -> Array:
        size = self.scale.sizes[place]
        if size not in self.tried:
            ranks = self.scale.ranks(size)
            fits = [self.refit(self.held_out.data, ranks, self.seed + n) for n in range(self.members)]
            teams = [[fit] for fit in fits] if self.alone else [fits]
            self.tried[size] = np.mean([log_score(self.held_out, team) for team in teams], axis=0)
        return self.tried[size]


def _judged(data: Data) -> str | None:
    """The first relation with latent indices and enough links that is to be predicted: its weight is no open one."""
    names = (e.relation for e in data.model.equations if e.latent and not data.relations[e.relation].open_weight)
    found = next((name for name in names if len(data.relations[name].links) >= FEWEST), None)
    return found if found is None or fits_memory(data.relations[found]) else None


def _first(scale: Scale) -> int | None:
    """The place of the size to begin with: the rule's, or what can be tried of it; None where that is too small."""
    place = scale.sizes.index(rank_by_rule(scale))
    places = range(place, max(place - SHRUNK, 0) - 1, -1)
    return next((at for at in places if scale.work(scale.sizes[at]) <= TUNING.max_trial_products), None)


def _tryable(scale: Scale, size: int) -> bool:
    return scale.work(size) <= TUNING.max_trial_products and scale.affords(size)


Means = dict[str, Array]
RefitRanks = Callable[..., Fit]  # ranks, seed; and perhaps init=, sweeps=

STARTS = 2  # of every size; the best counts
WEAKEST = 16  # components of an index that may be dropped next
GLANCE = 20  # sweeps after which it is seen which drop costs least
CLOSEST = 2  # drops that are then fitted to the end
TINIEST = 1e-100  # that a factor may start from


class ElboChoice(NamedTuple):
    """The ranks with the best bound, the fit that has it, and the bounds of the sizes that were doubled."""

    ranks: dict[str, int]
    fit: Fit
    tried: Mapping[int, float]


def search_rank_by_elbo(scale: Scale, refit: RefitRanks, seed: int) -> ElboChoice:
    """The ranks of a model with the best bound."""
    tried: dict[int, Fit] = {}
    for size in _doubled(scale):
        starts = [refit(scale.ranks(size), seed + start) for start in range(STARTS)]
        tried[size] = max(starts, key=lambda fit: fit.objective)
        if tried[size].objective < max(fit.objective for fit in tried.values()):
            break
    last = list(tried.values())[-2:]
    fit = max((dropped(fit, scale, refit, seed) for fit in last), key=lambda fit: fit.objective)
    return ElboChoice(dict(fit.rank), fit, {size: one.objective for size, one in tried.items()})


def _doubled(scale: Scale) -> Iterator[int]:
    size = 1
    while scale.affords(size):
        yield size
        if size >= scale.most:
            return
        size = min(2 * size, scale.most)


def dropped(fit: Fit, scale: Scale, refit: RefitRanks, seed: int) -> Fit:
    """Leave out one component at a time as long as the bound does not fall by it."""
    while (fewer := _without_one(fit, scale, refit, seed)) is not None:
        fit = fewer
    return fit


def _without_one(fit: Fit, scale: Scale, refit: RefitRanks, seed: int) -> Fit | None:
    """The fit of one component less that has the best bound, if it is no lower."""
    glances = []
    for index in scale.room:
        ranks = fit.rank | {index: fit.rank[index] - 1}
        for component in np.argsort(strength(fit, index), kind="stable")[:WEAKEST] if ranks[index] else ():
            rest = without(fit, index, int(component))
            glances.append((refit(ranks, seed, init=rest, max_iter=GLANCE).objective, ranks, rest))
    for _, ranks, rest in sorted(glances, key=lambda glance: -glance[0])[:CLOSEST]:
        fewer = refit(ranks, seed, init=rest)
        if fewer.objective >= fit.objective:
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
