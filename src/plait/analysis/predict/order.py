"""Scores that order cells as their probabilities do, without integrals.

A Gamma with the mean m and variance v of the rate has

    −log P(x = 0) = (m²/v) log(1 + v/m)          (v = 0: m),

and an ensemble −log of the mean of its members' P(x = 0) (docs/math.md, section 12; decision 35 has
how far metrics are off). The logarithm does not saturate as P(x > 0) does. No score
exceeds the mean rate, by Jensen's inequality, so candidates whose mean rate is below a floor need no variance.
"""

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.predict.moments import grouped_moments, rates_along
from plait.analysis.predict.prediction import matched_neg_log_p_zero
from plait.storage.calibration import NO_CALIBRATION
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

ROUNDING_MARGIN = 1e-9  # relative: by how much a mean rate may be off by rounding


def order_scores(fit: Fitted, relation: str, rows: Rows) -> Array:
    """−log P(x = 0) by matched moments at cells given by row numbers (n, order), (n,).

    They are calibrated if there are features: other calibrations keep the order.
    """
    rows = fit.known[relation].canonical(rows)
    score = np.empty(len(rows))
    for at in range(0, len(rows), TUNING.predict_cells):
        some = slice(at, at + TUNING.predict_cells)
        scores = np.stack(
            [matched_neg_log_p_zero(*grouped_moments(member, relation, rows[some])) for member in fit.members]
        )
        least = scores.min(axis=0)
        score[some] = least - np.log(np.exp(least - scores).mean(axis=0))
    own = fit.calibration.get(relation, NO_CALIBRATION)
    return own.at(fit.known[relation], rows).apply(score) if own.features else score


def order_along(fit: Fitted, relation: str, rows: Rows, index: str, floor: Array | None) -> Array:
    """Scores (n, size) of cells (n, order) with one index running over all its entities.

    floor (n,): cells below it keep their mean rate, if that is below too. None: all are mean rates.
    """
    if floor is not None and fit.calibration.get(relation, NO_CALIBRATION).features:
        return _all_along(fit, relation, rows, index)
    scores = rates_along(fit, relation, rows, index)
    if floor is not None:
        query, entity = np.nonzero(scores * (1 + ROUNDING_MARGIN) >= floor[:, None])
        cells = rows[query]
        cells[:, fit.model.equation(relation).indices.index(index)] = entity
        scores[query, entity] = order_scores(fit, relation, cells)
    return scores


def _all_along(fit: Fitted, relation: str, rows: Rows, index: str) -> Array:
    """Scores (n, size) without a floor: a calibrated score may exceed the mean rate."""
    place = fit.model.equation(relation).indices.index(index)
    size = len(fit.entities[index])
    scores = np.empty((len(rows), size))
    step = max(1, TUNING.predict_cells // max(size, 1))
    for at in range(0, len(rows), step):
        cells = np.repeat(rows[at : at + step], size, axis=0)
        cells[:, place] = np.tile(np.arange(size), len(cells) // max(size, 1))
        scores[at : at + step] = order_scores(fit, relation, cells).reshape(-1, size)
    return scores
