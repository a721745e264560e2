"""What goes to stdout: documents for people, one JSON document for programs, files for later.

Everything that is not a result goes to stderr.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
from rich.text import Text

from plait.errors import FileLocation, ParameterError
from plait.files.write import write
from plait.rendering.document import Document, Table, dump_json, render_json
from plait.rendering.formatting import without_controls
from plait.rendering.text import console, show

MOST_ROWS = 50  # of a table shown on stdout


def out(text: str = "", style: str | None = None) -> None:
    """Print text as it is: brackets are no markup, long lines are not cut."""
    console().print(without_controls(text), style=style, markup=False, soft_wrap=True)


def to_stderr(word: str, message: str) -> None:
    """``error: …`` with the word in red on a terminal; the lines of a message are kept as they are."""
    colour = {"error": "bold red", "warning": "bold yellow"}.get(word, "bold")
    console(stderr=True).print(Text.assemble((f"{word}: ", colour), without_controls(message)), soft_wrap=True)


def emit(document: Any) -> None:
    """One JSON document on stdout; what is not finite is null, dates and times are text."""
    print(dump_json(document))


def put(document: Document, *, as_json: bool) -> None:
    """A document as the user asked for it: as JSON, or to be read."""
    if as_json:
        print(render_json(document))
    else:
        show(document)


def grid(headings: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", left: int = 1) -> None:
    """Print a table; the first ``left`` columns are text and go left, the others right."""
    show(Document("", [Table(headings, rows, title, left=left)]))


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


def frame(table: "pl.DataFrame", labels: int, title: str = "", limit: int = MOST_ROWS) -> None:
    """Print the first rows of a table; its first ``entities`` columns are names, which are shown as they are."""
    shown = [[*map(str, row[:labels]), *row[labels:]] for row in table.head(limit).rows()]
    show(Document("", [Table(table.columns, shown, title, left=labels, more=max(0, len(table) - limit))]))


def check_free(path: "Path | None", force: bool) -> None:
    """Refuse to write over a file, unless told to."""
    if path is not None and path.expanduser().exists() and not force:
        raise ParameterError(
            "this file is there already.",
            location=FileLocation(path),
            hint="Name another one, or replace it: --force.",
        )


def deliver(
    table: "pl.DataFrame", labels: int, *, path: "Path | None", as_json: bool, title: str = "",
    gaps: Sequence[str] = (), raw_names: bool = False,
) -> None:  # fmt: skip
    """A table as the user asked for it: into a file, as JSON, or to be read; gaps: columns whose nulls are blank."""
    if path is None and raw_names:
        raise ParameterError("--no-escape-formulas is for tables in files.", hint="Leave it out, or name a file: -o.")
    if path is not None:
        write(table, path, escape_formulas=not raw_names)
        if as_json:
            emit({"written": str(path), "rows": len(table)})
        else:
            out(f"wrote {len(table):,} row{'' if len(table) == 1 else 's'} to {path}")
    elif as_json:
        emit(table.to_dicts())
    else:
        frame(table.with_columns(pl.col(name).fill_null("") for name in gaps), labels, title)
