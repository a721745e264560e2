"""Draws of a fit as an `xarray.DataTree` in the form of ArviZ, which is not needed for it; xarray is optional."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.answer.labelled import attributes, coordinates, dimensions, refuse_two_meanings
from plait.answer.predict.samples import check_whole, drawn, shape_of
from plait.errors import PlaitError, SettingError, suggestion
from plait.machine import memory
from plait.run.record import Fitted
from plait.version import __version__

if TYPE_CHECKING:
    import xarray

SAMPLED = ("chain", "draw")  # ArviZ's names of the axes along which draws differ


def to_datatree(
    fit: Fitted, draws: int = 1000, factors: str | Iterable[str] | None = None, seed: int | None = None
) -> "xarray.DataTree":
    """The draws of `samples` in the group posterior, each member a chain; see `Fit.to_datatree`."""
    labelled = _xarray()
    check_whole("draws", draws, "to_datatree")
    if seed is not None:
        check_whole("seed", seed, "to_datatree")
    names = _checked_names(fit, factors)
    if fit.method != "vb":
        raise SettingError(
            f'`method="{fit.method}"` finds points, which have no posterior to draw from.',
            location="to_datatree",
            hint='fit.to_xarray() has the points; a fit with `method="vb"` has a posterior.',
        )
    given = [name for name in names if np.isinf(fit.factors[name].concentration).any()]
    free = [name for name in names if name not in given]
    _check_memory(fit, free, int(draws))
    own = attributes(fit) | {
        "fingerprint": fit.fingerprint,
        "inference_library": "plait",
        "inference_library_version": __version__,
    }
    groups = {"/": labelled.Dataset(attrs=own), "/posterior": _posterior(fit, free, int(draws), seed, own, labelled)}
    if given:
        groups["/constant_data"] = _constants(fit, given, own, labelled)
    tree: xarray.DataTree = labelled.DataTree.from_dict(groups)
    return tree


def _xarray() -> Any:
    try:
        import xarray
        from xarray import DataTree as DataTree
    except ImportError:
        raise PlaitError(
            "to_datatree needs xarray, 2025.1.2 or newer, which is not installed.",
            hint="Install it: pip install 'tensorplait[xarray]'.",
        ) from None
    return xarray


def _checked_names(fit: Fitted, factors: str | Iterable[str] | None) -> list[str]:
    """The factors asked for, in the order of the model, none of which is called as something else is."""
    if factors is not None and not isinstance(factors, Iterable):
        raise SettingError.must_be("factors", "the name of a factor, or several", factors)
    asked = list(fit.factors) if factors is None else [factors] if isinstance(factors, str) else list(factors)
    for name in asked:
        if not isinstance(name, str) or name not in fit.factors:
            what = "an exposure, which is given" if name in fit.model.factors else "no factor of the model"
            raise SettingError(
                f"{name!r} is {what}.",
                actual=name,
                hint=f"{suggestion(name, fit.factors)}Its factors are {', '.join(fit.factors)}.",
            )
    names = [name for name in fit.factors if name in asked]
    indices = {index: "an index" for name in names for index in dimensions(name, fit.factors[name])}
    refuse_two_meanings(
        [*((axis, f"the axis of {axis}s") for axis in SAMPLED), *indices.items(), *((n, f"factor {n}") for n in names)],
        "to_datatree",
    )
    return names


def _check_memory(fit: Fitted, names: list[str], draws: int) -> None:
    needs = {name: 8 * draws * len(fit.members) * math.prod(shape_of(fit, name)) for name in names}
    if sum(needs.values()) <= memory():
        return
    largest = max(needs, key=lambda name: needs[name])
    chains = f" from each of {len(fit.members)} members" if len(fit.members) > 1 else ""
    raise SettingError(
        (
            f"{draws:,} draws{chains} need {sum(needs.values()) / 1e9:,.1f} GB, those of {largest} alone "
            f"{needs[largest] / 1e9:,.1f} GB; this machine has {memory() / 1e9:,.1f} GB."
        ),
        location="to_datatree",
        hint="Name the factors that you need, `factors`, or take fewer `draws`.",
    )


def _posterior(fit: Fitted, names: list[str], draws: int, seed: int | None, own: dict[str, Any], labelled: Any) -> Any:
    """The group posterior. Members take turns in `samples`: draw d of chain c is its draw d·chains + c."""
    chains = len(fit.members)
    variables: dict[str, Any] = {}
    for name, array in drawn(fit, names, draws * chains, seed).items():
        by_chain = array.reshape(draws, chains, *array.shape[1:]).swapaxes(0, 1)
        variables[name] = ((*SAMPLED, *dimensions(name, fit.factors[name])), by_chain)
    sampled = {"chain": np.arange(chains), "draw": np.arange(draws)}
    return labelled.Dataset(variables, sampled | _coordinates(fit, names), own)


def _constants(fit: Fitted, names: list[str], own: dict[str, Any], labelled: Any) -> Any:
    variables = {name: (dimensions(name, fit.factors[name]), np.array(fit.factors[name].mean)) for name in names}
    return labelled.Dataset(variables, _coordinates(fit, names), own)


def _coordinates(fit: Fitted, names: list[str]) -> dict[str, Any]:
    """Those of all indices of some factors; of an ensemble, as many components as the largest member has."""
    sizes: dict[str, int] = {}
    for name in names:
        sizes |= zip(dimensions(name, fit.factors[name]), shape_of(fit, name))
    return coordinates(fit, sizes, [*names, *SAMPLED])
