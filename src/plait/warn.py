"""Warnings of traps: each kind once a call, at the line of the user's own code."""

import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from plait.errors import PlaitWarning

MOST_PLACES = 3  # that a warning names besides the first


@dataclass(frozen=True)
class Trap:
    """What is likely a mistake: its kind, where it is, what is wrong there (a sentence), and one hint."""

    kind: type[PlaitWarning]
    where: str
    what: str
    hint: str


def warn_of(traps: Iterable[Trap]) -> None:
    """Warn of each kind of trap once."""
    for warning in as_warnings(traps):
        warnings.warn(warning, stacklevel=_outside())


def as_warnings(traps: Iterable[Trap]) -> list[PlaitWarning]:
    """One warning for each kind of trap; the first of a kind is told, the others are named."""
    kinds: dict[type[PlaitWarning], list[Trap]] = {}
    for trap in traps:
        kinds.setdefault(trap.kind, []).append(trap)
    return [
        kind(first.what, location=first.where, hint=f"{first.hint}{_also(others)}")
        for kind, (first, *others) in kinds.items()
    ]


def _also(others: list[Trap]) -> str:
    if not others:
        return ""
    more = len(others) - MOST_PLACES
    places = ", ".join(trap.where for trap in others[:MOST_PLACES])
    return f"\nThe same in {places}{f' and {more:,} more' if more > 0 else ''}."


def _outside() -> int:
    """The stacklevel, for a function that calls `warnings.warn`, of the first caller outside Plait and numba."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("plait", "numba"):
        level, frame = level + 1, frame.f_back
    return level
