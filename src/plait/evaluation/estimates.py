"""Estimates: a metric with the influence of each unit of the test set, for standard errors.

Units (cells, links with their drawn negatives, queries) are taken as independent draws. To first order the error of a
metric is a sum of one share per unit, so its variance is Σ share², and that of a difference between two fits on the
same units is Σ (share − share')². Shares add up to 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.evaluation import metrics

NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Estimate:
    """A value, and the shares (n_units,) of its error; empty where there are too few units."""

    value: float
    shares: Array

    @property
    def error(self) -> float | None:
        """Standard error."""
        return norm(self.shares) if len(self.shares) else None

    def by_unit(self, unit: Rows) -> "Estimate":
        """The estimate for grouped units; `unit` (n_units,): number of the independent group."""
        return Estimate(self.value, np.bincount(unit, self.shares).astype(np.float64)) if len(self.shares) else self


def norm(shares: Array) -> float:
    """√ Σ share², scaled by the largest, as EM may predict 1e200."""
    unit = float(np.max(np.abs(shares), initial=0.0))
    return unit * math.sqrt(np.sum((shares / unit) ** 2)) if unit > 0 else 0.0


def mean(values: Array) -> Estimate:
    """Mean over units (n,); its error is sd/√n."""
    return Estimate(float(np.mean(values)), _shares(values))


def total(values: Array) -> Estimate:
    """The sum over units (n,)."""
    return Estimate(float(np.sum(values)), len(values) * _shares(values))


def root_mean_square(values: Array, predicted: Array) -> Estimate:
    """√ mean (predicted − value)²; its shares are those of the mean square over twice the root."""
    value = metrics.rmse(values, predicted)
    unit = value if value > 0 else 1.0
    return Estimate(value, unit / 2 * _shares(((predicted - values) / unit) ** 2))


def roc_auc(link: Flags, score: Array) -> Estimate:
    """Area under the ROC curve; its variance is that of DeLong, DeLong & Clarke-Pearson (1988)."""
    ranks = metrics.mean_ranks(score)
    shares = np.zeros(len(link))
    sizes = np.count_nonzero(~link), np.count_nonzero(link)
    for kind, others in zip((link, ~link), sizes):
        # How many of the other kind are below, ties counting half.
        own = _shares((ranks[kind] - metrics.mean_ranks(score[kind])) / others)
        if not len(own):
            return Estimate(metrics.roc_auc(link, score), NONE)
        shares[kind] = own if kind is link else -own
    return Estimate(metrics.roc_auc(link, score), shares)


def average_precision(link: Flags, score: Array) -> Estimate:
    """Average precision, given the numbers of links and negatives.

    It is the mean over links of T/(T + F), with T and F the numbers of links and negatives at or above the link. The
    share of a link is its own term, and its contribution to T in the terms of links at or below it, T/(T + F)² · ∂;
    that of a negative is its contribution to F.
    """
    value, links = metrics.average_precision(link, score), int(np.count_nonzero(link))
    if min(links, len(link) - links) < 2:
        return Estimate(value, NONE)
    order = np.argsort(-score, kind="stable")
    down, hit = score[order], link[order]
    # The last position of each unit's tie: tied units are at or above one another.
    last = np.flatnonzero(np.append(np.diff(down) != 0, True))
    first = np.append(0, last[:-1] + 1)
    tie = np.repeat(np.arange(len(last)), last - first + 1)
    T = np.cumsum(hit)[last].astype(np.float64)
    F = last + 1 - T
    increments = np.diff(T, prepend=0.0)
    # Σ over the links at or below a unit, to whose T or F it contributes.
    more_T = np.cumsum((increments * F / (T + F) ** 2)[::-1])[::-1][tie]
    more_F = np.cumsum((increments * T / (T + F) ** 2)[::-1])[::-1][tie]
    effect = np.where(hit, (T / (T + F))[tie] + more_T, -more_F)
    shares = np.empty(len(link))
    shares[order[hit]] = _shares(effect[hit])
    shares[order[~hit]] = _shares(effect[~hit]) * np.count_nonzero(~hit) / links
    return Estimate(value, shares)


def calibration_error(bins: "metrics.CalibrationBins", link: Flags, probability: Array) -> Estimate:
    """Expected calibration error: the mean over cells of (probability − link), signed as in its bin."""
    sign = np.sign(bins.predicted - bins.observed)[bins.place]
    return Estimate(bins.error, _shares(sign * (probability - link)))


def together(figures: Sequence[Estimate]) -> Estimate:
    """Mean of estimates on different units of equal number."""
    value = float(np.mean([figure.value for figure in figures]))
    if not all(len(figure.shares) for figure in figures):
        return Estimate(value, NONE)
    return Estimate(value, np.asarray(np.mean([figure.shares for figure in figures], axis=0)))


def _shares(values: Array) -> Array:
    """Shares (n,) of the mean of values (n,): their squares add up to the unbiased variance of the mean."""
    n = len(values)
    return (values - np.mean(values)) / math.sqrt(n * (n - 1.0)) if n > 1 else NONE
