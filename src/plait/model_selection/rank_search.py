"""Rank search: by the order of held-out links, or by the ELBO (decision 19).

By prediction, short fits of doubling sizes rank held-out links, by average precision or, where links are many, by the
mean reciprocal rank within their lists; the climb ends where they rank no better.

By the ELBO, ranks are doubled until it falls. Then components are dropped one at a time, from the best fit and from the
next larger one, as long as the ELBO does not fall after refitting. A fit that loses superfluous components ends higher
than one that starts with as many, whose random start may miss a group.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from plait import special
from plait._typing import AnyArray, Array
from plait.analysis.predict.prediction import columns
from plait.data.bound import Data
from plait.data.held_out import HeldOut, fits_memory, hold_out
from plait.evaluation.metrics import average_precision
from plait.model_selection.rank_rule import Scale, rank_by_rule
from plait.result import Fit

MIN_PROBABILITY = 1e-300  # in place of 0


def log_score(held_out: HeldOut, fits: Sequence[Fit], links_only: bool = False) -> Array:
    """Log-probability (n_cells,) of the held-out values under the mixture of some fits.

    links_only: score whether there is a link, not its value, to compare fits of counts with fits of links.
    """
    logs = [log_probability(fit, held_out.relation, held_out.cells, held_out.values, links_only) for fit in fits]
    return np.asarray(special.logsumexp(logs, axis=0) - math.log(len(logs)))


def link_probability(held_out: HeldOut, fits: Sequence[Fit]) -> Array:
    """Probability (n_cells,) of a link under the mixture of some fits."""
    probabilities = [columns(fit, held_out.relation, held_out.cells, ("probability",))["probability"] for fit in fits]
    return np.asarray(np.mean(probabilities, axis=0))


def log_probability(fit: Fit, relation: str, cells: AnyArray, values: Array, links_only: bool = False) -> Array:
    """Log predictive probability (n_cells,) of values at cells: of the link, or of the value under matched moments."""
    likelihood = fit.likelihood[relation]
    if links_only or likelihood.binary:
        chance = columns(fit, relation, cells, ("probability",))["probability"]
        return np.asarray(np.log(np.maximum(np.where(values > 0, chance, 1.0 - chance), MIN_PROBABILITY)))
    moments = columns(fit, relation, cells, ("rate", "variance"))
    rate = np.maximum(moments["rate"], MIN_PROBABILITY)
    return likelihood.log_probability_by_moments(values, rate, moments["variance"], fit.likelihood_params[relation])


Judge = Callable[[Sequence[Fit]], float]  # score of fits by held-out cells
RefitHeldOut = Callable[[Data, Mapping[str, int], int], Fit]  # data, ranks, seed: a short fit

HELD_OUT_FRACTION = 0.1  # of the links
MIN_HELD_OUT_LINKS = 100  # fewer cannot distinguish ranks
MEMBERS_BY_WORK = ((1e6, 4), (1e7, 2))  # fits per setting that a search compares, up to this many products per sweep
MAX_SCORED_LINKS = 20_000  # held out by a search for a rank: more say no more, and each has ten zeros
MIN_SEARCH_RANK = 4  # where the climb starts
MAX_FAILURES = 2  # sizes in a row that rank no better end the climb: …
MIN_GAIN = 0.003  # … of average precision, mean reciprocal rank or log-likelihood
CLEAR_GAIN = 0.03  # of the third size over the second, with which the first is never the best
MAX_REPEATED_LINKS = 5_000  # up to which ranks are compared by two draws of held-out links and two fits for each
MANY_LINKS = 100_000  # above which the average precision against random zeros hardly falls with too small a rank
MIN_SEARCH_RANK_MANY = 16  # where the climb starts for many links
RANKED_LINKS, RIVALS = 10_000, 100  # held-out links, and random cells that each is ranked among, for many links
MAX_SEARCH_SHARE = 0.4  # of the products of the fits that will follow …
FREE_PRODUCTS = 1.2e8  # … or as many, tenths of a second
SWEEP_PRODUCTS = 3e5  # that take as long as the rest of a sweep


@dataclass(frozen=True)
class RankChoice:
    """Size of every latent index, how it was found, and the score of every size tried."""

    ranks: dict[str, int]
    way: str
    tried: Mapping[int, float] = field(default_factory=dict)


def search_rank_by_prediction(
    scale: Scale, refit: RefitHeldOut, seed: int, *, trial_sweeps: int, fit_sweeps: int, alone: bool
) -> RankChoice:
    """The ranks whose short fits rank held-out links best; by rule where that cannot be tried.

    `trial_sweeps`: of a short fit; `fit_sweeps`: of all fits that will follow; `alone`: whether one of them will
    answer, and not their mixture, which tolerates larger ranks.
    """
    relation = _judged(scale.data)
    is_many = has_many_links(scale.data)
    sizes = _search_sizes(scale, MIN_SEARCH_RANK_MANY if is_many else MIN_SEARCH_RANK)
    if relation is None or len(sizes) < 2:
        return RankChoice(scale.ranks(rank_by_rule(scale)), "rule")
    judged = scale.data.relations[relation]
    is_few = len(judged.links) <= MAX_REPEATED_LINKS
    n_draws, n_members = (2 if is_few else 1), (2 if is_few or not alone else 1)
    by_rank = judged.observed_zeros >= len(judged.links)
    parts = [_draw(scale.data, relation, [seed, MIN_HELD_OUT_LINKS, n], by_rank) for n in range(n_draws)]
    judge_of = _judge_values if not by_rank else _judge_lists if is_many else _judge_order
    judges = [judge_of(held_out) for held_out in parts]

    def score(size: int) -> float:
        """Mean over the draws."""
        scores = []
        for n, held_out in enumerate(parts):
            seeds = range(seed + n * n_members, seed + (n + 1) * n_members)
            fits = [refit(held_out.data, scale.ranks(size), own) for own in seeds]
            teams = [[fit] for fit in fits] if alone else [fits]
            scores += [judges[n](team) for team in teams]
        return float(np.mean(scores))

    def cost(size: int) -> float:
        """Products of a sweep, and what else it takes."""
        return scale.work(size) + SWEEP_PRODUCTS

    def affordable(tried: Mapping[int, float], size: int) -> bool:
        """Whether the cost of the search stays small next to that of the fits."""
        spent = trial_sweeps * n_draws * n_members * sum(map(cost, [*tried, size]))
        return spent <= max(FREE_PRODUCTS, MAX_SEARCH_SHARE * fit_sweeps * cost(_best(tried)))

    tried = _climb(sizes, score, affordable)
    return RankChoice(scale.ranks(_best(tried)), f"held-out {'links' if by_rank else 'values'} of {relation}", tried)


def has_many_links(data: Data) -> bool:
    """Whether the relation that judges ranks has more than `MANY_LINKS` links."""
    relation = _judged(data)
    return relation is not None and len(data.relations[relation].links) > MANY_LINKS


def _search_sizes(scale: Scale, start: int) -> list[int]:
    """Ascending sizes to try: those from `start` on, or all where data have room for few."""
    sizes = [size for size in scale.sizes if scale.affords(size)]
    high = [size for size in sizes if size >= start]
    return high if len(high) > 1 else sizes


def _climb(
    sizes: Sequence[int], score: Callable[[int], float], affordable: Callable[[Mapping[int, float], int], bool]
) -> dict[int, float]:
    """Scores of ascending sizes, until two in a row are hardly better; one where the second costs much.

    The first size is tried unless the third is clearly better than the second.
    """
    score = cache(score)
    if len(sizes) > 2 and affordable({sizes[1]: score(sizes[1])}, sizes[2]):
        is_clear = score(sizes[2]) > score(sizes[1]) + CLEAR_GAIN
        sizes = sizes[1:] if is_clear else sizes
    tried: dict[int, float] = {}
    n_failures, reached = 0, -math.inf
    for size in sizes:
        if n_failures == MAX_FAILURES or (n_failures and not affordable(tried, size)):
            break
        tried[size] = score(size)
        n_failures = 0 if tried[size] > reached + MIN_GAIN else n_failures + 1
        reached = reached if n_failures else tried[size]
    return tried


def _best(tried: Mapping[int, float]) -> int:
    return max(tried, key=lambda size: tried[size])


def _draw(data: Data, relation: str, seed: list[int], by_rank: bool) -> HeldOut:
    """Held-out cells of a relation; where they are ranked, held-out links look like zeros."""
    judged = hold_out(
        data, relation, HELD_OUT_FRACTION, np.random.default_rng(seed), as_zeros=by_rank, max_links=MAX_SCORED_LINKS
    )
    assert judged is not None  # a tenth of at least 100 links
    return judged


def _judge_order(held_out: HeldOut) -> Judge:
    """Average precision of the mean rate of some fits."""
    return lambda fits: average_precision(held_out.values > 0, _mean_rate(held_out, fits, held_out.cells))


def _judge_lists(held_out: HeldOut) -> Judge:
    """Mean reciprocal rank of held-out links by the mean rate of some fits, among cells with one other entity."""
    bound, rng = held_out.data.relations[held_out.relation], np.random.default_rng(len(held_out.values))
    links = held_out.cells[held_out.values > 0].astype(np.int64)
    links = links[rng.permutation(len(links))[:RANKED_LINKS]]
    rivals = np.repeat(links, RIVALS, axis=0)
    rows, axis = np.arange(len(rivals)), np.repeat(rng.integers(0, links.shape[1], len(links)), RIVALS)
    other = rng.integers(0, np.array(bound.shape)[axis])
    is_other = rivals[rows, axis] != other
    rivals[rows, axis] = other
    is_zero = is_other & (bound.weights.at(rivals) > 0) & (bound.values_at(rivals) == 0)

    def judge(fits: Sequence[Fit]) -> float:
        own, theirs = (_mean_rate(held_out, fits, cells) for cells in (links, rivals))
        own = np.repeat(own, RIVALS)
        above = np.where(theirs > own, 1.0, 0.5 * (theirs == own)) * is_zero  # ties count half
        return float(np.mean(1 / (1 + above.reshape(-1, RIVALS).sum(axis=1))))

    return judge


def _judge_values(held_out: HeldOut) -> Judge:
    """Mean log-likelihood."""
    return lambda fits: float(log_score(held_out, fits).mean())


def _mean_rate(held_out: HeldOut, fits: Sequence[Fit], cells: AnyArray) -> Array:
    return np.asarray(np.mean([columns(fit, held_out.relation, cells, ("rate",))["rate"] for fit in fits], axis=0))


def _judged(data: Data) -> str | None:
    """The first relation with latent indices, enough links and a given weight."""
    names = (e.relation for e in data.model.equations if e.latent and not data.relations[e.relation].open_weight)
    relation = next((name for name in names if len(data.relations[name].links) >= MIN_HELD_OUT_LINKS), None)
    return relation if relation is None or fits_memory(data.relations[relation]) else None


Means = dict[str, Array]
RefitRanks = Callable[..., Fit]  # ranks, seed; and perhaps init=, sweeps=

ELBO_RESTARTS = 2  # of every size; the best counts
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
        starts = [refit(scale.ranks(size), seed + start) for start in range(ELBO_RESTARTS)]
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
        if size >= scale.max_size:
            return
        size = min(2 * size, scale.max_size)


def dropped(fit: Fit, scale: Scale, refit: RefitRanks, seed: int) -> Fit:
    """Drop one component at a time as long as the ELBO does not fall."""
    while (fewer := _without_one(fit, scale, refit, seed)) is not None:
        fit = fewer
    return fit


def _without_one(fit: Fit, scale: Scale, refit: RefitRanks, seed: int) -> Fit | None:
    """The best fit with one component less, if its ELBO is no lower."""
    glances = []
    for index in scale.max_ranks:
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
