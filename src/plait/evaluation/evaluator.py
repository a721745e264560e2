"""What `plait.evaluate` gives: figures by name, how well probabilities are calibrated, and what is to be known.

`plait.evaluate`: how well a fit predicts cells that it has not seen.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plait.errors import LeakWarning, warn_of
from plait.evaluation.measure import Measured, measure, measure_popularity
from plait.evaluation.protocol import EvaluationProtocol, TestOptions, build_protocol, check_options
from plait.evaluation.scorer import Scorer
from plait.progress import counting
from plait.rendering.document import Block, Document, Note, Table

if TYPE_CHECKING:
    import polars as pl

    from plait.plotting.plots import MetricsPlot
    from plait.result import Fit

CALIBRATION = ("bin", "cells", "predicted", "observed")


@dataclass(frozen=True, eq=False, repr=False)
class Metrics(Mapping[str, float]):
    """Figures by name; ``metrics["roc_auc"]``. What each means, `plait.evaluate` says.

    calibration: a polars table with the columns bin, cells, predicted (mean probability), observed (share of links),
    lower and upper (the ends of the bin) and error (standard error of observed). roc: the ROC curve, with the columns
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
        from plait.plotting.plots import MetricsPlot

        return MetricsPlot(self)

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
        from plait.plotting.pictures import calibration

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


UNSEEN = "Test by links that it has not seen, such as plait.train_test_split sets aside."


def evaluate(
    fit: "Fit",
    relation: str,
    test: Any,
    *,
    score: str = "mean",
    target: bool | str | Sequence[str] | None = None,
    k: int | Sequence[int] | None = None,
    negatives: int | None = None,
    known: Any = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Metrics:
    """Measure how well a fit predicts the cells of a test, such as that of `plait.train_test_split`.

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
    query. These are different questions, and precision depends on how many are drawn: `negatives` for each link, 1
    unless told. If it is told, non-links are drawn beside the zeros of the test too, and 0 draws none. Probabilities
    are not judged by such a mixture: log_likelihood_links, rmse_links and mae_links are over the test links alone.

    target: an index, several, or True for all of them. Every test link is ranked among all entities of that index, the
    other entities given: mrr, hits_at_1, hits_at_3, hits_at_10, mean_rank, where other known links of the fit, other
    test links and closed cells do not count (filtered), and the same _raw, where they do. Ties have their expected
    rank, the mean of the best and worst. Several indices: mrr[tail] and so on for each, and over all of them.

    k: how many of the first to look at, with `target`; several are allowed. A query is everything of a test link but
    the entity on that index, and all test links that share it are relevant; the candidates are all entities of the
    index but those of known links and closed cells. The mean over queries of recall_at_10: the share of the relevant
    that are among the first 10. precision_at_10: the share of 10 that is relevant. ndcg_at_10: Σ 1/log₂(1 + place) over
    the relevant, over its largest possible value. map_at_10: the precision at each of the relevant among the first 10,
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
    options = TestOptions(score, target, k, negatives, known, seed)
    check_options(options)
    view = Scorer(fit, relation, score)
    task = build_protocol(fit, [], relation, test, options)
    with counting("ranking", len(task.places) * int(task.link.sum()), progress) as advance:
        measured = measure(view, task, advance)
    if measured.seen is not None:
        warn_of([LeakWarning(f"{measured.seen}.", location=relation, hint=UNSEEN)])
    return report(task, measured, measure_popularity(view, task))


def report(task: EvaluationProtocol, measured: Measured, popular: Measured | None = None) -> Metrics:
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
