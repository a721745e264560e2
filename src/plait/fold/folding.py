"""`fit.fold_in`: new entities beside those of a fit, all else held."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, cast

import numpy as np

from plait.data.labels.titles import grown_titles
from plait.errors import DataError, SettingError, TableLocation
from plait.execute import Threads
from plait.fold.blocks import Block, blocks_of
from plait.fold.growing import grown_exposures, grown_known, grown_state, mark_of, public
from plait.fold.reading import Fresh, Growth, read, rule_of
from plait.fold.solving import Solution, solve
from plait.infer.state import Record
from plait.run.record import Fitted

Fit = TypeVar("Fit", bound=Fitted)

WHAT = "fold-in"


def fold_in(fit: Fit, data: Any, *, iterations: int = 10) -> Fit:
    """The fit with new entities; see `Fit.fold_in`."""
    check(fit, iterations, WHAT)
    for name in fit.known:
        rule_of(fit, name, WHAT)
    growth, fresh = read(fit, data, WHAT)
    refuse_known(fresh, growth)
    if not any(growth.new(axis) for axis in fit.model.axes):
        return fit
    blocks = blocks_of(fit, growth, fresh, WHAT)
    solutions, seconds = solved(fit, growth, blocks, iterations)
    return grown(fit, growth, fresh, blocks, solutions, seconds, iterations)


def check(fit: Fitted, iterations: Any, what: str) -> None:
    """Refuse senseless iterations, and a fit that is still warming up."""
    whole = isinstance(iterations, (int, np.integer)) and not isinstance(iterations, bool)
    if not whole or iterations < 1:
        raise SettingError.must_be("iterations", "a whole number, 1 or more", iterations)
    if fit.history[-1].warm_up:
        raise SettingError(f"{what}: the fit is still warming up.", hint="Let it go on first.")


def refuse_known(fresh: Mapping[str, Fresh], growth: Growth) -> None:
    """Refuse rows without a new entity: nothing that is held would change by them."""
    for name, rows in fresh.items():
        entries = rows.entries
        old = np.array([growth.old[index] for index, _ in entries.labels], entries.coords.dtype)
        known = (entries.coords < old).all(axis=1)
        if known.any():
            entry = int(np.argmax(known))
            raise DataError(
                f"{entries.named(entry) or 'the cell'} has no new entity, and all others are held.",
                location=TableLocation(name, rows=(entries.row(entry),)),
                hint="Leave such rows out, or let the fit learn from them by `update`.",
            )


def solved(
    fit: Fitted, growth: Growth, blocks: Sequence[Block], iterations: int, what: str = WHAT
) -> tuple[list[Solution], float]:
    """New rows of all members, and the seconds that they took."""
    began, executor = time.perf_counter(), Threads(1)
    found = [solve(member, growth, blocks, iterations, executor, what) for member in fit.members]
    return found, time.perf_counter() - began


def grown(
    fit: Fit, growth: Growth, fresh: Mapping[str, Fresh], blocks: Sequence[Block], solutions: Sequence[Solution],
    seconds: float, iterations: int,
) -> Fit:  # fmt: skip
    """The fit and its members with new rows."""
    known = {
        name: grown_known(
            fit.model, name, known, growth, fresh.get(name), [b for b in blocks if b.equation.relation == name]
        )
        for name, known in fit.known.items()
    }
    common: dict[str, Any] = {
        "labels": growth.labels,
        "known": known,
        "exposures": grown_exposures(fit, growth),
        "fingerprint": mark_of(fit, growth, fresh),
        "settings": fit.settings | {"folded": _before(fit, growth)},
        "titles": grown_titles(fit.titles, growth.labels),
    }
    members = []
    for member, solution in zip(fit.members, solutions):
        last = member.state.history[-1]
        bound = last.bound + solution.bound
        record = Record(last.sweep + iterations, bound, float("inf"), seconds, last.rank)
        state = grown_state(member, growth, solution, record)
        factors, priors = public(member, state, growth, solution)
        own: dict[str, Any] = {
            "factors": factors,
            "prior": priors,
            "state": state,
            "bound": bound,
            "history": list(state.history),
        }
        members.append(replace(member, **own, **common))
        changed = {piece.factor for piece in solution.pieces}
        members[-1].sums.update({key: total for key, total in member.sums.items() if key[0] not in changed})
    return shown(fit, members)


def _before(fit: Fitted, growth: Growth) -> dict[str, int]:
    """How many entities of each axis the other factors have learnt from."""
    return dict(fit.settings.get("folded") or {axis: growth.old[axis] for axis in fit.model.axes})


def shown(fit: Fit, members: Sequence[Any]) -> Fit:
    """The fit that shows the same member as before."""
    if not fit.ensemble:
        return cast(Fit, members[0])
    at = next(n for n, member in enumerate(fit.ensemble) if member.state is fit.state)
    return cast(Fit, replace(members[at], seed=fit.seed, stop=fit.stop, ensemble=tuple(members)))
