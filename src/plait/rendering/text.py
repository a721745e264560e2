"""Documents as text for terminals and pipes, and as Markdown.

On a terminal tables have its colours (NO_COLOR and TERM=dumb are respected) and its width: in a narrow one text wraps,
in a very narrow one every row becomes a paragraph; numbers are never cut. In a pipe tables are plain and as wide as
needed.
"""

import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from plait.rendering.document import (
    Block,
    Cards,
    Code,
    Details,
    Document,
    Facts,
    FigureTile,
    Note,
    Picture,
    Section,
    Table,
    Tiles,
    Warn,
)
from plait.rendering.formatting import align, without_controls, write
from plait.tuning import TUNING

if TYPE_CHECKING:
    from rich.console import Console

TEXT_WIDTH = 12  # wider columns of text may wrap


def console(*, stderr: bool = False) -> "Console":
    """A console of the terminal's width, or of any width in a pipe."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    colours: Any = None if os.environ.get("NO_COLOR") else "auto"
    width = None if stream.isatty() else TUNING.pipe_columns
    return Console(stderr=stderr, width=width, color_system=colours, highlight=False, emoji=False, force_jupyter=False)


def render(document: Document) -> str:
    """The document as in a pipe: plain, as wide as needed."""
    from io import StringIO

    from rich.console import Console

    written = StringIO()
    plain = Console(
        file=written,
        width=TUNING.pipe_columns,
        color_system=None,
        highlight=False,
        emoji=False,
        force_jupyter=False,  # in a kernel Rich would display every line, and write nothing
    )
    show(document, plain)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def show(document: Document, there: "Console | None" = None) -> None:
    """Print the document, with an empty line between blocks of several lines."""
    on = there or console()
    if document.title:
        _line(on, document.title)
    _blocks(on, document.blocks)


def _blocks(on: "Console", blocks: Sequence[Block]) -> None:
    shown = [block for block in blocks if not isinstance(block, Picture)]  # a terminal has none
    for before, block in pairwise([None, *shown]):
        if before is not None and not isinstance(block, (Note, Warn)):
            on.print()
        _block(on, block)


def _block(on: "Console", block: Any) -> None:
    match block:
        case Note(text, quiet):
            _line(on, f"note: {text}" if quiet else text)
        case Warn(text):
            _line(on, f"warning: {text}", "yellow")
        case Code(text):
            _line(on, text, "cyan")
        case Facts(pairs):
            _facts(on, pairs)
        case Tiles(tiles):
            _facts(on, _figures(tiles))
        case Table():
            _table(on, block)
        case Details(summary, inner) | Section(summary, inner):
            _line(on, summary, "bold")
            _blocks(on, inner)
        case Cards(sections):
            _blocks(on, sections)


def _line(on: "Console", text: str, style: str | None = None) -> None:
    """Print text without markup or wrapping."""
    on.print(without_controls(text), style=style, markup=False, soft_wrap=True)


def _facts(on: "Console", pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, aligned."""
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        first, *more = write(value).split("\n")
        _line(on, f"{name:<{width}}  {first}")
        for line in more:
            _line(on, f"{'':<{width}}  {line}")


def _figures(tiles: Sequence[FigureTile]) -> list[tuple[str, str]]:
    return [(tile.name, write(tile.value) + (f" ({tile.note})" if tile.note else "")) for tile in tiles]


def _table(on: "Console", table: Table) -> None:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    columns = [list(map(without_controls, align([row[k] for row in table.rows]))) for k in range(len(table.columns))]
    gap, widths = _fit(table.columns, columns, table.left, on.width)
    if table.title:
        _line(on, table.title, "bold")
    if widths is None:
        _paragraphs(on, table.columns, columns, table.left)
    else:
        grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, gap - 2))
        for position, (heading, width) in enumerate(zip(table.columns, widths)):
            justify: Any = "left" if position < table.left else "right"
            grid.add_column(Text(without_controls(heading)), justify=justify, overflow="fold", width=width)
        for cells in zip(*columns):
            grid.add_row(*map(Text, cells))
        on.print(grid)
    if table.more:
        _line(on, f"… and {table.more:,} more rows; -o FILE writes all of them.")
    if table.note:
        _line(on, table.note)
    for details in table.details:
        on.print()
        _block(on, details)


def _fit(
    headings: Sequence[str], columns: Sequence[Sequence[str]], left: int, width_left: int
) -> tuple[int, list[int] | None]:
    """Gap between columns and their widths, the widest wrapped first; None where they do not fit."""
    from rich.cells import cell_len

    widest = [max(map(cell_len, cells), default=0) for cells in columns]
    full = [max(width, cell_len(heading)) for width, heading in zip(widest, headings)]
    if sum(full) + 3 * (len(full) - 1) <= width_left:
        return 3, full
    least = [
        max(min(width, TEXT_WIDTH) if k < left else width, *map(cell_len, heading.split() or [heading]))
        for k, (width, heading) in enumerate(zip(widest, headings))
    ]
    width_left -= 2 * (len(full) - 1)
    if sum(least) > width_left:
        return 2, None
    widths = [min(width, width_left) for width in full]
    while sum(widths) > width_left:
        k = max(range(len(widths)), key=lambda k: widths[k] - least[k])
        widths[k] -= 1
    return 2, widths


def _paragraphs(on: "Console", headings: Sequence[str], columns: Sequence[Sequence[str]], left: int) -> None:
    """Print every row as a paragraph: its names, then its numbers with headings."""
    from rich.cells import cell_len

    for cells in zip(*columns):
        line = ""
        for k, (heading, cell) in enumerate(zip(headings, cells)):
            item = f"{heading} {cell}"
            if line and (k == left or cell_len(line) + 2 + cell_len(item) > on.width):
                _line(on, line)
                line = ""
            line += f"  {item}" if line or k else item
        _line(on, line)


def render_markdown(document: Document, level: int = 1) -> str:
    """The document with a title of this heading level."""
    return _join(
        [f"{'#' * level} {_text(document.title)}" if document.title else "", *_all(document.blocks, level + 1)]
    )


def write_table(table: Table) -> str:
    """A table without its title."""
    columns = [align([row[k] for row in table.rows]) for k in range(len(table.columns))]
    rule = ["---" if k < table.left else "--:" for k in range(len(table.columns))]
    rows = [[_cell(cell) for cell in cells] for cells in (table.columns, *zip(*columns))]
    lines = [f"| {' | '.join(cells)} |" for cells in (rows[0], rule, *rows[1:])]
    more = f"… and {table.more:,} more rows" if table.more else ""
    return _join(["\n".join(lines), more, table.note])


def _join(parts: Sequence[str]) -> str:
    return "\n\n".join(part for part in parts if part)


def _all(blocks: Sequence[Block], level: int) -> list[str]:
    return [_markdown_block(block, level) for block in blocks]


def _markdown_block(block: Any, level: int) -> str:
    match block:
        case Note(text):
            return _text(text)
        case Warn(text):
            return f"> **Warning:** {_text(text)}"
        case Code(text):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            return f"{fence}\n{text}\n{fence}"
        case Facts(pairs):
            return "\n".join(f"- {_text(name)}: {_text(write(value))}" for name, value in pairs)
        case Tiles(tiles):
            return _markdown_block(Facts(_figures(tiles)), level)
        case Table(title=title):
            return _join([f"**{_text(title)}**" if title else "", write_table(block), *_all(block.details, level)])
        case Picture(alt=alt):
            return f"*{_text(alt)}*"
        case Details(title, inner) | Section(title, inner):
            return _join([f"{'#' * min(level, 6)} {_text(title)}", *_all(inner, level + 1)])
        case Cards(sections):
            return _join(_all(sections, level))
    raise TypeError(f"not a block: {block!r}")


def _text(text: str) -> str:
    """Escaped text."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text).replace("\n", " ")


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
