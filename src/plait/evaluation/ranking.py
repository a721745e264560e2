"""The rank of test links among all entities of an axis, raw and filtered."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from plait.data.keys import columns_of, pack_pair, search
from plait.evaluation.metrics import rank_figures, ranks
from plait.evaluation.nonlinks import Links

if TYPE_CHECKING:
    from plait.result import Fit

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# Scores held at a time.
PIECE = 2**22


def ranking(fit: "Fit", relation: str, cells: Rows, axes: Sequence[str], links: Links, score: str) -> dict[str, float]:
    """Figures of the ranks of links (n, order) on these axes, given their other entities.

    mrr, hits_at_1, hits_at_3, hits_at_10, mean_rank: filtered, without the candidates that are links too or closed by a
    rule; the same with _raw: among all. By axis as mrr[tail] where there are several, and over all ranks.
    """
    figures: dict[str, float] = {}
    everything: dict[str, list[Floats]] = {"": [], "_raw": []}
    for axis in axes:
        for suffix, positions in zip(everything, positions_on(fit, relation, cells, axis, links, score)):
            everything[suffix].append(positions)
            if len(axes) > 1:
                own = rank_figures(positions)
                figures |= {f"{name}{suffix}[{axis}]": figure for name, figure in own.items()}
    for suffix, parts in everything.items():
        over_all = rank_figures(np.concatenate(parts))
        figures |= {f"{name}{suffix}": figure for name, figure in over_all.items()}
    return figures


def positions_on(fit: "Fit", relation: str, cells: Rows, axis: str, links: Links, score: str) -> tuple[Floats, Floats]:
    """Filtered and raw ranks (n,) of links (n, order) on one axis."""
    place = fit.model.equation(relation).indices.index(axis)
    size = links.shape[place]
    filtered, raw = np.empty(len(cells)), np.empty(len(cells))
    step = max(PIECE // size, 1)
    for start in range(0, len(cells), step):
        part = slice(start, start + step)
        scores = scores_along(fit, relation, cells[part], axis, score)
        target = cells[part, place]
        raw[part] = ranks(scores, target)
        filtered[part] = ranks(scores, target, no_rivals(links, cells[part], place))
    return filtered, raw


def scores_along(fit: "Fit", relation: str, cells: Rows, axis: str, score: str) -> Floats:
    """The scores (n, size) of cells (n, order) with one entity running over all of its axis."""
    if score == "rate" or (score == "mean" and fit.likelihood[relation] == "poisson"):
        from plait.predict.moments import rates_along

        return rates_along(fit, relation, cells, axis)
    from plait.predict.chance import score as score_cells

    place = fit.model.equation(relation).indices.index(axis)
    size = len(fit.labels[axis])
    candidates = np.repeat(cells, size, axis=0)
    candidates[:, place] = np.tile(np.arange(size), len(cells))
    return np.asarray(score_cells(fit, relation, candidates, score)).reshape(len(cells), size)


def no_rivals(links: Links, cells: Rows, place: int) -> NDArray[np.bool_]:
    """Which entities (n, size) at this place do not count beside a cell's own: with them it is a link, or closed."""
    found = also_links(links, cells, place)
    if links.closed:
        rivals = np.repeat(cells, found.shape[1], axis=0)
        rivals[:, place] = np.tile(np.arange(found.shape[1]), len(cells))
        found |= links.closed.contain(rivals).reshape(found.shape)
    return found


def also_links(links: Links, cells: Rows, place: int) -> NDArray[np.bool_]:
    """Which entities (n, size) at this place make a link of a cell's other entities; its own entity is among them."""
    others = [k for k in range(len(links.shape)) if k != place]
    sizes = [links.shape[k] for k in others]
    counts = (len(cells), len(links.cells))
    mine, theirs = pack_pair(columns_of(cells[:, others]), columns_of(links.cells[:, others]), sizes, counts)
    order = np.argsort(theirs, kind="stable")
    theirs = theirs[order]
    start = search(theirs, mine)
    found = search(theirs, mine, "right") - start
    # Hit h is number h − (hits of earlier cells) among those of its own cell.
    rows = np.repeat(np.arange(len(cells)), found)
    hits = order[np.arange(len(rows)) + np.repeat(start - (np.cumsum(found) - found), found)]
    result = np.zeros((len(cells), links.shape[place]), bool)
    result[rows, links.cells[hits, place]] = True
    return result
