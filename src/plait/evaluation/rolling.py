"""Forecasts by rolling origins: each later period is predicted from all before it, which the fit learns in turn."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.analysis.forecast import time_index, with_later_periods
from plait.analysis.predict.lookup import as_frame, require_indices
from plait.analysis.predict.prediction import columns
from plait.data.encoding.columns import number_array, to_polars
from plait.data.encoding.names import Labels
from plait.data.encoding.periods import later_periods
from plait.data.sources.tables import as_kind, kind_of
from plait.data.sparse.keys import columns_of, find, pack_pair
from plait.errors import DataError, ParameterError, TableLocation, quoted
from plait.evaluation.metrics import average_precision, ranks
from plait.evaluation.negative_sampling import KnownLinks
from plait.evaluation.protocol import ranked_axes
from plait.evaluation.ranking import ranked
from plait.evaluation.scorer import Scorer
from plait.storage.fitted import structural_zeros_of

if TYPE_CHECKING:
    import polars as pl
    from narwhals.stable.v2.typing import IntoDataFrame

    from plait.result import Fit

Figures = defaultdict[tuple[int, str, str], list[tuple[float, float]]]  # value and links, by horizon, metric and scorer
Evidence = Callable[[Any, list[Any]], Mapping[str, Any]]
MAX_NEGATIVE_ROUNDS = 1000  # of draws of negatives, before fewer are used
TEST = TableLocation("test")


def evaluate_forecast(
    fit: "Fit", relation: str, test: Any, *, steps: int = 1, target: bool | str | Sequence[str] | None = None,
    negatives: int = 10, last: int = 1, half_life: float = 10.0, fixed: Evidence | None = None, iterations: int = 5,
    seed: int = 0,
) -> "IntoDataFrame":  # fmt: skip
    """Measure forecasts of later periods by rolling origins.

    Parameters
    ----------
    fit : Fit
        A fit of the periods before the test.
    relation : str
        A relation with an index of an ordered axis.
    test : table or dict of columns
        Links of later periods: one column per index and, optionally, the values.
    steps : int, default 1
        Largest horizon. After each period of the test, `Fit.update` learns its links, and the
        next ``steps`` periods are forecast.
    target : bool, str or sequence of str, default None
        Index whose entities are ranked for each link, or ``True`` for every other index.
    negatives : int, default 10
        Number of zeros drawn per link, uniformly from the cells of its period whose
        entities have links.
    last : int, default 1
        Number of periods of the popularity baseline.
    half_life : float, default 10.0
        Decay of the recurrence baseline, in periods.
    fixed : callable or None, default None
        Function of all earlier links, a table, and a list of periods, which returns the rows of
        fixed factors for these periods, as `Fit.forecast` takes them.
    iterations : int, default 5
        Number of iterations of each update.
    seed : int, default 0
        Random seed of the zeros.

    Returns
    -------
    table
        One row per ``horizon`` and ``metric``, with the ``value`` of the fit, those of
        ``popularity`` and ``recurrence``, and the number of ``links``.

    Raises
    ------
    plait.errors.DataError
        If the test has a period of the fit, or no links of known entities.
    plait.errors.ParameterError
        If the relation has no later periods, or an option is wrong.

    Notes
    -----
    - ``log_likelihood``: per link, of all cells of a period whose entities have links; drawn
      zeros stand for all zeros.
    - ``coverage``: share of cells in the 90 % interval, weighted likewise; not Bernoulli.
    - ``average_precision``: of links against drawn zeros, mean over periods by links.
    - ``mrr``: with ``target``, filtered by the other links of the same period.

    Popularity is the product of each entity's links in the ``last`` periods. Recurrence is the
    decayed number of earlier occurrences of the same cell. Links of entities that the fit
    does not know yet are learnt, but not scored.

    Examples
    --------
    >>> monthly = plait.Model("visits[user, month] = U[user, r] T[month, r]; month: ordered")
    >>> rows = [(user, month) for user in range(4) for month in range(6) if (user + month) % 3]
    >>> dated = pl.DataFrame(rows, ["user", "month"], orient="row")
    >>> early = plait.fit(monthly, {"visits": dated.filter(pl.col("month") < 4)}, **quick)
    >>> later = dated.filter(pl.col("month") >= 4)
    >>> table = plait.evaluate_forecast(early, "visits", later, target="user")
    >>> table["metric"].to_list()
    ['log_likelihood', 'average_precision', 'mrr']
    """
    for option, whole in {"steps": steps, "negatives": negatives, "last": last}.items():
        if not isinstance(whole, (int, np.integer)) or isinstance(whole, bool) or whole < 1:
            raise ParameterError.must_be(option, "an integer of at least 1", whole)
    equation = fit.model.equation(relation)
    time = time_index(fit, equation, set(fit.exposures.names) if fixed else set())
    others = tuple(index for index in equation.indices if index != time)
    places = [equation.indices.index(axis) for axis in ranked_axes(others if target is True else target, others)]
    rows, labels, at = _read(fit, relation, time, test)
    figures, rng, end = Figures(list), np.random.default_rng(seed), -1
    for position in np.unique(at).tolist():
        near = [q for q in np.unique(at).tolist() if end < q <= end + steps]
        names = labels[end + 1 : max(near, default=position) + 1]
        earlier = as_kind(_links(fit, relation), fit.known[relation].kind)
        given = None if fixed is None else fixed(earlier, names)
        if near:
            later = cast("Fit", with_later_periods(fit, equation, time, names, given))
            for q in near:
                _score(figures, fit, later, relation, time, rows.filter(at == q), q - end, places, negatives, last,
                       half_life, rng)  # fmt: skip
        if position < at.max():
            if fixed is not None:
                given = fixed(earlier, labels[end + 1 : position + 1])
            fit, end = fit.update({relation: rows.filter(at == position)}, iterations=iterations, fixed=given), position
    return as_kind(_table(figures), kind_of(test, fit.known[relation].kind))


def _read(fit: "Fit", relation: str, time: str, test: Any) -> "tuple[pl.DataFrame, Labels, Rows]":
    """Links of the test, its periods from the first after the fit on, and the position of each link among them."""
    import polars as pl

    indices, known = fit.model.equation(relation).indices, fit.known[relation]
    frame = as_frame(test, TEST)
    require_indices(frame.columns, relation, indices, TEST)
    value = next((name for name in (known.value, "value") if name in frame.columns), None)
    rows = pl.DataFrame({index: to_polars(frame.get_column(index), TEST.at(index)) for index in indices})
    values = np.ones(len(rows)) if value is None else number_array(frame.get_column(value), TEST.at(value))
    rows = rows.with_columns(pl.Series(known.value or "value", values)).filter(pl.Series(values) > 0)
    if not len(rows):
        raise DataError("the test has no links.", location=TEST, hint="Give links of later periods.")
    old = fit.entities[time]
    seen = old.encode(rows[time], where=TEST.at(time), unknown="mark")
    if (seen >= 0).any():
        raise DataError(
            f"{quoted(old[int(seen[seen >= 0][0])])} is a period of the fit.",
            location=TEST.at(time, row=int(np.argmax(seen >= 0))),
            hint="Fit the rows of earlier periods only; a fit of `train_test_split` knows all periods.",
        )
    labels = Labels(time, later_periods(time, old.names, rows[time].unique()))
    return rows, labels, labels.encode(rows[time])


def _links(fit: "Fit", relation: str) -> "pl.DataFrame":
    """Known links by name."""
    import polars as pl

    known, indices = fit.known[relation], fit.model.equation(relation).indices
    named = {index: fit.entities[index].names.gather(own) for index, own in zip(indices, known.cells.T)}
    return pl.DataFrame({**named, "value": known.values})


def _score(
    figures: Figures, fit: "Fit", later: "Fit", relation: str, time: str, rows: "pl.DataFrame", horizon: int,
    places: Sequence[int], negatives: int, last: int, half_life: float, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Add figures of one period, each with its number of links."""
    indices, known = fit.model.equation(relation).indices, later.known[relation]
    cells = np.stack([later.entities[index].encode(rows[index], unknown="mark") for index in indices], axis=1)
    scored = (cells >= 0).all(axis=1)
    cells, values = cells[scored], rows[rows.columns[-1]].to_numpy()[scored]
    if not len(cells):
        return
    excluded, axes = structural_zeros_of(later, relation), [fit.model.axis(index) for index in indices]
    links = KnownLinks(known, excluded, cells, axes)
    present = [np.unique(column) for column in fit.known[relation].written.T]
    present[indices.index(time)] = cells[:1, indices.index(time)]
    zeros = _draw(links, present, negatives * len(cells), rng)
    every, x = np.concatenate([cells, zeros]), np.concatenate([values, np.zeros(len(zeros))])
    weight = max(float(np.prod([float(len(own)) for own in present])) - len(cells), 0.0) / max(len(zeros), 1)
    weights, link = np.where(x > 0, 1.0, weight), x > 0
    view = Scorer(later, relation, "mean")
    views = {"value": view} | {
        word: _EarlierScorer(later, relation, "rate", before=fit, time=time, decay=decay, since=since)
        for word, decay, since in (("popularity", None, last), ("recurrence", 0.5 ** (1.0 / half_life), 0))
    }
    log = view.predictive(every, x)[2]
    figures[horizon, "log_likelihood", "value"].append((float((weights * log).sum()) / len(cells), len(cells)))
    if not fit.likelihood[relation].binary:
        ends = columns(later, relation, every, ("lower", "upper"))
        inside = (ends["lower"] <= x) & (x <= ends["upper"])
        figures[horizon, "coverage", "value"].append((float(np.average(inside, weights=weights)), len(cells)))
    for word, one in views.items():
        if len(zeros):
            figure = average_precision(link, one.scores(every))
            figures[horizon, "average_precision", word].append((figure, len(cells)))
        for place in places:
            of = ranked(one, cells, place, links)
            figures[horizon, "mrr", word].append((float(np.mean(1.0 / ranks(of.above, of.tied))), len(cells)))


def _draw(links: KnownLinks, present: Sequence[Rows], count: int, rng: np.random.Generator) -> Rows:
    """Cells (count, order) of entities with links, uniformly from those that are no links of the period."""
    samples: list[Rows] = [np.zeros((0, len(present)), np.int64)]
    for _ in range(MAX_NEGATIVE_ROUNDS):
        cells = np.stack([rng.choice(own, count) for own in present], axis=1)
        samples.append(cells[~links.refuse(cells)])
        if sum(map(len, samples)) >= count:
            break
    return np.concatenate(samples)[:count]


@dataclass(frozen=True, eq=False)
class _EarlierScorer(Scorer):
    """Baselines: links of entities in the last `since` periods, or decayed occurrences of the cell."""

    before: "Fit" = field(kw_only=True)
    time: str = field(kw_only=True)
    decay: float | None = field(kw_only=True)
    since: int = field(kw_only=True)

    @cached_property
    def _earlier(self) -> tuple[Rows, Array, list[int]]:
        """Known links, their weights, and the places of all other indices."""
        known, indices = self.before.known[self.relation], self.before.model.equation(self.relation).indices
        place = indices.index(self.time)
        cells = known.written.astype(np.int64)
        age = known.shape[place] - cells[:, place]
        weights = (age <= self.since).astype(float) if self.decay is None else known.values_at(cells) * self.decay**age
        return cells, weights, [k for k in range(len(indices)) if k != place]

    @cached_property
    def _degrees(self) -> list[Array]:
        cells, weights, _ = self._earlier
        shape = self.before.known[self.relation].shape
        return [np.bincount(column, weights, size).astype(np.float64) for column, size in zip(cells.T, shape)]

    @cached_property
    def _counts(self) -> tuple[Rows, Array]:
        """Cells without their time, each once, and their decayed counts."""
        cells, weights, others = self._earlier
        once, which = np.unique(cells[:, others], axis=0, return_inverse=True)
        return once, np.bincount(which.reshape(-1), weights, len(once)).astype(np.float64)

    def scores(self, cells: Rows) -> Array:
        """Π_k degree_k, or the count, (n,)."""
        _, _, others = self._earlier
        if self.decay is None:
            return np.asarray(np.prod([self._degrees[k][cells[:, k]] for k in others], axis=0), np.float64)
        once, counts = self._counts
        sizes = [self.shape[k] for k in others]
        needles, keys = pack_pair(columns_of(cells[:, others]), columns_of(once), sizes, (len(cells), len(once)))
        at, known = find(needles, keys)
        return np.where(known, counts[at], 0.0)

    def along(self, cells: Rows, place: int, floor: Array) -> Array:
        """The scores (n, size) with the entity at one place running over all."""
        size = self.shape[place]
        every = np.repeat(cells, size, axis=0)
        every[:, place] = np.tile(np.arange(size), len(cells))
        return self.scores(every).reshape(len(cells), size)

    def knows(self, cells: Rows) -> Flags:
        """Whether cells are known links."""
        return np.zeros(len(cells), bool)


def _mean(values: Sequence[tuple[float, float]]) -> float:
    """Mean of values, weighted by links."""
    value, links = np.array(values).T
    return float(np.average(value, weights=links))


def _table(figures: Figures) -> "pl.DataFrame":
    """Means over periods, weighted by links."""
    import polars as pl

    if not figures:
        raise DataError("no link of the test has known entities only.", location=TEST, hint="Declare `entities`.")
    rows = []
    for horizon, metric in dict.fromkeys(key[:2] for key in sorted(figures, key=lambda key: key[0])):
        own = [figures.get((horizon, metric, word)) for word in ("value", "popularity", "recurrence")]
        means = [None if one is None else _mean(one) for one in own]
        links = int(sum(count for _, count in figures[horizon, "log_likelihood", "value"]))
        rows.append((horizon, metric, *means, links))
    kinds = {"horizon": pl.Int64, "metric": pl.String, "value": pl.Float64, "popularity": pl.Float64}
    return pl.DataFrame(rows, kinds | {"recurrence": pl.Float64, "links": pl.Int64}, orient="row")
