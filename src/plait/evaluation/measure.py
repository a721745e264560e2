"""Measurement of a scorer on a test set: links against zeros, drawn negatives, rankings; and the
popularity baseline.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Flags, Rows
from plait.data.observation.weights import Weights
from plait.evaluation import estimates, metrics
from plait.evaluation.estimates import Estimate
from plait.evaluation.metrics import precision_recall, roc, share_error
from plait.evaluation.protocol import EvaluationProtocol, NegativeSample
from plait.evaluation.ranking import Advance, Ranked, figures_at, queries, ranked, standing
from plait.evaluation.scorer import Scorer

if TYPE_CHECKING:
    import polars as pl

    from plait.result import Fit


def popularity(fit: "Fit", relation: str, cells: Any) -> NDArray[np.float64]:
    """Product over the indices of the number of known links of each entity; cells as for `fit.predict`."""
    from plait.analysis.predict.lookup import rows_of

    _, rows = rows_of(fit, relation, cells)
    return popularity_of_rows(fit, relation, rows)


def popularity_of_rows(fit: "Fit", relation: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The same for cells by row numbers, (n, order) → (n,)."""
    return PopularityScorer(fit, relation, "rate").scores(rows)


@dataclass(frozen=True, eq=False)
class PopularityScorer(Scorer):
    """The popularity baseline as a scorer.

    A score is the product over the indices of the number of known links of each entity. A rate is c Π_k (s_k + ½), with
    s_k the sum of the known values of an entity, and c such that the rates of all observed cells add up to the known
    values.
    """

    @cached_property
    def _degrees(self) -> list[Array]:
        """Known links of each entity, by index; of an undirected pair, either entity has the link."""
        known = self.fit.known[self.relation]
        return [
            np.bincount(known.written[:, k], minlength=size).astype(np.float64) for k, size in enumerate(known.shape)
        ]

    def scores(self, cells: Rows) -> Array:
        """Π_k degree_k, (n,)."""
        return _product(self._degrees, cells)

    def along(self, cells: Rows, place: int, floor: Array) -> Array:
        """The scores (n, size) with the entity at one place running over all."""
        others = [degrees[cells[:, k]] for k, degrees in enumerate(self._degrees) if k != place]
        return np.asarray(np.prod(others, axis=0).reshape(-1, 1) * self._degrees[place])

    @cached_property
    def _strengths(self) -> tuple[list[Array], float]:
        """s_k + ½ by index, and c."""
        known = self.fit.known[self.relation]
        values = known.values_at(known.written)
        strengths: list[Array] = [
            np.asarray(np.bincount(known.written[:, k], values, size) + 0.5, np.float64)
            for k, size in enumerate(known.shape)
        ]
        exposure = float(np.prod([strength.sum() for strength in strengths]))
        if known.rule is not None and all(term.in_memory for term in known.observed.terms):
            weights = known.observed
            for index, strength in zip(weights.indices, strengths):
                weights = weights * Weights.from_vector(weights.indices, weights.shape, index, strength)
            exposure = weights.total()
            values = values * known.observed.at(known.written)
        return strengths, float(values.sum()) / exposure if exposure > 0 else 0.0

    def predictive(self, cells: Rows, values: Array) -> tuple[Array, Array, Array]:
        """Mean, P(x > 0) and log predictive probability of values at cells; all (n,)."""
        strengths, c = self._strengths
        likelihood, state = self.fit.likelihood[self.relation], self.fit.likelihood_params[self.relation]
        mean = c * _product(strengths, cells)
        rate = mean / likelihood.bursts(state)[0]
        probability = -np.expm1(-rate)
        log = metrics.log_probability(values, rate, np.zeros(len(rate)), probability, likelihood, state)
        return probability if likelihood.binary else mean, probability, log

    def knows(self, cells: Rows) -> NDArray[np.bool_]:
        """Popularity knows no single link."""
        return np.zeros(len(cells), bool)


def _product(by_index: Sequence[Array], cells: Rows) -> Array:
    """Π_k of the entries of a cell's entities, (n,)."""
    product = np.ones(len(cells))
    for k, vector in enumerate(by_index):
        product *= vector[cells[:, k]]
    return product


@dataclass
class Measured:
    """Measurements so far; `seen`: a note on test links that the fit knows."""

    seen: str | None
    notes: list[str]
    by_name: dict[str, Estimate] = field(default_factory=dict)
    curves: "dict[str, pl.DataFrame]" = field(default_factory=dict)


def measure(view: Scorer, task: EvaluationProtocol, advance: Advance) -> Measured:
    """All metrics of the protocol for one scorer."""
    seen = _training_warning(view, task)
    measured = Measured(seen, [] if seen is None else [seen])
    if task.zeros:
        _on_cells(view, task, measured)
    else:
        _on_links(view, task, measured)
    measured.notes += task.notes
    if task.drawn:
        _on_negatives(view, task, measured)
    if task.places:
        cells = task.rows[task.link]
        on_axes = [ranked(view, cells, place, task.links, advance) for place in task.places]
        measured.by_name |= dict(_ranks(task, on_axes))
        measured.by_name |= dict(_among_first(task, on_axes))
        measured.notes += _absent(task)
    return measured


def _training_warning(view: Scorer, task: EvaluationProtocol) -> str | None:
    links = task.rows[task.link]
    count = int(np.count_nonzero(view.knows(links)))
    are = "is" if count == 1 else "are"
    return (
        (f"{count:,} of {len(links):,} test links {are} in the training data: the metrics are too optimistic")
        if count
        else None
    )


# --- over the rows of the test


def _on_cells(view: Scorer, task: EvaluationProtocol, measured: Measured) -> None:
    """Metrics over the links and zeros of the test set."""
    result, link = measured.by_name, task.link
    mean, probability, log = view.predictive(task.rows, task.values)
    score = view.scores(task.rows) if view.by_rate else probability
    _on_scores(link, score, measured)
    for place in range(len(task.indices) if len(task.indices) > 1 else 0):
        query, _ = queries(task.rows, place, task.links.shape)
        _add_within(link, score, query, f"within_{task.indices[place]}", measured)
    _add_log_likelihood(log, "", measured)
    result["brier"] = estimates.mean((probability - link) ** 2)
    result["rmse"] = estimates.root_mean_square(task.values, mean)
    result["mae"] = estimates.mean(np.abs(mean - task.values))
    bins = metrics.calibration(link, probability)
    result["calibration_error"] = estimates.calibration_error(bins, link, probability)
    measured.curves["calibration"] = _table(bins)


def _on_scores(link: Flags, score: Array, measured: Measured) -> None:
    """Metrics and curves of scores (n,)."""
    measured.by_name["roc_auc"] = estimates.roc_auc(link, score)
    measured.by_name["average_precision"] = estimates.average_precision(link, score)
    measured.curves |= {"roc": roc(link, score), "precision_recall": precision_recall(link, score)}


def _table(bins: metrics.CalibrationBins) -> "pl.DataFrame":
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
    """Metrics over the test links alone."""
    mean, _, log = view.predictive(task.rows, task.values)
    _add_log_likelihood(log, "_links", measured)
    measured.by_name["rmse_links"] = estimates.root_mean_square(task.values, mean)
    measured.by_name["mae_links"] = estimates.mean(np.abs(mean - task.values))
    measured.notes.append("no Brier score and no calibration: the test has no zeros")


def _add_log_likelihood(log: Array, suffix: str, measured: Measured) -> None:
    impossible = int(np.count_nonzero(~np.isfinite(log)))
    if impossible:
        cells = "cell has" if impossible == 1 else "cells have"
        measured.notes.append(f"no log_likelihood{suffix}: {impossible:,} test {cells} a predicted probability of 0")
        return
    measured.by_name[f"log_likelihood{suffix}"] = estimates.mean(log)
    measured.by_name[f"log_likelihood{suffix}_sum"] = estimates.total(log)


# --- with drawn negatives


def _on_negatives(view: Scorer, task: EvaluationProtocol, measured: Measured) -> None:
    """Metrics of the test links with each set of drawn negatives."""
    cells = task.rows[task.link]
    score, *others = np.split(
        view.scores(np.concatenate([cells, *(drawn.cells for drawn in task.drawn)])),
        np.cumsum([len(cells), *(len(drawn.cells) for drawn in task.drawn)])[:-1],
    )
    for drawn, own in zip(task.drawn, others):
        how = drawn.how if drawn.place is None else f"{drawn.how}_{task.indices[drawn.place]}"
        if not len(drawn.cells):
            measured.notes.append(f"no roc_auc_{how}, no average_precision_{how}: there are no such negatives")
            continue
        both = np.concatenate([score, own])
        link = np.arange(len(both)) < len(score)
        _add_negatives(link, both, drawn, how, measured)
        if drawn.place is not None and len(task.indices) > 1:
            query, _ = queries(np.concatenate([cells, drawn.cells]), drawn.place, task.links.shape)
            _add_within(link, both, query, f"{drawn.how}_within_{task.indices[drawn.place]}", measured)


def _add_negatives(link: Flags, score: Array, drawn: NegativeSample, how: str, measured: Measured) -> None:
    for name, figure in (("roc_auc", estimates.roc_auc), ("average_precision", estimates.average_precision)):
        estimate = figure(link, score)
        if drawn.of is not None:  # scores of a link and its corruptions are correlated
            estimate = estimate.by_unit(np.concatenate([np.arange(np.count_nonzero(link)), drawn.of]))
        measured.by_name[f"{name}_{how}"] = estimate


def _add_within(link: Flags, score: Array, query: Rows, how: str, measured: Measured) -> None:
    """AUC and average precision within queries, averaged over those with links and negatives."""
    auc, precision = metrics.within(link, score, query)
    if not len(auc):
        measured.notes.append(f"no roc_auc_{how}, no average_precision_{how}: no query has both links and zeros")
        return
    measured.by_name[f"roc_auc_{how}"] = estimates.mean(auc)
    measured.by_name[f"average_precision_{how}"] = estimates.mean(precision)


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
    # A link is one unit on any number of axes.
    yield from ((name, estimates.together(own)) for name, own in together.items())


def _among_first(task: EvaluationProtocol, on_axes: Sequence[Ranked]) -> Iterator[tuple[str, Estimate]]:
    """recall_at_10, … over queries; also by axis where there are several."""
    several = len(on_axes) > 1
    items = [standing(own.query, own.score, own.above, own.tied) for own in on_axes]
    for k in task.first:
        by_axis = [figures_at(own, k) for own in items]
        for name in by_axis[0]:
            if several:
                for place, ranks in zip(task.places, by_axis):
                    yield f"{name}[{task.indices[place]}]", estimates.mean(ranks[name])
            yield name, estimates.mean(np.concatenate([ranks[name] for ranks in by_axis]))


def _absent(task: EvaluationProtocol) -> list[str]:
    """Notes on candidates without a link in the relation, which probably belong to other relations."""
    links, counts = task.links, dict[str, tuple[int, int]]()
    for place in task.places:
        counts[task.indices[place]] = links.shape[place] - len(links.present[place]), links.shape[place]
    return [
        f"{few:,} of the {size:,} candidates for {index} have no link in {task.relation}"
        for index, (few, size) in counts.items()
        if few
    ]
