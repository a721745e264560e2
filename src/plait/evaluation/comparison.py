"""What `plait.compare` gives: the metrics of several fits, and their differences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from plait.evaluation.evaluation import Metrics, error, shown
from plait.show.document import Document, Note, Table

if TYPE_CHECKING:
    import polars as pl


class Difference(NamedTuple):
    """A figure of a fit minus that of another, and its standard error, None where the test does not tell it."""

    value: float
    error: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Mapping[str, Metrics]):
    """Metrics of several fits by name: ``comparison["Tucker"]["roc_auc"]``.

    against: the name of the fit that the others are compared with. differences: by the name of each other fit and of
    the figure, the difference and its standard error: ``comparison.differences["Tucker"]["roc_auc"]``.
    """

    metrics: Mapping[str, Metrics]
    differences: Mapping[str, Mapping[str, Difference]]
    against: str

    def __getitem__(self, name: str) -> Metrics:
        return self.metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.metrics)

    def __len__(self) -> int:
        return len(self.metrics)

    @property
    def table(self) -> "pl.DataFrame":
        """A row for each figure of each fit: fit, figure, value, error, difference, difference_error."""
        import polars as pl

        kinds = {"fit": pl.String, "figure": pl.String} | dict.fromkeys(
            ("value", "error", "difference", "difference_error"), pl.Float64
        )
        none = Difference(None, None)  # type: ignore[arg-type]
        rows = [
            (name, figure, value, own.errors.get(figure), *self.differences.get(name, {}).get(figure, none))
            for name, own in self.metrics.items()
            for figure, value in own.items()
        ]
        return pl.DataFrame(rows, kinds, orient="row")

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain types, for JSON: against, fits (as of Metrics), differences (difference and error)."""
        return {
            "against": self.against,
            "fits": {name: own.to_dict() for name, own in self.metrics.items()},
            "differences": {
                name: {figure: {"difference": d.value, "error": d.error} for figure, d in own.items()}
                for name, own in self.differences.items()
            },
        }

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
        head, *rows = self._cells()
        return Document(self._title(), (Table(head, rows), *map(Note, self.notes)), self.to_dict())

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known of the figures, each note once; of one fit alone with its name."""
        said = {note: [name for name, own in self.metrics.items() if note in own.notes] for note in self._all_notes()}
        return tuple(note if len(names) == len(self) else f"{', '.join(names)}: {note}" for note, names in said.items())

    def _all_notes(self) -> list[str]:
        return list(dict.fromkeys(note for own in self.metrics.values() for note in own.notes))

    def _title(self) -> str:
        return f"{self.metrics[self.against].title()}; differences from {self.against} ± their standard errors"

    def _cells(self) -> list[list[str]]:
        """The table that is printed: its head, and a row for each figure."""
        others = [name for name in self.metrics if name != self.against]
        figures = dict.fromkeys(figure for name in (self.against, *others) for figure in self.metrics[name])
        head = ["", self.against]
        for name in others:
            head += [name, "difference", ""]
        return [head, *([figure, *self._row(figure, others)] for figure in figures)]

    def _row(self, figure: str, others: list[str]) -> Iterator[str]:
        yield _value(self.metrics[self.against], figure)
        for name in others:
            yield _value(self.metrics[name], figure)
            difference = self.differences[name].get(figure)
            yield "" if difference is None else _signed(difference.value)
            yield "" if difference is None else error(difference.error)


def _value(metrics: Metrics, figure: str) -> str:
    return shown(metrics[figure]) if figure in metrics else "–"


def _signed(difference: float) -> str:
    return f"{'+' if difference >= 0 else ''}{shown(difference)}"
