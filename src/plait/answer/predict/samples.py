"""Draws of the factors from their posterior."""

import secrets
from typing import Any

import numpy as np

from plait.errors import SettingError
from plait.machine import memory
from plait.run.record import Fitted
from plait.saying import Argument, Call
from plait.types import Array


def samples(fit: Fitted, n: int, seed: int | None = None) -> dict[str, Array]:
    """Draws of all factors, by name: arrays (n, …) with the factor's axes as written, yours to change.

    Z ~ Gamma(concentration C, scale D), independent from entry to entry, as the posterior is. Factors known exactly
    (EM, MAP, given ones) repeat their value n times. Equal seeds give equal draws, and of more draws the first are the
    same; streams go by a factor's position in the model, so names do not matter. None draws a seed.

    The members of an ensemble take turns: draw 0 is of the first, draw 1 of the second, and so on. Components that
    a member has not are 0 in its draws.
    """
    _whole("n", n)
    if seed is not None:
        _whole("seed", seed)
    _check_memory(fit, int(n))
    seed = secrets.randbits(63) if seed is None else int(seed)
    names = {name: position for position, name in enumerate(fit.model.factors) if name in fit.factors}
    return {name: _drawn(fit, name, int(n), seed, position) for name, position in names.items()}


def _drawn(fit: Fitted, name: str, n: int, seed: int, position: int) -> Array:
    posteriors = [member.factors[name] for member in fit.members]
    result = np.zeros((n, *np.max([posterior.mean.shape for posterior in posteriors], axis=0).astype(int)))
    for turn, posterior in enumerate(posteriors):
        key = (position, turn) if turn else (position,)
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
        own = result[(slice(turn, None, len(posteriors)), *map(slice, posterior.mean.shape))]
        if np.isinf(posterior.concentration).any():
            own[...] = posterior.mean
        else:
            own[...] = generator.gamma(posterior.concentration, posterior.scale, own.shape)
    return result


def _whole(name: str, given: Any) -> None:
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, np.integer)) or given < 0:
        raise SettingError(where=Argument(name, of="samples"), wanted="a whole number, 0 or more", got=given)


def _check_memory(fit: Fitted, n: int) -> None:
    needed = 8 * n * sum(posterior.mean.size for posterior in fit.factors.values())
    if needed > memory():
        raise SettingError(
            (f"{n:,} draws of all factors need {needed / 1e9:,.1f} GB; this machine has {memory() / 1e9:,.1f} GB."),
            where=Call("samples"),
            cure="Draw fewer at a time, with another seed each time.",
        )
