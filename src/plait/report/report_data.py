"""Content of a report: a fit, its run and its test."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plait.analysis.components.component_members import components
from plait.analysis.explain.coupling import coupling
from plait.analysis.titled_tables import name_with_title, title_column
from plait.analysis.topk.top import propose
from plait.result import Fit

if TYPE_CHECKING:
    import polars as pl

    from plait.errors import PlaitWarning
    from plait.evaluation.evaluator import Metrics

MAX_LINKS = 50  # predicted ones, of a relation


def called(row: Mapping[str, Any], column: str) -> str:
    """Entity in a column of a row: its name, followed by its title if it has one."""
    return name_with_title(row[column], row.get(title_column(column)))


@dataclass(frozen=True, eq=False)
class ReportData:
    """A fit with its run and test.

    `run`: path of the saved run; `header`: its manifest; both empty if it was not saved. `metrics`: of a test; `test`:
    its file; `reading`: options of the command line for it; `leaks`: warnings of its evaluation.
    """

    fit: Fit
    run: str = ""
    header: Mapping[str, Any] = field(default_factory=dict)
    metrics: "Metrics | None" = None
    test: str = ""
    leaks: tuple[str, ...] = ()
    reading: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> Mapping[str, Any] | None:
        """Config file of the run, as stored."""
        config: Mapping[str, Any] | None = self.header.get("extra", {}).get("config")
        return config

    @cached_property
    def components(self) -> "pl.DataFrame":
        """The most typical entities of components, cached for all sections."""
        return components(self.fit, top=5, by="relevance")

    @cached_property
    def shares(self) -> list[float]:
        """Largest share of each component in a relation, largest first."""
        return sorted(self.largest_shares["share"].to_list(), reverse=True)

    @cached_property
    def largest_shares(self) -> "pl.DataFrame":
        """Each component with its largest share in a relation; a value of a rule or feature is no component."""
        import polars as pl

        given = {sparse.index for sparse in self.fit.exposures.summed.values()}
        whole = self.coupling.filter(pl.col("index").is_not_null() & ~pl.col("index").is_in(given))
        return whole.group_by("index", "component", maintain_order=True).agg(pl.col("share").max())

    def predicted(self, relation: str) -> "tuple[pl.DataFrame, PlaitWarning | None]":
        """The best links of a relation, and why there are none; cached."""
        if relation not in self._predicted:
            self._predicted[relation] = propose(self.fit, relation, MAX_LINKS)
        return self._predicted[relation]

    @cached_property
    def _predicted(self) -> "dict[str, tuple[pl.DataFrame, PlaitWarning | None]]":
        return {}

    @cached_property
    def coupling(self) -> "pl.DataFrame":
        """Shares of relations in components, cached."""
        return coupling(self.fit)
