"""Likelihoods: distributions of a relation's values given Poisson counts. One file per likelihood; `interface` defines
them.
"""

import inspect
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
    """Return a likelihood from its name, a dict or an object.

    Parameters
    ----------
    given : str or dict or Likelihood
        A name such as ``"negbin"``, a dict such as ``{"name": "tweedie", "shape": 2}``, or a
        likelihood.

    Returns
    -------
    Likelihood
        The likelihood.

    Raises
    ------
    plait.errors.ParameterError
        If the name is unknown, or a parameter is wrong.

    Examples
    --------
    >>> plait.likelihood.as_likelihood({"name": "tweedie", "shape": 2})
    Tweedie(shape=2)
    """
    if isinstance(given, Likelihood):
        return given
    if isinstance(given, Mapping) and "name" in given:
        return from_words(given)
    if isinstance(given, type) and issubclass(given, Likelihood):
        raise ParameterError(
            f"`likelihood` must be an object, got the class {given.__name__}.",
            hint=f"Write {given.__name__}(…).",
        )
    return from_words({"name": given})


def from_words(words: Mapping[str, Any]) -> Likelihood:
    """Return the likelihood that `Likelihood.to_words` describes.

    Parameters
    ----------
    words : dict
        ``name`` and the settings.

    Returns
    -------
    Likelihood
        The likelihood.

    Raises
    ------
    plait.errors.ParameterError
        If the name is unknown, or a setting is wrong.

    Examples
    --------
    >>> words = plait.likelihood.Tweedie(shape=2).to_words()
    >>> plait.likelihood.from_words(words)
    Tweedie(shape=2)
    """
    name = words["name"]
    if isinstance(name, Mapping):
        raise ParameterError(
            f"`likelihood` has no `name`, got {dict(name)!r}.", actual=name, hint='Add `name`, such as name = "negbin".'
        )
    if not isinstance(name, str) or name not in KNOWN:
        raise ParameterError(
            f"`likelihood` is unknown: {name!r}.",
            actual=name,
            hint=(
                f'{suggestion(name, (*KNOWN, "auto"))}The likelihoods are {", ".join(OWN)}; "auto" is for data. '
                "Import the module of a custom likelihood first."
            ),
        )
    given = {key: value for key, value in words.items() if key != "name"}
    try:
        return KNOWN[name](**given)
    except TypeError:
        raise ParameterError(
            f"`likelihood` {name!r} has missing or wrong parameters: {given or 'none given'}.",
            hint=_parameters(KNOWN[name]),
        ) from None


def _parameters(kind: type[Likelihood]) -> str:
    names = list(inspect.signature(kind).parameters)
    return f"Its parameters are {', '.join(names)}." if names else "It has no parameters."


def link_of(name: str) -> Callable[..., tuple[float, float, float]]:
    """Return the compiled link of a likelihood, for kernels.

    Parameters
    ----------
    name : str
        Name of the likelihood.

    Returns
    -------
    callable
        ``link(x, xhat, log_scale, parameters)``.

    Examples
    --------
    >>> callable(plait.likelihood.link_of("negbin"))
    True
    """
    return KNOWN[name].link
