"""Similarity of entities: the Bhattacharyya coefficient of their profiles.

A profile p is the share of every component in the entity's expected counts (`entity_shares`), so scales of components
and entities do not matter. The similarity Σ √(p q) is the cosine of square roots: 1 for equal profiles, 0 for disjoint
ones. It is averaged over the factors with the axis, weighted by the known counts of their relations, and over the
members of an ensemble.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.components.entity_shares import Holding, holdings
from plait.analysis.explain.leading_entities import largest
from plait.analysis.predict.lookup import row_named
from plait.analysis.titled_tables import add_titles
from plait.errors import ParameterError, suggestion
from plait.storage.fitted import Fitted

if TYPE_CHECKING:
    import polars as pl


CHUNK_ROWS = 1 << 16  # entities compared at a time
POSTERIOR_DRAWS = 300
DRAW_SEED = 0


def similar(fit: Fitted, axis: str, name: Any, k: int = 10) -> "pl.DataFrame":
    """The k most similar entities of an axis, best first; see `Fit.similar`."""
    import polars as pl

    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1:
        raise ParameterError.must_be("k", "an integer of at least 1", k)
    _check_axis(fit, axis)
    labels = fit.entities[axis]
    row = row_named(labels, name, "name")
    members = [[own for own in holdings(member) if fit.model.axis(own.index) == labels.axis] for member in fit.members]
    if not members[0]:
        raise ParameterError(
            f"no factor of axis {labels.axis} has a latent index, so there are no components to compare.",
            actual=axis,
            hint="Choose an axis of a factor with a latent index, such as i in A[i, r].",
        )
    weights = weights_of(members[0])
    each = [_similarity(own, weights, row) for own in members]
    similarity = np.mean(each, axis=0)
    similarity[row] = -1.0
    chosen = largest(similarity, min(int(k), len(similarity) - 1)) if len(similarity) > 1 else np.zeros(0, np.intp)
    squares = [_squares(own, weights, row, chosen, one[chosen], similarity[chosen]) for own, one in zip(members, each)]
    shown = "similarity_" if axis == "similarity" else "similarity"
    sd = np.sqrt(np.mean(squares, axis=0))
    table = pl.DataFrame({axis: labels.names.gather(chosen), shown: similarity[chosen], "sd": sd})
    return add_titles(fit, table, [axis])


def _check_axis(fit: Fitted, axis: Any) -> None:
    known = tuple(dict.fromkeys([*fit.model.axes, *fit.model.visible]))
    if axis not in known:
        near = suggestion(axis, known) if isinstance(axis, str) else ""
        raise ParameterError(
            f"`axis`: {axis!r} is not an axis of the model.",
            actual=axis,
            hint=f"{near}The axes are {', '.join(known) or 'none'}.",
        )


def weights_of(parts: Sequence[Holding]) -> Array:
    """Weights of factors, (n_factors,), which add up to 1; equal where nothing is known."""
    counts = np.array([part.popularity().sum() for part in parts])
    return counts / counts.sum() if counts.sum() > 0 else np.full(len(parts), 1.0 / len(parts))


def _similarity(parts: Sequence[Holding], weights: Array, row: int) -> Array:
    """Similarity of all entities with one of them, (n_entities,)."""
    similarity = np.zeros(parts[0].size)
    for part, weight in zip(parts, weights):
        mean, rest = part.summed(part.posterior.mean), part.rest.ravel()
        own = profiles(mean[row].reshape(1, -1) * rest)[0]
        towards = np.sqrt(own * rest)
        for at in range(0, len(mean), CHUNK_ROWS):
            some = mean[at : at + CHUNK_ROWS].reshape(-1, len(rest)).astype(np.float64, copy=False)
            total = np.sqrt(some @ rest)
            similarity[at : at + CHUNK_ROWS] += weight * np.divide(
                np.sqrt(some) @ towards, total, out=np.zeros(len(total)), where=total > 0
            )
    return np.minimum(similarity, 1.0)


def _squares(parts: Sequence[Holding], weights: Array, row: int, rows: Rows, own: Array, shown: Array) -> Array:
    """Mean squared deviation of a member's draws of similarities from `shown`, (n,). `own`: its similarities without
    draws.
    """
    if all(np.isinf(part.posterior.concentration.flat[0]) for part in parts):
        return np.asarray((own - shown) ** 2)
    squares = np.zeros((POSTERIOR_DRAWS, len(rows)))
    for number, (part, weight) in enumerate(zip(parts, weights)):
        profiles = np.sqrt(_draw_profiles(part, np.append(row, rows), number))
        squares += weight * np.einsum("dr,dnr->dn", profiles[:, 0], profiles[:, 1:])
    return np.asarray(((squares - shown) ** 2).mean(axis=0))


def _draw_profiles(part: Holding, rows: Rows, number: int) -> Array:
    """Profiles in draws from the posterior, (n_draws, n, n_components); sums of Gammas as one Gamma.

    `number`: position of the factor. Draws of the first entities do not depend on how many follow. Computed in
    logarithms, log G(C) = log G(C + 1) + log U / C, since a Gamma of small concentration underflows.
    """
    mean = part.summed_at(part.posterior.mean, rows).reshape(len(rows), -1).astype(np.float64)
    variance = part.variance(rows).reshape(mean.shape)
    with np.errstate(divide="ignore"):
        logs = np.log(mean * part.rest.ravel())
    some = (mean > 0) & (variance > 0)
    C = np.divide((mean / part.unit) ** 2, variance, out=np.ones(mean.shape), where=some)
    gammas, uniforms = (np.random.default_rng([DRAW_SEED, number, way]) for way in range(2))
    shape = len(rows), POSTERIOR_DRAWS, C.shape[1]
    draws = np.log(gammas.standard_gamma(C[:, None] + 1.0, shape)) + np.log1p(-uniforms.random(shape)) / C[:, None]
    return _softmax(np.where(some, logs + np.moveaxis(draws, 1, 0) - np.log(C), logs))


def profiles(held: Array) -> Array:
    """Rows (n, n_components) that add up to 1; 0 where there is no mass."""
    total = held.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(held, total, out=np.zeros(held.shape), where=total > 0))


def _softmax(logs: Array) -> Array:
    """exp(logs) over its sum along the last axis; 0 where all are −∞."""
    peak = logs.max(axis=-1, keepdims=True)
    weights = np.exp(logs - np.where(np.isneginf(peak), 0.0, peak))
    total = weights.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(weights, total, out=np.zeros(weights.shape), where=total > 0))
