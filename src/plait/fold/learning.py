"""What new rows change of a relation: its known links, M, and the links that factors have yet to learn."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from plait.data.binding.known import Known
from plait.data.blocks.grown import GrownCells, with_more
from plait.data.cells.fibres import Fibres, FoundElsewhere
from plait.data.cells.sorting import sort_cells
from plait.data.cells.trees import narrow
from plait.data.observing.observed import observe
from plait.data.observing.rule import Box, Rule
from plait.data.observing.undirected import in_all_ways
from plait.data.observing.weights import Weights
from plait.errors import DataError, TableLocation
from plait.fold.blocks import Block
from plait.fold.growing import grown_known, weighing_alike
from plait.fold.reading import Fresh, Growth
from plait.likelihood import Likelihood
from plait.model.model import Model
from plait.run.record import Fitted
from plait.types import AnyArray, Array


@dataclass(frozen=True, eq=False)
class Links:
    """Some links: cells (n, order) in order, values and weights (n,)."""

    cells: AnyArray
    values: Array
    weights: Array


def learn_rows(
    fit: Fitted, name: str, growth: Growth, fresh: Fresh | None, blocks: list[Block], settled: Mapping[str, int]
) -> tuple[Known, Links]:
    """A relation as it is known from now on, and its links that factors have not learnt.

    settled: by axis, how many entities factors have learnt from; links of all others are among those.
    """
    model, known = fit.model, fit.known[name]
    grown = grown_known(model, name, known, growth, fresh, blocks)
    indices, shape = model.equation(name).indices, grown.shape
    inside = _inside(growth, fresh, known.rule) if fresh is not None else None
    new = np.zeros(0, bool)
    if inside is not None and fresh is not None:
        new = ~known.contain(inside.cells)
        refuse_again(fit.likelihood[name], fresh, inside, new)
        M = _observed(grown, known, model, name, growth, fresh, inside, new)
        grown = replace(_summed(grown, inside), boxes=(Box((0,) * len(shape), M),))
    here = in_memory(grown)
    late = _late(here.cells, [settled[model.axis(index)] for index in indices])
    parts = [Links(here.cells[late], here.values[late], here.weights[late])]
    if inside is not None:
        early = (inside.values > 0) & ~_late(inside.cells, [settled[model.axis(index)] for index in indices])
        parts.append(Links(inside.cells[early], inside.values[early], inside.weights[early]))
    return grown, _together(parts, shape)


def settled_links(model: Model, name: str, known: Known, settled: Mapping[str, int]) -> Links:
    """The known links of a relation that factors have learnt."""
    return _settled(model, name, known.among(lambda cells: np.ones(len(cells), bool)), settled)


def settled_beside(model: Model, name: str, known: Known, settled: Mapping[str, int]) -> Links:
    """Those of them that are not on disk."""
    return _settled(model, name, in_memory(known), settled)


def _settled(model: Model, name: str, links: Known | Links, settled: Mapping[str, int]) -> Links:
    mine = ~_late(links.cells, [settled[model.axis(index)] for index in model.equation(name).indices])
    return Links(links.cells[mine], links.values[mine], np.asarray(links.weights)[mine])


def in_memory(known: Known) -> Links:
    """The known links but for those on disk; of a cell that is there too, what was added to it."""
    if not isinstance(known.links, FoundElsewhere):
        return Links(known.cells, known.values, np.asarray(known.weights))
    if not isinstance(known.links, GrownCells):
        return Links(np.zeros((0, len(known.shape)), np.uint32), np.zeros(0), np.zeros(0))
    cells, values = known.links.beside, known.links.more
    return Links(cells, values, known.links.own_weights() * np.asarray(known.weights)[: len(cells)])


def _late(cells: AnyArray, settled: list[int]) -> NDArray[np.bool_]:
    """Which cells have an entity that factors have not learnt from."""
    return (
        np.asarray((cells >= np.array(settled, np.int64)).any(axis=1)) if len(settled) else np.zeros(len(cells), bool)
    )


def _inside(growth: Growth, fresh: Fresh, rule: Rule | None) -> Links:
    """The listed cells of entities that there were."""
    entries = fresh.entries
    old = np.array([growth.old[index] for index, _ in entries.labels], np.int64)
    mine = (entries.coords < old).all(axis=1) if len(old) else np.ones(len(entries), bool)
    weight = 1.0 if rule is None else rule.weight
    values = np.asarray(entries.values[mine], np.float64)
    return Links(entries.coords[mine], values, np.asarray(fresh.weights[mine], np.float64) * weight)


def refuse_again(likelihood: Likelihood, fresh: Fresh, inside: Links, new: NDArray[np.bool_]) -> None:
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
    grown: Known, known: Known, model: Model, name: str, growth: Growth, fresh: Fresh, inside: Links,
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


def _summed(known: Known, more: Links) -> Known:
    """The known links with more of them; values of a cell add up."""
    links = more.values > 0
    if not links.any():
        return known
    if isinstance(known.links, FoundElsewhere):
        all_links = with_more(known.links, known.shape, more.cells[links], more.values[links])
        return replace(known, links=all_links, weights=weighing_alike(known, all_links))
    parts = [
        Links(known.cells, known.values, np.asarray(known.weights)),
        Links(more.cells[links].astype(known.cells.dtype), more.values[links], more.weights[links]),
    ]
    both = _together(parts, known.shape)
    first = np.ones(len(both.cells), bool)
    first[1:] = (both.cells[1:] != both.cells[:-1]).any(axis=1)
    at = np.flatnonzero(first)
    values = np.add.reduceat(both.values, at) if len(at) else both.values
    return replace(known, links=both.cells[at], stored=narrow(values), weights=both.weights[at])


def _together(parts: list[Links], shape: tuple[int, ...]) -> Links:
    """Links in one order; of equal cells the first comes first."""
    cells = np.concatenate([part.cells.astype(parts[0].cells.dtype) for part in parts])
    values, weights = (np.concatenate([getattr(part, word) for part in parts]) for word in ("values", "weights"))
    order, cells = sort_cells(cells, shape)
    return Links(cells, values, weights) if order is None else Links(cells, values[order], weights[order])
