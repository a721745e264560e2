"""Names of components: given by users, else the entities that characterise the component.

A name lists the entities of highest relevance on the two axes that characterise the component most, as in "cafe 4,
library 2 · ann, kim". The relevance of an entity is weight × lift, which is large where a component has much more of an
entity than the data have of it.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from plait._typing import Array
from plait.analysis.components.entity_shares import Holding, holdings
from plait.analysis.explain.coupling import first_index
from plait.analysis.explain.leading_entities import MIN_LIFT, largest
from plait.data.encoding.names import write_label
from plait.errors import ParameterError
from plait.storage.fitted import Fitted

NAMED_AXES = 2
NAMED_ENTITIES = 2  # of an axis
MIN_RELEVANCE = 0.2  # of the second entity, in units of that of the first
MAX_ENTITY_CHARACTERS = 24
MAX_NAME_CHARACTERS = 100  # of a given name


def relevance(weight: Array, popular: Array) -> Array:
    """weight × lift of entities, 0 where the lift is not above 1; `popular`: their shares of the known links."""
    lift = np.divide(weight, popular, out=np.zeros(weight.shape), where=popular > 0)
    return np.asarray(np.where(lift > MIN_LIFT, weight * lift, 0.0))


def component_shares(holding: Holding, place: int) -> Array:
    """Unscaled weights of the entities in each value of one latent index, (n_values, n_entities)."""
    return np.ascontiguousarray(summed_out(holding, place, holding.summed(holding.posterior.mean), 1).T, np.float64)


def summed_out(holding: Holding, place: int, array: Array, power: int) -> Array:
    """Sum out all but one latent index, weighted by `rest` to a power: (n, *latent) → (n, n_values)."""
    if array.ndim == 2:
        return array
    others = tuple(n + 1 for n in range(array.ndim - 1) if n != place)
    return np.asarray((array * holding.rest**power).sum(axis=others))


def popularity_shares(holding: Holding) -> Array:
    """Share of each entity of the known counts of the relations with the factor, (n_entities,)."""
    popular = holding.popularity()
    popular /= popular.sum() or 1.0
    return popular


def names_of(fit: Fitted) -> Mapping[str, Mapping[int, str]]:
    """Names of all components that have one, by latent index and number; those that are given first. Cached."""
    names: dict[str, dict[int, str]] | None = fit._cached_answers.get("component names")
    if names is None:
        names = {index: dict(own) for index, own in _derived(fit).items()}
        for index, own in fit.given_names.items():
            names.setdefault(index, {}).update(own)
        fit._cached_answers["component names"] = names
    return names


def title(names: Mapping[str, Mapping[int, str]], index: str, number: int, *, several: bool) -> str:
    """Number and name of a component: ``Component 3: cafe 4, library 2 · ann``. `several`: latent indices."""
    start = f"Component {index} {number}" if several else f"Component {number}"
    name = names.get(index, {}).get(number, "")
    return f"{start}: {name}" if name else start


def _derived(fit: Fitted) -> dict[str, dict[int, str]]:
    """Names from the most relevant entities."""
    kinds: dict[tuple[str, int], list[tuple[float, str]]] = {}
    for holding in holdings(fit):
        popular = popularity_shares(holding)
        for place, index in enumerate(holding.latent):
            held = component_shares(holding, place)
            for number, own in enumerate(held):
                total = own.sum()
                if total > 0 and (said := _leading(holding, relevance(own / total, popular))):
                    kinds.setdefault((index, number), []).append(said)
    names: dict[str, dict[int, str]] = {}
    for (index, number), parts in kinds.items():
        first = sorted(parts, key=lambda part: -part[0])
        words = list(dict.fromkeys(text for _, text in first))[:NAMED_AXES]
        names.setdefault(index, {})[number] = " · ".join(words)
    return names


def _leading(holding: Holding, scores: Array) -> tuple[float, str] | None:
    """Largest relevance of an entity, and the names of the most relevant ones; None if no lift is above 1."""
    chosen = [int(row) for row in largest(scores, NAMED_ENTITIES)]
    best = float(scores[chosen[0]]) if chosen else 0.0
    if best <= 0:
        return None
    shown = [row for row in chosen if scores[row] >= MIN_RELEVANCE * best]
    return best, ", ".join(_short(holding, row) for row in shown)


def _short(holding: Holding, row: int) -> str:
    titles = holding.fit.titles.get(holding.index)
    own = None if titles is None else titles.column[row]
    text = " ".join((own or write_label(holding.fit.entities[holding.index][row])).split())
    return text if len(text) <= MAX_ENTITY_CHARACTERS else f"{text[: MAX_ENTITY_CHARACTERS - 1]}…"


def with_names(fit: Fitted, names: Any, index: str | None) -> Mapping[str, Mapping[int, str]]:
    """Given names of components after some are set; an empty name or None removes one."""
    wanted = _checked_index(fit, index)
    if not isinstance(names, Mapping):
        raise ParameterError.must_be("names", "a dict of component numbers to names", names)
    own = dict(fit.given_names.get(wanted, {}))
    for number, name in names.items():
        size = fit.rank[wanted]
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or not 0 <= number < size:
            raise ParameterError.must_be("names", f"a dict with component numbers from 0 to {size - 1}", number)
        if name is not None and (not isinstance(name, str) or len(name) > MAX_NAME_CHARACTERS):
            raise ParameterError.must_be("names", f"a dict of names of at most {MAX_NAME_CHARACTERS} characters", name)
        text = " ".join((name or "").split())
        own.pop(int(number), None)
        if text:
            own[int(number)] = text
    merged = {key: dict(value) for key, value in fit.given_names.items() if key != wanted}
    return merged | ({wanted: dict(sorted(own.items()))} if own else {})


def _checked_index(fit: Fitted, index: str | None) -> str:
    """The latent index of a call: the only one, or the one that is named."""
    known = list(dict.fromkeys(first_index(fit.model, one) for one in fit.rank))
    if index is None and len(known) == 1:
        return known[0]
    if index is None and known:
        raise ParameterError("`index` is missing.", hint=f"Choose one of the latent indices {', '.join(fit.rank)}.")
    if index not in fit.rank:
        raise ParameterError(
            "the model has no components to name." if not known else f"{index!r} is not a latent index of the model.",
            actual=index,
            hint=f"The latent indices are {', '.join(fit.rank) or 'none'}.",
        )
    return first_index(fit.model, str(index))
