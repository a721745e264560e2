"""Metrics and curves as functions of arrays; a link is True, larger scores are better, ties are exact.

The error of a share k/n is the standard deviation of a Beta(k + ½, n − k + ½) (Jeffreys), about √(k/n (1 − k/n) / n),
but not 0 for k = 0 or n.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from plait._typing import Array, Flags, Rows
from plait.likelihood import Likelihood, State

if TYPE_CHECKING:
    import polars as pl

# Scores with a smaller relative difference are tied: entities with equal posteriors differ by rounding only.
TIE_TOLERANCE = 1e-12

# Beyond this probability 1 − p loses its digits, and the closed form of P(x = 0) is used.
MIN_EXACT_PROBABILITY = 0.999

# Of the calibration.
CALIBRATION_BINS = 15
MIN_RATIO, MAX_RATIO = 0.8, 1.25  # of predicted and observed links


def roc_auc(link: Flags, score: Array) -> float:
    """The probability that a link scores above a non-link, ties counting half; link, score (n,), both kinds present."""
    ranks, links = mean_ranks(score), int(link.sum())
    return float((ranks[link].sum() - links * (links + 1) / 2) / (links * (len(link) - links)))


def mean_ranks(score: Array) -> Array:
    """Ranks of scores (n,), 1 the smallest, of ties their mean; scipy.stats has the same, and takes long to import."""
    _, which, count = np.unique(score, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[which.reshape(-1)])


def average_precision(link: Flags, score: Array) -> float:
    """Precision averaged over the links down the ranking; tied cells are taken together.

    Σ_k (recall_k − recall_{k−1}) · precision_k over the distinct scores, largest first.
    """
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(link[order])
    last = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)
    increments = np.diff(hits[last], prepend=0)
    return float(np.sum(increments * hits[last] / (last + 1)) / hits[-1])


def rmse(values: Array, mean: Array) -> float:
    """√ mean (mean − value)², scaled by the largest, as EM may predict 1e200."""
    errors = np.abs(mean - values)
    unit = errors.max(initial=0.0)
    return float(unit * np.sqrt(np.mean((errors / unit) ** 2))) if unit > 0 else 0.0


@dataclass(frozen=True, eq=False)
class CalibrationBins:
    """Cells in bins of predicted probability, of equal numbers up to ties; arrays (n_bins,).

    `low`, `high`: smallest and largest probability of a bin; `cells`: number of cells; `predicted`: their mean
    probability; `observed`: share of links. `place` (n,): bin of each cell.
    """

    low: Array
    high: Array
    cells: NDArray[np.int64]
    predicted: Array
    observed: Array
    place: NDArray[np.int64]

    @property
    def error(self) -> float:
        """Expected calibration error: mean over cells of |predicted − observed| of their bin."""
        return float(np.average(np.abs(self.predicted - self.observed), weights=self.cells))


def calibration(link: Flags, probability: Array, bins: int = CALIBRATION_BINS) -> CalibrationBins:
    """Calibration of predicted probabilities; link, probability (n,).

    Bins have n/bins cells in the order of probabilities; equal probabilities stay together, in the bin of the middle
    one. Empty bins are left out.
    """
    _, which, count = np.unique(probability, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count + 1) / 2  # of the places 0 … n − 1
    _, place = np.unique((middle * bins / len(probability)).astype(np.int64)[which], return_inverse=True)
    cells = np.bincount(place)
    low, high = np.full(len(cells), np.inf), np.full(len(cells), -np.inf)
    np.minimum.at(low, place, probability)
    np.maximum.at(high, place, probability)
    predicted, observed = (np.bincount(place, x) / cells for x in (probability, link))
    return CalibrationBins(low, high, cells, predicted, observed, place)


def link_ratios(link: Flags, miss: Array, links: int) -> tuple[Array, Flags]:
    """Predicted ÷ observed links in bins of `links` links or more, the most probable cells first; and which are right:
    from MIN_RATIO to MAX_RATIO, or within two standard errors. `miss` (n,): −log P(x = 0).
    """
    order = np.argsort(-miss, kind="stable")
    p, hit = -np.expm1(-miss[order]), link[order]
    bins = max(int(hit.sum()) // links, 1)  # the last has the rest
    number = np.minimum(np.maximum(np.cumsum(hit) - 1, 0) // links, bins - 1)
    observed, predicted = np.bincount(number, hit), np.bincount(number, p)
    ratios = predicted / observed
    error = np.sqrt(np.bincount(number, p * (1 - p)))
    right = (ratios >= MIN_RATIO) & (ratios <= MAX_RATIO) | (np.abs(predicted - observed) <= 2 * error)
    return ratios, right


def within(link: Flags, score: Array, group: NDArray[np.int64]) -> tuple[Array, Array]:
    """ROC AUC and average precision within every group that has links and negatives; all (n,), groups
    from 0, in order.
    """
    links = np.bincount(group, link).astype(np.int64)
    others = np.bincount(group) - links
    order = np.lexsort((-score, group))
    hit, down, own = link[order], score[order], group[order]
    end = np.append((np.diff(down) != 0) | (np.diff(own) != 0), True)
    last = np.flatnonzero(end)  # end of every tie
    own = own[last]
    # Links and cells of the group down to the end of the tie, without earlier groups.
    hits, cells = np.cumsum(hit)[last], last + 1
    T = hits - np.append(0, np.cumsum(links))[own]
    size = cells - np.append(0, np.cumsum(links + others))[own]
    increments = np.diff(hits, prepend=0)
    missed = np.diff(cells, prepend=0) - increments
    both = (links > 0) & (others > 0)
    above = np.bincount(own, missed * (T - increments / 2.0), len(links))[both]  # links above a non-link, ties half
    precise = np.bincount(own, increments * T / size, len(links))[both]
    return above / (links[both] * others[both]), precise / links[both]


def log_probability(
    values: Array, mean: Array, variance: Array, probability: Array, likelihood: Likelihood, state: State
) -> Array:
    """Log predictive probability of values x; all (n,): mean and variance of the rate, probability P(x > 0).

    log(1 − p) for x = 0; for x > 0 log p + log f(x) − log(1 − f(0)), with f the likelihood under a Gamma with the
    moments of the rate. Where p is the closed form, that is f itself; for links it is log p.
    """
    # A rate of 0 has no links: the truncated distribution is 0/0 there, and the result −∞.
    with np.errstate(divide="ignore", invalid="ignore"):
        none = likelihood.log_probability_by_moments(np.zeros(len(mean)), mean, variance, state)
        zero = np.where(
            probability > MIN_EXACT_PROBABILITY, none, np.log1p(-np.minimum(probability, MIN_EXACT_PROBABILITY))
        )
        some = np.log(probability)
        if not likelihood.binary:
            law = np.full(len(mean), -np.inf)
            at = (values > 0) & (mean > 0)
            law[at] = likelihood.log_probability_by_moments(values[at], mean[at], variance[at], state)
            some = np.where(mean > 0, some + law - np.log(-np.expm1(none)), -np.inf)
        return np.where(values == 0, zero, some)


def ranks(above: NDArray[np.int64], tied: NDArray[np.int64]) -> Array:
    """Ranks (n,) from the numbers of rivals above and tied, 1 the best: the mean of the best and the worst."""
    return np.asarray(1.0 + above + tied / 2.0)


def rank_values(positions: Array) -> dict[str, Array]:
    """Values whose means are mrr, hits_at_1, hits_at_3, hits_at_10 and mean_rank, for ranks (n,)."""
    hits = {f"hits_at_{k}": (positions <= k).astype(np.float64) for k in (1, 3, 10)}
    return {"mrr": 1.0 / positions, **hits, "mean_rank": positions}


MAX_POINTS = 500  # of a curve
FIRST_POINTS = 100  # first points of a precision–recall curve, where precision varies most


def share_error(some: ArrayLike, of: ArrayLike) -> Array:
    """Standard error of shares some/of, both (n,)."""
    k, n = np.asarray(some, np.float64), np.asarray(of, np.float64)
    middle = (k + 0.5) / (n + 1.0)
    return np.asarray(np.sqrt(middle * (1.0 - middle) / (n + 2.0)))


def roc(link: Flags, score: Array) -> "pl.DataFrame":
    """ROC curve of scores (n,), both kinds present, from (0, 0) to (1, 1), ties taken together.

    Its area by trapezoids is `roc_auc`. Longer curves are thinned to MAX_POINTS about equally spaced points.
    """
    import polars as pl

    hits, cells = _down(link, score)
    hits, cells = np.append(0, hits), np.append(0, cells)
    links, others = int(hits[-1]), int(cells[-1] - hits[-1])
    right, wrong = hits / links, (cells - hits) / others
    kept = _spaced(right + wrong, MAX_POINTS)
    return pl.DataFrame(
        {
            "false_positive_rate": wrong[kept],
            "true_positive_rate": right[kept],
            "error": share_error(hits[kept], links),
        }
    )


def precision_recall(link: Flags, score: Array) -> "pl.DataFrame":
    """Recall and precision at every score (n,) of a link, largest first, ties taken together.

    Σ precision · (recall − the one before) is `average_precision`. Longer curves keep the first points, and others at
    about equal steps of recall.
    """
    import polars as pl

    hits, cells = _down(link, score)
    more = np.diff(hits, prepend=0) > 0
    hits, cells = hits[more], cells[more]
    kept = np.arange(min(FIRST_POINTS, len(hits)))
    if len(hits) > FIRST_POINTS:
        kept = np.append(
            kept, FIRST_POINTS + _spaced(hits[FIRST_POINTS:].astype(np.float64), MAX_POINTS - FIRST_POINTS)
        )
    return pl.DataFrame(
        {
            "recall": hits[kept] / hits[-1],
            "precision": hits[kept] / cells[kept],
            "error": share_error(hits[kept], cells[kept]),
        }
    )


def _down(link: Flags, score: Array) -> tuple[Rows, Rows]:
    """Links and cells at or above every distinct score, largest first."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)
    return np.cumsum(link[order])[last], last + 1


def _spaced(along: Array, most: int) -> Rows:
    """Numbers of at most `most` points about equally spaced along a rising sequence (n,), including both ends."""
    if len(along) <= most:
        return np.arange(len(along))
    points = np.searchsorted(along, np.linspace(along[0], along[-1], most))
    return np.unique(np.append(points[:-1], len(along) - 1))
