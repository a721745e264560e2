"""A fit as a labelled `xarray.Dataset`; xarray is optional."""

from typing import TYPE_CHECKING, Any

import numpy as np

from plait.answer.titles import title_column
from plait.errors import PlaitError, SettingError
from plait.run.record import Fitted
from plait.saying import Call

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
            cure="Install it: pip install 'tensorplait[xarray]'.",
        ) from None

    variables: dict[str, Any] = {}
    for name, posterior in fit.factors.items():
        for word, array in _parts(name, posterior).items():
            variables[word] = (_dimensions(name, posterior), np.array(array))
    used = (index for name, posterior in fit.factors.items() for index in _dimensions(name, posterior))
    indices = list(dict.fromkeys(used))
    _check_names(fit, indices)
    attributes = {
        "model": str(fit.model),
        "method": fit.method,
        "bound": fit.bound,
        "stop": str(fit.stop),
        "seed": fit.seed,
    }
    coordinates = {index: _coordinate(fit, index) for index in indices}
    return labelled.Dataset(variables, coordinates | _titles(fit, indices, variables), attributes)


def _dimensions(name: str, posterior: "Posterior") -> tuple[str, ...]:
    """The names of the arrays' axes; the rows of a factor over pairs, and of all others of an entity, are one."""
    if posterior.pairs is None:
        return posterior.indices
    return f"{name}_row", *(index for index in posterior.indices if index not in posterior.pairs.visible)


def _parts(name: str, posterior: "Posterior") -> dict[str, Any]:
    return {name: posterior.mean} | {f"{name}_{part}": getattr(posterior, part) for part in PARTS}


def _coordinate(fit: Fitted, index: str) -> Any:
    if index in fit.labels:
        return fit.labels[index].names.to_numpy()
    return np.arange(fit.rank[index] if index in fit.rank else len(fit.factors[index.removesuffix("_row")].mean))


def _titles(fit: Fitted, indices: list[str], variables: dict[str, Any]) -> dict[str, Any]:
    """Titles along indices that have any, empty text where there is none."""
    named = {title_column(index): index for index in indices if index in fit.titles}
    return {
        name: (index, fit.titles[index].column.fill_null("").to_numpy())
        for name, index in named.items()
        if name not in variables and name not in indices
    }


def _check_names(fit: Fitted, indices: list[str]) -> None:
    """A dataset has one namespace for factors, their parts and indices."""
    taken = dict.fromkeys(indices, "an index")
    for name, posterior in fit.factors.items():
        for word in _parts(name, posterior):
            what = f"factor {name}" if word == name else f"the {word.removeprefix(name + '_')} of factor {name}"
            if word in taken:
                raise SettingError(
                    f"{word} would name both {taken[word]} and {what}.",
                    where=Call("to_xarray"),
                    cure="Rename one of the two in the model.",
                )
            taken[word] = what
