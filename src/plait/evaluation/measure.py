"""Metrics of a scorer on a test: links against zeros, drawn negatives, rankings; and those of popularity."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Flags, Rows
from plait.evaluation import estimates, metrics
from plait.evaluation.estimates import Estimate
from plait.evaluation.metrics import precision_recall, roc, share_error
from plait.evaluation.protocol import Drawn, EvaluationProtocol
from plait.evaluation.ranking import Advance, Ranked, figures_at, queries, ranked, standing
from plait.evaluation.scorer import Scorer

if TYPE_CHECKING:
    import polars as pl

    from plait.result import Fit


def popularity(fit: "Fit", relation: str, cells: Any) -> NDArray[np.float64]:
    """The product over the indices of how many known links each entity of a cell has; cells as for `fit.predict`."""
    from plait.analysis.predict.lookup import rows_of

    _, rows = rows_of(fit, relation, cells)
    return popularity_of_rows(fit, relation, rows)


def popularity_of_rows(fit: "Fit", relation: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same for cells by row numbers; (n, order) -> (n,)."""
    known = fit.known[relation]
    score = np.ones(len(rows))
    cells = known.written  # of a pair, either entity has the link
    for k, size in enumerate(known.shape):
        score *= np.bincount(cells[:, k], minlength=size)[rows[:, k]]
    return score


@dataclass
class Measured:
    """What has been measured so far; seen: a note on test links that the fit knows, one of the notes."""

    seen: str | None
    notes: list[str]
    found: dict[str, Estimate] = field(default_factory=dict)
    calibration: "pl.DataFrame | None" = None
    roc: "pl.DataFrame | None" = None
    precision_recall: "pl.DataFrame | None" = None


def measure(view: Scorer, task: EvaluationProtocol, advance: Advance) -> Measured:
    """All figures of a fit that the task asks for."""
    seen = _seen(view, task)
    measured = Measured(seen, [] if seen is None else [seen])
    if task.zeros:
        _on_cells(view, task, measured)
    else:
        _on_links(view, task, measured)
    measured.notes += task.notes
    if task.drawn:
        _on_drawn(view, task, measured)
    if task.places:
        cells = task.rows[task.link]
        on_axes = [ranked(view, cells, place, task.links, advance) for place in task.places]
        measured.found |= dict(_ranks(task, on_axes))
        measured.found |= dict(_among_first(task, on_axes))
        measured.notes += _absent(task)
    return measured


def _seen(view: Scorer, task: EvaluationProtocol) -> str | None:
    links = task.rows[task.link]
    count = int(np.count_nonzero(view.knows(links)))
    are = "is" if count == 1 else "are"
    return f"{count:,} of {len(links):,} test links {are} known to the fit: the figures flatter it" if count else None


# --- over the rows of the test


def _on_cells(view: Scorer, task: EvaluationProtocol, measured: Measured) -> None:
    """Figures over the links and zeros of the test."""
    found, link = measured.found, task.link
    score = view.scores(task.rows)
    _on_scores(link, score, measured)
    for place in range(len(task.indices) if len(task.indices) > 1 else 0):
        query, _ = queries(task.rows, place, task.links.shape)
        _add_within(link, score, query, f"within_{task.indices[place]}", measured)
    mean, probability, log = view.predictive(task.rows, task.values)
    _add_log_likelihood(log, "", measured)
    found["brier"] = estimates.mean((probability - link) ** 2)
    found["rmse"] = estimates.root_mean_square(task.values, mean)
    found["mae"] = estimates.mean(np.abs(mean - task.values))
    bins = metrics.calibration(link, probability)
    found["calibration_error"] = estimates.calibration_error(bins, link, probability)
    measured.calibration = _table(bins)


def measure_popularity(view: Scorer, task: EvaluationProtocol) -> Measured | None:
    """What the popularity of entities makes of the test, where it has zeros; a model must beat it."""
    if not task.zeros:
        return None
    measured = Measured(None, [])
    _on_scores(task.link, popularity_of_rows(view.fit, task.relation, task.rows), measured)
    return measured


def _on_scores(link: Flags, score: Array, measured: Measured) -> None:
    """Figures and curves that scores (n,) give."""
    measured.found["roc_auc"] = estimates.roc_auc(link, score)
    measured.found["average_precision"] = estimates.average_precision(link, score)
    measured.roc, measured.precision_recall = roc(link, score), precision_recall(link, score)


def _table(bins: metrics.Calibration) -> "pl.DataFrame":
    import polars as pl

    names = [f"{low:.3g}–{high:.3g}" for low, high in zip(bins.low, bins.high)]
    return pl.DataFrame(
        {
            "bin": names,
            "cells": bins.cells,
            "predicted": bins.predicted,
            "observed": bins.observed,
            "lower": bins.low,
            "upper": bins.high,
            "error": share_error(bins.observed * bins.cells, bins.cells),
        }
    )


def _on_links(view: Scorer, task: EvaluationProtocol, measured: Measured) -> None:
    """Figures over the test links alone."""
    mean, _, log = view.predictive(task.rows, task.values)
    _add_log_likelihood(log, "_links", measured)
    measured.found["rmse_links"] = estimates.root_mean_square(task.values, mean)
    measured.found["mae_links"] = estimates.mean(np.abs(mean - task.values))
    measured.notes.append("the test lists no zeros: brier and calibration are left out")


def _add_log_likelihood(log: Array, suffix: str, measured: Measured) -> None:
    impossible = int(np.count_nonzero(~np.isfinite(log)))
    if impossible:
        cells = "cell has" if impossible == 1 else "cells have"
        measured.notes.append(
            f"log_likelihood{suffix} is left out: {impossible:,} test {cells} a predicted probability of 0"
        )
        return
    measured.found[f"log_likelihood{suffix}"] = estimates.mean(log)
    measured.found[f"log_likelihood{suffix}_sum"] = estimates.total(log)


# --- beside what is drawn


def _on_drawn(view: Scorer, task: EvaluationProtocol, measured: Measured) -> None:
    """Figures of the test links beside each set of non-links."""
    cells = task.rows[task.link]
    score = view.scores(cells)
    for drawn in task.drawn:
        how = drawn.how if drawn.place is None else f"{drawn.how}_{task.indices[drawn.place]}"
        if not len(drawn.cells):
            measured.notes.append(f"roc_auc_{how} and average_precision_{how} are left out: there is no such non-link")
            continue
        both = np.concatenate([score, view.scores(drawn.cells)])
        link = np.arange(len(both)) < len(score)
        _add_drawn(link, both, drawn, how, measured)
        if drawn.place is not None and len(task.indices) > 1:
            query, _ = queries(np.concatenate([cells, drawn.cells]), drawn.place, task.links.shape)
            _add_within(link, both, query, f"{drawn.how}_within_{task.indices[drawn.place]}", measured)


def _add_drawn(link: Flags, score: Array, drawn: Drawn, how: str, measured: Measured) -> None:
    for name, figure in (("roc_auc", estimates.roc_auc), ("average_precision", estimates.average_precision)):
        found = figure(link, score)
        if drawn.of is not None:  # a link and its own corruptions have most of their score in common
            found = found.by_unit(np.concatenate([np.arange(np.count_nonzero(link)), drawn.of]))
        measured.found[f"{name}_{how}"] = found


def _add_within(link: Flags, score: Array, query: Rows, how: str, measured: Measured) -> None:
    """AUC and average precision inside queries, averaged over those that have links and non-links."""
    auc, precision = metrics.within(link, score, query)
    if not len(auc):
        measured.notes.append(f"roc_auc_{how} and average_precision_{how} are left out: no query has both")
        return
    measured.found[f"roc_auc_{how}"] = estimates.mean(auc)
    measured.found[f"average_precision_{how}"] = estimates.mean(precision)


# --- ranking


def _ranks(task: EvaluationProtocol, on_axes: Sequence[Ranked]) -> Iterator[tuple[str, Estimate]]:
    """mrr, hits_at_… and mean_rank: filtered, and _raw; by axis as mrr[tail] where there are several, and over all."""
    several = len(on_axes) > 1
    together: dict[str, list[Estimate]] = {}
    for place, own in zip(task.places, on_axes):
        for suffix, above, tied in (("", own.above, own.tied), ("_raw", own.raw_above, own.raw_tied)):
            for name, values in metrics.rank_values(metrics.ranks(above, tied)).items():
                figure = estimates.mean(values)
                together.setdefault(f"{name}{suffix}", []).append(figure)
                if several:
                    yield f"{name}{suffix}[{task.indices[place]}]", figure
    # A link is one unit, whatever the number of axes that it is ranked on.
    yield from ((name, estimates.together(own)) for name, own in together.items())


def _among_first(task: EvaluationProtocol, on_axes: Sequence[Ranked]) -> Iterator[tuple[str, Estimate]]:
    """recall_at_10, … over queries; by axis as well where there are several."""
    several = len(on_axes) > 1
    items = [standing(own.query, own.score, own.above, own.tied) for own in on_axes]
    for k in task.first:
        by_axis = [figures_at(own, k) for own in items]
        for name in by_axis[0]:
            if several:
                for place, found in zip(task.places, by_axis):
                    yield f"{name}[{task.indices[place]}]", estimates.mean(found[name])
            yield name, estimates.mean(np.concatenate([found[name] for found in by_axis]))


def _absent(task: EvaluationProtocol) -> list[str]:
    """Notes on candidates of a ranking that have no link in the relation: most likely they belong to other ones."""
    links, counts = task.links, dict[str, tuple[int, int]]()
    for place in task.places:
        counts[task.indices[place]] = links.shape[place] - len(links.present[place]), links.shape[place]
    return [
        f"{few:,} of the {size:,} candidates for {index} have no link in {task.relation}"
        for index, (few, size) in counts.items()
        if few
    ]
