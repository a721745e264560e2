"""Curves of scores against what is a link: ROC and precision–recall, exact at ties and with the error of each point.

The error of a share k/n is the standard deviation of a Beta(k + ½, n − k + ½), which is about √(k/n (1 − k/n) / n),
but not 0 where k is 0 or n.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from plait.types import Array, Flags, Rows

if TYPE_CHECKING:
    import polars as pl


MOST = 500  # points of a curve
FIRST = 100  # points of a precision–recall curve that stay: precision is wild where little is recalled


def share_error(some: ArrayLike, of: ArrayLike) -> Array:
    """The standard error of shares some/of, both (n,)."""
    k, n = np.asarray(some, np.float64), np.asarray(of, np.float64)
    middle = (k + 0.5) / (n + 1.0)
    return np.asarray(np.sqrt(middle * (1.0 - middle) / (n + 2.0)))


def roc(link: Flags, score: Array) -> "pl.DataFrame":
    """The ROC curve of scores (n,), both kinds present, from (0, 0) to (1, 1), cells of one score taken together.

    Its area by trapezoids is `roc_auc`. Of more than MOST points those stay that are about equally far apart.
    """
    import polars as pl

    hits, cells = _down(link, score)
    hits, cells = np.append(0, hits), np.append(0, cells)
    links, others = int(hits[-1]), int(cells[-1] - hits[-1])
    right, wrong = hits / links, (cells - hits) / others
    kept = _spaced(right + wrong, MOST)
    return pl.DataFrame(
        {
            "false_positive_rate": wrong[kept],
            "true_positive_rate": right[kept],
            "error": share_error(hits[kept], links),
        }
    )


def precision_recall(link: Flags, score: Array) -> "pl.DataFrame":
    """Recall and precision at every score (n,) of a link, the largest first; cells of one score taken together.

    Σ precision · (recall − the one before, 0 before the first) is `average_precision`. Of more than MOST points the
    first stay, and others at about equal steps of recall.
    """
    import polars as pl

    hits, cells = _down(link, score)
    more = np.diff(hits, prepend=0) > 0
    hits, cells = hits[more], cells[more]
    kept = np.arange(min(FIRST, len(hits)))
    if len(hits) > FIRST:
        kept = np.append(kept, FIRST + _spaced(hits[FIRST:].astype(np.float64), MOST - FIRST))
    return pl.DataFrame(
        {
            "recall": hits[kept] / hits[-1],
            "precision": hits[kept] / cells[kept],
            "error": share_error(hits[kept], cells[kept]),
        }
    )


def _down(link: Flags, score: Array) -> tuple[Rows, Rows]:
    """Links and cells at or above every distinct score, the largest first."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), len(order) - 1)
    return np.cumsum(link[order])[last], last + 1


def _spaced(along: Array, most: int) -> Rows:
    """Numbers of at most `most` points about equally far apart along a rising sequence (n,), both ends among them."""
    if len(along) <= most:
        return np.arange(len(along))
    found = np.searchsorted(along, np.linspace(along[0], along[-1], most))
    return np.unique(np.append(found[:-1], len(along) - 1))
