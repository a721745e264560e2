"""Comparison of several fits on one test set: `plait.compare`, with standard errors of paired differences."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from plait.data.sources.tables import as_kind
from plait.errors import LeakWarning, ParameterError, suggestion, warn_of
from plait.evaluation.estimates import Estimate, norm
from plait.evaluation.evaluator import UNSEEN, Metrics, error, format_figure, report
from plait.evaluation.measure import Measured, measure
from plait.evaluation.protocol import TestOptions, build_protocol, check_options
from plait.evaluation.scorer import Scorer
from plait.progress import counting
from plait.rendering.document import Document, Note, Table

if TYPE_CHECKING:
    from narwhals.stable.v2.typing import IntoDataFrame

    from plait.result import Fit


class Difference(NamedTuple):
    """A figure of a fit minus that of another, and its standard error, None where the test does not tell it."""

    value: float
    error: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Mapping[str, Metrics]):
    """Metrics of several fits by name: ``comparison["Tucker"]["roc_auc"]``.

    Attributes
    ----------
    metrics : dict of str to Metrics
        Metrics of each fit.
    differences : dict of str to dict
        Difference of each metric from the reference fit, with ``value`` and ``error``:
        ``differences["Tucker"]["roc_auc"]``.
    against : str
        Name of the reference fit.
    notes : tuple of str
        Remarks on the metrics.
    table : table
        All metrics.

    Examples
    --------
    >>> fits = {"rank 2": plait.fit(model, train, **quick)}
    >>> fits["rank 1"] = plait.fit(model, train, **quick | {"rank": 1})
    >>> comparison = plait.compare(fits, "visits", test)
    >>> comparison.against
    'rank 2'
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
    def table(self) -> "IntoDataFrame":
        """Table with one row per fit and metric.

        The columns are ``fit``, ``figure``, ``value``, ``error``, ``difference`` and
        ``difference_error``.
        """
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
        return as_kind(pl.DataFrame(rows, kinds, orient="row"), self.metrics[self.against].kind)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison in types that JSON can hold.

        Returns
        -------
        dict
            ``against``, ``fits`` (as `Metrics.to_dict`) and ``differences``.

        Examples
        --------
        >>> fits = {"rank 2": plait.fit(model, train, **quick)}
        >>> fits["rank 1"] = plait.fit(model, train, **quick | {"rank": 1})
        >>> sorted(plait.compare(fits, "visits", test).to_dict())
        ['against', 'differences', 'fits']
        """
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
        """The comparison as a document."""
        head, *rows = self._cells()
        return Document(self._title(), (Table(head, rows), *map(Note, self.notes)), self.to_dict())

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the metrics; a remark on one fit starts with its name."""
        said = {note: [name for name, own in self.metrics.items() if note in own.notes] for note in self._all_notes()}
        return tuple(note if len(names) == len(self) else f"{', '.join(names)}: {note}" for note, names in said.items())

    def _all_notes(self) -> list[str]:
        return list(dict.fromkeys(note for own in self.metrics.values() for note in own.notes))

    def _title(self) -> str:
        return f"{self.metrics[self.against].title()}; differences from {self.against} ± their standard errors"

    def _cells(self) -> list[list[str]]:
        """The printed table: its head, and a row for each figure."""
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
    return format_figure(metrics[figure]) if figure in metrics else "–"


def _signed(difference: float) -> str:
    return f"{'+' if difference >= 0 else ''}{format_figure(difference)}"


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
    """Evaluate several fits on the same test, with errors of their differences.

    Parameters
    ----------
    fits : dict of str to Fit
        Two or more fits by name. They must agree in the relation's indices and likelihood.
    relation : str
        Name of the relation.
    test : table or Relation
        The cells, as for `evaluate`.
    against : str, default None
        Name of the reference fit; the first by default.
    score : one of "mean", "probability", "rate", default "mean"
        Column of `Fit.predict` that ranks cells.
    target : bool, str or sequence of str, default None
        Index whose entities are ranked, as for `evaluate`.
    k : int or sequence of int, default None
        Cut-offs of the metrics at k; requires ``target``.
    negatives : int, default None
        Number of sampled non-links per test link, as for `evaluate`.
    known : table or list of tables, default None
        Further known links, as for `evaluate`.
    seed : int, default 0
        Random seed of the sampled non-links.
    progress : bool or None, default None
        Whether to show a bar. ``None`` shows it on a terminal.

    Returns
    -------
    Comparison
        Metrics of each fit, and their differences from the reference.

    Raises
    ------
    plait.errors.ParameterError
        If there are fewer than two fits, or they have different relations.
    plait.errors.DataError
        If the test cannot be read.

    Warns
    -----
    plait.errors.LeakWarning
        If the test contains links of the training data of a fit.

    Notes
    -----
    All fits answer the same questions: the same cells, queries and sampled non-links. A link
    that one fit knows is known for all. The standard error of a difference is computed from
    paired differences, and is smaller than those of the metrics. Candidates are the entities
    of the fit with the fewest; all other fits must know these.

    Examples
    --------
    >>> fits = {"rank 2": plait.fit(model, train, **quick)}
    >>> fits["rank 1"] = plait.fit(model, train, **quick | {"rank": 1})
    >>> comparison = plait.compare(fits, "visits", test)
    >>> sorted(comparison)
    ['rank 1', 'rank 2']
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
    """Differences of all figures that both have."""
    return {
        name: _difference(figure, against.by_name[name])
        for name, figure in measured.by_name.items()
        if name in against.by_name
    }


def _difference(figure: Estimate, against: Estimate) -> Difference:
    has_shares = len(figure.shares) > 0
    return Difference(figure.value - against.value, norm(figure.shares - against.shares) if has_shares else None)


def _check(fits: Any, relation: str, against: str | None) -> str:
    """Check that fits are comparable; return the name of the reference."""
    if not isinstance(fits, Mapping) or len(fits) < 2:
        what = f"{len(fits)}" if isinstance(fits, Mapping) else type(fits).__name__
        raise ParameterError(
            f"`fits` must be a dict of at least two fits, got {what}.",
            hint='Example: {"CP": fit, "Tucker": other}.',
        )
    names = [str(name) for name in fits]
    if against is not None and against not in fits:
        raise ParameterError(
            f"`against` must be the name of a fit, got {against!r}.",
            hint=f"{suggestion(against, names)}The fits are {', '.join(names)}.",
        )
    first, *others = fits.items()
    wanted = first[1].model.equation(relation).indices, first[1].likelihood[relation]
    for name, fit in others:
        got = fit.model.equation(relation).indices, fit.likelihood[relation]
        if got != wanted:
            raise ParameterError(
                f"`fits`: {relation} is {_described(*wanted)} in {first[0]!r}, but {_described(*got)} in {name!r}.",
                hint="Compare fits with the same relation.",
            )
    return names[0] if against is None else against


def _described(indices: Sequence[str], likelihood: str) -> str:
    return f"[{', '.join(indices)}], {likelihood},"
