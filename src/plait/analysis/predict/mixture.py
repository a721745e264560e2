"""Predictions of an ensemble: the equally weighted mixture of its members' posteriors.

Means and probabilities are averages over members. The variance is the mean of variances plus the variance of means. For
quantiles, the rate of each member is represented by equally probable points (`intervals`); all points together
represent the mixture. Its probabilities are 1 − e^−point. Its counts are a mixture of negative binomials, one per
point, as the point of a count has a variance: a rate close to a Gamma is one point, and a part narrower than the grid
widens all of them.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Rows
from plait.analysis.predict import count_quantiles, intervals
from plait.analysis.predict.intervals import LEVEL, STRATA, Levels
from plait.analysis.predict.moments import average, pooled
from plait.data.sparse.parallel import in_pieces
from plait.likelihood import Likelihood, predictive
from plait.storage.calibration import NO_CALIBRATION, Curve
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

Columns = dict[str, NDArray[Any]]
Strata = Callable[[Fitted, str, Rows, Array, Array], tuple[Array, Array]]

CHUNK_CELLS = 1 << 9  # that a thread takes at a time


def needed(wanted: Sequence[str], likelihood: Likelihood) -> tuple[str, ...]:
    """Columns of each member from which the wanted columns of the mixture follow."""
    by_moments = {"rate", "variance"} if likelihood.binary else {"rate", "variance", "mean", "sd"}
    return ("rate", "variance") if set(wanted) <= by_moments else ("rate", "variance", "probability", "neg_log_p_zero")


def neg_log_mean(exponents: Array) -> Array:
    """−log of the mean over members of P(x = 0), (n,), from −log P(x = 0), (n_members, n)."""
    least = exponents.min(axis=0)
    return np.asarray(least - np.log(np.exp(least - exponents).mean(axis=0)))


def columns(
    members: Sequence[Fitted],
    relation: str,
    rows: Rows,
    parts: Sequence[Columns],
    wanted: Sequence[str],
    calibration: Curve = NO_CALIBRATION,
) -> Columns:
    """Wanted columns of the mixture at cells given by row numbers; `parts`: the `needed` columns of its members."""
    likelihood = members[0].likelihood[relation]
    bursts = [likelihood.bursts(member.likelihood_params[relation])[0] for member in members]
    rate, variance = pooled((part["rate"], part["variance"]) for part in parts)
    mean, square = pooled((b * part["rate"], b * b * part["variance"]) for b, part in zip(bursts, parts))
    result: Columns = {"mean": mean, "rate": rate, "variance": variance}
    if "probability" in parts[0]:
        miss = neg_log_mean(np.stack([part["neg_log_p_zero"] for part in parts]))
        result["neg_log_p_zero"] = calibration.apply(miss)
        result["probability"] = -np.expm1(-result["neg_log_p_zero"])
        if calibration.is_identity:
            result["probability"] = average(part["probability"] for part in parts)
    if likelihood.binary:
        result["mean"] = result.get("probability", rate)
        if set(wanted) & {"sd", "lower", "upper"}:
            ends = _of_links(members, relation, rows, parts)
            result["sd"], result["lower"], result["upper"] = intervals.calibrated(*ends, miss, calibration)
    else:
        result["sd"] = np.sqrt(square)
        if set(wanted) & {"lower", "upper"}:
            levels = intervals.levels_of(miss, calibration)
            nothing = 1 - result["probability"]
            of = _of_counts if likelihood.plain else _of_values
            result["lower"], result["upper"] = of(members, relation, rows, parts, nothing, levels)
    return {name: result[name] for name in wanted}


def _of_counts(
    members: Sequence[Fitted], relation: str, rows: Rows, parts: Sequence[Columns], nothing: Array, levels: Levels
) -> tuple[Rows, Rows]:
    """Quantiles of the count, (n,); `nothing`: P(x = 0), which decides where they are 0; `levels`: elsewhere."""
    low, high = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for cells in _pieces(np.flatnonzero(nothing < LEVEL), members):
        points, about = _points(members, relation, rows, parts, cells, intervals.count_strata)
        own = _count_ends(points, about, (levels[0][cells], levels[1][cells]))
        low[cells], high[cells] = (np.maximum(end, 1) for end in own)
    low[nothing >= 1 - LEVEL] = 0
    return low, high


def _of_values(
    members: Sequence[Fitted], relation: str, rows: Rows, parts: Sequence[Columns], nothing: Array, levels: Levels
) -> tuple[Any, Any]:
    """The same for a value that is a sum over events, under each member's likelihood parameters."""
    likelihood, states = members[0].likelihood[relation], [member.likelihood_params[relation] for member in members]
    scale = max(likelihood.bursts(state)[0] for state in states)

    def quantiles_at(cells: Rows, level: Array) -> Array:
        quantiles = np.empty(len(cells))
        for some in _pieces(np.arange(len(cells)), members):
            points = _points(members, relation, rows, parts, cells[some], intervals.link_strata)[0]

            def below(own: Rows, values: Array, points: Array = points) -> Array:
                each = (likelihood.below(values, points[own, n], state) for n, state in enumerate(states))
                return average(each)

            about = scale * points.max(axis=(1, 2))
            quantiles[some] = predictive.quantiles(below, scale, about, level[some], whole=likelihood.whole)
        return quantiles

    return intervals.value_ends(nothing, levels, quantiles_at, whole=likelihood.whole)


def _count_ends(points: Array, about: Array, levels: Levels) -> tuple[Rows, Rows]:
    low, high = np.empty(len(points), np.int64), np.empty(len(points), np.int64)

    def work(lo: int, hi: int) -> None:
        count_quantiles.mixture_ends(
            points[lo:hi], about[lo:hi], levels[0][lo:hi], levels[1][lo:hi], low[lo:hi], high[lo:hi]
        )

    in_pieces(work, len(points), CHUNK_CELLS)
    return low, high


def _of_links(
    members: Sequence[Fitted], relation: str, rows: Rows, parts: Sequence[Columns]
) -> tuple[Array, Array, Array]:
    """Standard deviation of the probability 1 − e^−λ, and quantiles 1 − LEVEL and LEVEL of the rate, (n,) each."""
    sd, low, high = np.empty((3, len(rows)))
    for cells in _pieces(np.arange(len(rows)), members):
        points, sds = _points(members, relation, rows, parts, cells, intervals.link_strata)
        sd[cells] = np.sqrt(pooled((part["probability"][cells], s**2) for part, s in zip(parts, sds.T))[1])
        ordered = np.sort(points.reshape(len(cells), -1), axis=1)
        low[cells], high[cells] = (_quantile(ordered, level) for level in (1 - LEVEL, LEVEL))
    return sd, low, high


def _pieces(cells: Rows, members: Sequence[Fitted]) -> list[Rows]:
    """Cells in chunks of at most `mixture_points` points."""
    size = max(1, TUNING.mixture_points // (len(members) * STRATA))
    return [cells[at : at + size] for at in range(0, len(cells), size)]


def _points(
    members: Sequence[Fitted], relation: str, rows: Rows, parts: Sequence[Columns], cells: Rows, strata: Strata
) -> tuple[Array, Array]:
    """Points of every member's rate, (n_cells, n_members, STRATA), and the second result of `strata`, (n_cells,
    n_members).
    """
    points, more = np.empty((len(cells), len(members), STRATA)), np.empty((len(cells), len(members)))
    for n, (member, part) in enumerate(zip(members, parts)):
        points[:, n], more[:, n] = strata(member, relation, rows[cells], part["rate"][cells], part["variance"][cells])
    return points, more


def _quantile(points: Array, level: float) -> Array:
    """Quantile of equally probable points, ascending in rows; each is the middle of its mass."""
    last = points.shape[1] - 1
    at = min(max(level * (last + 1) - 0.5, 0.0), float(last))
    before = int(at)
    after = min(before + 1, last)
    return np.asarray(points[:, before] + (at - before) * (points[:, after] - points[:, before]))
