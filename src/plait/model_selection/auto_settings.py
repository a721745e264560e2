"""Settings that a fit chooses from the data before it starts: the rank, then weights of side relations.

``rank="auto"`` predicts held-out links best, ``rank="elbo"`` has the best ELBO. ``weight="auto"`` of a side relation
predicts held-out links of the first relation best.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from plait._typing import Array
from plait.data.binding.sparse_factors import sparse_names
from plait.data.bound import Data
from plait.data.held_out import HeldOut, fits_memory, hold_out
from plait.data.outofcore.bind_blocks import asks_for_weights as asked_on_disk
from plait.data.sources.relation import AUTO, Relation
from plait.errors import ParameterError, suggestion
from plait.fitting.ensemble import Runner
from plait.fitting.options import Options
from plait.fitting.prepare import bound_data, check_arguments, prepare
from plait.inference.state import Record, Stop
from plait.model import Model
from plait.model_selection.auto_evidence import add_evidence
from plait.model_selection.rank_rule import (
    POINT_NUMBERS_PER_COORDINATE,
    VB_NUMBERS_PER_COORDINATE,
    Scale,
    rank_by_rule,
    scale_of,
)
from plait.model_selection.rank_search import (
    HELD_OUT_FRACTION,
    MEMBERS_BY_WORK,
    MIN_HELD_OUT_LINKS,
    RankChoice,
    has_many_links,
    log_score,
    means_of,
    search_rank_by_elbo,
    search_rank_by_prediction,
)
from plait.result import Fit
from plait.storage.run_folder import manifest
from plait.tuning import TUNING

RefitWeights = Callable[[Data, Mapping[str, float]], Fit]  # data, weights by relation

WEIGHT_SETTINGS = ("weights", "weights_by")  # of the settings of a fit


def asks_for_weights(data: Mapping[str, Any] | Data) -> bool:
    """Whether some relation has `weight="auto"`."""
    if isinstance(data, Data):
        return bool(data.open_weights)
    given = data.values() if isinstance(data, Mapping) else (data,)
    return asked_on_disk(data) or any(isinstance(r, Relation) and r.weight == AUTO for r in given)


def check_target(data: Data, fixed: Mapping[str, Any] | None) -> None:
    """Refuse an automatic weight without a relation to predict, or for one that shares nothing with it."""
    if len(data.open_weights) == len(data.relations):
        raise ParameterError(
            (
                f'`weight` is "auto" for all relations, {", ".join(data.open_weights)}, so no relation is '
                "left to predict."
            ),
            hint="Remove it for the relation to predict.",
        )
    target = _target(data)
    reached = _reached(data, target, set(fixed or {}))
    for name in data.open_weights:
        if name not in reached:
            raise ParameterError(
                (
                    f'the weight of {name} is "auto", but {name} has no free factor in common with '
                    f"{target}, the relation to predict."
                ),
                hint="Use a common factor in their equations, or set `weight` to a number.",
            )


def search_weights(data: Data, work: float, refit: RefitWeights, seed: int) -> dict[str, Any]:
    """Weights that predict held-out links best, as settings; `work`: products per sweep.

    A weight of 1 is kept unless another predicts significantly better.
    """
    target = _target(data)
    why = _untold(data, target, work)
    if why is not None:
        return _words(dict.fromkeys(data.open_weights, 1.0), why, [])
    count = next((count for most, count in MEMBERS_BY_WORK if work <= most), 1)
    draws = [
        hold_out(data, target, HELD_OUT_FRACTION, np.random.default_rng([seed, MIN_HELD_OUT_LINKS, n]))
        for n in range(count)
    ]
    search = _WeightSearch([held_out for held_out in draws if held_out is not None], refit, {})
    weights = search.by_turns(data.open_weights)
    tried = [[dict(weights), float(scores.mean())] for weights, scores in search.tried.items()]
    return _words(weights, f"held-out links of {target}", tried)


@dataclass(frozen=True)
class _WeightSearch:
    """Weights scored on held-out cells, each once; `tried`: log-probabilities (n,) of all cells by weights."""

    held_out: list[HeldOut]
    refit: RefitWeights
    tried: dict[tuple[tuple[str, float], ...], Array]

    def by_turns(self, relations: tuple[str, ...]) -> dict[str, float]:
        """Best weight of each relation in turn, with earlier ones chosen and later ones 1."""
        weights = dict.fromkeys(relations, 1.0)
        for name in relations:
            rivals = [{**weights, name: weight} for weight in TUNING.side_weights]
            sure = [rival for rival in rivals if self._better(rival, weights)]
            weights = max(sure, key=lambda rival: float(self._scores(rival).mean()), default=weights)
        return weights

    def _better(self, rival: Mapping[str, float], weights: Mapping[str, float]) -> bool:
        """Whether weights predict significantly better than others."""
        here, there = self._scores(weights), self._scores(rival)
        gains = there - here
        return bool(np.mean(gains) > TUNING.min_gain_errors * np.std(gains) / np.sqrt(len(gains)))

    def _scores(self, weights: Mapping[str, float]) -> Array:
        key = tuple(weights.items())
        if key not in self.tried:
            parts = [log_score(one, [self.refit(one.data, weights)]) for one in self.held_out]
            self.tried[key] = np.concatenate(parts)
        return self.tried[key]


def _target(data: Data) -> str:
    """The relation to predict: the first one whose weight is given."""
    return next(name for name in data.model.relations if not data.relations[name].open_weight)


def _reached(data: Data, target: str, fixed: set[str]) -> set[str]:
    """Relations that share free factors, directly or not, with a relation."""
    factors = {equation.relation: {o.factor for o in equation.occurrences} - fixed for equation in data.model.equations}
    reached = {target}
    while True:
        known = set().union(*(factors[name] for name in reached))
        more = {name for name in factors if factors[name] & known} | {target}
        if more == reached:
            return reached
        reached = more


def _untold(data: Data, target: str, work: float) -> str | None:
    """Why weights stay 1; None where they can be searched."""
    if len(data.relations[target].links) < MIN_HELD_OUT_LINKS:
        return f"default: {target} has fewer than {MIN_HELD_OUT_LINKS} links"
    few = work <= TUNING.max_trial_products and fits_memory(data.relations[target])
    return None if few else "default: too many links for a search"


def _words(weights: Mapping[str, float], way: str, tried: list[Any]) -> dict[str, Any]:
    return {"weights": dict(weights), "weights_by": {"way": way, "tried": tried}}


RANK_SEARCHES = ("auto", "elbo")
TRIAL_SWEEPS = 100  # of a fit that scores a weight
SHORT_SWEEPS = 15, 10  # of EM, then of VB, of a fit that scores a rank, with priors that adapt …
SHORTER_SWEEPS = 12, 8  # for many links …
SHORT_ADAPT_AFTER = 3  # … from this one on
SHORT_POINT_SWEEPS = 60  # of EM and MAP, which overfit later

Say = Callable[[str], None]  # receives progress messages


def resolve_settings(model: Model, data: Mapping[str, Any] | Data, given: Options, say: Say) -> tuple[Any, Options]:
    """Data and arguments of a fit with evidence terms, and with rank and weights in numbers.

    The data are bound where something had to be added or found, to a model with the evidence terms.
    """
    if given.evidence is not None:
        data = bound_data(model, data, given.entities)
        data, given = add_evidence(data, replace(given, entities=None), say, _run_trial)
        model = data.model
    open_rank = _is_open(given.rank, model.latent)
    if not open_rank and not asks_for_weights(data):
        return data, given
    bound, given = bound_data(model, data, given.entities), replace(given, entities=None)
    if bound.open_weights:
        check_target(bound, given.fixed)
    if open_rank:
        given = choose_rank(bound, given, say)
    return choose_weights(bound, given, say) if bound.open_weights else (bound, given)


def _run_trial(data: Data, given: Options) -> Fit:
    """One fit that tries evidence, with a rank by rule where none is given."""
    if _is_open(given.rank, data.model.latent):
        scale = scale_of(
            data,
            _given_sizes(data, given),
            VB_NUMBERS_PER_COORDINATE if given.method == "vb" else POINT_NUMBERS_PER_COORDINATE,
        )
        given = replace(given, rank=scale.ranks(rank_by_rule(scale)))
    return run_fit(data, replace(given, seed=given.seed or 0))


def choose_weights(data: Data, given: Options, say: Say) -> tuple[Data, Options]:
    """Data and options with numeric weights, and a record of the search."""
    if isinstance(given.init, (str, PathLike)):  # a resumed run has its weights
        earlier = manifest(given.init)["settings"]
        words = {word: earlier[word] for word in WEIGHT_SETTINGS if word in earlier}
    else:
        given = replace(given, seed=secrets.randbits(63) if given.seed is None else given.seed)
        ranks = check_arguments(data.model, data, given, warn=False).ranks

        def refit(data: Data, weights: Mapping[str, float]) -> Fit:
            say(f"trying weights {', '.join(f'{name} = {weight:g}' for name, weight in weights.items())}")
            # A start may have seen the held-out links.
            plain = replace(given, init=None, titles=None, rank=ranks, max_iter=min(given.max_iter, TRIAL_SWEEPS))
            return run_fit(data.weighing(weights), plain)

        words = search_weights(data, scale_of(data, ranks).work(1), refit, int(given.seed or 0))
    weights = {name: words.get("weights", {}).get(name, 1.0) for name in data.open_weights}
    return data.weighing(weights), replace(given, found_weights=words)


def _is_open(rank: Any, latent: tuple[str, ...]) -> bool:
    """Whether a rank is to be searched; refuses unknown words."""
    if not isinstance(rank, str):
        return rank is None and bool(latent)
    if rank not in RANK_SEARCHES:
        raise ParameterError.must_be(
            "rank",
            'an integer, "auto" or "elbo"',
            rank,
            hint=suggestion(rank, RANK_SEARCHES).strip(),
        )
    if not latent:
        raise ParameterError(
            "`rank` has no effect: the model has no latent index.",
            hint="Remove it.",
        )
    return True


def choose_rank(data: Data, given: Options, say: Say) -> Options:
    """Options with a numeric rank, and a record of the search; `data`: bound."""
    if isinstance(given.init, (str, PathLike)):  # a resumed run has its rank
        earlier = manifest(given.init)["settings"]
        return replace(given, rank=earlier["rank"], rank_by=earlier.get("rank_by"))
    asked = given.rank or "auto"
    given = replace(given, seed=secrets.randbits(63) if given.seed is None else given.seed)
    scale = scale_of(
        data,
        _given_sizes(data, given),
        VB_NUMBERS_PER_COORDINATE if given.method == "vb" else POINT_NUMBERS_PER_COORDINATE,
    )
    size = rank_by_rule(scale)
    _refuse_guess(data, scale)
    loop = check_arguments(data.model, data, replace(given, rank=scale.ranks(size)), warn=False).loop
    if asked == "elbo":
        return _by_bound(data, given, scale, say)
    search = _predicting(given, scale, loop.warm_up, say)
    tried = [[size, score] for size, score in search.tried.items()]
    return replace(given, rank=search.ranks, rank_by={"asked": asked, "way": search.way, "tried": tried})


def _refuse_guess(data: Data, scale: Scale) -> None:
    """Refuse to search a rank for blocks on disk with too many links to try any."""
    links = sum(len(relation.links) for relation in data.relations.values())
    on_disk = not all(relation.links.in_memory for relation in data.relations.values())
    if on_disk and scale.max_ranks and not scale.affords(scale.sizes[0]):
        raise ParameterError(
            f"`rank` cannot be chosen from {links:,} links.",
            hint="Set `rank` to a number, such as `rank=20`.",
        )


def _predicting(given: Options, scale: Scale, warm_up: int, say: Say) -> RankChoice:
    if not scale.max_ranks or given.prune or given.max_iter == 0:
        way = "rule" if scale.max_ranks else "sizes of fixed factors"
        return RankChoice(scale.ranks(rank_by_rule(scale)), way)

    first, then = SHORTER_SWEEPS if has_many_links(scale.data) else SHORT_SWEEPS
    first, then = min(warm_up, first), then if given.method == "vb" else SHORT_POINT_SWEEPS
    plain = replace(given, titles=None, max_iter=min(given.max_iter, then))

    def refit(data: Data, ranks: Mapping[str, int], seed: int) -> Fit:
        say(f"trying rank {_write_ranks(ranks)}")
        return run_fit(data, replace(plain, rank=dict(ranks), seed=seed), short=first)

    return search_rank_by_prediction(
        scale,
        refit,
        int(given.seed or 0),
        trial_sweeps=first + plain.max_iter,
        fit_sweeps=given.restarts * (warm_up + given.max_iter),
        alone=given.restarts == 1 or given.combine == "best",
    )


def _by_bound(data: Data, given: Options, scale: Scale, say: Say) -> Options:
    """The rank with the best ELBO; a single fit continues from the fit that has it."""
    _check_bound(given)
    # Adapted priors per component are not penalised, so more components would always be better.
    plain = replace(given, titles=None, adapt_prior=None if given.adapt_prior is None else "factor")

    def refit(ranks: Mapping[str, int], seed: int, **others: Any) -> Fit:
        say(f"trying rank {_write_ranks(ranks)}")
        given = replace(plain, rank=dict(ranks), seed=seed, warmup=None if "init" in others else plain.warmup)
        return run_fit(data, replace(given, **others))

    search = search_rank_by_elbo(scale, refit, int(given.seed or 0))
    tried = [[size, bound] for size, bound in search.tried.items()]
    init = means_of(search.fit) if given.restarts == 1 and given.warmup is None else None
    words = {"asked": "elbo", "way": "elbo", "tried": tried}
    return replace(given, rank=search.ranks, rank_by=words, init=init)


def _check_bound(given: Options) -> None:
    if given.method != "vb":
        raise ParameterError(
            f'`rank="elbo"` requires `method="vb"`, got {given.method!r}.',
            hint='Use `rank="auto"`, which compares held-out links.',
        )
    for word, present in (("prune", given.prune), ("init", given.init is not None)):
        if present:
            raise ParameterError(
                f'`{word}` and `rank="elbo"` exclude each other.',
                hint="Remove it.",
            )


def _given_sizes(data: Data, given: Options) -> dict[str, int]:
    """Sizes of latent indices from arrays: given factors, and those to start from."""
    arrays: dict[str, Any] = dict(given.fixed or {})
    if isinstance(given.init, Fit):
        arrays |= given.init.factors
    elif isinstance(given.init, Mapping):
        arrays |= given.init
    sizes: dict[str, int] = {}
    sparse = sparse_names(data.model, given.fixed)
    for name, array in arrays.items():
        if name in sparse:  # the table decides when the fit binds it
            sizes |= dict.fromkeys(data.model.factor(name).latent, 1)
        elif name in data.model.factors:
            indices, shape = data.model.factor(name).indices, np.shape(getattr(array, "concentration", array))
            if len(shape) == len(indices):
                sizes |= {i: n for i, n in zip(indices, shape) if i in data.model.latent}
    return sizes


def run_fit(data: Data, given: Options, *, short: int | None = None) -> Fit:
    """A single fit without warnings or progress; `short`: sweeps of the warm-up, and priors adapt early."""
    task = prepare(data.model, data, replace(given, restarts=1, combine=None, bootstrap=False), warn=False)
    if short is not None:
        task = replace(task, loop=replace(task.loop, warm_up=short, adapt_after=SHORT_ADAPT_AFTER))
    ran = Runner(task, _unwatched, None).run()
    return Fit._of(task.origin, ran.members, ran.stop)


def _unwatched(record: Record) -> Stop | None:
    return None


def _write_ranks(ranks: Mapping[str, int]) -> str:
    sizes = set(ranks.values())
    return str(sizes.pop()) if len(sizes) == 1 else ", ".join(f"{index} = {size}" for index, size in ranks.items())
