"""Predictive distribution of a cell: probability of a link, mean, standard deviation and interval.

The rate has mean m and variance v. By matched moments it is a Gamma, the count a negative binomial, and

    P(x > 0) ≈ 1 − (1 + v/m)^(−m²/v)          (v = 0: 1 − e^−m).

The rate is a sum of products of Gammas, whose tail is heavier than that of one Gamma with the same moments, so the
closed form is too low: in 200,000 random CP cells (1–5 factors, ranks 1–20, concentrations from 0.05, means 0.01–30;
exact values by the quadrature of `cp_distribution` with a finer step) it was above by at most 0.0002, which may be an
error of the quadrature, and below by up to 0.99. That it is a lower bound is observed, not proved; that 1 − e^−m is an
upper bound is Jensen's inequality. The distance between the two is taken as the largest error. Where it exceeds
TOLERANCE, P(x = 0) is computed from the whole distribution: exactly where components are independent
(`cp_distribution`), by quasi-Monte Carlo elsewhere (`monte_carlo`).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.analysis.predict import cp_distribution, intervals, mixture, monte_carlo
from plait.analysis.predict.kernels import closed_form
from plait.analysis.predict.lookup import as_frame, rows_of
from plait.analysis.predict.moments import average, mean_rate, moments
from plait.analysis.predict.operands import RateTerm, apart, terms
from plait.analysis.titled_tables import add_titles
from plait.data.sparse.parallel import in_pieces
from plait.errors import DataError, ParameterError, TableLocation, suggestion
from plait.storage.calibration import NO_CALIBRATION, Curve
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

COLUMNS = ("mean", "sd", "probability", "lower", "upper")
TOLERANCE = 0.008  # of a probability
CHUNK_CELLS = 1 << 13  # that a thread takes at a time


def names(fit: Fitted, relation: str) -> tuple[str, ...]:
    """Columns of a prediction in order; includes the rate where the mean is not the rate."""
    return fit.likelihood[relation].columns


def columns(fit: Fitted, relation: str, rows: Rows, wanted: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
    """Columns of a prediction at cells given by row numbers (n, order), by name, each (n,); all by default.

    probability: P(x > 0). mean: E[x] = μ₁ E[λ], with μ₁ the mean of one event (Poisson: 1). rate: E[λ]. sd: of μ₁ λ,
    the uncertainty of the mean; lower and upper are the quantiles 0.05 and 0.95 of the value x, integers where values
    are. Under Bernoulli the mean is the probability E[1 − e^−λ]; sd, lower and upper are those of 1 − e^−λ. `variance`
    of the rate is computed only on request, and so is `neg_log_p_zero`. For an ensemble all are those of the mixture.

    A calibrated fit has calibrated probabilities: under Bernoulli the interval is that of such a probability, elsewhere
    of 0 with the calibrated P(x = 0), else of x | x > 0 (`Fit.calibrate`).
    """
    wanted = names(fit, relation) if wanted is None else wanted
    rows = fit.known[relation].canonical(rows)  # bitwise identical in all orientations of a cell

    calibration = fit.calibration.get(relation, NO_CALIBRATION)

    def ask(rows: Rows) -> list[NDArray[Any]]:
        return list(_columns_of_chunk(fit, relation, rows, wanted, calibration.at(fit.known[relation], rows)).values())

    block = max(1, TUNING.predict_cells // len(fit.members))
    blocks = [apart(fit.members[0], relation, rows[at : at + block], ask) for at in range(0, max(len(rows), 1), block)]
    return {name: np.concatenate(own) if len(own) > 1 else own[0] for name, own in zip(wanted, zip(*blocks))}


def _columns_of_chunk(
    fit: Fitted, relation: str, rows: Rows, wanted: Sequence[str], calibration: Curve
) -> dict[str, NDArray[Any]]:
    likelihood = fit.likelihood[relation]
    if set(wanted) <= ({"rate", "mean"} if likelihood.plain else {"rate"}):
        rate = mean_rate(fit, relation, rows)
        return dict.fromkeys(wanted, rate)
    if len(fit.members) > 1:
        needed = mixture.needed(wanted, likelihood)
        parts = [_columns_of_chunk(member, relation, rows, needed, NO_CALIBRATION) for member in fit.members]
        return mixture.columns(fit.members, relation, rows, parts, wanted, calibration)
    rate, variance = moments(fit, relation, rows)
    burst = likelihood.bursts(fit.likelihood_params[relation])[0]
    result: dict[str, NDArray[Any]] = {"mean": burst * rate, "rate": rate, "variance": variance}
    if set(wanted) & {
        "probability",
        "neg_log_p_zero",
        "lower",
        "upper",
        *(("mean", "sd") if likelihood.binary else ()),
    }:
        miss = _neg_log_p_zero(fit, relation, rows, rate, variance)
        result["neg_log_p_zero"] = calibration.apply(miss)
        result["probability"] = -np.expm1(-result["neg_log_p_zero"])
    if likelihood.binary:
        result["mean"] = result.get("probability", rate)
        if set(wanted) & {"sd", "lower", "upper"}:
            ends = intervals.of_links(fit, relation, rows, rate, variance)
            result["sd"], result["lower"], result["upper"] = intervals.calibrated(*ends, miss, calibration)
    else:
        result["sd"] = burst * np.sqrt(variance)
        if set(wanted) & {"lower", "upper"}:
            of = intervals.of_counts if likelihood.plain else intervals.of_values
            result["lower"], result["upper"] = of(fit, relation, rows, rate, variance, miss, calibration)
    return {name: result[name] for name in wanted}


def neg_log_p_zero(fit: Fitted, relation: str, rows: Rows) -> Array:
    """−log P(x = 0) at cells given by row numbers (n, order), (n,), calibrated if the fit is; precise for probabilities
    near 1, too.
    """
    rows = fit.known[relation].canonical(rows)
    curve = fit.calibration.get(relation, NO_CALIBRATION).at(fit.known[relation], rows)
    return curve.apply(raw_neg_log_p_zero(fit, relation, rows))


def raw_neg_log_p_zero(fit: Fitted, relation: str, rows: Rows) -> Array:
    """The same of the posterior, (n,)."""
    rows = fit.known[relation].canonical(rows)

    def ask(member: Fitted, rows: Rows) -> list[Array]:
        return [_neg_log_p_zero(member, relation, rows, *moments(member, relation, rows))]

    values = np.empty((len(fit.members), len(rows)))
    for at in range(0, len(rows), TUNING.predict_cells):
        part = slice(at, at + TUNING.predict_cells)
        for own, member in zip(values, fit.members):
            own[part] = apart(member, relation, rows[part], partial(ask, member))[0]
    return mixture.neg_log_mean(values)


def score(fit: Fitted, relation: str, rows: Rows, by: str = "mean") -> Array:
    """Ranking score of cells given by row numbers (n, order), (n,): a column of a prediction, or the mean `rate`."""
    check_score(by)
    return np.asarray(columns(fit, relation, rows, (by,))[by], np.float64)


def probability_bounds(fit: Fitted, relation: str, rows: Rows) -> tuple[Array, Array]:
    """Bounds (n,) of the column `probability` at cells, equal where it is as cheap as they are."""
    low, high = np.empty(len(rows)), np.empty(len(rows))
    for at in range(0, len(rows), TUNING.predict_cells):
        part = slice(at, at + TUNING.predict_cells)
        bounds = [_bounds(member, relation, rows[part]) for member in fit.members]
        low[part], high[part] = (average(own) for own in zip(*bounds))
    return low, high


def _bounds(fit: Fitted, relation: str, rows: Rows) -> tuple[Array, Array]:
    """The same for one member and fewer cells."""
    mean, variance = moments(fit, relation, rows)
    miss, doubtful = _match_moments(mean, variance)
    low = -np.expm1(-miss)
    return low, np.where(doubtful, -np.expm1(-mean), low)


def check_score(by: str) -> None:
    """Refuse a word that is no column of a prediction."""
    known = (*COLUMNS, "rate")
    if by not in known:
        raise ParameterError(
            f"`score` must be one of {', '.join(map(repr, known))}, got {by!r}.",
            hint=suggestion(by, known).strip() or None,
        )


def predict(fit: Fitted, relation: str, cells: Any, *, handle_unknown: str = "error", new_entities: Any = None) -> Any:
    """The table `cells` with the columns of a prediction after its own, in the same library (for a dict: polars).

    `new_entities`: rows of entities that are folded in for this call, by relation.
    """
    import narwhals.stable.v2 as nw

    if new_entities is not None:
        cells = as_frame(cells, TableLocation("cells")).to_native()
        fit = _with_transient(fit, relation, cells, new_entities)
    frame, rows = rows_of(fit, relation, cells, unknown=handle_unknown)
    for name in names(fit, relation):
        if name in frame.columns:
            raise DataError(
                f"the table already has a column {name!r}, which is also a column of predictions.",
                location=TableLocation("cells"),
                hint="Rename or drop it first.",
            )
    backend = nw.get_native_namespace(frame)
    new = columns(fit, relation, rows)
    if not frame.columns and not len(frame):  # the one cell of a relation without indices
        return nw.from_dict(new, backend=backend).to_native()
    scored = frame.with_columns(*[nw.new_series(name, new[name], backend=backend) for name in new]).to_native()
    return add_titles(fit, scored, fit.model.equation(relation).indices)


def _with_transient(fit: Fitted, relation: str, cells: Any, new: Any) -> Fitted:
    """The fit with the new entities that occur in the cells."""
    from plait.incremental.fold_in import with_transient

    frame = as_frame(cells, TableLocation("cells"))
    indices = [index for index in fit.model.equation(relation).indices if index in frame.columns]
    return with_transient(fit, relation, new, {index: frame.get_column(index) for index in indices})


def _neg_log_p_zero(fit: Fitted, relation: str, rows: Rows, mean: Array, variance: Array) -> Array:
    """−log P(x = 0), (n,)."""
    miss, doubtful = _match_moments(mean, variance)
    for large, cells in enumerate(_by_size(doubtful, mean, variance)):
        if len(cells):
            better = _whole_neg_log_p_zero(terms(fit, relation, rows[cells]), bool(large))
            miss[cells] = np.clip(better, miss[cells], mean[cells])
    return miss


def _match_moments(mean: Array, variance: Array) -> tuple[Array, NDArray[np.bool_]]:
    """−log P(x = 0) by matched moments, (n,), and where its error may be too large."""
    miss, doubtful = np.empty(len(mean)), np.empty(len(mean), np.bool_)

    def work(lo: int, hi: int) -> None:
        closed_form(mean[lo:hi], variance[lo:hi], TOLERANCE, miss[lo:hi], doubtful[lo:hi])

    in_pieces(work, len(mean), CHUNK_CELLS)
    return miss, doubtful


def matched_neg_log_p_zero(mean: Array, variance: Array) -> Array:
    """−log P(x = 0) by matched moments, (n,)."""
    return _match_moments(mean, variance)[0]


def _by_size(chosen: NDArray[np.bool_], mean: Array, variance: Array) -> tuple[Rows, Rows]:
    """Chosen cells for which the quadrature of `cp_distribution` is accurate, and others."""
    large = (mean > cp_distribution.MAX_MEAN) | (variance > cp_distribution.MAX_SPREAD * mean)
    return np.flatnonzero(chosen & ~large), np.flatnonzero(chosen & large)


def _whole_neg_log_p_zero(parts: Sequence[RateTerm], large: bool) -> Array:
    """−log P(x = 0) from the whole distribution, (n,): the sum over independent groups."""
    alone, others = cp_distribution.split(parts)
    miss = np.zeros(parts[0].count)
    if alone:
        miss += intervals.neg_log_p_zero(alone) if large else cp_distribution.neg_log_p_zero(alone, TOLERANCE / 4)
    for group in others:
        miss += monte_carlo.neg_log_p_zero(group)
    return miss
