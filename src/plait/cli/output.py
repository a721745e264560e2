"""What goes to stdout: rich tables for people, one JSON document for programs, files for later.

On a terminal tables have its colours (NO_COLOR and TERM=dumb are respected) and its width: in a narrow one words go
below each other, in a very narrow one every row becomes a paragraph; a number is never cut. In a pipe tables are plain
and as wide as they need to be. Everything that is not a result goes to stderr.
"""

import datetime
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from plait.errors import SettingError
from plait.files.write import write
from plait.saying import FilePlace

PIPE = 10_000  # columns in a pipe: nothing is wrapped or cut
MOST_ROWS = 50  # of a table shown on stdout
TEXT_WIDTH = 12  # columns of text that are wider may be folded


def console(*, stderr: bool = False) -> "Console":
    """A console of the terminal's width, or of any width in a pipe."""
    stream = sys.stderr if stderr else sys.stdout
    colours: Any = None if os.environ.get("NO_COLOR") else "auto"
    width = None if stream.isatty() else PIPE
    return Console(stderr=stderr, width=width, color_system=colours, highlight=False, emoji=False)


def out(text: str = "", style: str | None = None) -> None:
    """Print text as it is: brackets are no markup, long lines are not cut."""
    console().print(text, style=style, markup=False, soft_wrap=True)


def to_stderr(word: str, message: str) -> None:
    """``error: …`` with the word in red on a terminal; the lines of a message are kept as they are."""
    colour = {"error": "bold red", "warning": "bold yellow"}.get(word, "bold")
    console(stderr=True).print(Text.assemble((f"{word}: ", colour), message), soft_wrap=True)


def emit(document: Any) -> None:
    """One JSON document on stdout; what is not finite is null, dates and times are text."""
    print(json.dumps(plain(document), ensure_ascii=False, indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (str, bool, type(None), int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if hasattr(value, "tolist"):  # NumPy
        return plain(value.tolist())
    return [plain(one) for one in value]


def grid(headings: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None, left: int = 1) -> None:
    """Print a table; the first ``left`` columns are text and go left, the others right."""
    columns = [aligned([row[k] for row in rows]) for k in range(len(headings))]
    gap, widths = _fitting(headings, columns, left, console().width)
    if widths is None:
        _paragraphs(headings, columns, left)
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title=title, title_justify="left",
                  title_style="bold", padding=(0, 1, 0, gap - 2))  # fmt: skip
    for position, (heading, width) in enumerate(zip(headings, widths)):
        justify: Any = "left" if position < left else "right"
        table.add_column(Text(heading), justify=justify, overflow="fold", width=width)
    for cells in zip(*columns):
        table.add_row(*map(Text, cells))
    console().print(table)


def _fitting(
    headings: Sequence[str], columns: Sequence[Sequence[str]], left: int, room: int
) -> tuple[int, list[int] | None]:
    """The gap between columns and their widths, the widest folded first; None where not even that has room."""
    widest = [max(map(cell_len, cells), default=0) for cells in columns]
    full = [max(width, cell_len(heading)) for width, heading in zip(widest, headings)]
    if sum(full) + 3 * (len(full) - 1) <= room:
        return 3, full
    least = [
        max(min(width, TEXT_WIDTH) if k < left else width, *map(cell_len, heading.split() or [heading]))
        for k, (width, heading) in enumerate(zip(widest, headings))
    ]
    room -= 2 * (len(full) - 1)
    if sum(least) > room:
        return 2, None
    widths = [min(width, room) for width in full]
    while sum(widths) > room:
        k = max(range(len(widths)), key=lambda k: widths[k] - least[k])
        widths[k] -= 1
    return 2, widths


def _paragraphs(headings: Sequence[str], columns: Sequence[Sequence[str]], left: int) -> None:
    """Print every row as a paragraph: its names first, then its numbers, each with its heading."""
    room = console().width
    for cells in zip(*columns):
        line = ""
        for k, (heading, cell) in enumerate(zip(headings, cells)):
            item = f"{heading} {cell}"
            if line and (k == left or cell_len(line) + 2 + cell_len(item) > room):
                out(line)
                line = ""
            line += f"  {item}" if line or k else item
        out(line)


def pairs(entries: Mapping[str, str]) -> None:
    """Print names and what they are, aligned; the lines of a value below each other."""
    width = max(map(len, entries))
    for name, value in entries.items():
        first, *more = value.split("\n")
        out(f"{name:<{width}}  {first}")
        for line in more:
            out(f"{'':<{width}}  {line}")


@contextmanager
def working(what: str) -> Iterator[None]:
    """A moving sign on stderr while something takes its time; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    there = console(stderr=True)
    if there.is_dumb_terminal:  # rich would write an empty line
        yield
        return
    with there.status(f"{what} …"):
        yield


def aligned(values: Sequence[Any]) -> list[str]:
    """The cells of a column: numbers with the same decimals, so that points stand below each other; text as it is."""
    numbers = [value for value in values if isinstance(value, float) and math.isfinite(value)]
    most = max(map(abs, numbers), default=0.0)
    decimals = 0 if all(value == round(value) for value in numbers) else max(0, 4 - max(0, len(f"{most:.0f}") - 1))
    return [_shown(value, decimals) for value in values]


def _shown(value: Any, decimals: int) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if 0 < abs(value) < 0.5 * 10**-decimals:  # neither 0 nor worth a wide column
        return f"{value:.0e}"
    return f"{value:,.{decimals}f}"


def significant(value: float) -> str:
    """A number by itself: six digits, large ones in full."""
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def size_words(count: float) -> str:
    """Bytes: ``44 kB``."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def frame(table: "pl.DataFrame", labels: int, title: str | None = None, limit: int = MOST_ROWS) -> None:
    """Print the first rows of a table; its first ``labels`` columns are names, which are shown as they are."""
    shown = [[*map(str, row[:labels]), *row[labels:]] for row in table.head(limit).rows()]
    grid(table.columns, shown, title, left=labels)
    if len(table) > limit:
        out(f"… and {len(table) - limit:,} more rows; -o FILE writes all of them.")


def check_free(path: "Path | None", force: bool) -> None:
    """Refuse to write over a file, unless told to."""
    if path is not None and path.expanduser().exists() and not force:
        raise SettingError(
            "this file is there already.",
            where=FilePlace(path),
            cure="Name another one, or replace it: --force.",
        )


def deliver(
    table: "pl.DataFrame", labels: int, *, path: "Path | None", as_json: bool, title: str | None = None
) -> None:
    """A table as the user asked for it: into a file, as JSON, or to be read."""
    if path is not None:
        write(table, path)
        if as_json:
            emit({"written": str(path), "rows": len(table)})
        else:
            out(f"wrote {len(table):,} row{'' if len(table) == 1 else 's'} to {path}")
    elif as_json:
        emit(table.to_dicts())
    else:
        frame(table, labels, title)


def duration_words(seconds: float) -> str:
    """A time in words, with two digits or so: it was measured once."""
    if seconds < 1:
        return f"{1000 * seconds:.{1 if seconds < 0.01 else 0}f} ms"
    if seconds < 120:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"
