"""What is found among the first k of a query: recall, precision, NDCG and average precision.

A query is everything of a cell but one entity; its relevant items are all its test links. Where candidates are tied,
their order is drawn at random and the figure is its expected value, here in closed form.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plait.evaluation.metrics import TIED
from plait.types import Array, Rows


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
