"""Is it any good: what a test says, or how to make one."""

from collections.abc import Sequence

from plait.chart import pictures
from plait.evaluation.evaluation import Metrics, error, shown
from plait.report.commands import evaluating, hiding
from plait.report.subject import Subject
from plait.show.document import Block, Cards, Code, Note, Section, Table


def quality(subject: Subject) -> Sequence[Block]:
    """Figures and curves of the test beside those of popularity."""
    if subject.metrics is None:
        return _untested(subject)
    metrics = subject.metrics
    title = f"{metrics.title()}{f' ({subject.test})' if subject.test else ''}"
    return [Note(f"{title}.", quiet=False), *_curves(metrics), _figures(metrics), *map(Note, metrics.notes)]


def _curves(metrics: Metrics) -> list[Block]:
    """The pictures that the test has: one without zeros has none."""
    made = {
        "Calibration": pictures.calibration if metrics.calibration is not None else None,
        "ROC": pictures.roc if metrics.roc is not None else None,
        "Precision and recall": pictures.precision_recall if metrics.precision_recall is not None else None,
    }
    sections = [Section(title, [draw(metrics)]) for title, draw in made.items() if draw is not None]
    return [Cards(sections)] if sections else []


def _figures(metrics: Metrics) -> Table:
    beside = metrics.baseline
    columns = ("figure", "", "± se", *(("popularity",) if beside is not None else ()))
    rows = []
    for name, figure in metrics.items():
        row = (name, shown(figure), error(metrics.errors.get(name)))
        other = "" if beside is None or name not in beside else shown(beside[name])
        rows.append((*row, *((other,) if beside is not None else ())))
    return Table(("figure", "this run", *columns[2:]), rows)


def _untested(subject: Subject) -> list[Block]:
    words = (
        "No test was given, so nothing here says how well it predicts what it has not seen. Hide some cells, fit "
        "without them, and look for them:"
    )
    return [Note(words, quiet=False), Code(hiding(subject)), Note("Then, with the test:"), Code(evaluating(subject))]
