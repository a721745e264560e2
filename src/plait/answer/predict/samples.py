"""Draws of the factors from their posterior."""

import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np

from plait.errors import SettingError
from plait.machine import memory
from plait.run.record import Fitted
from plait.types import Array


def samples(fit: Fitted, n: int, seed: int | None = None) -> dict[str, Array]:
    """Draws of all factors, by name: arrays (n, …) with the factor's axes as written, yours to change.

    Z ~ Gamma(concentration C, scale D), independent from entry to entry, as the posterior is. Factors known exactly
    (EM, MAP, given ones) repeat their value n times. Equal seeds give equal draws, and of more draws the first are the
    same; streams go by a factor's position in the model, so names do not matter. None draws a seed.

    The members of an ensemble take turns: draw 0 is of the first, draw 1 of the second, and so on. Components that
    a member has not are 0 in its draws.
    """
    check_whole("n", n)
    if seed is not None:
        check_whole("seed", seed)
    _check_memory(fit, int(n))
    return drawn(fit, fit.factors, int(n), seed)


def drawn(fit: Fitted, names: Iterable[str], n: int, seed: int | None) -> dict[str, Array]:
    """The draws of some factors: what `samples` has of them."""
    seed = secrets.randbits(63) if seed is None else int(seed)
    return {name: _drawn(fit, name, n, seed, fit.model.factors.index(name)) for name in names}


def shape_of(fit: Fitted, name: str) -> tuple[int, ...]:
    """The shape of a draw of a factor: of an ensemble, that of its largest member."""
    shapes = [member.factors[name].mean.shape for member in fit.members]
    return tuple(int(size) for size in np.max(shapes, axis=0))


def _drawn(fit: Fitted, name: str, n: int, seed: int, position: int) -> Array:
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


def check_whole(name: str, given: Any, of: str = "samples") -> None:
    """Refuse what is no number of draws and no seed."""
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, np.integer)) or given < 0:
        raise SettingError.must_be(name, "a whole number, 0 or more", given)


def _check_memory(fit: Fitted, n: int) -> None:
    needed = 8 * n * sum(posterior.mean.size for posterior in fit.factors.values())
    if needed > memory():
        raise SettingError(
            f"{n:,} draws of all factors need {needed / 1e9:,.1f} GB; this machine has {memory() / 1e9:,.1f} GB.",
            location="samples",
            hint="Draw fewer at a time, with another seed each time.",
        )
