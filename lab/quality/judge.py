"""The judge: one for all methods, and none of Plait's own. Every figure has a standard error.

A method is asked for scores, larger is better, and for nothing else; ties have their expected rank.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from lab.quality.cells import Cells, at
from lab.quality.data import Asked
from lab.quality.scores import Scores

PIECE = 2**22  # scores held at a time
PARTS = 10  # of a test, to see how far average precision varies
Figure = dict[str, Any]  # value; error, None where it cannot be had


def judge(scores: Scores, asked: Asked) -> dict[str, Figure]:
    """All figures of a test; the first is the one that settings are chosen by."""
    found = _lists(scores, asked) if asked.lists else _ranks(scores, asked)
    return found | {"AP": _precision(scores.cells(asked.links), scores.cells(asked.others))}


def main(figures: dict[str, Figure]) -> float:
    """What settings are chosen by."""
    return float(next(iter(figures.values()))["value"])


def _ranks(scores: Scores, asked: Asked) -> dict[str, Figure]:
    """MRR over all ranked indices, and of each where there are several."""
    links = _some(asked.links, asked.queries)
    found = {name: _reciprocal(scores, asked, links, axis) for axis, name in asked.axes.items()}
    figures = {"MRR": _mean(np.concatenate(list(found.values())))}
    if len(found) > 1:
        figures |= {f"MRR {name}": _mean(own) for name, own in found.items()}
    return figures


def _reciprocal(scores: Scores, asked: Asked, links: Cells, axis: int) -> np.ndarray:
    """1 ÷ rank (n,) of the own entity among those that make no known cell."""
    made = []
    for part in _pieces(links, asked.shape[axis]):
        along, own = scores.along(part, axis), part[:, axis, None]
        mine = np.take_along_axis(along, own, axis=1)
        rivals = ~at(asked.known, part, axis, asked.shape)
        np.put_along_axis(rivals, own, False, axis=1)
        above, tied = (np.sum(compare(along, mine) & rivals, axis=1) for compare in (np.greater, np.equal))
        made.append(1 / (1 + above + tied / 2))
    return np.concatenate(made)


def _lists(scores: Scores, asked: Asked) -> dict[str, Figure]:
    """NDCG@10 and recall@20 of the lists of all who have a tested link; what is known otherwise is not listed."""
    (axis,) = asked.axes
    who = 1 - axis
    gain, recall = [], []
    queries = np.zeros((len(np.unique(asked.links[:, who])), 2), np.int64)
    queries[:, who] = np.unique(asked.links[:, who])
    for part in _pieces(queries, asked.shape[axis]):
        wanted = at(asked.links, part, axis, asked.shape)
        closed = at(asked.known, part, axis, asked.shape) & ~wanted
        listed = _best(np.where(closed, -np.inf, scores.along(part, axis)), 20)
        hits = np.take_along_axis(wanted, listed, axis=1)
        total = wanted.sum(axis=1)
        discount = 1 / np.log2(np.arange(2, 12))
        most = np.cumsum(discount)[np.minimum(total, 10) - 1]
        gain.append(hits[:, :10] @ discount / most)
        recall.append(hits.sum(axis=1) / np.minimum(total, 20))
    return {"NDCG@10": _mean(np.concatenate(gain)), "recall@20": _mean(np.concatenate(recall))}


def _best(scores: np.ndarray, k: int) -> np.ndarray:
    """The k largest of each row, best first; of equals, in an order that has nothing to do with their numbers."""
    k = min(k, scores.shape[1])
    shuffled = np.random.default_rng(0).permutation(scores.shape[1])
    return shuffled[np.argsort(-scores[:, shuffled], axis=1, kind="stable")[:, :k]]


def average_precision(links: np.ndarray, others: np.ndarray) -> float:
    """Mean over the links of the share of links among all that score as high; equals are taken together."""
    links, others = np.sort(links), np.sort(others)
    ahead = len(links) - np.searchsorted(links, links)
    false = len(others) - np.searchsorted(others, links)
    return float(np.mean(ahead / (ahead + false)))


def _precision(links: np.ndarray, others: np.ndarray) -> Figure:
    """Average precision; its error from parts of the test."""
    whole = average_precision(links, others)
    parts = min(PARTS, len(links) // 2)
    if parts < 2:
        return {"value": whole, "error": None}
    orders = [np.random.default_rng(0).permutation(len(part)) for part in (links, others)]
    split = [np.array_split(part[order], parts) for part, order in zip((links, others), orders)]
    return {"value": whole, "error": _mean(np.array([average_precision(*pair) for pair in zip(*split)]))["error"]}


def _mean(values: np.ndarray) -> Figure:
    error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
    return {"value": float(np.mean(values)), "error": error}


def _some(links: Cells, most: int) -> Cells:
    """All links, or as many as there may be."""
    return links if len(links) <= most else np.random.default_rng(0).permutation(links)[:most]


def _pieces(queries: Cells, width: int) -> Iterator[Cells]:
    step = max(PIECE // width, 1)
    return (queries[start : start + step] for start in range(0, len(queries), step))
