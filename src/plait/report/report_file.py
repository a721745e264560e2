"""Report of a run as one document and one HTML file."""

import warnings
from collections.abc import Callable, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from plait.errors import FileLocation, LeakWarning, ParameterError, PlaitError, StorageError
from plait.evaluation.evaluator import Metrics, evaluate
from plait.machine import path_fault, replacing
from plait.rendering.document import Block, Document, Section
from plait.rendering.html import write_page
from plait.rendering.svg import NEEDED
from plait.report.report_data import ReportData
from plait.report.reproduce import again
from plait.report.sections import cards, course, predicted_links, quality, summary, surprises
from plait.result import Fit
from plait.version import __version__

SECTIONS: dict[str, tuple[str, Callable[[ReportData], Sequence[Block]]]] = {
    "summary": ("Summary", summary),
    "links": ("Predicted links", predicted_links),
    "components": ("Components", cards),
    "quality": ("Evaluation", quality),
    "surprises": ("Surprises", surprises),
    "fit": ("The fit", course),
    "reproduce": ("Reproduce", again),
}


def describe_whole(report_data: ReportData) -> Document:
    """The report, section by section."""
    sections = [Section(title, make(report_data), name) for name, (title, make) in SECTIONS.items()]
    return Document(f"Plait: {', '.join(report_data.fit.model.relations)}", sections)


FOOT = f"Made by plait {__version__}. This page is one file. It loads no other files and sends no data."


def report(
    fit: Fit, path: str | PathLike[str], *, test: Any = None, relation: str | None = None, interactive: bool = False,
    replace: bool = False,
) -> None:  # fmt: skip
    """`Fit.report`."""
    check_needed()
    check_place(path, replace)
    metrics, leaks = measure(fit, test, tested_relation(fit, relation, given=test is not None))
    write_report(ReportData(fit, metrics=metrics, leaks=leaks), path, interactive=interactive)


def check_needed() -> None:
    """Refuse if the packages for charts and pages are not installed."""
    try:
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise PlaitError(
            f"a report needs {error.name}, which is not installed.", hint=f"Install it: {NEEDED}."
        ) from None


def check_place(path: str | PathLike[str], replace: bool) -> None:
    """Refuse an existing file, unless it may be replaced, and invalid paths."""
    place = Path(path)
    if fault := path_fault(place):
        raise StorageError(
            f"this is not a valid path: {fault}.", location=FileLocation(fspath(path)), hint="Choose another name."
        )
    if place.is_dir():
        raise StorageError(
            "this is a folder.", location=FileLocation(fspath(path)), hint="Choose a file, such as report.html."
        )
    if place.exists() and not replace:
        raise StorageError(
            "the file already exists.",
            location=FileLocation(fspath(path)),
            hint="Choose another name, or set `replace=True`.",
        )


def tested_relation(fit: Fit, relation: str | None, *, given: bool) -> str | None:
    """Relation of a test; None without a test. A model of one relation needs no name for it."""
    relations = fit.model.relations
    if not given:
        if relation is not None:
            raise ParameterError(
                f"`relation={relation!r}` is given without `test`.",
                hint="Add `test`, or remove `relation`.",
            )
        return None
    if relation is None and len(relations) > 1:
        raise ParameterError(
            "the relation of the test is missing.",
            hint=f"Give `relation={relations[0]!r}`; the relations are {', '.join(relations)}.",
        )
    return fit.model.equation(relation or relations[0]).relation


def measure(fit: Fit, test: Any, relation: str | None) -> tuple[Metrics | None, tuple[str, ...]]:
    """Metrics of a test, and warnings of its evaluation."""
    if test is None or relation is None:
        return None, ()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LeakWarning)
        metrics = evaluate(fit, relation, test, progress=False)
    leaks = [one for one in caught if issubclass(one.category, LeakWarning)]
    for one in caught:
        if one not in leaks:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return metrics, tuple(f"the test leaks: {one.message}" for one in leaks)


def write_report(report_data: ReportData, path: str | PathLike[str], *, interactive: bool) -> None:
    """Write the page atomically."""
    page = write_page(describe_whole(report_data), foot=FOOT, interactive=interactive)
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with replacing(place) as file:
            file.write(page.encode("utf-8"))
    except OSError as error:
        raise StorageError(
            f"the report cannot be written: {error.strerror or error}.",
            location=FileLocation(fspath(path)),
            hint="Choose another folder.",
        ) from error
