"""What `plait.choose` gives: a row for every setting, and the fit of the best one."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from plait.result import Fit
from plait.show.document import Document, Note, Table

if TYPE_CHECKING:
    import polars as pl

    from plait.chart.plots import ChoicePlot

ERRORS = "_se"  # ends the name of a column with the standard error of another


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Settings compared. table: a row for each, the best first. best: its settings. fit: its fit, to all data.

    by: "hidden" or "bound", what settings were compared by. notes: sentences on what the figures must not be taken for.
    """

    rows: tuple[dict[str, Any], ...]
    best: dict[str, Any]
    fit: Fit
    by: str
    relation: str | None
    notes: tuple[str, ...] = ()

    @cached_property
    def table(self) -> "pl.DataFrame":
        """The settings, best first, with their figures and standard errors (columns that end in _se)."""
        import polars as pl

        return pl.DataFrame(self.rows, infer_schema_length=None)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the fit in plain types, for JSON."""
        return {"by": self.by, "relation": self.relation, "best": self.best, "settings": list(self.rows),
                "notes": list(self.notes)}  # fmt: skip

    @property
    def plot(self) -> "ChoicePlot":
        """Its chart, ``choice.plot.rank()``: an Altair chart (`pip install 'tensorplait[report]'`)."""
        from plait.chart.plots import ChoicePlot

        return ChoicePlot(self.rows, self.by)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from plait.show.text import render

        return render(self.describe())

    def _repr_html_(self) -> str:
        from plait.show.html import render

        return render(self.describe())

    def describe(self) -> Document:
        """What is shown of it."""
        names, rows = self._shown()
        return Document(self._title(), (Table(names, rows), *map(Note, self.notes)), self.to_dict())

    def _title(self) -> str:
        what = f"links of {self.relation} put aside" if self.by == "hidden" else "the bound"
        count = len(self.rows)
        return f"{count} setting{'' if count == 1 else 's'}, compared by {what}; the best first"

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Names and cells as people read them: a figure and its standard error together."""
        names = [name for name in self.rows[0] if not name.endswith(ERRORS)]
        return names, [[_cell(row, name) for name in names] for row in self.rows]


def _cell(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if not isinstance(value, float):
        return str(value)
    if name in ("bound", "seconds"):
        return f"{value:,.1f}"
    error = row.get(name + ERRORS)
    return f"{value:.4f}" + ("" if error is None else f" ± {error:.4f}")
