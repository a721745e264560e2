"""What `plait.evaluate` gives: figures by name, how well probabilities are calibrated, and what is to be known."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plait.show.document import Block, Document, Note, Table

if TYPE_CHECKING:
    import polars as pl

    from plait.chart.plots import MetricsPlot

CALIBRATION = ("bin", "cells", "predicted", "observed")


@dataclass(frozen=True, eq=False, repr=False)
class Metrics(Mapping[str, float]):
    """Figures by name; ``metrics["roc_auc"]``. What each means, `plait.evaluate` says.

    calibration: a polars table with the columns bin, cells, predicted (mean probability), observed (share of links),
    low and high (the ends of the bin) and error (standard error of observed). roc: the ROC curve, with the columns
    false_positive_rate, true_positive_rate and error, the standard error of the latter. precision_recall: recall,
    precision and error, the standard error of precision. Both have 500 points at most, and are those of `roc_auc` and
    `average_precision`. baseline: the Metrics of popularity on the same test, with these two figures and curves alone.
    All are None where the test has no zeros.

    links, zeros: rows of the test. notes: sentences on what is not among the figures and why, and on what they must not
    be taken for. errors: standard errors by the names of the figures, where the test tells them.
    """

    figures: Mapping[str, float]
    relation: str
    links: int
    zeros: int
    calibration: "pl.DataFrame | None" = None
    notes: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)
    roc: "pl.DataFrame | None" = None
    precision_recall: "pl.DataFrame | None" = None
    baseline: "Metrics | None" = None

    def __getitem__(self, name: str) -> float:
        return self.figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def to_dict(self) -> dict[str, Any]:
        """In plain types, for JSON: relation, links, zeros, metrics, errors, calibration (rows), notes; no curves."""
        rows = None if self.calibration is None else self.calibration.to_dicts()
        return {
            "relation": self.relation,
            "links": self.links,
            "zeros": self.zeros,
            "metrics": dict(self.figures),
            "errors": dict(self.errors),
            "calibration": rows,
            "notes": list(self.notes),
        }

    @property
    def plot(self) -> "MetricsPlot":
        """Charts by name, each an Altair chart (`pip install 'tensorplait[report]'`): calibration, roc,
        precision_recall."""
        from plait.chart.plots import MetricsPlot

        return MetricsPlot(self)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        from plait.show.text import render

        return render(self.describe())

    def _repr_html_(self) -> str:
        from plait.show.html import render

        return render(self.describe())

    def describe(self) -> Document:
        """What is shown of them."""
        from plait.chart.pictures import calibration

        rows = [(name, shown(figure), error(self.errors.get(name))) for name, figure in self.figures.items()]
        blocks: list[Block] = [Table(("figure", "", "± se"), rows)]
        if self.calibration is not None:
            blocks.append(Table(CALIBRATION, self.calibration.select(CALIBRATION).rows(), "Calibration"))
            blocks.append(calibration(self))
        return Document(self.title(), (*blocks, *map(Note, self.notes)), self.to_dict())

    def title(self) -> str:
        """The relation, and what the test has of links and zeros."""
        links, zeros = ("" if count == 1 else "s" for count in (self.links, self.zeros))
        return f"{self.relation}: {self.links:,} test link{links}, {self.zeros:,} test zero{zeros}"


def shown(figure: float) -> str:
    """A figure with four decimals, or six digits where it is large."""
    return f"{figure:,.4f}" if abs(figure) < 1000 else f"{figure:,.1f}"


def error(of_figure: float | None) -> str:
    """A standard error behind its figure, if there is one."""
    return "" if of_figure is None else f"± {shown(of_figure)}"
