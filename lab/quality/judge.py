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

CHUNK_SCORES = 2**22  # scores held at a time
NO_LOOPS = ", no self-links"  # figures for which a self-link is no rival, where the relation has none
PARTS = 10  # of a test, to see how far average precision varies
Figure = dict[str, Any]  # value; error, None where it cannot be had


def judge(scores: Scores, asked: Asked) -> dict[str, Figure]:
    """All figures of a test; the first is the one that settings are chosen by."""
    found = _lists(scores, asked) if asked.lists else _ranks(scores, asked)
    links, others = scores.cells(asked.links), scores.cells(asked.others)
    found |= {"AP": _precision(links, others)}
    if asked.loopless is not None:
        found |= {f"AP{NO_LOOPS}": _precision(links, others[~_loops(asked, asked.others)])}
    return found


def main(figures: dict[str, Figure]) -> float:
    """What settings are chosen by."""
    return float(next(iter(figures.values()))["value"])


def _ranks(scores: Scores, asked: Asked) -> dict[str, Figure]:
    """MRR over all ranked indices, of each where there are several, and hits@k; then without self-links as rivals."""
    links = _some(asked.links, asked.queries)
    found = {name: _ranked(scores, asked, links, axis) for axis, name in asked.axes.items()}
    figures = {}
    for which, kind in enumerate(("", NO_LOOPS) if asked.loopless is not None else ("",)):
        every = np.concatenate([own[which] for own in found.values()])
        figures[f"MRR{kind}"] = _mean(1 / every)
        if len(found) > 1:
            figures |= {f"MRR {name}{kind}": _mean(1 / own[which]) for name, own in found.items()}
        if not which:
            figures |= {f"hits@{k}": _mean((every <= k).astype(float)) for k in asked.hits}
    return figures


def _ranked(scores: Scores, asked: Asked, links: Cells, axis: int) -> np.ndarray:
    """Ranks (2, n) of the own entity among those that make no known cell, and among those that make no self-link."""
    made = []
    for part in _pieces(links, asked.shape[axis]):
        along, own = scores.along(part, axis), part[:, axis, None]
        mine = np.take_along_axis(along, own, axis=1)
        rivals = ~at(asked.known, part, axis, asked.shape)
        np.put_along_axis(rivals, own, False, axis=1)
        ahead = np.where(rivals, (along > mine) + 0.5 * (along == mine), 0.0)  # ties at their expected rank
        rank, loop = 1 + ahead.sum(axis=1), np.zeros(len(part))
        if asked.loopless is not None:
            loop = np.where(asked.loopless[part[:, 1]], ahead[np.arange(len(part)), part[:, 2 - axis]], 0.0)
        made.append([rank, rank - loop])
    return np.concatenate(made, axis=1)


def _loops(asked: Asked, cells: Cells) -> np.ndarray:
    """Which triples (n,) link an entity to itself by a relation that does not."""
    assert asked.loopless is not None
    return asked.loopless[cells[:, 1]] & (cells[:, 0] == cells[:, 2])


def _lists(scores: Scores, asked: Asked) -> dict[str, Figure]:
    """Metrics of the lists of entities with a test link; known links are not listed."""
    (axis,) = asked.axes
    who = 1 - axis
    owners = _some(np.unique(asked.links[:, who]), asked.queries)
    queries = np.zeros((len(owners), 2), np.int64)
    queries[:, who] = owners
    found: dict[str, list[np.ndarray]] = {measure: [] for measure in asked.lists}
    for part in _pieces(queries, asked.shape[axis]):
        wanted = at(asked.links, part, axis, asked.shape)
        closed = at(asked.known, part, axis, asked.shape) & ~wanted
        listed = _best(np.where(closed, -np.inf, scores.along(part, axis)), 20)
        hits = np.take_along_axis(wanted, listed, axis=1)
        for measure, own in found.items():
            own.append(_of_list(measure, hits, wanted.sum(axis=1)))
    return {measure: _mean(np.concatenate(own)) for measure, own in found.items()}


def _of_list(measure: str, hits: np.ndarray, total: np.ndarray) -> np.ndarray:
    """A measure (n,) of lists by which of their places (n, k) are hits, and how many hits there could be (n,)."""
    name, _, k = measure.partition("@")
    hits = hits[:, : int(k)]
    if name == "NDCG":
        discount = 1 / np.log2(np.arange(2, int(k) + 2))
        return hits @ discount[: hits.shape[1]] / np.cumsum(discount)[np.minimum(total, int(k)) - 1]
    return hits.sum(axis=1) / (total if name == "full recall" else np.minimum(total, int(k)))


def _best(scores: np.ndarray, k: int) -> np.ndarray:
    """The k largest of each row, best first; of equals, in an order that has nothing to do with their numbers."""
    k = min(k, scores.shape[1])
    shuffled = np.random.default_rng(0).permutation(scores.shape[1])
    mixed = -scores[:, shuffled]
    listed = np.sort(np.argpartition(mixed, k - 1, axis=1)[:, :k], axis=1)
    order = np.argsort(np.take_along_axis(mixed, listed, axis=1), axis=1, kind="stable")
    return shuffled[np.take_along_axis(listed, order, axis=1)]


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


def _some(links: np.ndarray, most: int) -> np.ndarray:
    """All links or list owners, or as many as there may be."""
    return links if len(links) <= most else np.random.default_rng(0).permutation(links)[:most]


def _pieces(queries: Cells, width: int) -> Iterator[Cells]:
    step = max(CHUNK_SCORES // width, 1)
    return (queries[start : start + step] for start in range(0, len(queries), step))
