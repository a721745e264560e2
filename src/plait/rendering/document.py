"""One form for all that Plait shows: headings, facts, tables, pictures and warnings, in order.

Who finds something out puts it into a `Document`; `text` and `html` write it. Values
are numbers and text as they were found: how a number looks is decided where it is written (`formatting`).

Documents for programs: what JSON can hold.
"""

import datetime
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Note:
    """A sentence; quiet: in small print."""

    text: str
    quiet: bool = True


@dataclass(frozen=True)
class Warn:
    """Something to be looked at."""

    text: str


@dataclass(frozen=True)
class Code:
    """Text as it is, in letters of one width: a model, a command."""

    text: str


@dataclass(frozen=True)
class Facts:
    """Names and values, a line each; a name may be there twice, a value may have several lines."""

    pairs: Sequence[tuple[str, Any]]

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> "Facts":
        """The entries of a mapping."""
        return cls(tuple(named.items()))


@dataclass(frozen=True)
class Table:
    """Headings and rows; the first `left` columns are words and stand left. title above it, note in small print below.

    more: how many rows there are besides those shown. behind: for every row a line that opens more about it; or none.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    title: str = ""
    note: str = ""
    left: int = 1
    more: int = 0
    behind: "Sequence[Details]" = ()


@dataclass(frozen=True)
class Picture:
    """A chart as Vega-Lite has it, made when it is drawn; alt: what is to be seen, in words."""

    chart: Callable[[], Mapping[str, Any]]
    alt: str
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Details:
    """Blocks behind a line that opens them; on paper and in a terminal they are open."""

    summary: str
    blocks: "Sequence[Block]"


@dataclass(frozen=True)
class Section:
    """Blocks under a heading. name: what a link to it is called, from the title where it is not given.

    address: the page that the heading leads to.
    """

    title: str
    blocks: "Sequence[Block]"
    name: str = ""
    address: str = ""


@dataclass(frozen=True)
class Cards:
    """Sections of one kind, side by side where there is room."""

    sections: Sequence[Section]


Block = Note | Warn | Code | Facts | Table | Picture | Details | Section | Cards


@dataclass(frozen=True)
class Document:
    """What is shown, and the same for programs.

    data: what JSON gives; where it is left out, JSON gives the blocks.
    """

    title: str
    blocks: Sequence[Block]
    data: Any = field(default=None, compare=False)

    def every(self, kind: type) -> Iterator[Any]:
        """The blocks of a kind, however deep, in order."""
        return _every(self.blocks, kind)


def _every(blocks: Sequence[Any], kind: type) -> Iterator[Any]:
    for block in blocks:
        if isinstance(block, kind):
            yield block
        for inside in ("blocks", "sections", "behind"):
            yield from _every(getattr(block, inside, ()), kind)


# --- values of facts and tables that are more than a number or text


@dataclass(frozen=True)
class Share:
    """A fraction of 1: a percentage, and where there is room a bar."""

    fraction: float


@dataclass(frozen=True)
class Ref:
    """Text that leads to another page; elsewhere it is the text."""

    text: str
    address: str


@dataclass(frozen=True)
class Action:
    """Something that a page can be asked to do, a button; elsewhere its text. fields: what is sent there with it."""

    text: str
    address: str
    fields: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Several:
    """Values of one place, one after the other."""

    values: Sequence[Any]


@dataclass(frozen=True)
class Faint:
    """A value that counts for little: thinner where colours are, the same elsewhere."""

    value: Any


def render_json(document: Document) -> str:
    """One JSON text: the document's data, or its blocks where it has none."""
    return dump_json(document.data if document.data is not None else describe(document))


def dump_json(value: Any) -> str:
    """JSON that every reader takes; what is not finite is null, dates and times are text."""
    return json.dumps(to_jsonable(value), ensure_ascii=False, indent=2, allow_nan=False)


def describe(document: Document) -> dict[str, Any]:
    """Title and blocks, each with its kind."""
    return {"title": document.title, "blocks": [_described(block) for block in document.blocks]}


def _described(value: Any) -> Any:
    match value:
        case Share(fraction):
            return fraction
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
    """A value as JSON knows it."""
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
