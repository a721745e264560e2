"""A search for the best cells of a fit's relation, over boxes: of all its cells, or of one entity after the other."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product

import numpy as np

from plait.answer.predict.moments import mean_rate
from plait.answer.search.best import Best
from plait.answer.search.branch import Boxes, search
from plait.answer.search.form import Axis, Form, as_rows, free_axes, parts_of, remembers, simplified
from plait.answer.search.listed import Region, exposures_of, regions
from plait.data.observing.weights import Weights
from plait.model.model import Equation, Occurrence
from plait.run.record import Fitted

GATHERED = 1 << 23  # doubles of a factor gathered for the entries of an exposure's table at a time


def search_cells(fit: Fitted, equation: Equation, axes: Sequence[Axis], best: Best) -> None:
    """Offer `best` the cells of all regions; those that an exposure lists first."""
    weights, large = exposures_of(fit, equation), _large(fit, equation, axes)
    pairs = [_pairs(fit, equation, occurrence) for occurrence in large]
    for region in regions(weights, axes, _entries_at_once(fit, equation, axes), pairs):
        best.exact = partial(mean_rate, fit, equation.relation) if region.bound else None
        form = _form(fit, equation, region, large)
        best.within(region.axes)
        if form.shape:
            search(_boxes(form), best)
        else:
            rate = sum(math.prod(float(part.array) for part in term) for term in form.terms)
            best.offer(np.zeros((1, 0), np.int64), np.array([rate]))
    best.settle()


def search_each(
    fit: Fitted, equation: Equation, axes: Sequence[Axis], places: Sequence[int], new: Callable[[], Best]
) -> Iterator[Best]:
    """The best cells of every combination of rows at some places, one combination after the other.

    All share one set of trees: the search for an entity begins at the box of its row and of all rows elsewhere. Under
    an exposure, whose tables are axes of their own, each is a search by itself.
    """
    weights = exposures_of(fit, equation)
    if any(V is not None for V in weights) or _large(fit, equation, axes):
        for rows in product(*(range(len(axes[place])) for place in places)):
            best = new()
            search_cells(fit, equation, _settled(axes, dict(zip(places, rows))), best)
            yield best
        return
    free = [n for n, axis in enumerate(axes) if len(axis) != 1]
    boxes = _boxes(_form(fit, equation, next(regions(weights, axes, 0))))
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


def _settled(axes: Sequence[Axis], rows: dict[int, int]) -> list[Axis]:
    """The axes with one row left at some places."""
    return [Axis(a.places, a.rows[rows[n] : rows[n] + 1]) if n in rows else a for n, a in enumerate(axes)]


def _large(fit: Fitted, equation: Equation, axes: Sequence[Axis]) -> list[Occurrence]:
    """The factors over pairs of which there are too many among the rows of the axes for arrays over all of them."""
    sizes = {index: len(axis) for index, axis in zip(equation.indices, axes)}
    return [o for o in equation.occurrences if o.factor in fit.factors and remembers(fit, o, sizes)]


def _pairs(fit: Fitted, equation: Equation, occurrence: Occurrence) -> Weights:
    """1 where a factor has a row for the pair."""
    pairs = fit.factors[occurrence.factor].pairs
    assert pairs is not None
    here = dict(zip(pairs.indices, occurrence.indices))
    return pairs.table(equation.indices, fit.known[equation.relation].shape, [here[i] for i in pairs.visible])


def _form(fit: Fitted, equation: Equation, region: Region, large: Sequence[Occurrence] = ()) -> Form:
    """The terms of an equation that are not 0 in a region."""
    terms = [
        simplified([*parts_of(fit, equation, term, region.axes, large), *V])
        for term, V in zip(equation.terms, region.exposures)
        if V is not None
    ]
    return Form(tuple(len(axis) for axis in free_axes(region.axes)), tuple(terms))


def _boxes(form: Form) -> Boxes:
    from plait.answer.search.boxes import RowBoxes
    from plait.answer.search.general import GeneralBoxes

    rows = as_rows(form)
    return GeneralBoxes(form) if rows is None else RowBoxes(rows)


def _entries_at_once(fit: Fitted, equation: Equation, axes: Sequence[Axis]) -> int:
    """How many entries of a table may be an axis: a factor gathers its latent indices for each, and other free axes."""
    sizes = {index: len(axis) for index, axis in zip(equation.indices, axes)}
    widest = 1
    for occurrence in equation.occurrences:
        if occurrence.factor in fit.factors:
            visible = [sizes[index] for index in occurrence.indices if index in sizes]
            if remembers(fit, occurrence, sizes):
                visible = visible[:1]
            size = math.prod([*visible, *(fit.rank[index] for index in occurrence.indices if index not in sizes)])
            widest = max(widest, size // max(1, min(visible, default=1)))
    return max(1, GATHERED // widest)
