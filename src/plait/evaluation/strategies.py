"""Strategies of a split: which cells of a relation are held out, at random, the latest, or the last of each entity."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plait._typing import AnyArray
from plait.data.bound import BoundRelation
from plait.data.held_out import draw_zeros, how_many, links_among, pick
from plait.data.observation.symmetry import among, canonical, orders, writing
from plait.data.observation.weights import Weights, along
from plait.data.sources.arrays import is_sparse
from plait.data.sources.tables import TableSource, is_table
from plait.data.sparse.csf_index import distinct
from plait.data.sparse.keys import columns_of, coordinate_type, pack
from plait.errors import DataError, ParameterError, TableLocation, suggestion
from plait.evaluation.split_target import SplitTarget, times_at
from plait.tuning import TUNING


def observed_cells(weights: Weights) -> AnyArray | None:
    """Sorted coordinates (n, order) of all cells with M > 0; None if there are too many cells to list."""
    tables = [term.table for term in weights.terms if term.table is not None]
    if not weights.terms:
        return np.zeros((0, len(weights.shape)), np.uint32)
    if len(tables) == len(weights.terms) == 1 and tables[0].indices == weights.indices:
        return tables[0].coords[weights.at(tables[0].coords) > 0]
    return cells_under(weights, (), np.zeros((1, 0), np.int64))


def cells_under(weights: Weights, places: Sequence[int], coords: AnyArray) -> AnyArray | None:
    """Coordinates of the cells with M > 0 of some slices, pairs, …; None if there are too many cells to list.

    `coords` (m, k): rows of the indices at these positions; the other indices run over all their rows.
    """
    others = [k for k in range(len(weights.shape)) if k not in places]
    shape = (len(coords), *(weights.shape[k] for k in others))
    total = math.prod(shape)
    if total > TUNING.max_listed_cells:
        return None
    kind = coordinate_type(weights.shape)
    blocks = [np.zeros((0, len(weights.shape)), kind)]
    for start in range(0, total, TUNING.listing_chunk):
        which, *rest = np.unravel_index(np.arange(start, min(start + TUNING.listing_chunk, total)), shape)
        cells = np.empty((len(which), len(weights.shape)), kind)
        cells[:, list(places)] = coords[which]
        for k, rows in zip(others, rest):
            cells[:, k] = rows
        blocks.append(cells[weights.at(cells) > 0])
    return np.concatenate(blocks)


WORDS = ("cells", "links", "thinned_links", "time")
LAST = '`by=("leave_last_out", …)`'


@dataclass(frozen=True, eq=False)
class ChosenCells:
    """Held-out cells: coordinates (n, k) by index set; the cells of the test set (m, order); whether they include
    zeros; and the number chosen out of `what` (cells, links, entities or pairs).
    """

    hidden: dict[tuple[str, ...], AnyArray]
    cells: AnyArray
    with_zeros: bool
    what: str
    chosen: int
    candidates: int
    observed: float | None = None


@dataclass(frozen=True)
class Strategy:
    """How cells are chosen: one of `WORDS`, or "slices" or "leave_last_out" over some indices; share; time column."""

    word: str
    over: tuple[str, ...]
    fraction: float | None
    time: str | None
    count: int

    @property
    def by(self) -> str | tuple[str, ...]:
        """The option `by`."""
        if self.word == "slices":
            return self.over
        return ("leave_last_out", *self.over) if self.word == "leave_last_out" else self.word

    @property
    def share(self) -> float:
        """The fraction, which must be given."""
        assert self.fraction is not None
        return self.fraction


def parse_strategy(by: Any, fraction: Any, time: Any, count: Any, bound: BoundRelation) -> Strategy:
    """Checked arguments of `train_test_split` that say what to hold out."""
    word, over = _by(by, bound)
    _check_amount(word, by, fraction, count)
    if time is not None and word not in ("time", "leave_last_out"):
        raise ParameterError(
            f"`time` is {time!r}, but `by` is {by!r}, which does not use `time`.",
            hint=f'Hold out the latest links with `by="time"`, or the last links of each entity with {LAST}.',
        )
    return Strategy(word, over, None if fraction is None else float(fraction), time, 1 if count is None else int(count))


def check_time(by: Any, time: Any) -> None:
    """Refuse `by="time"` without a column of times."""
    if by == "time" and time is None:
        raise ParameterError(
            '`by="time"` requires `time`, the column of times.',
            hint='Example: `time="date"`.',
        )


def _by(by: Any, bound: BoundRelation) -> tuple[str, tuple[str, ...]]:
    """One of the words; or "slices" or "leave_last_out", and their indices."""
    if isinstance(by, str):
        if by not in WORDS:
            near = suggestion(by, WORDS)
            name = bound.indices[0] if bound.indices else "…"
            example = f"('index', {name!r}), ('pair', …), or ('leave_last_out', {name!r})"
            raise ParameterError(
                f"`by` must name a way to hold out cells, got {by!r}.",
                hint=f"{near}Use {', '.join(map(repr, WORDS))}, {example}; on the command line index={name}.",
            )
        return by, ()
    given = tuple(by) if isinstance(by, Sequence) else ()
    word = given[0] if len(given) > 1 and given[0] in ("index", "pair", "leave_last_out") else None
    over = given if word is None else given[1:]
    for index in over:
        if index not in bound.indices:
            raise ParameterError(
                f"`by`: {index!r} is not an index of {bound.name}.",
                hint=f"{suggestion(index, bound.indices)}The indices are {', '.join(bound.indices) or 'none'}.",
            )
    if not over or len(set(over)) < len(over):
        raise ParameterError(
            f"`by` must name each index once, got {by!r}.",
            hint="Give each index once, as in ('index', 'user') or ('pair', 'user', 'place').",
        )
    ordered = tuple(index for index in bound.indices if index in over)
    return ("leave_last_out" if word == "leave_last_out" else "slices"), ordered


def _check_amount(word: str, by: Any, fraction: Any, count: Any) -> None:
    """Check the fraction, or the number of last links per entity."""
    if word == "leave_last_out":
        if fraction is not None:
            raise ParameterError(
                f"`fraction` has no effect with `by={by!r}`, got {fraction!r}.",
                hint="Remove it, or use `count`, such as `count=2`.",
            )
        whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
        if count is not None and (not whole or count < 1):
            raise ParameterError.must_be("count", "an integer of at least 1", count)
        return
    if count is not None:
        raise ParameterError(
            f"`count` requires {LAST}, got `count={count!r}`.",
            hint="Use `fraction` instead.",
        )
    if fraction is None:
        raise ParameterError(f"`by={by!r}` requires `fraction`.", hint="Example: 0.2 holds out a fifth.")
    number = isinstance(fraction, (int, float, np.floating)) and not isinstance(fraction, bool)
    if not number or not 0 < fraction < 1:
        raise ParameterError.must_be(
            "fraction",
            "greater than 0 and less than 1",
            fraction,
            hint="Example: 0.2 holds out a fifth.",
        )


def choose(target: SplitTarget, way: Strategy, rng: np.random.Generator) -> ChosenCells:
    """Choose the held-out cells."""
    if not len(target.bound.links):
        raise DataError(
            "there are no observed links to hold out.",
            location=TableLocation.of(target.name),
            hint="Give data with links.",
        )
    ways: dict[str, Callable[[SplitTarget, Strategy, np.random.Generator], ChosenCells]] = {
        "cells": _choose_cells,
        "links": _choose_links,
        "thinned_links": _choose_thin,
        "time": _choose_latest,
        "leave_last_out": _choose_last,
        "slices": _choose_slices,
    }
    return ways[way.word](target, way, rng)


def _choose_cells(target: SplitTarget, way: Strategy, rng: np.random.Generator) -> ChosenCells:
    bound = target.bound
    cells = _observed(bound)
    if cells is None:
        raise ParameterError(
            f'`by="cells"` lists all cells, but {bound.name} has {bound.total_cells:,} cells (maximum '
            f"{TUNING.max_listed_cells:,}).",
            hint='Use `by="thinned_links"`, which holds out links and zeros in equal shares without a list of cells.',
        )
    chosen = cells[_some(len(cells), way.share, rng, f"observed cells of {bound.name}")]
    return ChosenCells({bound.indices: chosen}, chosen, True, "observed cells", len(chosen), len(cells))


def _observed(bound: BoundRelation) -> AnyArray | None:
    """All cells with M > 0, each in one orientation; None if there are too many cells to list."""
    cells = observed_cells(bound.weights)
    return cells if cells is None or not bound.groups else cells[writing(cells, bound.groups) == 0]


def _choose_links(target: SplitTarget, way: Strategy, rng: np.random.Generator) -> ChosenCells:
    bound = target.bound
    count = len(bound.links)
    chosen = bound.cells[_some(count, way.share, rng, f"links of {bound.name}")]
    return ChosenCells({bound.indices: chosen}, chosen, False, "links", len(chosen), count)


def _choose_thin(target: SplitTarget, way: Strategy, rng: np.random.Generator) -> ChosenCells:
    relation, name = target.relation, target.name
    if _unlisted_missing(target):
        raise ParameterError(
            (f'`by="thinned_links"` requires zeros that are not listed, but {name} has `observed="listed"`.'),
            hint='Use `by="cells"`, which holds out listed cells.',
        )
    if relation.weight_column is not None:
        _refuse_weighted_zeros(target, '"thinned_links"')
    links = _choose_links(target, way, rng)
    return replace(links, observed=_thinned_weight(target, way.share))


def _thinned_weight(target: SplitTarget, share: float) -> float:
    """Weight of zeros when a share of the links is held out."""
    observed = target.relation.observed
    return (1.0 if isinstance(observed, str) else float(observed)) * (1.0 - share)


def _unlisted_missing(target: SplitTarget) -> bool:
    """Whether unlisted cells are missing, so that none of them is a zero."""
    relation = target.relation
    return relation.observed == "listed" and (is_table(relation.data) or is_sparse(relation.data))


# --- by time


def _choose_latest(target: SplitTarget, way: Strategy, rng: np.random.Generator) -> ChosenCells:
    """The latest links, or listed cells where only these are observed; ties at random."""
    cells, what = _candidates(target, '"time"')
    number = _how_many(len(cells), way.share, f"{what} of {target.name}")
    order = np.lexsort((rng.random(len(cells)), times_at(target, cells)))
    return _hold_out_cells(target, cells, np.sort(order[-number:]), f"{what} (the latest by {way.time})")


def _choose_last(target: SplitTarget, way: Strategy, rng: np.random.Generator) -> ChosenCells:
    """The last links of each entity, or random ones without times.

    An entity keeps all its links if it has no more than these, and so does one that shares an undirected link.
    """
    cells, what = _candidates(target, '("leave_last_out", …)')
    when = np.zeros(len(cells)) if way.time is None else times_at(target, cells)
    entity, cell = _entities_of(target.bound, cells, way.over)
    order = np.lexsort((rng.random(len(cells))[cell], when[cell], entity))
    have = np.bincount(entity)
    after = np.cumsum(have)[entity[order]] - np.arange(len(order))  # 1 for the last link of an entity
    needed = np.unique(cell[have[entity] <= way.count])
    chosen = np.setdiff1d(cell[order[after <= way.count]], needed)
    each = f"each {' and '.join(way.over)}"
    if not len(chosen):
        raise ParameterError(
            (
                f"no {' and '.join(way.over)} of {target.name} has more than {way.count} of the {what}, "
                "so no training links would remain."
            ),
            hint="Use a smaller `count`, or more data.",
        )
    how = f"{way.count} of {each} at random" if way.time is None else f"the last {way.count} of {each} by {way.time}"
    return _hold_out_cells(target, cells, chosen, f"{what} ({how})")


def _entities_of(bound: BoundRelation, cells: AnyArray, over: Sequence[str]) -> tuple[AnyArray, AnyArray]:
    """Entities of cells (n, order): number of the entity (m,), or combination, and of the cell (m,).

    A cell with several orientations belongs to the entities of all of them.
    """
    places, ways = [bound.indices.index(index) for index in over], list(orders(bound.groups, cells.shape[1]))
    rows = np.concatenate([cells[:, order][:, places] for order in ways])
    keys = pack(columns_of(rows), [bound.shape[k] for k in places], len(rows))
    entity = np.unique(keys, return_inverse=True)[1].reshape(-1)
    if len(ways) == 1:
        return entity, np.arange(len(cells))
    both = np.unique(np.stack([entity, np.tile(np.arange(len(cells)), len(ways))], axis=1), axis=0)
    return both[:, 0], both[:, 1]


def _candidates(target: SplitTarget, by: str) -> tuple[AnyArray, str]:
    """Cells with a time: the links, or all listed cells where others are missing; and their name."""
    if _unlisted_missing(target):
        cells = _observed(target.bound)
        assert cells is not None  # they are listed
        return cells, "listed cells"
    if target.relation.weight_column is not None:
        _refuse_weighted_zeros(target, by)
    return target.bound.cells, "links"


def _hold_out_cells(target: SplitTarget, cells: AnyArray, chosen: AnyArray, what: str) -> ChosenCells:
    """Listed cells become missing like all others; links become zeros like all others, which weigh less (`thinned`)."""
    some, listed = cells[chosen], _unlisted_missing(target)
    weight = None if listed else _thinned_weight(target, len(some) / len(cells))
    return ChosenCells({target.bound.indices: some}, some, listed, what, len(some), len(cells), weight)


def add_decoy_zeros(target: SplitTarget, links: ChosenCells, rng: np.random.Generator) -> ChosenCells:
    """The chosen links and as many zeros, so that hidden cells of other relations do not reveal which are links."""
    bound = target.bound
    cells = _observed(bound)
    if cells is None:
        zeros = canonical(draw_zeros(bound, bound.groups, len(links.cells), rng), bound.groups)
    else:
        zeros = cells[bound.values_at(cells) == 0]
        zeros = zeros[rng.permutation(len(zeros))[: len(links.cells)]]
    zeros = zeros.astype(links.cells.dtype)
    cells = np.unique(np.concatenate([links.cells, zeros]), axis=0)
    return replace(links, hidden={bound.indices: cells}, cells=cells, with_zeros=True)


def _refuse_weighted_zeros(target: SplitTarget, by: str) -> None:
    """Refuse listed zeros with their own weights, which thinning would not scale."""
    source = target.relation.read(target.name, target.bound.indices)
    assert isinstance(source, TableSource)
    assert source.weights is not None
    observed = target.relation.observed
    zero = 1.0 if isinstance(observed, str) else float(observed)
    if ((source.values == 0) & (source.weights != zero)).any():
        raise ParameterError(
            f"`by={by}` requires one weight for all zeros of {target.name}, but its weight column has several.",
            hint='Use `by="links"`, or remove the rows with zeros.',
        )


def _choose_slices(target: SplitTarget, way: Strategy, rng: np.random.Generator) -> ChosenCells:
    bound, over = target.bound, way.over
    sizes = [bound.weights.sizes[index] for index in over]
    if math.prod(sizes) > TUNING.max_listed_cells:
        raise ParameterError(
            f"{bound.name} has {math.prod(sizes):,} combinations of {', '.join(over)} (maximum "
            f"{TUNING.max_listed_cells:,}).",
            hint='Hold out entities of one index, or use `by="thinned_links"`.',
        )
    what = f"entities of {over[0]}" if len(over) == 1 else f"combinations of {', '.join(over)}"
    places = [bound.indices.index(index) for index in over]
    candidates = np.argwhere(along(bound.weights, over) > 0)
    candidates = candidates[writing(candidates, among(bound.groups, places)) == 0]
    coords = candidates[_some(len(candidates), way.share, rng, f"{what} in {bound.name}")]
    cells = cells_under(bound.weights, places, coords)
    if cells is not None and bound.groups:
        cells = distinct(canonical(cells, bound.groups), bound.shape)
    test = bound.cells[links_among(bound, {over: coords})] if cells is None else cells
    return ChosenCells({over: coords}, test, cells is not None, what, len(coords), len(candidates))


def _some(count: int, fraction: float, rng: np.random.Generator, what: str) -> AnyArray:
    """Sorted choice of a fraction of `count` items, rounded to the nearest integer."""
    return pick(count, _how_many(count, fraction, what), rng, shuffle=False)


def _how_many(count: int, fraction: float, what: str) -> int:
    chosen = how_many(count, fraction)
    if chosen in (0, count):
        share = "none" if chosen == 0 else "all"
        raise ParameterError(
            f"`fraction={fraction:g}` of {count:,} {what} is {share} of them.",
            hint=f"Use a {'larger' if chosen == 0 else 'smaller'} `fraction`, or more data.",
        )
    return chosen
