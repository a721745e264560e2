"""Ranking of test links among all entities of an axis, and top-k metrics: recall, precision, NDCG and average
precision.

Links that share everything but the entity on the axis are one query, whose candidates are scored once, by products of
matrices (`analysis.predict.order`).

The relevant items of a query are all its test links. Ties have a random order; metrics are expected values in closed
form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.data.sparse.keys import columns_of, pack
from plait.evaluation.metrics import TIE_TOLERANCE
from plait.evaluation.negative_sampling import KnownLinks
from plait.evaluation.scorer import Scorer
from plait.jit import kernel
from plait.tuning import TUNING

Advance = Callable[[int], None]  # gets the number of further links done


@dataclass(frozen=True, eq=False)
class Ranked:
    """Links on one axis; all (n,).

    `query`: number of each link's query. `score`: its own. `above`, `tied`: rivals above or tied, without other links
    and structural zeros; `raw_above`, `raw_tied`: among all candidates.
    """

    query: Rows
    score: Array
    above: Rows
    tied: Rows
    raw_above: Rows
    raw_tied: Rows


def ranked(view: Scorer, cells: Rows, place: int, links: KnownLinks, advance: Advance = lambda more: None) -> Ranked:
    """Ranks of links (n, order) among all entities at one position, given their other entities."""
    query, first = queries(cells, place, links.shape)
    order = np.argsort(query, kind="stable")
    begin = np.searchsorted(query[order], np.arange(len(first) + 1))
    own, counts = view.scores(cells), np.zeros((len(cells), 4), np.int64)
    step = max(TUNING.ranking_scores // links.shape[place], 1)
    for start in range(0, len(first), step):
        some = slice(start, start + step)
        asked, mine = cells[first[some]], order[begin[start] : begin[min(start + step, len(first))]]
        there, target = query[mine] - start, cells[mine, place]
        least = np.full(len(asked), np.inf)
        np.minimum.at(least, there, own[mine])
        scores = view.along(asked, place, least * (1 - TIE_TOLERANCE))
        removed = np.zeros(scores.shape, bool)
        links.mark_fibres(asked, place, removed)
        rival_counts = np.zeros((len(mine), 4), np.int64)
        count_rivals(scores, removed, there, target, TIE_TOLERANCE, rival_counts)
        counts[mine] = rival_counts
        advance(len(mine))
    return Ranked(query, own, *np.ascontiguousarray(counts.T))


def queries(cells: Rows, place: int, shape: tuple[int, ...]) -> tuple[Rows, Rows]:
    """Query of every cell (n,), numbered by the other entities, and a cell of each query."""
    others = [k for k in range(len(shape)) if k != place]
    if not others:
        return np.zeros(len(cells), np.int64), np.zeros(min(len(cells), 1), np.int64)
    keys = pack(columns_of(cells[:, others]), [shape[k] for k in others], len(cells))
    _, first, query = np.unique(keys, return_index=True, return_inverse=True)
    return query.reshape(-1), first


@kernel
def count_rivals(scores: Array, removed: Flags, there: Rows, target: Rows, tied: float, counts: Rows) -> None:
    """found[n] = rivals of link n above it and tied with it, those not removed; then the same of all.

    scores, removed (queries, size), of which link n has line there[n].
    """
    for n in range(len(target)):
        q = there[n]
        own = scores[q, target[n]]
        margin = tied * abs(own)
        for c in range(scores.shape[1]):
            if c != target[n] and scores[q, c] >= own - margin:
                at = 0 if scores[q, c] > own + margin else 1
                counts[n, 2 + at] += 1
                if not removed[q, c]:
                    counts[n, at] += 1


@dataclass(frozen=True, eq=False)
class QueryStanding:
    """Positions of relevant items among the candidates of their queries; all (n,).

    `query`: its number, from 0, each with an item. `before`: candidates above, `hits`: relevant ones among them.
    `tied`: candidates tied with the item, including itself; `alike`: number of relevant ones among them.
    """

    query: Rows
    before: Rows
    hits: Rows
    tied: Rows
    alike: Rows


def standing(query: Rows, score: Array, above: Rows, tied: Rows) -> QueryStanding:
    """From the numbers of irrelevant candidates above an item and tied with it; all (n,)."""
    order = np.lexsort((-score, query))
    own, down = query[order], score[order]
    same = (own[1:] == own[:-1]) & (down[:-1] - down[1:] <= TIE_TOLERANCE * np.abs(down[:-1]))
    tie = np.cumsum(np.append(0, ~same))
    alike = np.bincount(tie)
    first = np.cumsum(alike) - alike
    begin = np.searchsorted(own, own)  # first item of the query
    hits_there, alike_there = first[tie] - begin, alike[tie]
    hits, near = np.empty_like(query), np.empty_like(query)
    hits[order], near[order] = hits_there, alike_there
    return QueryStanding(query, above + hits, hits, tied + near, near)


def figures_at(items: QueryStanding, k: int) -> dict[str, Array]:
    """recall, precision, ndcg and map (average precision) at k of every query, (n_queries,), by name."""
    relevant = np.bincount(items.query)
    few = np.minimum(relevant, k)
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    hits, gained, precise = (np.bincount(items.query, x) for x in _of_items(items, gains))
    return {
        f"recall_at_{k}": hits / relevant,
        f"precision_at_{k}": hits / k,
        f"ndcg_at_{k}": gained / np.cumsum(gains)[few - 1],
        f"map_at_{k}": precise / few,
    }


def _of_items(items: QueryStanding, gains: Array) -> Sequence[Array]:
    """Expectations over the order of ties: whether each item is among the first k, its gain, and the
    precision there.
    """
    k = len(gains)
    start, end = np.minimum(items.before, k), np.minimum(items.before + items.tied, k)
    gain, harmonic = (np.append(0.0, np.cumsum(x)) for x in (gains, 1.0 / np.arange(1, k + 1)))
    # At place p > before the item itself and `hits` are counted, and of the p − before − 1 that are tied and above it
    # the share beta.
    beta = np.divide(items.alike - 1, items.tied - 1, out=np.zeros(len(start)), where=items.tied > 1)
    precise = (items.hits + 1 - beta * (items.before + 1)) * (harmonic[end] - harmonic[start]) + beta * (end - start)
    return (end - start) / items.tied, (gain[end] - gain[start]) / items.tied, precise / items.tied
