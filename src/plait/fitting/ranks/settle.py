"""What a fit has to find before it begins, as numbers: first the rank, all weights being 1; then weights.

`rank=` left out or "auto" is what predicts best, "bound" how many groups there are; `weight="auto"` of a relation is
what predicts another one best.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from plait.data.bound import Data
from plait.errors import SettingError, suggestion
from plait.fitting.begin import bound_data, prepare
from plait.fitting.members import Runner
from plait.fitting.options import Options
from plait.fitting.ranks.auto import Found, predicting_rank
from plait.fitting.ranks.bound import bounding_rank, means_of
from plait.fitting.ranks.rule import GENEROUS, SPARING, Scale, by_rule, scale_of
from plait.fitting.ranks.side_weights import WORDS as WEIGHT_WORDS
from plait.fitting.ranks.side_weights import asks_for_weights, check_target, predicting_weights
from plait.infer.state import Record
from plait.infer.stop import Stop
from plait.model import Model
from plait.result import Fit
from plait.run.folder import manifest

WORDS = ("auto", "bound")
SWEEPS = 100  # of a fit that only tries a rank or a weight by links put aside

Say = Callable[[str], None]  # what a person is told while they are tried


def settle(model: Model, data: Mapping[str, Any] | Data, given: Options, say: Say) -> tuple[Any, Options]:
    """Data and arguments of a fit with rank and weights in numbers; where these had to be found, the data are bound."""
    open_rank = _is_open(given.rank, model.latent)
    if not open_rank and not asks_for_weights(data):
        return data, given
    bound, given = bound_data(model, data, given.labels), replace(given, labels=None)
    if bound.open_weights:
        check_target(bound, given.fixed)
    if open_rank:
        given = settle_rank(bound, given, say)
    return settle_weights(bound, given, say) if bound.open_weights else (bound, given)


def settle_weights(data: Data, given: Options, say: Say) -> tuple[Data, Options]:
    """Data and arguments of a fit with weights in numbers, and with words on how they were found."""
    if isinstance(given.init, (str, PathLike)):  # a run that goes on has its weights
        earlier = manifest(given.init)["settings"]
        words = {word: earlier[word] for word in WEIGHT_WORDS if word in earlier}
    else:
        given = replace(given, seed=secrets.randbits(63) if given.seed is None else given.seed)
        ranks = prepare(data.model, data, given, warn=False).origin.settings["rank"]  # what is wrong is said before

        def refit(data: Data, weights: Mapping[str, float]) -> Fit:
            say(f"trying weights {', '.join(f'{name} = {weight:g}' for name, weight in weights.items())}")
            # What a fit began with has perhaps seen the links that are put aside here.
            plain = replace(given, init=None, titles=None, rank=ranks, sweeps=min(given.sweeps, SWEEPS))
            return fit_quietly(data.weighing(weights), plain)

        words = predicting_weights(data, scale_of(data, ranks).work(1), refit, int(given.seed))
    weights = {name: words.get("weights", {}).get(name, 1.0) for name in data.open_weights}
    return data.weighing(weights), replace(given, found_weights=words)


def _is_open(rank: Any, latent: tuple[str, ...]) -> bool:
    """Whether a rank is to be found; refuses words that say nothing."""
    if not isinstance(rank, str):
        return rank is None and bool(latent)
    if rank not in WORDS:
        raise SettingError.must_be(
            "rank",
            'a whole number, "auto" or "bound"',
            rank,
            hint=suggestion(rank, WORDS).strip(),
        )
    if not latent:
        raise SettingError(
            "`rank` is given, but the model has no latent index.",
            hint="Leave it out.",
        )
    return True


def settle_rank(data: Data, given: Options, say: Say) -> Options:
    """The arguments of a fit with a rank in numbers, and with words on how it was found; data: bound already."""
    if isinstance(given.init, (str, PathLike)):  # a run that goes on has its rank
        earlier = manifest(given.init)["settings"]
        return replace(given, rank=earlier["rank"], rank_by=earlier.get("rank_by"))
    asked = given.rank or "auto"
    given = replace(given, seed=secrets.randbits(63) if given.seed is None else given.seed)
    scale = scale_of(data, _given_sizes(data, given), GENEROUS if given.method == "vb" else SPARING)
    size = by_rule(scale)
    _refuse_guess(data, scale)
    prepare(data.model, data, replace(given, rank=scale.ranks(size)), warn=False)  # what is wrong is said before
    if asked == "bound":
        return _by_bound(data, given, scale, say)
    found = _predicting(given, scale, say)
    tried = [[size, score] for size, score in found.tried.items()]
    return replace(given, rank=found.ranks, rank_by={"asked": asked, "way": found.way, "tried": tried})


def _refuse_guess(data: Data, scale: Scale) -> None:
    """Refuse to find a rank where blocks on disk have so many links that none could be tried."""
    links = sum(len(relation.links) for relation in data.relations.values())
    on_disk = not all(relation.links.in_memory for relation in data.relations.values())
    if on_disk and scale.room and not scale.affords(scale.sizes[0]):
        raise SettingError(
            f"`rank` is to be found, but among {links:,} links none can be tried.",
            hint="Give a number: `rank=20`.",
        )


def _predicting(given: Options, scale: Scale, say: Say) -> Found:
    if not scale.room or given.prune or given.sweeps == 0:
        way = "rule" if scale.room else "sizes of given arrays"
        return Found(scale.ranks(by_rule(scale)), way)

    plain = replace(given, titles=None, sweeps=min(given.sweeps, SWEEPS))

    def refit(data: Data, ranks: Mapping[str, int], seed: int) -> Fit:
        say(f"trying rank {_shown(ranks)}")
        return fit_quietly(data, replace(plain, rank=dict(ranks), seed=seed))

    alone = given.restarts == 1 or given.keep == "best"
    return predicting_rank(scale, refit, int(given.seed), alone=alone)


def _by_bound(data: Data, given: Options, scale: Scale, say: Say) -> Options:
    """The rank with the best bound; a single fit goes on from where that was found."""
    _check_bound(given)
    # Priors that grow in number with the rank are not paid for, so that more components would always be better.
    plain = replace(given, titles=None, adapt=None if given.adapt is None else "factor")

    def refit(ranks: Mapping[str, int], seed: int, **others: Any) -> Fit:
        say(f"trying rank {_shown(ranks)}")
        start = {} if "init" not in others else {"start": None}
        return fit_quietly(data, replace(plain, rank=dict(ranks), seed=seed, **start, **others))

    found = bounding_rank(scale, refit, int(given.seed))
    tried = [[size, bound] for size, bound in found.tried.items()]
    init = means_of(found.fit) if given.restarts == 1 and given.start is None else None
    words = {"asked": "bound", "way": "bound", "tried": tried}
    return replace(given, rank=found.ranks, rank_by=words, init=init)


def _check_bound(given: Options) -> None:
    if given.method != "vb":
        raise SettingError(
            f'`rank="bound"` needs `method="vb"`, whose bound compares ranks, got `method="{given.method}"`.',
            hint='Give `rank="auto"`, which asks what predicts best.',
        )
    for word, present in (("prune", given.prune), ("init", given.init is not None)):
        if present:
            raise SettingError(
                f'`{word}` is given next to `rank="bound"`, which finds components itself.',
                hint="Leave it out.",
            )


def _given_sizes(data: Data, given: Options) -> dict[str, int]:
    """Sizes of latent indices that arrays have: given factors, and those to start from."""
    arrays: dict[str, Any] = dict(given.fixed or {})
    if isinstance(given.init, Fit):
        arrays |= given.init.factors
    elif isinstance(given.init, Mapping):
        arrays |= given.init
    found: dict[str, int] = {}
    for name, array in arrays.items():
        if name in data.model.factors:
            indices, shape = data.model.factor(name).indices, np.shape(getattr(array, "concentration", array))
            if len(shape) == len(indices):
                found |= {i: n for i, n in zip(indices, shape) if i in data.model.latent}
    return found


def fit_quietly(data: Data, given: Options) -> Fit:
    """One fit alone, without warnings or a bar."""
    task = prepare(data.model, data, replace(given, restarts=1, keep=None, bootstrap=False), warn=False)
    ran = Runner(task, _unwatched, None).run()
    return Fit.of(task.origin, ran.members, ran.stop)


def _unwatched(record: Record) -> Stop | None:
    return None


def _shown(ranks: Mapping[str, int]) -> str:
    sizes = set(ranks.values())
    return str(sizes.pop()) if len(sizes) == 1 else ", ".join(f"{index} = {size}" for index, size in ranks.items())
