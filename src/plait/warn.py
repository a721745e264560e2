"""Warnings: each kind once a call, at the line of the user's own code."""

import sys
import warnings
from collections.abc import Iterable

from plait.errors import PlaitWarning

MOST_PLACES = 3  # that a warning names besides the first


def warn_of(found: Iterable[PlaitWarning]) -> None:
    """Warn once of each kind."""
    for warning in merged(found):
        warnings.warn(warning, stacklevel=_outside())


def merged(found: Iterable[PlaitWarning]) -> list[PlaitWarning]:
    """One warning of each kind: the first, with the locations of the others in its hint."""
    kinds: dict[type[PlaitWarning], list[PlaitWarning]] = {}
    for warning in found:
        kinds.setdefault(type(warning), []).append(warning)
    return [
        kind(first.message, location=first.location, hint=f"{first.hint or ''}{_also(others)}")
        for kind, (first, *others) in kinds.items()
    ]


def _also(others: list[PlaitWarning]) -> str:
    if not others:
        return ""
    more = len(others) - MOST_PLACES
    places = ", ".join(str(other.location) for other in others[:MOST_PLACES])
    return f"\nThe same in {places}{f' and {more:,} more' if more > 0 else ''}."


def _outside() -> int:
    """The stacklevel, for a function that calls `warnings.warn`, of the first caller outside Plait and numba."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("plait", "numba"):
        level, frame = level + 1, frame.f_back
    return level
