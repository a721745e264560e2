"""Names that people type, as their axis has them; and names of any kind as text that can be typed."""

import datetime
from collections.abc import Callable
from typing import Any

from plait.data.labels.columns import kind
from plait.data.labels.names import Labels
from plait.errors import DataError


def _truth(text: str) -> bool:
    words = {"true": True, "false": False}
    return words[text.casefold()]


PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "integers": (int, "a whole number"),
    "booleans": (_truth, "true or false"),
    "dates": (datetime.date.fromisoformat, "a date such as 2024-01-31"),
    "times of day": (datetime.time.fromisoformat, "a time such as 13:45"),
}
MOMENT = (datetime.datetime.fromisoformat, "a time such as 2024-01-31T13:45")


def read_label(labels: Labels, text: str, index: str) -> Any:
    """A name typed by a person, as the axis has it."""
    found = kind(labels.names)
    if found == "strings":
        return text
    parse, words = PARSERS.get(found, MOMENT)
    try:
        return parse(text)
    except (ValueError, KeyError):
        shown = text if len(text) <= 80 else f"{text[:79]}…"
        what = f"{shown!r} is not {words}, but axis {labels.axis} has {found}."
        raise DataError(what, location=index) from None


def write_label(label: Any) -> str:
    """A name as a person would type it."""
    if isinstance(label, bool):
        return "true" if label else "false"
    return label.isoformat() if isinstance(label, (datetime.date, datetime.time)) else str(label)
