"""Theme of charts: colours with contrast on light and dark pages, dashes and shapes.

Text, axes and error bars have the ink of the page (`rendering.svg.INK`). Colours have a contrast of at least 3 against
white and against a dark page (after Okabe and Ito, safe for colour-blind readers), and nothing is encoded by colour
alone.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from plait.rendering.svg import CONFIG, INK, MARKS

Spec = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

BLUE, VERMILION, GREEN, PURPLE, GREY = MARKS
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, GREY)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 2])
SHAPES = ("circle", "diamond", "square", "triangle-up", "cross")

ROW_PIXELS = 17  # of a list
NAME_PIXELS = 140  # longer names end in an ellipsis
SMALL_PRINT_LETTERS = 32  # per line
LABEL_LETTERS = 120  # of a name: more than are visible
SIDE_PIXELS = 260  # of a square chart
MIN_OPACITY = 0.12  # of a mark without data


def finished(spec: Mapping[str, Any]) -> Spec:
    """A chart with Plait's look; its data stand apart, each once, and its parts name them."""
    tables: list[list[Any]] = []
    made = _apart(spec, tables)
    return {**made, "datasets": {_table(n): rows for n, rows in enumerate(tables)}, "config": dict(CONFIG)}


def _apart(part: Any, tables: list[list[Any]]) -> Any:
    """A part of a chart with names in place of data."""
    if isinstance(part, list):
        return [_apart(one, tables) for one in part]
    if not isinstance(part, Mapping):
        return part
    return {key: _name(one, tables) if key == "data" else _apart(one, tables) for key, one in part.items()}


def _name(data: Mapping[str, Any], tables: list[list[Any]]) -> Spec:
    rows = data["values"]
    if rows not in tables:
        tables.append(rows)
    return {"name": _table(tables.index(rows))}


def _table(number: int) -> str:
    return f"table{number}"


def plain(rows: Rows) -> Spec:
    """Rows as the data of a chart; numbers that are not finite become gaps."""
    return {"values": [{name: _finite(value) for name, value in row.items()} for row in rows]}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(name: str, title: str | None = None, **more: Any) -> Spec:
    """A channel of numbers."""
    return {"field": name, "type": "quantitative", "title": title, **more}


def tips(**titles: str) -> list[Spec]:
    """What a chart that can be pointed at says: fields by name, with their titles; a title that ends in # is text."""
    return [
        {"field": name, "type": "nominal", "title": title[:-1]}
        if title.endswith("#")
        else {"field": name, "type": "quantitative", "title": title, "format": ".4~g"}
        for name, title in titles.items()
    ]


def heading(text: str, below: str = "", limit: int = 0) -> Spec:
    """The title of a panel; below: small print, in lines that stay in their panel also where letters are wide."""
    small: Spec = {"subtitle": _lines(below), "subtitleFontSize": 11} if below else {}
    return {"text": text, "anchor": "start", "fontSize": 12, "limit": limit or NAME_PIXELS + SIDE_PIXELS, **small}


def _lines(text: str) -> list[str]:
    """A list of things broken behind commas."""
    lines = [""]
    for part in re.split(r"(?<=,) ", text):
        if lines[-1] and len(lines[-1]) + len(part) >= SMALL_PRINT_LETTERS:
            lines.append(part)
        else:
            lines[-1] = f"{lines[-1]} {part}".strip()
    return lines


def called(row: Mapping[str, Any], column: str) -> str:
    """What people call the entity in a column: its title where there is one, else its name."""
    return str(row.get(f"{column}_title") or row[column])


def cut(name: str) -> str:
    """A name for a label: drawing measures it to the last letter, of which few are seen."""
    return name if len(name) <= LABEL_LETTERS else f"{name[:LABEL_LETTERS]}…"


def names_beside(name: str = "name") -> Spec:
    """Names left of a list's rows, cut where they are long: axes would take equal names for one row."""
    mark = {"type": "text", "align": "right", "baseline": "middle", "limit": NAME_PIXELS, "fontSize": 11, "color": INK}
    return {"mark": mark, "encoding": {"x": {"value": -6}, "text": {"field": name, "type": "nominal"}}}


def series(names: Sequence[str], **symbol: Any) -> tuple[Spec, Spec, Spec]:
    """Colour, dash and shape by the field `series`, in one legend below the chart; symbol: how the legend has them."""
    some = list(names)

    def scale(looks: Sequence[Any]) -> Spec:
        return {"domain": some, "range": [looks[n % len(looks)] for n in range(len(some))]}

    legend = {"title": None, "orient": "bottom", "direction": "vertical", "labelLimit": NAME_PIXELS + SIDE_PIXELS,
              "symbolStrokeWidth": 2, "symbolSize": 90, "symbolOpacity": 1, **symbol}  # fmt: skip
    own: Spec = {"field": "series", "type": "nominal", "legend": legend if len(some) > 1 else None}
    return own | {"scale": scale(COLOURS)}, own | {"scale": scale(DASHES)}, own | {"scale": scale(SHAPES)}
