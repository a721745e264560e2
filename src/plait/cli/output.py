"""Output of commands: documents on stdout, as text or JSON, and files. Everything else goes to stderr."""

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

MAX_ROWS = 50  # of a table shown on stdout


def out(text: str = "", style: str | None = None) -> None:
    """Print text without markup or wrapping."""
    console().print(without_controls(text), style=style, markup=False, soft_wrap=True)


def to_stderr(word: str, message: str) -> None:
    """``error: …`` with the word in red on a terminal."""
    colour = {"error": "bold red", "warning": "bold yellow"}.get(word, "bold")
    console(stderr=True).print(Text.assemble((f"{word}: ", colour), without_controls(message)), soft_wrap=True)


def emit(document: Any) -> None:
    """One JSON document on stdout; NaN and infinity are null, dates and times text."""
    print(dump_json(document))


def put(document: Document, *, as_json: bool) -> None:
    """A document as text or JSON."""
    if as_json:
        print(render_json(document))
    else:
        show(document)


def grid(headings: Sequence[str], rows: Sequence[Sequence[Any]], title: str = "", left: int = 1) -> None:
    """Print a table; the first `left` columns are text, aligned left, the others right."""
    show(Document("", [Table(headings, rows, title, left=left)]))


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on stderr; nothing in a pipe."""
    if not sys.stderr.isatty():
        yield
        return
    there = console(stderr=True)
    if there.is_dumb_terminal:  # rich would write an empty line
        yield
        return
    with there.status(f"{what} …"):
        yield


def announce(phase: str) -> None:
    """A line on stderr as a phase of a long command begins, where no terminal shows a bar."""
    if not sys.stderr.isatty():
        print(f"{phase} …", file=sys.stderr, flush=True)


def frame(table: "pl.DataFrame", labels: int, title: str = "", limit: int = MAX_ROWS) -> None:
    """Print the first rows of a table; its first ``entities`` columns are names, which are shown as they are."""
    shown = [[*map(str, row[:labels]), *row[labels:]] for row in table.head(limit).rows()]
    show(Document("", [Table(table.columns, shown, title, left=labels, more=max(0, len(table) - limit))]))


def check_free(path: "Path | None", force: bool) -> None:
    """Refuse to overwrite a file without --force."""
    if path is not None and path.expanduser().exists() and not force:
        raise ParameterError(
            "the file already exists.",
            location=FileLocation(path),
            hint="Choose another name, or replace it with --force.",
        )


def say_written(n_rows: int, path: Path, *, as_json: bool) -> None:
    """The number of rows that were written to a file."""
    if as_json:
        emit({"written": str(path), "rows": n_rows})
    else:
        out(f"wrote {n_rows:,} row{'' if n_rows == 1 else 's'} to {path}")


def deliver(
    table: "pl.DataFrame", labels: int, *, path: "Path | None", as_json: bool, title: str = "",
    gaps: Sequence[str] = (), raw_names: bool = False,
) -> None:  # fmt: skip
    """A table into a file, as JSON, or as text; `gaps`: columns whose nulls are blank."""
    if path is None and raw_names:
        raise ParameterError("`no-escape-formulas` requires a file.", hint="Remove it, or add -o FILE.")
    if path is not None:
        write(table, path, escape_formulas=not raw_names)
        say_written(len(table), path, as_json=as_json)
    elif as_json:
        emit(table.to_dicts())
    else:
        frame(table.with_columns(pl.col(name).fill_null("") for name in gaps), labels, title)
