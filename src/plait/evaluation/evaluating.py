"""`plait.evaluate`: how well a fit predicts cells that it has not seen."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import LeakWarning
from plait.evaluation.evaluation import Metrics
from plait.evaluation.measuring import Measured, measure, measure_popularity
from plait.evaluation.task import TestOptions, TestTask, check_options, set_task
from plait.evaluation.view import View
from plait.fitting.progress import counting
from plait.warn import warn_of

if TYPE_CHECKING:
    from plait.result import Fit

UNSEEN = "Test by links that it has not seen, such as plait.hide sets aside."


def evaluate(
    fit: "Fit",
    relation: str,
    test: Any,
    *,
    score: str = "mean",
    rank: bool | str | Sequence[str] | None = None,
    k: int | Sequence[int] | None = None,
    nonlinks: int | None = None,
    known: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Metrics:
    """Measure how well a fit predicts the cells of a test, such as that of `plait.hide`.

    test: a table with a column for each index and one of values, named as the indices and `value`, or as the data of
    the fit named them; without a column of values every row is a link, and then no other column may be there. Or a
    `plait.Relation` that says more: columns, value, duplicates, an array (NaN is not tested), and by missing or hidden
    what is not tested; a weight is refused. Only listed cells are tested. A link is a value over 0. score: what cells
    are ranked by: "mean", "probability" or "rate" of `fit.predict`.

    With zeros in the test, over its cells:

    - roc_auc, average_precision: of the scores, as scikit-learn defines them.
    - roc_auc_within_artist, average_precision_within_artist, …: the same inside each query, everything but the artist
      given; the mean over the queries with both links and zeros.
    - log_likelihood: mean over cells of the log predictive probability of the value, log_likelihood_sum their sum.
      Bernoulli: log p or log(1 − p). Poisson: the same for 0, and for counts the negative binomial of the predictive
      moments, given that it is a link (the Poisson distribution for EM and MAP, whose rates are certain).
    - brier: mean of (P(x > 0) − link)². rmse, mae: of the mean against the value.
    - calibration_error: mean |predicted − observed| over the bins of `metrics.calibration`, weighted by their cells:
      15 bins of equal numbers of cells, in the order of their probabilities; equal probabilities stay in one bin.
    - `metrics.roc` and `metrics.precision_recall` are the curves, `metrics.baseline` the figures and curves of
      popularity, the product of the numbers of known links of a cell's entities: what a model must beat.

    Without zeros, non-links are drawn among the cells that are no known or tested links and that no rule closes (see
    `Fit.top`), of entities that have such a link: roc_auc_uniform and average_precision_uniform from all these cells;
    roc_auc_corrupt_artist, … by replacing that entity of a test link, and roc_auc_corrupt_within_artist, … inside each
    query. These are different questions, and precision depends on how many are drawn: `nonlinks` for each link, 1
    unless told. If it is told, non-links are drawn beside the zeros of the test too, and 0 draws none. Probabilities
    are not judged by such a mixture: log_likelihood_links, rmse_links and mae_links are over the test links alone.

    rank: an index, several, or True for all of them. Every test link is ranked among all entities of that index, the
    other entities given: mrr, hits_at_1, hits_at_3, hits_at_10, mean_rank, where other known links of the fit, other
    test links and closed cells do not count (filtered), and the same _raw, where they do. Ties have their expected
    rank, the mean of the best and worst. Several indices: mrr[tail] and so on for each, and over all of them.

    k: how many of the first to look at, with `rank`; several are allowed. A query is everything of a test link but the
    entity on that index, and all test links that share it are relevant; the candidates are all entities of the index
    but those of known links and closed cells. The mean over queries of recall_at_10: the share of the relevant that
    are among the first 10. precision_at_10: the share of 10 that is relevant. ndcg_at_10: Σ 1/log₂(1 + place) over the
    relevant, over its largest possible value. map_at_10: the precision at each of the relevant among the first 10,
    added up, over the largest possible number of them. Of ties, the expected value over all their orders.

    known: a table of further links, or several, that are no news though the fit has not seen them, such as those of a
    validation set: they are left out of rankings and never drawn as non-links. Columns as in a test; rows of value 0
    say nothing, and so do names that the fit does not know.

    `metrics.errors` has the standard errors of the figures, where a test of more than one unit tells them: the units
    (cells, links, queries) are taken as drawn at random, the fit as given. seed: of what is drawn. progress: whether
    to show a bar while links are ranked; None: on a terminal, where it takes long.

    A figure that cannot be had is left out, and `metrics.notes` says why. Test links that the fit knows are measured
    like others, but noted and warned of (`LeakWarning`): predicting them is no feat. Of zeros a fit does not remember
    which it has seen. A cell stands in the test once.
    """
    options = TestOptions(score, rank, k, nonlinks, known, seed)
    check_options(options)
    view = View(fit, relation, score)
    task = set_task(fit, [], relation, test, options)
    with counting("ranking", len(task.places) * int(task.link.sum()), progress) as advance:
        measured = measure(view, task, advance)
    if measured.seen is not None:
        warn_of([LeakWarning(f"{measured.seen}.", location=relation, hint=UNSEEN)])
    return report(task, measured, measure_popularity(view, task))


def report(task: TestTask, measured: Measured, popular: Measured | None = None) -> Metrics:
    """What has been measured, for the user; popular: what popularity makes of the same test."""
    errors = {name: figure.error for name, figure in measured.found.items()}
    return Metrics(
        figures={name: figure.value for name, figure in measured.found.items()},
        relation=task.relation,
        links=int(task.link.sum()),
        zeros=task.zeros,
        calibration=measured.calibration,
        notes=tuple(measured.notes),
        errors={name: error for name, error in errors.items() if error is not None},
        roc=measured.roc,
        precision_recall=measured.precision_recall,
        baseline=None if popular is None else report(task, popular),
    )
