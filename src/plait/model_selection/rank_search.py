"""Rank search: by the score of held-out links, or by the ELBO.

By prediction, the search starts at the size of `rank_rule` and leaves it only for a significantly better one.

By the ELBO, ranks are doubled until it falls. Then components are dropped one at a time, from the best fit and from the
next larger one, as long as the ELBO does not fall after refitting. A fit that loses superfluous components ends higher
than one that starts with as many, whose random start may miss a group.
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

MIN_PROBABILITY = 1e-300  # in place of 0


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

HELD_OUT_FRACTION = 0.1  # of the links
MIN_HELD_OUT_LINKS = 100  # fewer cannot distinguish ranks
MEMBERS_BY_WORK = ((1e6, 4), (1e7, 2))  # fits per size, up to this many products per sweep
MAX_START_STEPS_DOWN = 4  # from the rule's size to the first affordable one; smaller starts are useless
STEPS_PER_DOUBLE = 2  # in `Scale.sizes`


@dataclass(frozen=True)
class RankChoice:
    """Size of every latent index, how it was found, and the mean log-likelihood of a held-out cell, by size."""

    ranks: dict[str, int]
    way: str
    tried: Mapping[int, float] = field(default_factory=dict)


def search_rank_by_prediction(scale: Scale, refit: RefitHeldOut, seed: int, *, alone: bool) -> RankChoice:
    """The ranks that predict held-out links best; by rule where that cannot be tried.

    The search starts at the rule's size, which is good for most data, and leaves it only for a significantly better
    one. `alone`: whether a single fit will answer, and not a mixture, which tolerates larger ranks.
    """
    relation, place = _judged(scale.data), _first(scale)
    rule = RankChoice(scale.ranks(rank_by_rule(scale)), "rule")
    if relation is None or place is None or len(scale.sizes) == 1:
        return rule
    held_out = hold_out(scale.data, relation, HELD_OUT_FRACTION, np.random.default_rng([seed, MIN_HELD_OUT_LINKS]))
    if held_out is None:
        return rule
    members = next((count for work, count in MEMBERS_BY_WORK if scale.work(scale.sizes[place]) <= work), 1)
    search = _RankSearch(scale, held_out, refit, seed, members, alone, {})
    best = search.climb(place)
    means = {size: float(np.mean(scores)) for size, scores in sorted(search.tried.items())}
    return RankChoice(scale.ranks(scale.sizes[best]), f"held-out links of {relation}", means)


@dataclass(frozen=True)
class _RankSearch:
    """Sizes scored on held-out cells, each once; `tried`: log-probabilities (n,) of the cells by size."""

    scale: Scale
    held_out: HeldOut
    refit: RefitHeldOut
    seed: int
    members: int
    alone: bool
    tried: dict[int, Array]

    def climb(self, place: int) -> int:
        """The best position: up by doubles and down by quarters as long as they are better, then its neighbours."""
        ends = self._along(place, STEPS_PER_DOUBLE), self._along(place, -2 * STEPS_PER_DOUBLE)
        if ends == (place, place):
            return self._half(place)
        best = max(ends, key=self._mean)
        around = [at for at in (best + STEPS_PER_DOUBLE, best - STEPS_PER_DOUBLE) if self._open(at)]
        return max((best, *around), key=self._mean)  # away from the rule's size none is preferred

    def _half(self, place: int) -> int:
        """Half of a size if a quarter is better, though not significantly, and the half is; else the size."""
        half, quarter = place - STEPS_PER_DOUBLE, place - 2 * STEPS_PER_DOUBLE
        hints = self._open(quarter) and self._mean(quarter) > self._mean(place)
        return half if hints and self._better(place, half) else place

    def _mean(self, place: int) -> float:
        return float(self._scores(place).mean())

    def _along(self, place: int, step: int) -> int:
        while self._better(place, place + step):
            place += step
        return place

    def _better(self, here: int, there: int) -> bool:
        """Whether a position can be tried and predicts significantly better than another."""
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
    """The first relation with latent indices, enough links and a given weight."""
    names = (e.relation for e in data.model.equations if e.latent and not data.relations[e.relation].open_weight)
    found = next((name for name in names if len(data.relations[name].links) >= MIN_HELD_OUT_LINKS), None)
    return found if found is None or fits_memory(data.relations[found]) else None


def _first(scale: Scale) -> int | None:
    """First position: the rule's, or the largest that can be tried; None where that is too small."""
    place = scale.sizes.index(rank_by_rule(scale))
    places = range(place, max(place - MAX_START_STEPS_DOWN, 0) - 1, -1)
    return next((at for at in places if scale.work(scale.sizes[at]) <= TUNING.max_trial_products), None)


def _tryable(scale: Scale, size: int) -> bool:
    return scale.work(size) <= TUNING.max_trial_products and scale.affords(size)


Means = dict[str, Array]
RefitRanks = Callable[..., Fit]  # ranks, seed; and perhaps init=, sweeps=

RESTARTS = 2  # of every size; the best counts
DROP_CANDIDATES = 16  # weakest components of an index
SCREENING_SWEEPS = 20  # after which drops are compared
FITTED_DROPS = 2  # that are then fitted until convergence
MIN_START = 1e-100  # of a factor


class ElboChoice(NamedTuple):
    """The ranks with the best ELBO, the fit that has it, and the ELBO of each size tried by doubling."""

    ranks: dict[str, int]
    fit: Fit
    tried: Mapping[int, float]


def search_rank_by_elbo(scale: Scale, refit: RefitRanks, seed: int) -> ElboChoice:
    """The ranks with the best ELBO."""
    tried: dict[int, Fit] = {}
    for size in _doubled(scale):
        starts = [refit(scale.ranks(size), seed + start) for start in range(RESTARTS)]
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
    """Drop one component at a time as long as the ELBO does not fall."""
    while (fewer := _without_one(fit, scale, refit, seed)) is not None:
        fit = fewer
    return fit


def _without_one(fit: Fit, scale: Scale, refit: RefitRanks, seed: int) -> Fit | None:
    """The best fit with one component less, if its ELBO is no lower."""
    glances = []
    for index in scale.room:
        ranks = fit.rank | {index: fit.rank[index] - 1}
        for component in np.argsort(strength(fit, index), kind="stable")[:DROP_CANDIDATES] if ranks[index] else ():
            rest = without(fit, index, int(component))
            glances.append((refit(ranks, seed, init=rest, max_iter=SCREENING_SWEEPS).objective, ranks, rest))
    for _, ranks, rest in sorted(glances, key=lambda glance: -glance[0])[:FITTED_DROPS]:
        fewer = refit(ranks, seed, init=rest)
        if fewer.objective >= fit.objective:
            return fewer
    return None


def strength(fit: Fit, index: str) -> Array:
    """Size of each component of an index: the sum of its entries, multiplied over the factors that have it."""
    sums = [_sums(factor, index) for factor in fit.factors.values() if index in factor.indices]
    return np.asarray(np.prod(sums, axis=0))


def _sums(factor: Any, index: str) -> Array:
    at = factor.indices.index(index)
    return np.asarray(factor.mean.sum(axis=tuple(axis for axis in range(factor.mean.ndim) if axis != at)))


def without(fit: Fit, index: str, component: int) -> Means:
    """Means of the free factors, without one component of an index."""
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
    """Means of the free factors, to start from."""
    return {name: _positive(fit.factors[name].mean) for name in fit.prior}


def _positive(array: Array) -> Array:
    return np.maximum(array, MIN_START)
