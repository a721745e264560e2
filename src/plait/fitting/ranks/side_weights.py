"""`weight="auto"`: how much a side relation should count, by links put aside from the relation to be predicted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait.data.blocks.binding import asks_for_weights as asked_on_disk
from plait.data.bound import Data
from plait.data.reading.relation import AUTO, Relation
from plait.errors import SettingError
from plait.fitting.ranks.auto import FEWEST, FRACTION, MEMBERS, SURE, WORK
from plait.fitting.ranks.hidden import Aside, can_hold, put_aside
from plait.result import Fit
from plait.types import Array

Refit = Callable[[Data, Mapping[str, float]], Fit]  # data, weights by relation

OTHERS = (0.01, 0.1, 0.3, 3.0)  # weights that are tried beside 1, for each relation in turn
WORDS = ("weights", "weights_by")  # of the settings of a fit


def asks_for_weights(data: Mapping[str, Any] | Data) -> bool:
    """Whether some relation's weight is to be found."""
    if isinstance(data, Data):
        return bool(data.open_weights)
    given = data.values() if isinstance(data, Mapping) else ()
    return asked_on_disk(data) or any(isinstance(r, Relation) and r.weight == AUTO for r in given)


def check_target(data: Data, fixed: Mapping[str, Any] | None) -> None:
    """Refuse a weight that has no meaning: without a relation to predict, or for one that shares nothing with it."""
    if len(data.open_weights) == len(data.relations):
        raise SettingError(
            (
                f'`weight` is "auto" for all relations, {", ".join(data.open_weights)}, so that '
                "there is none to predict."
            ),
            hint="Leave it out for the relation that is to be predicted.",
        )
    target = _target(data)
    reached = _reached(data, target, set(fixed or {}))
    for name in data.open_weights:
        if name not in reached:
            raise SettingError(
                (
                    f'the weight of {name} is "auto", but it shares no factor that is learnt with {target}, which it '
                    "is to help predict."
                ),
                hint="Let their equations share one, or leave the weight out.",
            )


def predicting_weights(data: Data, work: float, refit: Refit, seed: int) -> dict[str, Any]:
    """The weights with which links put aside are predicted best, as words of the settings; work: products of a sweep.

    A weight of 1 is left only for one that predicts surely better: few links put aside say little.
    """
    target = _target(data)
    why = _untold(data, target, work)
    if why is not None:
        return _words(dict.fromkeys(data.open_weights, 1.0), why, [])
    count = next((count for most, count in MEMBERS if work <= most), 1)
    draws = [put_aside(data, target, FRACTION, np.random.default_rng([seed, FEWEST, n])) for n in range(count)]
    search = _Search([aside for aside in draws if aside is not None], refit, {})
    found = search.by_turns(data.open_weights)
    tried = [[dict(weights), float(scores.mean())] for weights, scores in search.tried.items()]
    return _words(found, f"links of {target} put aside", tried)


@dataclass(frozen=True)
class _Search:
    """Weights judged by what was put aside, each once; tried: log-probabilities (n,) of all cells by weights."""

    asides: list[Aside]
    refit: Refit
    tried: dict[tuple[tuple[str, float], ...], Array]

    def by_turns(self, relations: tuple[str, ...]) -> dict[str, float]:
        """The best weight of each relation, those before it having theirs and those after it 1."""
        found = dict.fromkeys(relations, 1.0)
        for name in relations:
            rivals = [{**found, name: weight} for weight in OTHERS]
            sure = [rival for rival in rivals if self._better(rival, found)]
            found = max(sure, key=lambda rival: float(self._scores(rival).mean()), default=found)
        return found

    def _better(self, rival: Mapping[str, float], found: Mapping[str, float]) -> bool:
        """Whether weights predict better than others by more than that is unsure."""
        here, there = self._scores(found), self._scores(rival)
        gains = there - here
        return bool(np.mean(gains) > SURE * np.std(gains) / np.sqrt(len(gains)))

    def _scores(self, weights: Mapping[str, float]) -> Array:
        key = tuple(weights.items())
        if key not in self.tried:
            parts = [aside.score([self.refit(aside.data, weights)]) for aside in self.asides]
            self.tried[key] = np.concatenate(parts)
        return self.tried[key]


def _target(data: Data) -> str:
    """The relation to predict: the first one whose weight is given."""
    return next(name for name in data.model.relations if not data.relations[name].open_weight)


def _reached(data: Data, target: str, fixed: set[str]) -> set[str]:
    """The relations that learn from a relation, over factors that are not given."""
    factors = {equation.relation: {o.factor for o in equation.occurrences} - fixed for equation in data.model.equations}
    reached = {target}
    while True:
        known = set().union(*(factors[name] for name in reached))
        more = {name for name in factors if factors[name] & known} | {target}
        if more == reached:
            return reached
        reached = more


def _untold(data: Data, target: str, work: float) -> str | None:
    """Why weights stay 1; None where they can be tried."""
    if len(data.relations[target].links) < FEWEST:
        return f"default: {target} has fewer than {FEWEST} links"
    few = work <= WORK and can_hold(data.relations[target])
    return None if few else "default: too many links to try others"


def _words(weights: Mapping[str, float], way: str, tried: list[Any]) -> dict[str, Any]:
    return {"weights": dict(weights), "weights_by": {"way": way, "tried": tried}}
