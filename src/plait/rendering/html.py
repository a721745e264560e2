"""Documents as HTML: escaped, without scripts, for light and dark themes; and whole pages in one file.

In notebooks, which have their own styles, every element has inline styles (`NOTEBOOK`); pages have a stylesheet and
classes (`PAGE`).

A page loads nothing, and its Content-Security-Policy allows nothing. It is complete without scripts; an interactive one
has sortable tables and charts, by inline scripts that the policy allows by hash.
"""

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from plait.rendering.document import (
    Action,
    Block,
    Cards,
    Code,
    Details,
    Document,
    Facts,
    Faint,
    FigureTile,
    IntervalBar,
    Note,
    Picture,
    Ref,
    Section,
    Several,
    Share,
    Sort,
    Table,
    Tiles,
    Warn,
)
from plait.rendering.formatting import align, percent, write
from plait.rendering.svg import INK, drawn

_EDGE = "border-bottom:1px solid rgba(128,128,128,.35);padding:.15em .9em .15em 0;vertical-align:top"

STYLES: Mapping[str, str] = {
    "page": "font-family:system-ui,sans-serif;font-size:13px;line-height:1.45;max-width:60em;overflow-x:auto",
    "title": "font-weight:600;margin:.5em 0 .2em",
    "note": "opacity:.7;margin:.2em 0 .5em",
    "said": "margin:.2em 0 .5em",
    "warning": "border-left:3px solid #c77700;padding:.1em .6em;margin:.2em 0 .5em",
    "code": "font-family:ui-monospace,monospace;font-size:12px;margin:.2em 0 .5em;white-space:pre;text-align:left",
    "table": "border-collapse:collapse;margin:.2em 0 .5em;font-variant-numeric:tabular-nums",
    "left": f"{_EDGE};text-align:left",
    "right": f"{_EDGE};text-align:right",
    "name": f"{_EDGE};text-align:left;opacity:.7;font-weight:inherit",
    "faint": "opacity:.6",
    "bar": "display:inline-block;height:.7em;background:currentColor;opacity:.45",
    "picture": "margin:.2em 0 .5em",
    "tiles": "display:flex;flex-wrap:wrap;gap:.5em 2em;margin:.3em 0 .6em",
    "tile": "",
    "cards": "",
    "card": "",
}


@dataclass(frozen=True)
class Look:
    """Styles of elements, and the level of the first heading.

    `longest`: characters of a cell or a heading before it is cut.
    """

    inline: bool
    level: int
    draw: Callable[[Picture], str | None] = drawn
    longest: int | None = None

    def of(self, kind: str) -> str:
        """Attribute of an element of this kind."""
        if not self.inline:
            return f' class="{kind}"'
        return f' style="{STYLES[kind]}"' if STYLES[kind] else ""

    def words(self, text: str) -> str:
        """Escaped text."""
        return escape(text if self.longest is None or len(text) <= self.longest else f"{text[: self.longest]}…")


NOTEBOOK = Look(inline=True, level=0)
PAGE = Look(inline=False, level=2, longest=400)


def render(document: Document, look: Look = NOTEBOOK) -> str:
    """The document as one element."""
    head = _heading(document.title, look) if document.title and look.inline else ""
    return f"<div{look.of('page')}>{head}{write_blocks(document.blocks, look)}</div>"


def write_blocks(blocks: Iterable[Block], look: Look = PAGE) -> str:
    """Blocks in order."""
    return "".join(_block(block, look) for block in blocks)


def _block(block: Block, look: Look) -> str:
    match block:
        case Note(text, quiet):
            return f"<p{look.of('note' if quiet else 'said')}>{escape(text)}</p>"
        case Warn(text):
            return f"<p{look.of('warning')}><strong>Warning:</strong> {escape(text)}</p>"
        case Code(text):
            return f"<pre{look.of('code')}>{escape(text)}</pre>"
        case Facts(pairs):
            return _facts(pairs, look)
        case Table():
            return _table(block, look)
        case Tiles(tiles):
            return f"<div{look.of('tiles')}>{''.join(_tile(tile, look) for tile in tiles)}</div>"
        case Picture():
            return _picture(block, look)
        case Details(summary, inner):
            return f"<details><summary>{look.words(summary)}</summary>{write_blocks(inner, look)}</details>"
        case Section():
            return _section(block, look)
        case Cards(sections, wide):
            kind = "cards pairs" if wide and not look.inline else "cards"
            return f"<div{look.of(kind)}>{''.join(_card(section, look) for section in sections)}</div>"


def _heading(text: str, look: Look, address: str = "") -> str:
    tag = f"h{min(look.level, 6)}" if look.level else "div"
    words = f'<a href="{escape(address)}">{look.words(text)}</a>' if address and not look.inline else look.words(text)
    return f"<{tag}{look.of('title')}>{words}</{tag}>"


def _deeper(look: Look) -> Look:
    return look if look.inline else replace(look, level=look.level + 1)


def anchor(title: str) -> str:
    """Anchor of a section title."""
    return quote("-".join(title.lower().split()), safe="-")


def _section(section: Section, look: Look) -> str:
    inner = f"{_heading(section.title, look, section.address)}{write_blocks(section.blocks, _deeper(look))}"
    # Titles of deeper sections may repeat.
    own = section.name or (anchor(section.title) if look.level == PAGE.level else "")
    return f"<div>{inner}</div>" if look.inline else f"<section{_named(own)}>{inner}</section>"


def _named(name: str) -> str:
    return f' id="{escape(name)}"' if name else ""


def _card(section: Section, look: Look) -> str:
    inner = f"{_heading(section.title, look, section.address)}{write_blocks(section.blocks, _deeper(look))}"
    return f"<article{look.of('card')}{_named(section.name)}>{inner}</article>"


def _row_name(name: str, look: Look) -> str:
    """The heading of a row; a cell where it has none: an empty heading says nothing to a screen reader."""
    return f'<th scope="row"{look.of("name")}>{escape(name)}</th>' if name else "<td></td>"


def _facts(pairs: Sequence[tuple[str, Any]], look: Look) -> str:
    lines = "".join(
        f"<tr>{_row_name(name, look)}<td{look.of('left')}>{_value(value, look)}</td></tr>" for name, value in pairs
    )
    return f"<table{look.of('table')}><tbody>{lines}</tbody></table>"


def _table(table: Table, look: Look) -> str:
    columns = [[row[n] for row in table.rows] for n in range(len(table.columns))]
    texts = [align(cells) for cells in columns]
    shown = [[_marked(value, text, look) for value, text in zip(*both)] for both in zip(columns, texts)]
    side = [look.of("left" if n < table.left else "right") for n in range(len(columns))]
    sorts = [*table.sorts, *[None] * len(columns)]
    head = "".join(_head(name, side[n], sorts[n]) for n, name in enumerate(table.columns))
    bars = sum(any(isinstance(value, IntervalBar) for value in cells) for cells in columns)
    letters = sum(max(map(len, own), default=0) for own in texts)
    is_wide = len(columns) > MAX_NARROW_COLUMNS or bars > 1 or letters > MAX_NARROW_LETTERS
    heads = table.columns if is_wide else ()
    body = "".join(_row(cells, side, look, heads) for cells in zip(*shown))
    title = f"<caption{look.of('title')}>{look.words(table.title)}</caption>" if table.title and not look.inline else ""
    above = _heading(table.title, look) if table.title and look.inline else ""
    below = [table.note] if table.note else []
    if table.more:
        below.append(f"… and {table.more:,} more rows")
    notes = "".join(f"<p{look.of('note')}>{escape(text)}</p>" for text in below)
    kind = "table" if look.inline or not heads else "table many"
    grid = f"<table{look.of(kind)}>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"{above}{grid if look.inline else _scrolled(grid, table, look)}{notes}"


def _head(name: str, side: str, sort: Sort | None) -> str:
    if not name:
        return "<td></td>"  # an empty heading says nothing to a screen reader
    now = f' aria-sort="{sort.now}"' if sort is not None and sort.now else ""
    words = escape(name) if sort is None else f'<a class="sort" href="{escape(sort.address)}">{escape(name)}</a>'
    return f'<th scope="col"{side}{now}>{words}</th>'


MAX_NARROW_LETTERS = 60  # of the longest cells of all columns
MAX_NARROW_COLUMNS = 4  # that fit on a phone; the rows of wider tables are lists of named values there


def _row(cells: Sequence[str], side: Sequence[str], look: Look, heads: Sequence[str]) -> str:
    # Names may be right-to-left.
    more = ["" if look.inline or cell.isascii() else ' dir="auto"' for cell in cells]
    if heads and not look.inline:
        more = [f'{one} data-head="{escape(head)}"' if head else one for one, head in zip(more, heads)]
    return f"<tr>{''.join(f'<td{side[n]}{more[n]}>{cell}</td>' for n, cell in enumerate(cells))}</tr>"


def _scrolled(grid: str, table: Table, look: Look) -> str:
    """A wide table scrolls by itself, also by keyboard."""
    name = table.title or f"Table: {', '.join(filter(None, table.columns))}"
    return f'<div class="wide" tabindex="0" role="group" aria-label="{look.words(name)}">{grid}</div>'


def _value(value: Any, look: Look) -> str:
    return _marked(value, write(value), look).replace("\n", "<br/>")


def _marked(value: Any, text: str, look: Look) -> str:
    """A value as HTML; `text`: the same as text."""
    match value:
        case Share(fraction):
            return _bar(fraction, look)
        case IntervalBar():
            return _estimate(value, text, look)
        case Ref(text, address):
            return f'<a href="{escape(address)}">{look.words(text)}</a>'
        case Action() if look.inline:
            return look.words(text)
        case Action():
            return _button(value)
        case Several(values):
            return " ".join(_marked(one, write(one), look) for one in values)
        case Faint(inner):
            return f"<span{look.of('faint')}>{_marked(inner, text, look)}</span>"
        case Details():
            return _block(value, look)
    return look.words(text)


def _button(action: Action) -> str:
    """A form with only a button."""
    hidden = "".join(
        f'<input type="hidden" name="{escape(name)}" value="{escape(value)}"/>' for name, value in action.fields
    )
    return (
        f'<form class="action" method="post" action="{escape(action.address)}">{hidden}'
        f'<button type="submit">{escape(action.text)}</button></form>'
    )


def _bar(fraction: float, look: Look) -> str:
    """A share as a bar with its percentage."""
    wide = 60.0 * min(max(fraction, 0.0), 1.0)
    if look.inline:
        return f'<span style="{STYLES["bar"]};width:{wide:.1f}px"></span> {escape(percent(fraction))}'
    # Widths as SVG attributes: a strict Content-Security-Policy forbids style attributes.
    drawing = f'<rect width="{wide:.1f}" height="9" fill="currentColor" opacity=".45"/>'
    return f'<svg class="bar" width="60" height="9" aria-hidden="true">{drawing}</svg> {escape(percent(fraction))}'


def _estimate(one: IntervalBar, text: str, look: Look) -> str:
    """A bar with a line for the interval, and the number; bars of a column share their scale."""
    if look.inline:
        return escape(text)

    def at(value: float) -> float:
        return 100.0 * min(max(value / one.full, 0.0), 1.0) if one.full > 0 else 0.0

    bar = f'<rect class="fill" y="2" width="{at(one.value):.1f}" height="8"/>'
    line = ""
    if one.lower is not None and one.upper is not None:
        low, high = at(one.lower), at(one.upper)
        line = f'<rect class="line" x="{low:.1f}" y="5" width="{max(high - low, 0.6):.1f}" height="2"/>'
    ground = '<rect class="ground" y="2" width="100" height="8"/>'
    drawing = f'<svg class="meter" viewBox="0 0 100 12" preserveAspectRatio="none" aria-hidden="true">{ground}'
    return f'<span class="estimate">{drawing}{bar}{line}</svg> <span>{escape(text)}</span></span>'


def _tile(tile: FigureTile, look: Look) -> str:
    note = f"<span{look.of('note')}>{look.words(tile.note)}</span>" if tile.note else ""
    line = "" if look.inline else _sparkline(tile.course)
    figure = f"<span>{look.words(tile.name)}</span><strong>{look.words(write(tile.value))}</strong>"
    return f"<div{look.of('tile')}>{figure}{note}{line}</div>"


SPARK_POINTS = 60


def _sparkline(course: Sequence[float]) -> str:
    """A line through some numbers, of no scale; decoration, for the number stands next to it."""
    values = [value for value in course if math.isfinite(value)]
    if len(values) < 2:
        return ""
    step = max(1, len(values) // SPARK_POINTS)
    values = values[::step] + ([] if (len(values) - 1) % step == 0 else [values[-1]])
    low, span = min(values), (max(values) - min(values)) or 1.0
    points = " ".join(
        f"{100 * n / (len(values) - 1):.1f},{22 - 20 * (value - low) / span:.1f}" for n, value in enumerate(values)
    )
    line = f'<polyline points="{points}" fill="none" stroke="currentColor" vector-effect="non-scaling-stroke"/>'
    return f'<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">{line}</svg>'


def _picture(picture: Picture, look: Look) -> str:
    svg = look.draw(picture)
    if svg is None:
        return ""
    caption = "".join(f"<{tag}>{escape(text)}</{tag}>" for tag, text in (("strong", picture.title),) if text)
    small = f"<span{look.of('note')}>{escape(picture.note)}</span>" if picture.note else ""
    both = f"<figcaption>{caption}{' ' if caption and small else ''}{small}</figcaption>" if caption or small else ""
    return f"<figure{look.of('picture')}>{both}{svg}</figure>"


VEGA = "/* Vega, Vega-Lite, Vega-Embed: University of Washington Interactive Data Lab, BSD-3-Clause */\n"


def write_page(document: Document, *, foot: str = "", interactive: bool = False) -> str:
    """The whole page; `foot`: a sentence at its end. Needs jinja2, and vl-convert for pictures."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    page = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    look = replace(PAGE, draw=_with_specification) if interactive else PAGE
    scripts = _scripts(any(document.every(Picture))) if interactive else ()
    return page.from_string(_read("page.html")).render(
        title=document.title,
        contents=[(block.name or anchor(block.title), block.title) for block in _sections(document)],
        style=Markup(_read("style.css")),
        body=Markup(render(document, look)),  # escaped by `render`
        foot=foot,
        policy=_policy(scripts),
        scripts=[Markup(script) for script in scripts],
    )


def _sections(document: Document) -> list[Section]:
    return [block for block in document.blocks if isinstance(block, Section)]


def _read(name: str) -> str:
    return (files("plait.rendering.page") / name).read_text(encoding="utf-8")


def _policy(scripts: Sequence[str]) -> str:
    """Policy that loads nothing and runs only these scripts; drawings carry their own styles."""
    digests = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    known = f"; script-src {allowed}" if allowed else ""
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'{known}"


def _scripts(pictures: bool) -> tuple[str, ...]:
    drawing = (_vega(), _read("charts.js")) if pictures else ()
    return _read("sort.js"), *drawing


@lru_cache(maxsize=1)
def _vega() -> str:
    """Vega with its dependencies, as a script."""
    import vl_convert

    return VEGA + str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")).replace(
        "</script", "<\\/script"
    ).replace("<!--", "<\\!--")


def _with_specification(picture: Picture) -> str | None:
    """The drawing, followed by its specification for the script."""
    svg = drawn(picture)
    if svg is None:
        return None
    chart = json.dumps({**picture.chart(), "description": picture.alt}, ensure_ascii=False).replace(
        f'"{INK}"', '"currentColor"'
    )
    # A data script is not run, but a name could contain its end tag.
    safe = chart.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'{svg}<script type="application/json" class="spec">{safe}</script>'
