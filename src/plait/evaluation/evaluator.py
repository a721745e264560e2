"""Evaluation of a fit on held-out cells: `plait.evaluate` and its `Metrics`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plait.analysis.predict.prediction import neg_log_p_zero
from plait.data.sources.tables import POLARS, as_kind
from plait.errors import OF_EVALUATE, LeakWarning, UnknownNameError, refusing_unknown, warn_of
from plait.evaluation import metrics
from plait.evaluation.calibrate import has_sampled_zeros
from plait.evaluation.measure import Measured, PopularityScorer, measure
from plait.evaluation.protocol import EvaluationProtocol, TestOptions, build_protocol, check_options
from plait.evaluation.scorer import Scorer
from plait.progress import counting
from plait.rendering.document import Block, Document, Note, Table

if TYPE_CHECKING:
    import polars as pl
    from narwhals.stable.v2.typing import IntoDataFrame

    from plait.plotting.plots import MetricsPlot
    from plait.result import Fit

CALIBRATION = ("bin", "cells", "predicted", "observed")
MIN_RATIO_LINKS = 200  # of a bin that compares predicted and observed numbers of links
# Metrics of the summary, each with its substitute for a test without zeros.
SUMMARY = (
    ("average_precision", "average_precision_uniform"),
    ("roc_auc", "roc_auc_uniform"),
    ("mrr",),
    ("calibration_error",),
    ("log_likelihood", "log_likelihood_links"),
)
LISTS = ("recall_at_", "precision_at_", "ndcg_at_", "map_at_")  # in the summary if `k` is given


@dataclass(frozen=True, eq=False, repr=False)
class Metrics(Mapping[str, float]):
    """Metrics of a fit on a test, by name: ``metrics["roc_auc"]``.

    A metric that the test cannot determine is absent, and ``notes`` says why.

    Attributes
    ----------
    relation : str
        Name of the relation.
    links, zeros : int
        Number of links and zeros in the test.
    errors : dict of str to float
        Standard errors of the metrics, by name.
    notes : tuple of str
        Remarks on the metrics.
    calibration : table or None
        Bins of predicted probabilities: ``bin``, ``cells``, ``predicted``, ``observed``,
        ``lower``, ``upper`` and ``error``. ``None`` without zeros.
    roc : table or None
        ROC curve: ``false_positive_rate``, ``true_positive_rate`` and ``error``.
    precision_recall : table or None
        Precision-recall curve: ``recall``, ``precision`` and ``error``.
    baseline : Metrics or None
        Metrics and curves of the popularity baseline on the same test; no calibration curve.
    figures : dict of str to float
        The metrics.
    plot : MetricsPlot
        Charts.

    Examples
    --------
    >>> metrics = plait.evaluate(plait.fit(model, train, **quick), "visits", test)
    >>> metrics.links, metrics.zeros
    (6, 2)
    >>> sorted(metrics.errors)[:2]
    ['average_precision', 'brier']
    """

    figures: Mapping[str, float]
    relation: str
    links: int
    zeros: int
    notes: tuple[str, ...] = ()
    errors: Mapping[str, float] = field(default_factory=dict)
    baseline: "Metrics | None" = None
    curves: "Mapping[str, pl.DataFrame]" = field(default_factory=dict)
    kind: str = POLARS

    @property
    def calibration(self) -> "IntoDataFrame | None":
        """Predicted and observed shares of links in 15 bins; ``None`` without zeros.

        The columns are ``bin``, ``cells``, ``predicted`` (mean probability), ``observed`` (share of
        links), ``lower`` and ``upper`` (ends of the bin) and ``error`` (standard error of
        ``observed``).
        """
        return self._table("calibration")

    @property
    def roc(self) -> "IntoDataFrame | None":
        """ROC curve; ``None`` without zeros.

        The columns are ``false_positive_rate``, ``true_positive_rate`` and its standard error,
        ``error``. The curve has at most 500 points.
        """
        return self._table("roc")

    @property
    def precision_recall(self) -> "IntoDataFrame | None":
        """Precision-recall curve; ``None`` without zeros.

        The columns are ``recall``, ``precision`` and its standard error, ``error``. The curve has
        at most 500 points.
        """
        return self._table("precision_recall")

    def _table(self, name: str) -> "IntoDataFrame | None":
        return as_kind(self.curves[name], self.kind) if name in self.curves else None

    def __getitem__(self, name: str) -> float:
        if name not in self.figures:
            raise UnknownNameError.of("metric", name, self.figures)
        return self.figures[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics in types that JSON can hold.

        Returns
        -------
        dict
            ``relation``, ``links``, ``zeros``, ``metrics``, ``errors``, ``calibration``,
            ``popularity`` and ``notes``. The curves are not included.

        Examples
        --------
        >>> metrics = plait.evaluate(plait.fit(model, train, **quick), "visits", test)
        >>> metrics.to_dict()["relation"]
        'visits'
        """
        bins = self.curves.get("calibration")
        return {
            "relation": self.relation,
            "links": self.links,
            "zeros": self.zeros,
            "metrics": dict(self.figures),
            "errors": dict(self.errors),
            "calibration": None if bins is None else bins.to_dicts(),
            "popularity": None if self.baseline is None else dict(self.baseline.figures),
            "notes": list(self.notes),
        }

    @property
    def plot(self) -> "MetricsPlot":
        """Charts: ``calibration``, ``roc`` and ``precision_recall``.

        Requires ``pip install 'tensorplait[report]'``.
        """
        from plait.plotting.plots import MetricsPlot

        return MetricsPlot(self)

    def __repr__(self) -> str:
        return str(self)

    def table(self) -> "IntoDataFrame":
        """Return all metrics, one per row, next to those of popularity.

        Returns
        -------
        table
            Columns ``metric``, ``value``, ``error`` (standard error) and ``popularity``.

        Examples
        --------
        >>> metrics = plait.evaluate(plait.fit(model, train, **quick), "visits", test)
        >>> metrics.table().columns
        ['metric', 'value', 'error', 'popularity']
        """
        import polars as pl

        other = {} if self.baseline is None else self.baseline.figures
        rows = [(name, value, self.errors.get(name), other.get(name)) for name, value in self.figures.items()]
        kinds = {"metric": pl.String, "value": pl.Float64, "error": pl.Float64, "popularity": pl.Float64}
        return as_kind(pl.DataFrame(rows, kinds, orient="row"), self.kind)

    def __str__(self) -> str:
        from plait.rendering.text import render

        return render(self.describe())

    def _repr_html_(self) -> str:
        from plait.rendering.html import render

        return render(self.describe())

    def describe(self, *, every: bool = False) -> Document:
        """The summary as a document, or every metric with the bins of the calibration."""
        from plait.plotting.pictures import calibration

        brief = [name for names in SUMMARY for name in names if name in self.figures]
        brief += [name for name in self.figures if name.startswith(LISTS) and "[" not in name]
        chosen = list(self.figures) if every or not brief else brief
        blocks: list[Block] = [figure_table(self, chosen)]
        bins = self.curves.get("calibration")
        if bins is not None and every:
            blocks.append(Table(CALIBRATION, bins.select(CALIBRATION).rows(), "Calibration"))
        if bins is not None:
            blocks.append(calibration(self))
        notes = list(self.notes)
        if len(chosen) < len(self.figures):
            notes.append(f"all {len(self.figures)} metrics: `metrics.table()`, or `--all` on the command line")
        return Document(self.title(), (*blocks, *map(Note, notes)), self.to_dict())

    def title(self) -> str:
        """The relation, and what the test has of links and zeros."""
        links, zeros = ("" if count == 1 else "s" for count in (self.links, self.zeros))
        return f"{self.relation}: {self.links:,} test link{links}, {self.zeros:,} test zero{zeros}"


def figure_table(metrics: Metrics, names: Sequence[str]) -> Table:
    """Some metrics with their standard errors, next to those of popularity."""
    other = None if metrics.baseline is None else metrics.baseline.figures
    head = ("metric", "this fit", "± se", *(() if other is None else ("popularity",)))
    rows = []
    for name in names:
        other_columns = () if other is None else (format_figure(other[name]) if name in other else "–",)
        rows.append((name, format_figure(metrics[name]), error(metrics.errors.get(name)), *other_columns))
    return Table(head, rows)


def format_figure(figure: float) -> str:
    """A figure with four decimals, or six digits where it is large."""
    return f"{figure:,.4f}" if abs(figure) < 1000 else f"{figure:,.1f}"


def error(of_figure: float | None) -> str:
    """A standard error after its figure, if there is one."""
    return "" if of_figure is None else f"± {format_figure(of_figure)}"


UNSEEN = "Use held-out links as a test, such as those of plait.train_test_split."


@refusing_unknown("plait.evaluate", OF_EVALUATE)
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
    """Measure how well a fit predicts held-out cells.

    Parameters
    ----------
    fit : Fit
        The fit.
    relation : str
        Name of the relation.
    test : table or Relation
        The cells, as `plait.train_test_split` returns them: one column per index, and
        ``value``. Without values every row is a link. A `Relation` may set ``columns``,
        ``value``, ``duplicates``, ``missing`` and ``hidden``.
    score : one of "mean", "probability", "rate", default "mean"
        Column of `Fit.predict` that ranks cells.
    target : bool, str or sequence of str, default None
        Index whose entities are ranked for each test link, or ``True`` for every index.
    k : int or sequence of int, default None
        Cut-offs of the metrics at k; requires ``target``.
    negatives : int, default None
        Number of sampled non-links per test link. The default is 1 for a test without zeros
        and 0 otherwise.
    known : table or list of tables, default None
        Further known links, such as those of a validation set. They are not ranked and not
        sampled.
    seed : int, default 0
        Random seed of the sampled non-links.
    progress : bool or None, default None
        Whether to show a bar while links are ranked. ``None`` shows it on a terminal.

    Returns
    -------
    Metrics
        The metrics by name, with standard errors, calibration, curves and a baseline.

    Raises
    ------
    plait.errors.DataError
        If the test cannot be read, lists a cell twice, or has unknown entities.
    plait.errors.ParameterError
        If an option is wrong.

    Warns
    -----
    plait.errors.LeakWarning
        If the test contains links of the training data.

    Notes
    -----
    With zeros in the test:

    - ``roc_auc``, ``average_precision``: over all cells. ``…_within_user``: the mean over
      queries, each with all other indices fixed.
    - ``log_likelihood``, ``log_likelihood_sum``: mean and sum of the log predictive
      probability of the values.
    - ``brier``: mean squared error of the probability of a link. ``rmse``, ``mae``: errors of
      the mean.
    - ``calibration_error``: mean difference of predicted and observed shares over 15 bins of
      equal size.

    Without zeros, non-links are sampled from cells that are neither known nor tested:

    - ``roc_auc_uniform``, ``average_precision_uniform``: sampled from all such cells.
    - ``…_corrupt_user``: sampled by replacing the user of a test link.
      ``…_corrupt_within_user``: the same inside each query.
    - ``log_likelihood_links``, ``rmse_links``, ``mae_links``: over the test links only.

    With ``target``, each test link is ranked among all entities of the index:

    - ``mrr``, ``hits_at_1``, ``hits_at_3``, ``hits_at_10``, ``mean_rank``: filtered, that is
      without other known and test links. ``…_raw``: unfiltered. Ties have their expected rank.
    - with ``k``: ``recall_at_k``, ``precision_at_k``, ``ndcg_at_k``, ``map_at_k``, the means
      over queries. Ties have their expected value over all orders.

    The popularity baseline scores a cell by the product of the numbers of known links of its
    entities. Its rate is proportional to the product of the sums of their known values plus ½,
    scaled so that the rates of all observed cells add up to the known values.
    Standard errors treat cells, links or queries as a random sample, and the fit as given.

    Guide: <https://tensorplait.github.io/tensorplait/evaluation.html>.

    Examples
    --------
    >>> trained = plait.fit(model, train, **quick)
    >>> metrics = plait.evaluate(trained, "visits", test, target="place", k=2)
    >>> "roc_auc" in metrics, "mrr" in metrics, "recall_at_2" in metrics
    (True, True, True)
    """
    options = TestOptions(score, target, k, negatives, known, seed)
    check_options(options)
    view = Scorer(fit, relation, score)
    task = build_protocol(fit, [], relation, test, options)
    with counting("ranking", len(task.places) * int(task.link.sum()), progress) as advance:
        measured = measure(view, task, advance)
    if measured.seen is not None:
        warn_of([LeakWarning(f"{measured.seen}.", location=relation, hint=UNSEEN)])
    measured.notes += _calibration_note(fit, task)
    popularity = measure(PopularityScorer(fit, relation, "rate"), task, lambda more: None)
    popularity.curves.pop("calibration", None)  # charts of calibration show models alone
    return report(task, measured, popularity)


def _calibration_note(fit: "Fit", task: EvaluationProtocol) -> list[str]:
    """A hint where probabilities of a random sample of cells are clearly too high or too low."""
    if (
        task.link.sum() < MIN_RATIO_LINKS
        or not task.zeros
        or has_sampled_zeros(fit, task.relation, task.rows, task.link)
    ):
        return []
    miss = neg_log_p_zero(fit, task.relation, task.rows)
    ratios, right = metrics.link_ratios(task.link, miss, MIN_RATIO_LINKS)
    if right.all():
        return []
    found = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (ratios.min(), ratios.max())))
    return [
        f"predicted ÷ observed links are {found} in bins of {MIN_RATIO_LINKS} links: `calibrate` on held-out cells "
        "corrects probabilities"
    ]


def report(task: EvaluationProtocol, measured: Measured, popular: Measured | None = None) -> Metrics:
    """Measurements as `Metrics`; `popular`: those of the popularity baseline."""
    errors = {name: figure.error for name, figure in measured.by_name.items()}
    return Metrics(
        figures={name: figure.value for name, figure in measured.by_name.items()},
        relation=task.relation,
        links=int(task.link.sum()),
        zeros=task.zeros,
        notes=tuple(measured.notes),
        errors={name: error for name, error in errors.items() if error is not None},
        baseline=None if popular is None else report(task, popular),
        curves=measured.curves,
        kind=task.kind,
    )
