"""What new rows change of a relation: its known links, M, and the links that factors have yet to learn."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.known import Known
from plait.data.cells.fibres import Fibres
from plait.data.observing.link_store import Keep, LinkArrays, summed
from plait.data.observing.observed import observe
from plait.data.observing.rule import Box, Rule
from plait.data.observing.undirected import in_all_ways
from plait.data.observing.weights import Weights
from plait.errors import DataError, TableLocation
from plait.fold.blocks import Block
from plait.fold.growing import grown_known
from plait.fold.reading import Fresh, Growth
from plait.likelihood import Likelihood
from plait.model.model import Model
from plait.run.record import Fitted


def learn_rows(
    fit: Fitted, name: str, growth: Growth, fresh: Fresh | None, blocks: list[Block], settled: Mapping[str, int]
) -> tuple[Known, LinkArrays]:
    """A relation as it is known from now on, and its links that factors have not learnt.

    settled: by axis, how many entities factors have learnt from; links of all others are among those.
    """
    model, known = fit.model, fit.known[name]
    grown = grown_known(model, name, known, growth, fresh, blocks)
    shape = grown.shape
    inside = _inside(growth, fresh, known.rule) if fresh is not None else None
    new = np.zeros(0, bool)
    if inside is not None and fresh is not None:
        new = ~known.contain(inside.cells)
        refuse_again(fit.likelihood[name], fresh, inside, new)
        M = _observed(grown, known, model, name, growth, fresh, inside, new)
        links = grown.links.plus(inside.taken(inside.values > 0))
        grown = replace(grown, links=links, boxes=(Box((0,) * len(shape), M),))
    learnt = is_settled(model, name, settled)
    parts = [
        LinkArrays.none(len(shape)) if grown.links.here is None else grown.links.here.read(lambda cells: ~learnt(cells))
    ]
    if inside is not None:
        early = (inside.values > 0) & learnt(inside.cells)
        parts.append(inside.taken(early))
    return grown, summed(parts, shape)


def is_settled(model: Model, name: str, settled: Mapping[str, int]) -> Keep:
    """Which cells of a relation have only entities that factors have learnt from."""
    counts = np.array([settled[model.axis(index)] for index in model.equation(name).indices], np.int64)
    return lambda cells: np.asarray((cells < counts).all(axis=1))


def _inside(growth: Growth, fresh: Fresh, rule: Rule | None) -> LinkArrays:
    """The listed cells of entities that there were."""
    entries = fresh.entries
    old = np.array([growth.old[index] for index, _ in entries.labels], np.int64)
    mine = (entries.coords < old).all(axis=1) if len(old) else np.ones(len(entries), bool)
    weight = 1.0 if rule is None else rule.weight
    values = np.asarray(entries.values[mine], np.float64)
    return LinkArrays(entries.coords[mine], values, np.asarray(fresh.weights[mine], np.float64) * weight)


def refuse_again(likelihood: Likelihood, fresh: Fresh, inside: LinkArrays, new: NDArray[np.bool_]) -> None:
    """Refuse another value of a known link where values of a cell do not add up."""
    again = ~new & (inside.values > 0)
    if likelihood.name == "poisson" or not again.any():
        return
    cell = inside.cells[int(np.argmax(again))]
    entry = int(np.argmax((fresh.entries.coords == cell).all(axis=1)))
    raise DataError(
        f"{fresh.entries.named(entry) or 'the cell'} is a known link already, and under {likelihood} values do not add "
        "up.",
        location=TableLocation(fresh.relation, rows=(fresh.entries.row(entry),)),
        hint="Leave known links out, or fit again with the value that it has now.",
    )


def _observed(
    grown: Known, known: Known, model: Model, name: str, growth: Growth, fresh: Fresh, inside: LinkArrays,
    new: NDArray[np.bool_],
) -> Weights:  # fmt: skip
    """M with new cells: one that was an observed zero weighs what links weigh, one that was missing is observed."""
    indices, shape, M = model.equation(name).indices, grown.shape, grown.observed
    M = M + _widened(known, indices, growth, fresh, shape)
    cells, weights = inside.cells[new], inside.weights[new]
    change = weights - M.at(cells)
    moved = np.flatnonzero(change)
    if not len(moved):
        return M
    fibres = Fibres.of(indices, shape, np.ascontiguousarray(cells[moved]))
    return M + Weights.from_sorted(indices, shape, *in_all_ways(fibres, change[moved], known.groups))


def _widened(known: Known, indices: tuple[str, ...], growth: Growth, fresh: Fresh, shape: tuple[int, ...]) -> Weights:
    """What entities that are new to the relation, though not to the fit, add to M: their cells are observed zeros."""
    rule, nothing = known.rule, Weights.constant(indices, shape, 0.0)
    if rule is None or not rule.seen or rule.unlisted == 0:
        return nothing
    named = {index: fresh.mentioned[index][fresh.mentioned[index] < growth.old[index]] for index in rule.seen}
    if all(rule.seen[index][rows].all() for index, rows in named.items()):
        return nothing
    parts = []
    for more in (True, False):
        seen = {}
        for index in indices:
            vector = np.zeros(len(growth.labels[index]), bool)
            vector[: growth.old[index]] = rule.seen.get(index, True)
            if more and index in named:
                vector[named[index]] = True
            seen[index] = vector
        none = Fibres.of(indices, shape, np.zeros((0, len(indices)), np.uint32))
        parts.append(observe(indices, shape, none, np.zeros(0), rule.unlisted, seen, rule.hidden, rule.weight).weights)
    return parts[0] - parts[1]
