"""Content of a report: a fit, its run and its test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plait.analysis.components.component_members import components
from plait.analysis.explain.coupling import coupling
from plait.analysis.titled_tables import beside, title_column
from plait.result import Fit

if TYPE_CHECKING:
    import polars as pl

    from plait.evaluation.evaluator import Metrics


def called(row: Mapping[str, Any], column: str) -> str:
    """Entity in a column of a row: its name, followed by its title if it has one."""
    return beside(row[column], row.get(title_column(column)))


@dataclass(frozen=True, eq=False)
class ReportData:
    """A fit with its run and test.

    `run`: path of the saved run; `header`: its manifest; both empty if it was not saved. `metrics`: of a test; `test`:
    its file; `value`: its column of values, if named; `leaks`: warnings of its evaluation.
    """

    fit: Fit
    run: str = ""
    header: Mapping[str, Any] = field(default_factory=dict)
    metrics: "Metrics | None" = None
    test: str = ""
    leaks: tuple[str, ...] = ()
    value: str | None = None

    @property
    def config(self) -> Mapping[str, Any] | None:
        """Config file of the run, as stored."""
        found: Mapping[str, Any] | None = self.header.get("extra", {}).get("config")
        return found

    @cached_property
    def components(self) -> "pl.DataFrame":
        """Entities of components, cached for all sections."""
        return components(self.fit)

    @cached_property
    def coupling(self) -> "pl.DataFrame":
        """Shares of relations in components, cached."""
        return coupling(self.fit)
