"""Likelihoods: how a relation's values are made of Poisson counts. One file each; `interface` says what one is."""

from collections.abc import Callable, Mapping
from typing import Any

from plait.errors import ParameterError, suggestion
from plait.likelihood.bernoulli import Bernoulli
from plait.likelihood.interface import KNOWN, Entry, KernelNames, Likelihood, State, Sums
from plait.likelihood.negbin import Negbin
from plait.likelihood.poisson import Poisson
from plait.likelihood.tweedie import Tweedie

__all__ = [
    "Bernoulli",
    "Entry",
    "KernelNames",
    "Likelihood",
    "Negbin",
    "Poisson",
    "State",
    "Sums",
    "Tweedie",
    "as_likelihood",
    "from_words",
    "link_of",
]


OWN = (Poisson.name, Bernoulli.name, Negbin.name, Tweedie.name)


def as_likelihood(given: Any) -> Likelihood:
    """A likelihood from its name, from words such as {"name": "tweedie", "shape": 2}, or as it is."""
    if isinstance(given, Likelihood):
        return given
    if isinstance(given, Mapping) and "name" in given:
        return from_words(given)
    if isinstance(given, type) and issubclass(given, Likelihood):
        raise ParameterError(
            f"`likelihood={given.__name__}` is a class.",
            hint=f"Give an object: {given.__name__}(…).",
        )
    return from_words({"name": given})


def from_words(words: Mapping[str, Any]) -> Likelihood:
    """The likelihood that `Likelihood.to_words` gave these words for."""
    name = words["name"]
    if not isinstance(name, str) or name not in KNOWN:
        raise ParameterError(
            f"`likelihood` {name!r} is not known.",
            actual=name,
            hint=(
                f"{suggestion(name, KNOWN)}There are {', '.join(OWN)}; one of your own is known once the "
                "module with its class is imported."
            ),
        )
    given = {key: value for key, value in words.items() if key != "name"}
    try:
        return KNOWN[name](**given)
    except TypeError:
        raise ParameterError(
            f"`likelihood` {name!r} cannot be made from {given or 'its name alone'}.",
            hint=f"Give an object: {KNOWN[name].__name__}(…).",
        ) from None


def link_of(name: str) -> Callable[..., tuple[float, float, float]]:
    """The compiled link of a likelihood, for kernels."""
    return KNOWN[name].link
