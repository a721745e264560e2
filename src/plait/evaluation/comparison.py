"""What `plait.compare` gives: the metrics of several fits, and their differences.

`plait.compare`: several fits on the same test, and how sure one can be of their differences.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from plait.errors import LeakWarning, ParameterError, suggestion, warn_of
from plait.evaluation.estimates import Estimate, norm
from plait.evaluation.evaluator import UNSEEN, Metrics, error, report, shown
from plait.evaluation.measure import Measured, measure
from plait.evaluation.protocol import TestOptions, build_protocol, check_options
from plait.evaluation.scorer import Scorer
from plait.progress import counting
from plait.rendering.document import Document, Note, Table

if TYPE_CHECKING:
    import polars as pl

    from plait.result import Fit


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
        from plait.rendering.text import render

        return render(self.describe())

    def _repr_html_(self) -> str:
        from plait.rendering.html import render

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


def compare(
    fits: "Mapping[str, Fit]",
    relation: str,
    test: Any,
    *,
    against: str | None = None,
    score: str = "mean",
    target: bool | str | Sequence[str] | None = None,
    k: int | Sequence[int] | None = None,
    negatives: int | None = None,
    known: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Comparison:
    """Measure fits by the same test, side by side: ``plait.compare({"CP": fit, "Tucker": other}, "visits", test)``.

    Figures and options are those of `plait.evaluate`. All fits are asked the same: the same cells, the same queries,
    the same drawn non-links; a link that one of them knows is a known one for all. So what is hard for one is hard for
    the other, and a difference has a smaller standard error than the figures themselves: it is made from the
    differences unit by unit. against: the fit that the others are compared with, the first unless told.

    The fits may differ in everything but the relation: its indices and its likelihood. Candidates are the entities of
    the fit that knows the fewest; every other fit must know these, too.
    """
    against = _check(fits, relation, against)
    options = TestOptions(score, target, k, negatives, known, seed)
    check_options(options)
    smallest = min(fits.values(), key=lambda fit: sum(fit.known[relation].shape))
    views = {name: Scorer.of(fit, relation, score, smallest, name) for name, fit in fits.items()}
    task = build_protocol(smallest, list(views.values()), relation, test, options)
    with counting("ranking", len(fits) * len(task.places) * int(task.link.sum()), progress) as advance:
        measured = {name: measure(view, task, advance) for name, view in views.items()}
    seen = [f"{name}: {one.seen}" for name, one in measured.items() if one.seen is not None]
    if seen:
        warn_of([LeakWarning(f"{'; '.join(seen)}.", location=relation, hint=UNSEEN)])
    return Comparison(
        metrics={name: report(task, one) for name, one in measured.items()},
        differences={name: _differences(one, measured[against]) for name, one in measured.items() if name != against},
        against=against,
    )


def _differences(measured: Measured, against: Measured) -> dict[str, Difference]:
    """Of all figures that both have."""
    return {
        name: _difference(figure, against.found[name])
        for name, figure in measured.found.items()
        if name in against.found
    }


def _difference(figure: Estimate, against: Estimate) -> Difference:
    told = len(figure.shares) > 0
    return Difference(figure.value - against.value, norm(figure.shares - against.shares) if told else None)


def _check(fits: Any, relation: str, against: str | None) -> str:
    """Fits that can be compared; the name of the one that the others are compared with."""
    if not isinstance(fits, Mapping) or len(fits) < 2:
        what = f"{len(fits)}" if isinstance(fits, Mapping) else type(fits).__name__
        raise ParameterError(
            f"fits must be two fits or more by name, got {what}.",
            hint='Give {"CP": fit, "Tucker": other}.',
        )
    names = [str(name) for name in fits]
    if against is not None and against not in fits:
        raise ParameterError(
            f"`against` is {against!r}, which is none of the fits.",
            hint=f"{suggestion(against, names)}They are {', '.join(names)}.",
        )
    first, *others = fits.items()
    wanted = first[1].model.equation(relation).indices, first[1].likelihood[relation]
    for name, fit in others:
        got = fit.model.equation(relation).indices, fit.likelihood[relation]
        if got != wanted:
            raise ParameterError(
                f"fits: {relation} is {_described(*wanted)} in {first[0]!r}, but {_described(*got)} in {name!r}.",
                hint="Compare fits of the same relation.",
            )
    return names[0] if against is None else against


def _described(indices: Sequence[str], likelihood: str) -> str:
    return f"[{', '.join(indices)}], {likelihood},"
