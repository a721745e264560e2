"""Export of a fit: posterior draws, a labelled `xarray.Dataset`, and draws as an `xarray.DataTree` in the layout of
ArviZ. xarray is optional.
"""

import math
import secrets
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array
from plait.analysis.titled_tables import title_column
from plait.errors import ParameterError, PlaitError, suggestion
from plait.machine import memory
from plait.storage.fitted import Fitted
from plait.version import __version__

if TYPE_CHECKING:
    import xarray

    from plait.storage.fitted import Posterior


def sample(fit: Fitted, n: int, seed: int | None = None) -> dict[str, Array]:
    """Draws of all factors by name, writable arrays (n, …) with the factor's axes as written.

    Z ~ Gamma(concentration C, scale D), independent by entry, as in the posterior. Factors known exactly (EM, MAP,
    given) repeat their value. Equal seeds give equal draws, and more draws begin with the same ones. Random streams
    depend on the position of a factor in the model, not on its name.

    The members of an ensemble take turns: draw 0 is of the first, draw 1 of the second, and so on. Components that a
    member lacks are 0 in its draws.
    """
    check_whole("n", n)
    if seed is not None:
        check_whole("seed", seed)
    _check_memory(fit, int(n))
    return drawn(fit, fit.factors, int(n), seed)


def drawn(fit: Fitted, names: Iterable[str], n: int, seed: int | None) -> dict[str, Array]:
    """Draws of some factors, as in `sample`."""
    seed = secrets.randbits(63) if seed is None else int(seed)
    return {name: _draw_factor(fit, name, n, seed, fit.model.factors.index(name)) for name in names}


def shape_of(fit: Fitted, name: str) -> tuple[int, ...]:
    """Shape of a draw of a factor; for an ensemble, of its largest member."""
    shapes = [member.factors[name].mean.shape for member in fit.members]
    return tuple(int(size) for size in np.max(shapes, axis=0))


def _draw_factor(fit: Fitted, name: str, n: int, seed: int, position: int) -> Array:
    posteriors = [member.factors[name] for member in fit.members]
    result = np.zeros((n, *shape_of(fit, name)))
    for turn, posterior in enumerate(posteriors):
        key = (position, turn) if turn else (position,)
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        own = result[(slice(turn, None, len(posteriors)), *map(slice, posterior.mean.shape))]
        if np.isinf(posterior.concentration).any():
            own[...] = posterior.mean
        else:
            own[...] = generator.gamma(posterior.concentration, posterior.scale, own.shape)
    return result


def check_whole(name: str, given: Any, of: str = "sample") -> None:
    """Refuse an invalid number of draws or seed."""
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, np.integer)) or given < 0:
        raise ParameterError.must_be(name, "an integer of at least 0", given)


def _check_memory(fit: Fitted, n: int) -> None:
    needed = 8 * n * sum(posterior.mean.size for posterior in fit.factors.values())
    if needed > memory():
        raise ParameterError(
            f"{n:,} draws of all factors need {needed / 1e9:,.1f} GB; this machine has {memory() / 1e9:,.1f} GB.",
            location="sample",
            hint="Draw fewer samples per call, with a different seed for each call.",
        )


PARTS = ("sd", "concentration", "scale")


def to_xarray(fit: Fitted) -> "xarray.Dataset":
    """The factors as an `xarray.Dataset`; see `Fit.to_xarray`.

    For a factor U: `U` is its mean, and `U_sd`, `U_concentration` and `U_scale` are the rest of its posterior (EM, MAP
    and given factors: 0, ∞ and 0). Dimensions have the names of indices; coordinates are the names of entities along
    visible indices and 0 … R−1 along latent ones; titles are a coordinate `film_title` along film.
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
    """Attributes of a dataset: model text, method, objective, stop reason, seed."""
    return {
        "model": str(fit.model),
        "method": fit.method,
        "objective": fit.objective,
        "stop": str(fit.stop),
        "seed": fit.seed,
    }


def dimensions(name: str, posterior: "Posterior") -> tuple[str, ...]:
    """Names of the arrays' axes; the rows of a factor over pairs are one axis."""
    if posterior.pairs is None:
        return posterior.indices
    return f"{name}_row", *(index for index in posterior.indices if index not in posterior.pairs.visible)


def _parts(name: str, posterior: "Posterior") -> dict[str, Any]:
    return {name: posterior.mean} | {f"{name}_{part}": getattr(posterior, part) for part in PARTS}


def coordinates(fit: Fitted, sizes: Mapping[str, int], taken: Collection[str]) -> dict[str, Any]:
    """Coordinates by index: names of entities along visible indices, numbers along others; titles, "" where missing.

    `sizes`: of the indices. `taken`: names that titles must not have.
    """
    names = {i: fit.entities[i].names.to_numpy() if i in fit.entities else np.arange(size) for i, size in sizes.items()}
    titles = {title_column(index): index for index in sizes if index in fit.titles}
    return names | {
        name: (index, fit.titles[index].column.fill_null("").to_numpy())
        for name, index in titles.items()
        if name not in taken and name not in sizes
    }


def _check_names(fit: Fitted, indices: list[str]) -> None:
    """Refuse name clashes: a dataset has one namespace for factors, their parts and indices."""
    words = [(index, "an index") for index in indices]
    for name, posterior in fit.factors.items():
        for word in _parts(name, posterior):
            what = f"factor {name}" if word == name else f"the {word.removeprefix(name + '_')} of factor {name}"
            words.append((word, what))
    refuse_two_meanings(words, "to_xarray")


def refuse_two_meanings(words: Iterable[tuple[str, str]], call: str) -> None:
    """Refuse names with two meanings; `words` pairs each with its meaning."""
    taken: dict[str, str] = {}
    for word, what in words:
        if word in taken:
            raise ParameterError(
                f"{word} would be the name of both {taken[word]} and {what}.",
                location=call,
                hint="Rename one of the two in the model.",
            )
        taken[word] = what


SAMPLE_DIMENSIONS = ("chain", "draw")  # as in ArviZ


def to_datatree(
    fit: Fitted, draws: int = 1000, factors: str | Iterable[str] | None = None, seed: int | None = None
) -> "xarray.DataTree":
    """Draws of `sample` in the group posterior, each member a chain; see `Fit.to_datatree`."""
    labelled = _xarray()
    check_whole("draws", draws, "to_datatree")
    if seed is not None:
        check_whole("seed", seed, "to_datatree")
    names = _checked_names(fit, factors)
    if fit.method != "vb":
        raise ParameterError(
            f'`method="{fit.method}"` gives point estimates, so there is no posterior to sample from.',
            location="to_datatree",
            hint='Use `fit.to_xarray()` for the point estimates, or fit with `method="vb"`.',
        )
    given = [name for name in names if np.isinf(fit.factors[name].concentration).any()]
    free = [name for name in names if name not in given]
    _check_tree_memory(fit, free, int(draws))
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
    """The requested factors in the order of the model, checked for name clashes."""
    if factors is not None and not isinstance(factors, Iterable):
        raise ParameterError.must_be("factors", "the name of a factor, or a list of names", factors)
    asked = list(fit.factors) if factors is None else [factors] if isinstance(factors, str) else list(factors)
    for name in asked:
        if not isinstance(name, str) or name not in fit.factors:
            what = "a fixed exposure" if name in fit.model.factors else "not a factor of the model"
            raise ParameterError(
                f"{name!r} is {what}.",
                actual=name,
                hint=f"{suggestion(name, fit.factors)}The factors are {', '.join(fit.factors)}.",
            )
    names = [name for name in fit.factors if name in asked]
    indices = {index: "an index" for name in names for index in dimensions(name, fit.factors[name])}
    refuse_two_meanings(
        [
            *((axis, f"the axis of {axis}s") for axis in SAMPLE_DIMENSIONS),
            *indices.items(),
            *((n, f"factor {n}") for n in names),
        ],
        "to_datatree",
    )
    return names


def _check_tree_memory(fit: Fitted, names: list[str], draws: int) -> None:
    needs = {name: 8 * draws * len(fit.members) * math.prod(shape_of(fit, name)) for name in names}
    if sum(needs.values()) <= memory():
        return
    largest = max(needs, key=lambda name: needs[name])
    chains = f" from each of {len(fit.members)} members" if len(fit.members) > 1 else ""
    raise ParameterError(
        (
            f"{draws:,} draws{chains} need {sum(needs.values()) / 1e9:,.1f} GB, for {largest} alone "
            f"{needs[largest] / 1e9:,.1f} GB; this machine has {memory() / 1e9:,.1f} GB."
        ),
        location="to_datatree",
        hint="Choose the factors you need with `factors`, or reduce `draws`.",
    )


def _posterior(fit: Fitted, names: list[str], draws: int, seed: int | None, own: dict[str, Any], labelled: Any) -> Any:
    """The group posterior. Members take turns in `sample`: draw d of chain c is its draw d·n_chains + c."""
    chains = len(fit.members)
    variables: dict[str, Any] = {}
    for name, array in drawn(fit, names, draws * chains, seed).items():
        by_chain = array.reshape(draws, chains, *array.shape[1:]).swapaxes(0, 1)
        variables[name] = ((*SAMPLE_DIMENSIONS, *dimensions(name, fit.factors[name])), by_chain)
    sampled = {"chain": np.arange(chains), "draw": np.arange(draws)}
    return labelled.Dataset(variables, sampled | _coordinates(fit, names), own)


def _constants(fit: Fitted, names: list[str], own: dict[str, Any], labelled: Any) -> Any:
    variables = {name: (dimensions(name, fit.factors[name]), np.array(fit.factors[name].mean)) for name in names}
    return labelled.Dataset(variables, _coordinates(fit, names), own)


def _coordinates(fit: Fitted, names: list[str]) -> dict[str, Any]:
    """Coordinates of all indices of some factors; the ranks are those of the largest member."""
    sizes: dict[str, int] = {}
    for name in names:
        sizes |= zip(dimensions(name, fit.factors[name]), shape_of(fit, name))
    return coordinates(fit, sizes, [*names, *SAMPLE_DIMENSIONS])
