"""`plait.evaluate`: how well a fit predicts cells that it has not seen."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plait.errors import DataError, SettingError, suggestion
from plait.evaluation import metrics
from plait.evaluation.nonlinks import Links, corrupted, uniform
from plait.evaluation.ranking import ranking
from plait.evaluation.report import Metrics
from plait.evaluation.tested import read_test
from plait.evaluation.twins import LeakWarning
from plait.settings import one_of

if TYPE_CHECKING:
    import polars as pl

    from plait.result import Fit

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

UNSEEN = "Test by links that it has not seen, such as plait.hide sets aside."

SCORES = ("mean", "probability", "rate")


def evaluate(
    fit: "Fit",
    relation: str,
    test: Any,
    *,
    score: str = "mean",
    rank: bool | str | Sequence[str] | None = None,
    nonlinks: int | None = None,
    seed: int = 0,
) -> Metrics:
    """Measure how well a fit predicts the cells of a test, such as that of `plait.hide`.

    test: a table with a column for each index and one of values, named as the indices and `value`, or as the data of
    the fit named them; without a column of values every row is a link, and then no other column may be there. Or a
    `plait.Relation` that says more: columns, value, duplicates, an array (NaN is not tested), and by missing or hidden
    what is not tested; a weight is refused. Only listed cells are tested. A link is a value over 0. score: what cells
    are ranked by: "mean", "probability" or "rate" of `fit.predict`.

    With zeros in the test, over its cells:

    - roc_auc, average_precision: of the scores, as scikit-learn defines them.
    - log_likelihood: mean over cells of the log predictive probability of the value, log_likelihood_sum their sum.
      Bernoulli: log p or log(1 − p). Poisson: the same for 0, and for counts the negative binomial of the predictive
      moments, given that it is a link (the Poisson distribution for EM and MAP, whose rates are certain).
    - brier: mean of (P(x > 0) − link)². rmse, mae: of the mean against the value.
    - calibration_error: mean |predicted − observed| over the bins of `metrics.calibration`, weighted by their cells.

    Without zeros, non-links are drawn among the cells that are no known or tested links and that no rule closes (see
    `Fit.top`), of entities that have such a link: roc_auc_uniform and average_precision_uniform from all these cells;
    roc_auc_corrupt_artist, … by replacing that entity of a test link. These are different questions, and precision
    depends on how many are drawn: `nonlinks` for each link, 1 unless told. If it is told, non-links are drawn beside
    the zeros of the test too, and 0 draws none. Probabilities are not judged by such a mixture: log_likelihood_links,
    rmse_links and mae_links are over the test links alone.

    rank: an index, several, or True for all of them. Every test link is ranked among all entities of that index, the
    other entities given: mrr, hits_at_1, hits_at_3, hits_at_10, mean_rank, where other known links of the fit, other
    test links and closed cells do not count (filtered), and the same _raw, where they do. Ties have their expected
    rank, the mean of the best and worst. Several indices: mrr[tail] and so on for each, and over all of them.

    A figure that cannot be had is left out, and `metrics.notes` says why. Test links that the fit knows are measured
    like others, but noted and warned of (`LeakWarning`): predicting them is no feat. Of zeros a fit does not remember
    which it has seen. A cell stands in the test once.
    """
    one_of("score", score, SCORES)
    task = _task(fit, relation, test, score)
    axes = _axes(rank, task.indices)
    drawn = _drawn(nonlinks, seed, task)
    figures = Figures(notes=_seen(task))
    if figures.notes:
        warnings.warn(f"{relation}: {figures.notes[0]}.\n{UNSEEN}", LeakWarning, stacklevel=2)
    if task.zeros:
        _on_cells(task, figures)
    else:
        _on_links(task, figures)
    links = Links(fit.known[relation], task.rows[task.link], [fit.model.axis(index) for index in task.indices])
    if drawn:
        _on_sampled(task, links, drawn, np.random.default_rng(seed), figures)
    if axes:
        figures.found |= ranking(fit, relation, task.rows[task.link], axes, links, score)
        figures.notes += _absent(links, axes, task)
    return Metrics(figures.found, relation, int(task.link.sum()), task.zeros, figures.calibration, tuple(figures.notes))


@dataclass(frozen=True, eq=False)
class Task:
    """The test as row numbers (n, order) and values (n,)."""

    fit: "Fit"
    relation: str
    indices: tuple[str, ...]
    rows: Rows
    values: Floats
    score: str

    @property
    def link(self) -> NDArray[np.bool_]:
        """Which rows are links."""
        return self.values > 0

    @property
    def zeros(self) -> int:
        """How many rows are zeros."""
        return int(np.count_nonzero(self.values == 0))

    def scores(self, rows: Rows) -> Floats:
        """What cells (n, order) are ranked by."""
        from plait.predict.chance import score

        return score(self.fit, self.relation, rows, self.score)


@dataclass
class Figures:
    """What has been measured so far."""

    found: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    calibration: "pl.DataFrame | None" = None


def _task(fit: "Fit", relation: str, test: Any, score: str) -> Task:
    """Read and check the test."""
    rows, values = read_test(fit, relation, test)
    if not (values > 0).any():
        what = "is empty" if not len(values) else f"has {len(values):,} zeros and no link"
        raise DataError(f"test of {relation}: it {what}, so nothing can be measured.\nHide more, or give links.")
    return Task(fit, relation, fit.model.equation(relation).indices, rows, values, score)


def _seen(task: Task) -> list[str]:
    """A note on test links that the fit knows, if there are any."""
    links = task.rows[task.link]
    seen = int(np.count_nonzero(task.fit.known[task.relation].contain(links)))
    if not seen:
        return []
    are = "is" if seen == 1 else "are"
    return [f"{seen:,} of {len(links):,} test links {are} known to the fit: the figures flatter it"]


def _axes(rank: Any, indices: tuple[str, ...]) -> tuple[str, ...]:
    """The indices on which to rank."""
    if rank is None or rank is False:
        return ()
    axes = indices if rank is True else (rank,) if isinstance(rank, str) else tuple(rank)
    for axis in axes:
        if axis not in indices:
            raise SettingError(
                f"rank names {axis!r}, which is no index of the relation.\n"
                f"{suggestion(axis, indices)}It has {', '.join(indices) or 'none'}."
            )
    return tuple(dict.fromkeys(axes))


def _absent(links: Links, axes: Sequence[str], task: Task) -> list[str]:
    """Notes on candidates of a ranking that have no link in the relation: most likely they belong to other ones."""
    places = [task.indices.index(axis) for axis in axes]
    counts = {task.indices[k]: (links.shape[k] - len(links.present[k]), links.shape[k]) for k in places}
    return [
        f"{few:,} of the {size:,} candidates for {index} have no link in {task.relation}"
        for index, (few, size) in counts.items()
        if few
    ]


def _drawn(nonlinks: Any, seed: Any, task: Task) -> int:
    """How many non-links to draw for each link."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise SettingError(f"seed must be a whole number, 0 or more, got {seed!r}.")
    if nonlinks is None:
        return 0 if task.zeros else 1
    if isinstance(nonlinks, bool) or not isinstance(nonlinks, (int, np.integer)) or nonlinks < 0:
        raise SettingError(f"nonlinks must be a whole number, 0 or more, for each link, got {nonlinks!r}.")
    return int(nonlinks)


def _on_cells(task: Task, figures: Figures) -> None:
    """Figures over the links and zeros of the test."""
    import polars as pl

    found, link = figures.found, task.link
    score = task.scores(task.rows)
    found["roc_auc"] = metrics.roc_auc(link, score)
    found["average_precision"] = metrics.average_precision(link, score)
    mean, probability, log = _predictive(task, task.rows, task.values)
    _add_log_likelihood(log, "", figures)
    found["brier"] = metrics.brier(link, probability)
    found["rmse"] = metrics.rmse(task.values, mean)
    found["mae"] = metrics.mae(task.values, mean)
    bins = metrics.calibration(link, probability)
    found["calibration_error"] = bins.error
    names = [f"{low:.1f}–{high:.1f}" for low, high in zip(bins.low, bins.high)]
    columns = {"bin": names, "cells": bins.cells, "predicted": bins.predicted, "observed": bins.observed}
    figures.calibration = pl.DataFrame(columns)


def _on_links(task: Task, figures: Figures) -> None:
    """Figures over the test links alone."""
    mean, _, log = _predictive(task, task.rows, task.values)
    _add_log_likelihood(log, "_links", figures)
    figures.found["rmse_links"] = metrics.rmse(task.values, mean)
    figures.found["mae_links"] = metrics.mae(task.values, mean)
    figures.notes.append("the test lists no zeros: brier and calibration are left out")


def _predictive(task: Task, rows: Rows, values: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, P(x > 0) and log predictive probability of values at cells; all (n,)."""
    from plait.predict.chance import columns

    bernoulli = task.fit.likelihood[task.relation] == "bernoulli"
    rate = "rate" if bernoulli else "mean"
    found = columns(task.fit, task.relation, rows, (rate, "variance", "probability"))
    moments, probability = (found[rate], found["variance"]), found["probability"]
    if bernoulli:
        return probability, probability, metrics.log_link(values > 0, *moments, probability)
    return found["mean"], probability, metrics.log_probability(values, *moments, probability)


def _add_log_likelihood(log: Floats, suffix: str, figures: Figures) -> None:
    impossible = int(np.count_nonzero(~np.isfinite(log)))
    if impossible:
        cells = "cell has" if impossible == 1 else "cells have"
        figures.notes.append(
            f"log_likelihood{suffix} is left out: {impossible:,} test {cells} a predicted probability of 0"
        )
        return
    figures.found[f"log_likelihood{suffix}"] = float(np.mean(log))
    figures.found[f"log_likelihood{suffix}_sum"] = float(np.sum(log))


def _on_sampled(task: Task, links: Links, drawn: int, rng: np.random.Generator, figures: Figures) -> None:
    """Figures of the test links beside cells that are drawn; one set from all cells, one for each index."""
    cells = task.rows[task.link]
    score = task.scores(cells)
    figures.notes.append(f"non-links are drawn, {drawn} for each test link")
    others = uniform(links, drawn * len(cells), rng)
    _add_sampled(task, score, others, "uniform", figures)
    for place, index in enumerate(task.indices):
        changed, possible = corrupted(links, np.repeat(cells, drawn, axis=0), place, rng)
        without = int(np.count_nonzero(~possible.reshape(-1, drawn).any(axis=1)))
        if 0 < without < len(cells):
            figures.notes.append(
                f"{without:,} of the test links would be known links with any {index}: not corrupted there"
            )
        _add_sampled(task, score, changed[possible], f"corrupt_{index}", figures)


def _add_sampled(task: Task, links: Floats, others: Rows, how: str, figures: Figures) -> None:
    if not len(others):
        figures.notes.append(f"roc_auc_{how} and average_precision_{how} are left out: there is no such non-link")
        return
    link = np.arange(len(links) + len(others)) < len(links)
    score = np.concatenate([links, task.scores(others)])
    figures.found[f"roc_auc_{how}"] = metrics.roc_auc(link, score)
    figures.found[f"average_precision_{how}"] = metrics.average_precision(link, score)
