"""Documents as Markdown, for pages of documentation."""

import re
from collections.abc import Sequence
from typing import Any

from plait.show.document import Block, Cards, Code, Details, Document, Facts, Note, Picture, Section, Table, Warn
from plait.show.words import align, write


def render(document: Document, level: int = 1) -> str:
    """The document, its title a heading of this level."""
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
    return [_block(block, level) for block in blocks]


def _block(block: Any, level: int) -> str:
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
        case Table(title=title):
            return _join([f"**{_text(title)}**" if title else "", write_table(block), *_all(block.behind, level)])
        case Picture(alt=alt):
            return f"*{_text(alt)}*"
        case Details(title, inner) | Section(title, inner):
            return _join([f"{'#' * min(level, 6)} {_text(title)}", *_all(inner, level + 1)])
        case Cards(sections):
            return _join(_all(sections, level))
    raise TypeError(f"not a block: {block!r}")


def _text(text: str) -> str:
    """Text in which nothing is markup."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", text).replace("\n", " ")


def _cell(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
