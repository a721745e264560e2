"""Document model: headings, facts, tables, pictures and warnings, in order; and documents as JSON.

Values are numbers and text; `formatting` decides how a number looks.
"""

import datetime
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Note:
    """A sentence; `quiet`: in small print."""

    text: str
    quiet: bool = True


@dataclass(frozen=True)
class Warn:
    """A warning."""

    text: str


@dataclass(frozen=True)
class Code:
    """Monospaced text: a model, a command."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names and values, one per line; names may repeat, values may have several lines."""

    pairs: Sequence[tuple[str, Any]]

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> "Facts":
        return cls(tuple(named.items()))


@dataclass(frozen=True)
class Table:
    """Headings and rows; the first `left` columns are text, aligned left. `title` above, `note` in small print below.

    `more`: number of further rows. `sorts`: how each column is sorted on a server, if it can be.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    note: str = ""
    left: int = 1
    more: int = 0
    sorts: "Sequence[Sort | None]" = ()

    @property
    def details(self) -> "list[Details]":
        """Details in cells, row by row."""
        return [value for row in self.rows for value in row if isinstance(value, Details)]


@dataclass(frozen=True)
class Sort:
    """The page that is sorted by a column; `now`: "ascending" or "descending" if this one is, else ""."""

    address: str
    now: str = ""


@dataclass(frozen=True)
class Picture:
    """A Vega-Lite chart, made on use; `alt`: alternative text."""

    chart: Callable[[], Mapping[str, Any]]
    alt: str
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Details:
    """Blocks behind a summary line; open on paper and in a terminal."""

    summary: str
    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class Section:
    """Blocks under a heading. `name`: anchor, by default from the title; `address`: link of the heading."""

    title: str
    blocks: "Sequence[Block]"
    name: str = ""
    address: str = ""


@dataclass(frozen=True)
class Cards:
    """Sections of one kind, side by side where possible. `wide`: at most two in a row, for tables of many columns."""

    sections: Sequence[Section]
    wide: bool = False


@dataclass(frozen=True)
class FigureTile:
    """A figure with its name, a line of small print, and its course, drawn as a sparkline where there is one."""

    name: str
    value: Any
    note: str = ""
    course: Sequence[float] = ()


@dataclass(frozen=True)
class Tiles:
    """The most important figures, side by side."""

    tiles: Sequence[FigureTile]


Block = Tiles | Note | Warn | Code | Facts | Table | Picture | Details | Section | Cards


@dataclass(frozen=True)
class Document:
    """Content for people and for programs. `data`: content of the JSON; by default the blocks."""

    title: str
    blocks: Sequence[Block]
    data: Any = field(default=None, compare=False)

    def every(self, kind: type) -> Iterator[Any]:
        """Blocks of a kind at any depth, in order."""
        return _every(self.blocks, kind)


def _every(blocks: Sequence[Any], kind: type) -> Iterator[Any]:
    for block in blocks:
        if isinstance(block, kind):
            yield block
        for inside in ("blocks", "sections"):
            yield from _every(getattr(block, inside, ()), kind)
        if isinstance(block, Table):
            yield from _every(block.details, kind)


# --- values of facts and tables other than numbers and text


@dataclass(frozen=True)
class Share:
    """A fraction of 1: a percentage, in HTML with a bar."""

    fraction: float


@dataclass(frozen=True)
class IntervalBar:
    """A number from 0 to `full`: a bar with its interval in HTML, elsewhere the number as a percentage, or `text`."""

    value: float
    lower: float | None = None
    upper: float | None = None
    full: float = 1.0
    text: str = ""


@dataclass(frozen=True)
class Ref:
    """Text that links to another page; elsewhere plain."""

    text: str
    address: str


@dataclass(frozen=True)
class Action:
    """A button of a page; elsewhere its text. `fields`: posted with it."""

    text: str
    address: str
    fields: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Several:
    """Values of one cell."""

    values: Sequence[Any]


@dataclass(frozen=True)
class Faint:
    """A value of little weight: faded where there are colours."""

    value: Any


def render_json(document: Document) -> str:
    """JSON of the document's data, or of its blocks."""
    return dump_json(document.data if document.data is not None else describe(document))


def dump_json(value: Any) -> str:
    """Strict JSON; NaN and infinity are null, dates and times text."""
    return json.dumps(to_jsonable(value), ensure_ascii=False, indent=2, allow_nan=False)


def describe(document: Document) -> dict[str, Any]:
    """Title and blocks, each with its kind."""
    return {"title": document.title, "blocks": [_described(block) for block in document.blocks]}


def _described(value: Any) -> Any:
    match value:
        case Share(fraction):
            return fraction
        case IntervalBar():
            return {"value": value.value, "lower": value.lower, "upper": value.upper}
        case Ref(text, _) | Action(text):
            return text
        case Several(values):
            return [_described(one) for one in values]
        case Faint(inner):
            return _described(inner)
        case Picture():
            return {"kind": "picture", "title": value.title, "alt": value.alt, "note": value.note}
        case tuple() | list():
            return [_described(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        kept = {field.name: _described(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__.lower(), **kept}
    return value


def to_jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(one) for key, one in value.items()}
    if isinstance(value, (str, bool, type(None), int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if hasattr(value, "tolist"):  # NumPy
        return to_jsonable(value.tolist())
    return [to_jsonable(one) for one in value]
