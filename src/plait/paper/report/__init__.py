"""Tables and plots of the experiments, and the page that shows them."""

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import polars as pl

from plait.paper.report.table import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Report(Protocol):
    """What the report of an experiment (the module plait.paper.report.NAME) offers."""

    def tables(self, records: pl.DataFrame) -> list[Table]:
        """Our figures beside the published ones."""

    def figures(self, records: pl.DataFrame) -> "dict[str, Figure]":
        """Plots by name; the name is that of their files and becomes their caption's anchor."""


def report_of(name: str) -> Report:
    """The report of an experiment."""
    return cast(Report, import_module(f"plait.paper.report.{name}"))


def tables_of(name: str, records: pl.DataFrame) -> list[Table]:
    """The tables of an experiment, without those of which nothing is measured."""
    tables = [table.measured() for table in report_of(name).tables(records)]
    return [table for table in tables if table.rows]
