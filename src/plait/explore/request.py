"""Requests and answers of the explorer: parameters of a page, the view it returns, refusals."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plait.errors import suggestion
from plait.rendering.document import Document


class Refused(Exception):
    """A refused request: status, message and hint."""

    def __init__(self, status: int, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.status, self.what, self.hint = status, what, hint


class Moved(Exception):
    """Redirect to another address."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


@dataclass(frozen=True)
class PageView:
    """A document, its template, and further variables; `status`: of the response."""

    document: Document
    template: str = "page.html"
    more: Mapping[str, Any] = field(default_factory=dict)
    lasting: bool = True  # whether it may be cached
    status: int = 200


@dataclass(frozen=True)
class PageRequest:
    """Parts of the path, and the query in order; `form`: posted fields. `part`: only part of the page is wanted."""

    path: Mapping[str, str]
    query: Sequence[tuple[str, str]] = ()
    form: Mapping[str, str] = field(default_factory=dict)
    part: bool = False

    def fields(self, known: Collection[str]) -> dict[str, str]:
        """Query as a dictionary; unknown and repeated names are refused."""
        fields: dict[str, str] = {}
        for name, value in self.query:
            if name not in known:
                words = ", ".join(known) or "nothing"
                hint = f"{suggestion(shorten(name), known)}The parameters are {words}."
                raise Refused(400, f"this page has no parameter {shorten(name)!r}.", hint)
            if name in fields:
                raise Refused(400, f"{name!r} is given twice.", "Give it only once.")
            fields[name] = value
        return fields


def whole(text: str | None, what: str, least: int, most: int, usual: int = 0) -> int:
    """An integer of a query, within bounds."""
    if text is None or text == "":
        return usual
    number = int(text) if text.isascii() and text.lstrip("-").isdecimal() and len(text) < 19 else None
    if number is None or not least <= number <= most:
        wanted = f"{least:,} to {most:,}" if most >= least else "but there are none"
        raise Refused(400, f"{what} must be an integer, {wanted}, got {shorten(text)!r}.", "Give another one.")
    return number


def real(text: str | None, what: str) -> float | None:
    """A number of a query; None without one."""
    if text is None or text.strip() == "":
        return None
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not abs(number) < float("inf"):
        raise Refused(400, f"{what} must be a number, got {shorten(text)!r}.", "Write it as 1.5.")
    return number


def shorten(text: str, most: int = 80) -> str:
    """Text shortened to one line."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
