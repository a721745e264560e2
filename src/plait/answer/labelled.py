"""A fit as a labelled `xarray.Dataset`; xarray is optional."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.answer.titles import title_column
from plait.errors import PlaitError, SettingError
from plait.run.record import Fitted

if TYPE_CHECKING:
    import xarray

    from plait.run.record import Posterior

PARTS = ("sd", "concentration", "scale")


def to_xarray(fit: Fitted) -> "xarray.Dataset":
    """The factors as an `xarray.Dataset`, ready for `.sel(user="ann")`.

    Of factor U: `U` is its mean, and `U_sd`, `U_concentration` and `U_scale` are the rest of its posterior (EM, MAP and
    given factors: 0, ∞ and 0). Dimensions have the names of indices; coordinates are the names of entities along
    visible ones and 0 … R−1 along latent ones; titles, where there are any, are a coordinate `film_title` along film.
    Attributes: model (its text), method, bound, stop, seed.
    """
    try:
        import xarray as labelled
    except ImportError:
        raise PlaitError(
            "to_xarray needs xarray, which is not installed.",
            hint="Install it: pip install 'tensorplait[xarray]'.",
        ) from None

    variables: dict[str, Any] = {}
    for name, posterior in fit.factors.items():
        for word, array in _parts(name, posterior).items():
            variables[word] = (dimensions(name, posterior), np.array(array))
    sizes = {
        index: size
        for name, posterior in fit.factors.items()
        for index, size in zip(dimensions(name, posterior), posterior.mean.shape)
    }
    _check_names(fit, list(sizes))
    return labelled.Dataset(variables, coordinates(fit, sizes, variables), attributes(fit))


def attributes(fit: Fitted) -> dict[str, Any]:
    """What a fit is, and what came of it."""
    return {
        "model": str(fit.model),
        "method": fit.method,
        "bound": fit.bound,
        "stop": str(fit.stop),
        "seed": fit.seed,
    }


def dimensions(name: str, posterior: "Posterior") -> tuple[str, ...]:
    """The names of the arrays' axes; the rows of a factor over pairs, and of all others of an entity, are one."""
    if posterior.pairs is None:
        return posterior.indices
    return f"{name}_row", *(index for index in posterior.indices if index not in posterior.pairs.visible)


def _parts(name: str, posterior: "Posterior") -> dict[str, Any]:
    return {name: posterior.mean} | {f"{name}_{part}": getattr(posterior, part) for part in PARTS}


def coordinates(fit: Fitted, sizes: Mapping[str, int], taken: Collection[str]) -> dict[str, Any]:
    """By index the names of entities along visible ones, and numbers along others; titles along those that have any,
    empty text where there is none. sizes: of the indices. taken: names that titles may not have.
    """
    names = {i: fit.labels[i].names.to_numpy() if i in fit.labels else np.arange(size) for i, size in sizes.items()}
    titles = {title_column(index): index for index in sizes if index in fit.titles}
    return names | {
        name: (index, fit.titles[index].column.fill_null("").to_numpy())
        for name, index in titles.items()
        if name not in taken and name not in sizes
    }


def _check_names(fit: Fitted, indices: list[str]) -> None:
    """A dataset has one namespace for factors, their parts and indices."""
    words = [(index, "an index") for index in indices]
    for name, posterior in fit.factors.items():
        for word in _parts(name, posterior):
            what = f"factor {name}" if word == name else f"the {word.removeprefix(name + '_')} of factor {name}"
            words.append((word, what))
    refuse_two_meanings(words, "to_xarray")


def refuse_two_meanings(words: Iterable[tuple[str, str]], call: str) -> None:
    """Refuse names that stand for two things; words: each with what it stands for."""
    taken: dict[str, str] = {}
    for word, what in words:
        if word in taken:
            raise SettingError(
                f"{word} would name both {taken[word]} and {what}.",
                location=call,
                hint="Rename one of the two in the model.",
            )
        taken[word] = what
