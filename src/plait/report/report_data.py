"""Entities as people read them.

What a report is about.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plait.analysis.titled_tables import beside, title_column
from plait.result import Fit

if TYPE_CHECKING:
    import polars as pl

    from plait.evaluation.evaluator import Metrics


def called(row: Mapping[str, Any], column: str) -> str:
    """The entity in a column of a row: its name, and its title beside it where it has one."""
    return beside(row[column], row.get(title_column(column)))


@dataclass(frozen=True, eq=False)
class ReportData:
    """A fit, and what else is known of it.

    run: where it is saved, as the user wrote it; header: the manifest there; both empty where it was not saved.
    metrics: of a test; test: what its file is called; leaks: what was warned of when it was measured.
    """

    fit: Fit
    run: str = ""
    header: Mapping[str, Any] = field(default_factory=dict)
    metrics: "Metrics | None" = None
    test: str = ""
    leaks: tuple[str, ...] = ()

    @property
    def config(self) -> Mapping[str, Any] | None:
        """The config file that the run was made from, as it is remembered."""
        found: Mapping[str, Any] | None = self.header.get("extra", {}).get("config")
        return found

    @cached_property
    def components(self) -> "pl.DataFrame":
        """Who is in each component, found once for all sections."""
        return self.fit.components()

    @cached_property
    def coupling(self) -> "pl.DataFrame":
        """What each relation gives to each component."""
        return self.fit.coupling()
