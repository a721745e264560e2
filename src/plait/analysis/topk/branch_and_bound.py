"""Branch and bound over boxes: the best cells of a relation, exact, in bounded memory.

A box is a block of rows on every axis; its bound is the rate at maxima over the blocks. The most promising boxes are
split first, in batches and depth first, so the first batches are a beam search that finds good cells, and only one list
of boxes per level waits. Boxes of few cells are scored directly. Where bounds do not help, this is a pass over all
cells in chunks.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Protocol

import numpy as np

from plait._typing import Array, Rows
from plait.analysis.predict.moments import mean_rate
from plait.analysis.topk.boxes import Tree, start_of
from plait.analysis.topk.contraction import Axis, Contraction, as_rows, free_axes, parts_of, remembers, simplified
from plait.analysis.topk.exposure_regions import Region, exposures_of, regions
from plait.analysis.topk.heap import TopHeap
from plait.data.observation.weights import Weights
from plait.model.model import Equation, Occurrence
from plait.storage.fitted import Fitted
from plait.tuning import TUNING

Levels = tuple[int, ...]


class Boxes(Protocol):
    """Bounds and scores of boxes; nodes (n, n_axes) are block numbers of the levels."""

    trees: list[Tree]

    def children(self, nodes: Rows, levels: Levels, axis: int, floor: float) -> tuple[Rows, Array]:
        """Children along an axis with bounds above the floor, and their bounds."""

    def cells(self, nodes: Rows, levels: Levels, floor: float) -> tuple[Rows, Array]:
        """Cells above the floor in boxes, as row numbers (m, n_axes), and their rates."""


def search(boxes: Boxes, best: TopHeap, start: tuple[Levels, Rows] | None = None) -> None:
    """Offer `best` every cell that can be among the best.

    `start`: levels and blocks (1, n_axes) of the box to search; None for all cells.
    """
    trees = boxes.trees
    levels, nodes = start or (start_of(trees), np.zeros((1, len(trees)), np.int64))
    shelves = [(levels, nodes, np.full(1, np.inf))]
    some = TUNING.first_boxes
    while shelves:
        levels, nodes, bounds = shelves.pop()
        above = int(np.searchsorted(-bounds, -best.floor, side="left"))  # bounds fall
        if above == 0:
            continue
        axis = _axis_to_split(trees, levels)
        batch = min(TUNING.boxes_batch if axis is not None else some, above)
        if batch < above:
            shelves.append((levels, nodes[batch:above], bounds[batch:above]))
        if axis is None:
            best.offer(*boxes.cells(nodes[:batch], levels, best.floor))
            some = min(4 * some, TUNING.boxes_batch)
            continue
        children, new = boxes.children(nodes[:batch], levels, axis, best.floor)
        order = np.argsort(-new, kind="stable")
        below = (*levels[:axis], levels[axis] - 1, *levels[axis + 1 :])
        shelves.append((below, children[order], new[order]))


def _axis_to_split(trees: list[Tree], levels: Levels) -> int | None:
    """The axis with the largest blocks; None if the box has few enough cells to be scored."""
    if math.prod(tree.fan**level for tree, level in zip(trees, levels)) <= TUNING.box_cells:
        return None
    return max((n for n in range(len(levels)) if levels[n]), key=lambda n: (levels[n], len(trees[n])), default=None)


def search_cells(fit: Fitted, equation: Equation, axes: Sequence[Axis], best: TopHeap) -> None:
    """Offer `best` the cells of all regions, those listed by an exposure first."""
    weights, large = exposures_of(fit, equation), _large(fit, equation, axes)
    pairs = [_pairs(fit, equation, occurrence) for occurrence in large]
    for region in regions(weights, axes, _entries_at_once(fit, equation, axes), pairs):
        best.exact = partial(mean_rate, fit, equation.relation) if region.bound else None
        form = _contraction_of_region(fit, equation, region, large)
        best.within(region.axes)
        if form.shape:
            search(_boxes(form), best)
        else:
            rate = sum(math.prod(float(part.array) for part in term) for term in form.terms)
            best.offer(np.zeros((1, 0), np.int64), np.array([rate]))
    best.settle()


def search_per_entity(
    fit: Fitted, equation: Equation, axes: Sequence[Axis], places: Sequence[int], new: Callable[[], TopHeap]
) -> Iterator[TopHeap]:
    """Best cells of every combination of rows at some places, one combination after the other.

    All share one set of trees: the search for an entity starts at the box of its row and of all rows elsewhere. Under
    an exposure, whose tables are additional axes, each is a separate search.
    """
    weights = exposures_of(fit, equation)
    if any(V is not None for V in weights) or _large(fit, equation, axes):
        for rows in product(*(range(len(axes[place])) for place in places)):
            best = new()
            search_cells(fit, equation, _fix_rows(axes, dict(zip(places, rows))), best)
            yield best
        return
    free = [n for n, axis in enumerate(axes) if len(axis) != 1]
    boxes = _boxes(_contraction_of_region(fit, equation, next(regions(weights, axes, 0))))
    at = [np.argsort(tree.order) for tree in boxes.trees]
    height = [tree.height for tree in boxes.trees]
    for rows in product(*(range(len(axes[place])) for place in places)):
        levels, node = list(height), np.zeros((1, len(free)), np.int64)
        for place, row in zip(places, rows):
            if place in free:
                levels[free.index(place)] = 0
                node[0, free.index(place)] = at[free.index(place)][row]
        best = new().within(axes)
        search(boxes, best, (tuple(levels), node))
        best.settle()
        yield best


def _fix_rows(axes: Sequence[Axis], rows: dict[int, int]) -> list[Axis]:
    """The axes with one row left at some places."""
    return [Axis(a.places, a.rows[rows[n] : rows[n] + 1]) if n in rows else a for n, a in enumerate(axes)]


def _large(fit: Fitted, equation: Equation, axes: Sequence[Axis]) -> list[Occurrence]:
    """Factors over pairs that have too many pairs among the rows of the axes for a dense array."""
    sizes = {index: len(axis) for index, axis in zip(equation.indices, axes)}
    return [o for o in equation.occurrences if o.factor in fit.factors and remembers(fit, o, sizes)]


def _pairs(fit: Fitted, equation: Equation, occurrence: Occurrence) -> Weights:
    """1 where a factor has a row for the pair."""
    pairs = fit.factors[occurrence.factor].pairs
    assert pairs is not None
    here = dict(zip(pairs.indices, occurrence.indices))
    return pairs.table(equation.indices, fit.known[equation.relation].shape, [here[i] for i in pairs.visible])


def _contraction_of_region(
    fit: Fitted, equation: Equation, region: Region, large: Sequence[Occurrence] = ()
) -> Contraction:
    """Terms of an equation that are not 0 in a region."""
    terms = [
        simplified([*parts_of(fit, equation, term, region.axes, large), *V])
        for term, V in zip(equation.terms, region.exposures)
        if V is not None
    ]
    return Contraction(tuple(len(axis) for axis in free_axes(region.axes)), tuple(terms))


def _boxes(form: Contraction) -> Boxes:
    from plait.analysis.topk.boxes import GeneralBoxes, RowBoxes

    # Few cells are contracted as fast in NumPy, without numba.
    rows = as_rows(form) if math.prod(form.shape) > TUNING.contracted_cells else None
    return GeneralBoxes(form) if rows is None else RowBoxes(rows)


def _entries_at_once(fit: Fitted, equation: Equation, axes: Sequence[Axis]) -> int:
    """Number of entries of a table that may form an axis, by the memory of the gathered factors."""
    sizes = {index: len(axis) for index, axis in zip(equation.indices, axes)}
    widest = 1
    for occurrence in equation.occurrences:
        if occurrence.factor in fit.factors:
            visible = [sizes[index] for index in occurrence.indices if index in sizes]
            if remembers(fit, occurrence, sizes):
                visible = visible[:1]
            size = math.prod([*visible, *(fit.rank[index] for index in occurrence.indices if index not in sizes)])
            widest = max(widest, size // max(1, min(visible, default=1)))
    return max(1, TUNING.gathered_doubles // widest)
