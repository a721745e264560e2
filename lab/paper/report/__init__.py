"""Tables and plots of the experiments, and the page that shows them."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

import polars as pl

from lab.harness.page import picture, where
from lab.harness.results import Found
from lab.harness.table import as_markdown, without_empty
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Report(Protocol):
    """What the report of an experiment (the module lab.paper.report.NAME) offers."""

    def tables(self, records: pl.DataFrame) -> list[Table]:
        """Our figures next to the published ones."""

    def figures(self, records: pl.DataFrame) -> "dict[str, Figure]":
        """Plots by name; the name is that of their files and becomes their caption's anchor."""


def report_of(name: str) -> Report:
    """The report of an experiment."""
    return cast(Report, import_module(f"lab.paper.report.{name}"))


def tables_of(name: str, records: pl.DataFrame) -> list[Table]:
    """The tables of an experiment, without those of which nothing is measured."""
    tables = [without_empty(table) for table in report_of(name).tables(records)]
    return [table for table in tables if table.rows]


def block(found: Found, finished: tuple[int, int], tables: Sequence[Table], plots: Sequence[Path], page: Path) -> str:
    """A block: data, machine and command, the plots, the tables. finished: number of cells, and of all."""
    head, (done, cells) = found.head, finished
    parts = [
        f"Data: {head['source']}{'' if head['quick'] else ' (full size)'}.",
        where(found),
        f"Command: `{head['command']}`.",
        *([head["note"]] if "note" in head else []),
        *([f"Not finished: {done:,} of {cells:,} cells."] if done < cells else []),
    ]
    pictures = [picture(path, page) for path in plots]
    return "\n\n".join([" ".join(parts), *pictures, *(as_markdown(table) for table in tables)])
