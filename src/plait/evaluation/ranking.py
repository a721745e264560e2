"""Where test links stand among all entities of an axis: how many rivals are above, and how many are tied.

Links that share everything but the entity on the axis are one query, whose candidates are scored once. A probability
that only the whole distribution tells (`analysis.predict.prediction`) is costly, but all that counts is how it
compares with those of the query's links, and it always lies between two bounds that are cheap: only where one of
these lies between the bounds, too, a candidate is scored exactly. And entities without data, of which a fit says
the same, are scored once.

What is found among the first k of a query: recall, precision, NDCG and average precision.

A query is everything of a cell but one entity; its relevant items are all its test links. Where candidates are tied,
their order is drawn at random and the figure is its expected value, here in closed form.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from plait._typing import Array, Flags, Rows
from plait.data.sparse.keys import columns_of, pack, pack_pair, search
from plait.evaluation.metrics import TIED
from plait.evaluation.negative_sampling import KnownLinks
from plait.evaluation.scorer import Scorer
from plait.jit import kernel
from plait.tuning import TUNING

Advance = Callable[[int], None]  # told of so many links more


@dataclass(frozen=True, eq=False)
class Ranked:
    """Links on one axis; all (n,).

    query: the number of each link's query. score: its own. above, tied: how many rivals are above or tied, other links
    and closed cells not counting; raw_above, raw_tied: among all candidates.
    """

    query: Rows
    score: Array
    above: Rows
    tied: Rows
    raw_above: Rows
    raw_tied: Rows


def ranked(view: Scorer, cells: Rows, place: int, links: KnownLinks, advance: Advance = lambda more: None) -> Ranked:
    """Where links (n, order) stand among all entities at this place, given their other entities."""
    query, first = queries(cells, place, links.shape)
    order = np.argsort(query, kind="stable")
    begin = np.searchsorted(query[order], np.arange(len(first) + 1))
    own, counts = view.scores(cells), np.zeros((len(cells), 4), np.int64)
    step = max(TUNING.ranking_scores // links.shape[place], 1)
    for start in range(0, len(first), step):
        some = slice(start, start + step)
        asked, mine = cells[first[some]], order[begin[start] : begin[min(start + step, len(first))]]
        there, target = query[mine] - start, cells[mine, place]
        scores, same = _scores(view, asked, place, there, own[mine])
        found = np.zeros((len(mine), 4), np.int64)
        count_rivals(scores, same[there], no_rivals(links, asked, place), there, target, TIED, found)
        counts[mine] = found
        advance(len(mine))
    return Ranked(query, own, *np.ascontiguousarray(counts.T))


def queries(cells: Rows, place: int, shape: tuple[int, ...]) -> tuple[Rows, Rows]:
    """The query of every cell (n,), numbered by the other entities, and a cell of each query."""
    others = [k for k in range(len(shape)) if k != place]
    if not others:
        return np.zeros(len(cells), np.int64), np.zeros(min(len(cells), 1), np.int64)
    keys = pack(columns_of(cells[:, others]), [shape[k] for k in others], len(cells))
    _, first, query = np.unique(keys, return_index=True, return_inverse=True)
    return query.reshape(-1), first


def _scores(view: Scorer, cells: Rows, place: int, there: Rows, own: Array) -> tuple[Array, Rows]:
    """Scores (m, size) that compare with the links' own as the exact ones do, and the row of every query in them.

    cells (queries, order): one of each query; there, own: the query and the score of each link.
    """
    if view.by_rate:
        return view.along(cells, place), np.arange(len(cells))
    same, first = queries(view.alike(cells), place, view.shape)
    cells = cells[first]
    low, high = view.bounds_along(cells, place)
    open_ = np.zeros(low.shape, bool)
    mark_open(low, high, same[there], own, TIED, open_)
    row, entity = np.nonzero(open_)
    candidates = cells[row]
    candidates[:, place] = entity
    low[row, entity] = view.scores(candidates)
    return low, same


@kernel
def mark_open(low: Array, high: Array, row: Rows, own: Array, tied: float, open_: Flags) -> None:
    """Mark the candidates (m, size) whose score, between low and high, may be on either side of a link's own.

    row: that of each link.
    """
    for n in range(len(own)):
        q, margin = row[n], tied * abs(own[n])
        for c in range(low.shape[1]):
            if low[q, c] < high[q, c] and low[q, c] <= own[n] + margin and high[q, c] >= own[n] - margin:
                open_[q, c] = True


@kernel
def count_rivals(scores: Array, row: Rows, removed: Flags, there: Rows, target: Rows, tied: float, found: Rows) -> None:
    """found[n] = rivals of link n above it and tied with it, those not removed; then the same of all.

    scores (m, size), of which link n has row[n]; removed (queries, size), of which it has there[n].
    """
    for n in range(len(target)):
        q, r = there[n], row[n]
        own = scores[r, target[n]]
        margin = tied * abs(own)
        for c in range(scores.shape[1]):
            if c != target[n] and scores[r, c] >= own - margin:
                at = 0 if scores[r, c] > own + margin else 1
                found[n, 2 + at] += 1
                if not removed[q, c]:
                    found[n, at] += 1


def no_rivals(links: KnownLinks, cells: Rows, place: int) -> Flags:
    """Which entities (n, size) at this place do not count beside a cell's own: with them it is a link, or closed."""
    found = also_links(links, cells, place)
    if links.closed:
        rivals = np.repeat(cells, found.shape[1], axis=0)
        rivals[:, place] = np.tile(np.arange(found.shape[1]), len(cells))
        found |= links.closed.contain(rivals).reshape(found.shape)
    return found


def also_links(links: KnownLinks, cells: Rows, place: int) -> Flags:
    """Which entities (n, size) at this place make a link of a cell's other entities; its own entity is among them."""
    others = [k for k in range(len(links.shape)) if k != place]
    sizes = [links.shape[k] for k in others]
    known = links.written
    counts = (len(cells), len(known))
    mine, theirs = pack_pair(columns_of(cells[:, others]), columns_of(known[:, others]), sizes, counts)
    order = np.argsort(theirs, kind="stable")
    theirs = theirs[order]
    start = search(theirs, mine)
    found = search(theirs, mine, "right") - start
    # Hit h is number h − (hits of earlier cells) among those of its own cell.
    rows = np.repeat(np.arange(len(cells)), found)
    hits = order[np.arange(len(rows)) + np.repeat(start - (np.cumsum(found) - found), found)]
    result = np.zeros((len(cells), links.shape[place]), bool)
    result[rows, known[hits, place]] = True
    return result


@dataclass(frozen=True, eq=False)
class QueryStanding:
    """Where relevant items stand among the candidates of their queries; all (n,).

    query: its number, from 0, each with an item. before: how many candidates are above, hits: how many of these are
    relevant. tied: how many candidates stand where the item does, itself among them; alike: how many of them are
    relevant.
    """

    query: Rows
    before: Rows
    hits: Rows
    tied: Rows
    alike: Rows


def standing(query: Rows, score: Array, above: Rows, tied: Rows) -> QueryStanding:
    """From how many candidates that are not relevant stand above an item and beside it; all (n,)."""
    order = np.lexsort((-score, query))
    own, down = query[order], score[order]
    same = (own[1:] == own[:-1]) & (down[:-1] - down[1:] <= TIED * np.abs(down[:-1]))
    tie = np.cumsum(np.append(0, ~same))
    alike = np.bincount(tie)
    first = np.cumsum(alike) - alike
    begin = np.searchsorted(own, own)  # of the query
    hits_there, alike_there = first[tie] - begin, alike[tie]
    hits, near = np.empty_like(query), np.empty_like(query)
    hits[order], near[order] = hits_there, alike_there
    return QueryStanding(query, above + hits, hits, tied + near, near)


def figures_at(items: QueryStanding, k: int) -> dict[str, Array]:
    """recall, precision, ndcg and map (average precision) at k of every query, (queries,), by name."""
    relevant = np.bincount(items.query)
    few = np.minimum(relevant, k)
    gains = 1.0 / np.log2(np.arange(2, k + 2))
    found, gained, precise = (np.bincount(items.query, x) for x in _of_items(items, gains))
    return {
        f"recall_at_{k}": found / relevant,
        f"precision_at_{k}": found / k,
        f"ndcg_at_{k}": gained / np.cumsum(gains)[few - 1],
        f"map_at_{k}": precise / few,
    }


def _of_items(items: QueryStanding, gains: Array) -> Sequence[Array]:
    """Expected over the order of ties: whether each item is among the first k, its gain, and the precision there."""
    k = len(gains)
    start, end = np.minimum(items.before, k), np.minimum(items.before + items.tied, k)
    gain, harmonic = (np.append(0.0, np.cumsum(x)) for x in (gains, 1.0 / np.arange(1, k + 1)))
    # At place p > before the item itself and `hits` are counted, and of the p − before − 1 that are tied and above it
    # the share beta.
    beta = np.divide(items.alike - 1, items.tied - 1, out=np.zeros(len(start)), where=items.tied > 1)
    precise = (items.hits + 1 - beta * (items.before + 1)) * (harmonic[end] - harmonic[start]) + beta * (end - start)
    return (end - start) / items.tied, (gain[end] - gain[start]) / items.tied, precise / items.tied
