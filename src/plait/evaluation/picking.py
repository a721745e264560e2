"""Which cells of a relation are hidden: at random, the latest, or the last of each entity."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from plait.data.bound import BoundRelation
from plait.data.cells.fibres import distinct
from plait.data.cells.keys import columns_of, find, pack, pack_pair
from plait.data.observing.along import along
from plait.data.observing.undirected import among, canonical, mirrored, orders, writing
from plait.data.reading.arrays import is_sparse
from plait.data.reading.tables import TableSource, is_table
from plait.errors import DataError, SettingError, TableLocation, suggestion
from plait.evaluation.listing import MOST_CELLS, cells_under, observed_cells
from plait.evaluation.subject import Subject
from plait.evaluation.timing import times_at
from plait.types import AnyArray

WORDS = ("cells", "links", "thin", "time")
LAST = '`by=("last", …)`'


@dataclass(frozen=True, eq=False)
class Chosen:
    """What is hidden: coordinates (n, k) by some indices; the cells of the test (m, order); whether zeros are among
    them; and out of how many cells, links, entities or pairs (what) how many were chosen.
    """

    hidden: dict[tuple[str, ...], AnyArray]
    cells: AnyArray
    with_zeros: bool
    what: str
    chosen: int
    candidates: int
    observed: float | None = None


@dataclass(frozen=True)
class Way:
    """What is to be hidden: by one of the words, or "slices" or "last" over some indices; how much; by which column."""

    word: str
    over: tuple[str, ...]
    fraction: float | None
    time: str | None
    count: int

    @property
    def by(self) -> str | tuple[str, ...]:
        """As a split tells it."""
        if self.word == "slices":
            return self.over
        return ("last", *self.over) if self.word == "last" else self.word

    @property
    def share(self) -> float:
        """The fraction, where there must be one."""
        assert self.fraction is not None
        return self.fraction


def way_of(by: Any, fraction: Any, time: Any, count: Any, bound: BoundRelation) -> Way:
    """The arguments of `hide` that say what to hide, checked."""
    word, over = _by(by, bound)
    _check_amount(word, by, fraction, count)
    if time is not None and word not in ("time", "last"):
        raise SettingError(
            f"`time` is {time!r}, but `by` is {by!r}, which does not use it.",
            hint=f'Hide the latest links, `by="time"`, or the last of each entity, {LAST}.',
        )
    return Way(word, over, None if fraction is None else float(fraction), time, 1 if count is None else int(count))


def check_time(by: Any, time: Any) -> None:
    """Refuse to ask for times without a column of them, before that column is taken for something else."""
    if by == "time" and time is None:
        raise SettingError(
            '`by="time"` needs `time`, the column that says when.',
            hint='Give `time="when"`, or another column.',
        )


def _by(by: Any, bound: BoundRelation) -> tuple[str, tuple[str, ...]]:
    """One of the words; or "slices" or "last", and the indices whose entities, pairs, … are meant."""
    if isinstance(by, str):
        if by not in WORDS:
            near = suggestion(by, WORDS)
            example = f'("index", {bound.indices[0]!r})' if bound.indices else '("index", …)'
            raise SettingError(
                f"`by` is {by!r}.",
                hint=f"{near}It is {', '.join(map(repr, WORDS))}, or a tuple of indices such as {example}.",
            )
        return by, ()
    given = tuple(by) if isinstance(by, Sequence) else ()
    word = given[0] if len(given) > 1 and given[0] in ("index", "pair", "last") else None
    over = given if word is None else given[1:]
    for index in over:
        if index not in bound.indices:
            raise SettingError(
                f"`by` names {index!r}, which is no index of {bound.name}.",
                hint=f"{suggestion(index, bound.indices)}It has {', '.join(bound.indices) or 'none'}.",
            )
    if not over or len(set(over)) < len(over):
        raise SettingError(
            f"`by` is {by!r}.",
            hint="Name each index once: ('index', 'user') or ('pair', 'user', 'place').",
        )
    ordered = tuple(index for index in bound.indices if index in over)
    return ("last" if word == "last" else "slices"), ordered


def _check_amount(word: str, by: Any, fraction: Any, count: Any) -> None:
    """How much to hide: a fraction; of each entity's last links a number."""
    if word == "last":
        if fraction is not None:
            raise SettingError(
                f"`fraction` is {fraction!r}, but `by` is {by!r}, which hides the last link of each.",
                hint="Leave it out; `count=2` would hide the last two.",
            )
        whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
        if count is not None and (not whole or count < 1):
            raise SettingError.must_be("count", "a whole number, 1 or more", count)
        return
    if count is not None:
        raise SettingError(
            f"`count` is {count!r}, but it is for {LAST}.",
            hint="Say how much to hide by `fraction`.",
        )
    number = isinstance(fraction, (int, float, np.floating)) and not isinstance(fraction, bool)
    if not number or not 0 < fraction < 1:
        raise SettingError.must_be(
            "fraction",
            "over 0 and under 1",
            fraction,
            hint="Give 0.2 to hide a fifth.",
        )


def choose(subject: Subject, way: Way, rng: np.random.Generator) -> Chosen:
    """What to hide of the relation to split."""
    if not len(subject.bound.links):
        raise DataError(
            "there is no observed link, so nothing can be tested.",
            location=TableLocation.of(subject.name),
            hint="Give data with links.",
        )
    ways: dict[str, Callable[[Subject, Way, np.random.Generator], Chosen]] = {
        "cells": _choose_cells,
        "links": _choose_links,
        "thin": _choose_thin,
        "time": _choose_latest,
        "last": _choose_last,
        "slices": _choose_slices,
    }
    return ways[way.word](subject, way, rng)


def _choose_cells(subject: Subject, way: Way, rng: np.random.Generator) -> Chosen:
    bound = subject.bound
    cells = _observed(bound)
    if cells is None:
        raise SettingError(
            f'`by="cells"` lists all cells, but {bound.name} has {bound.total_cells:,}, over {MOST_CELLS:,}.',
            hint='Use `by="thin"`: it hides links and zeros in equal shares without listing them.',
        )
    chosen = cells[_some(len(cells), way.share, rng, f"observed cells of {bound.name}")]
    return Chosen({bound.indices: chosen}, chosen, True, "observed cells", len(chosen), len(cells))


def _observed(bound: BoundRelation) -> AnyArray | None:
    """All cells with M > 0, each in one writing; None if there are too many cells to look at."""
    cells = observed_cells(bound.weights)
    return cells if cells is None or not bound.groups else cells[writing(cells, bound.groups) == 0]


def _choose_links(subject: Subject, way: Way, rng: np.random.Generator) -> Chosen:
    bound = subject.bound
    count = len(bound.links)
    chosen = bound.cells[_some(count, way.share, rng, f"links of {bound.name}")]
    return Chosen({bound.indices: chosen}, chosen, False, "links", len(chosen), count)


def _choose_thin(subject: Subject, way: Way, rng: np.random.Generator) -> Chosen:
    relation, name = subject.relation, subject.name
    if _unlisted_missing(subject):
        raise SettingError(
            (
                f'`by="thin"` weighs the zeros that {name} does not list, but with '
                f'`observed="listed"` these are missing.'
            ),
            hint='Use `by="cells"`: it hides listed cells, however large the tensor.',
        )
    if relation.weight_column is not None:
        _refuse_weighted_zeros(subject, '"thin"')
    links = _choose_links(subject, way, rng)
    return replace(links, observed=_thinned_weight(subject, way.share))


def _thinned_weight(subject: Subject, share: float) -> float:
    """What zeros weigh when a share of the links is hidden."""
    observed = subject.relation.observed
    return (1.0 if isinstance(observed, str) else float(observed)) * (1.0 - share)


def _unlisted_missing(subject: Subject) -> bool:
    """Whether cells that the data do not list are missing, so that none of them is a zero."""
    relation = subject.relation
    return relation.observed == "listed" and (is_table(relation.data) or is_sparse(relation.data))


# --- by time


def _choose_latest(subject: Subject, way: Way, rng: np.random.Generator) -> Chosen:
    """The latest of the links, or of the listed cells where only these are observed; among equal times at random."""
    cells, what = _candidates(subject, '"time"')
    number = _how_many(len(cells), way.share, f"{what} of {subject.name}")
    order = np.lexsort((rng.random(len(cells)), times_at(subject, cells)))
    return _put_aside(subject, cells, np.sort(order[-number:]), f"{what} (the latest by {way.time})")


def _choose_last(subject: Subject, way: Way, rng: np.random.Generator) -> Chosen:
    """The last links of each entity, or some at random where nothing says when.

    Who has no more than these keeps them all, and so does whom another way of writing them is about.
    """
    cells, what = _candidates(subject, '("last", …)')
    when = np.zeros(len(cells)) if way.time is None else times_at(subject, cells)
    entity, cell = _entities_of(subject.bound, cells, way.over)
    order = np.lexsort((rng.random(len(cells))[cell], when[cell], entity))
    have = np.bincount(entity)
    after = np.cumsum(have)[entity[order]] - np.arange(len(order))  # 1 for the last of an entity
    needed = np.unique(cell[have[entity] <= way.count])
    chosen = np.setdiff1d(cell[order[after <= way.count]], needed)
    each = f"each {' and '.join(way.over)}"
    if not len(chosen):
        raise SettingError(
            (
                f"no {' and '.join(way.over)} of {subject.name} has more than {way.count} of its {what}, so "
                "nothing would be left of any."
            ),
            hint="Give a smaller count, or more data.",
        )
    how = f"{way.count} of {each} at random" if way.time is None else f"the last {way.count} of {each} by {way.time}"
    return _put_aside(subject, cells, chosen, f"{what} ({how})")


def _entities_of(bound: BoundRelation, cells: AnyArray, over: Sequence[str]) -> tuple[AnyArray, AnyArray]:
    """Whose links cells (n, order) are: a number of the entity (m,), or combination, and of the cell (m,).

    A cell that can be written in several ways belongs to the entities of all of them.
    """
    places, ways = [bound.indices.index(index) for index in over], list(orders(bound.groups, cells.shape[1]))
    rows = np.concatenate([cells[:, order][:, places] for order in ways])
    keys = pack(columns_of(rows), [bound.shape[k] for k in places], len(rows))
    entity = np.unique(keys, return_inverse=True)[1].reshape(-1)
    if len(ways) == 1:
        return entity, np.arange(len(cells))
    both = np.unique(np.stack([entity, np.tile(np.arange(len(cells)), len(ways))], axis=1), axis=0)
    return both[:, 0], both[:, 1]


def _candidates(subject: Subject, by: str) -> tuple[AnyArray, str]:
    """What has a time: the links, or all listed cells where others are missing; and what they are called."""
    if _unlisted_missing(subject):
        cells = _observed(subject.bound)
        assert cells is not None  # they are listed
        return cells, "listed cells"
    if subject.relation.weight_column is not None:
        _refuse_weighted_zeros(subject, by)
    return subject.bound.cells, "links"


def _put_aside(subject: Subject, cells: AnyArray, chosen: AnyArray, what: str) -> Chosen:
    """Listed cells become missing, as all others are; links become zeros like all others, which weigh less (`thin`)."""
    some, listed = cells[chosen], _unlisted_missing(subject)
    weight = None if listed else _thinned_weight(subject, len(some) / len(cells))
    return Chosen({subject.bound.indices: some}, some, listed, what, len(some), len(cells), weight)


def beside_decoys(subject: Subject, links: Chosen, rng: np.random.Generator) -> Chosen:
    """The chosen links and as many zeros: what is hidden in other relations must not tell links from zeros."""
    bound = subject.bound
    cells = _observed(bound)
    if cells is None:  # too many to list, so hardly any that is drawn is a link, or missing
        cells = np.stack([rng.integers(0, size, 4 * len(links.cells)) for size in bound.shape], axis=1)
        cells = canonical(cells[bound.weights.at(cells) > 0].astype(links.cells.dtype), bound.groups)
    zeros = np.unique(cells[bound.values_at(cells) == 0], axis=0)
    zeros = zeros[rng.permutation(len(zeros))[: len(links.cells)]]
    cells = np.unique(np.concatenate([links.cells, zeros]), axis=0)
    return replace(links, hidden={bound.indices: cells}, cells=cells, with_zeros=True)


def _refuse_weighted_zeros(subject: Subject, by: str) -> None:
    """Listed zeros with weights of their own would not be thinned by the weight of all other zeros."""
    source = subject.relation.read(subject.name, subject.bound.indices)
    assert isinstance(source, TableSource)
    assert source.weights is not None
    observed = subject.relation.observed
    zero = 1.0 if isinstance(observed, str) else float(observed)
    if ((source.values == 0) & (source.weights != zero)).any():
        raise SettingError(
            f"`by={by}` gives all zeros of {subject.name} one weight, but its weight column gives some their own.",
            hint='Use `by="links"`, or leave out the rows of zeros.',
        )


def _choose_slices(subject: Subject, way: Way, rng: np.random.Generator) -> Chosen:
    bound, over = subject.bound, way.over
    sizes = [bound.weights.sizes[index] for index in over]
    if math.prod(sizes) > MOST_CELLS:
        raise SettingError(
            f"there are {math.prod(sizes):,} of {', '.join(over)} in {bound.name}, over {MOST_CELLS:,}.",
            hint='Hide entities of one index, or use `by="thin"`.',
        )
    what = f"entities of {over[0]}" if len(over) == 1 else f"combinations of {', '.join(over)}"
    places = [bound.indices.index(index) for index in over]
    candidates = np.argwhere(along(bound.weights, over) > 0)
    candidates = candidates[writing(candidates, among(bound.groups, places)) == 0]
    coords = candidates[_some(len(candidates), way.share, rng, f"{what} in {bound.name}")]
    cells = cells_under(bound.weights, places, coords)
    if cells is not None and bound.groups:
        cells = distinct(canonical(cells, bound.groups), bound.shape)
    test = _links_under(bound, places, coords) if cells is None else cells
    return Chosen({over: coords}, test, cells is not None, what, len(coords), len(candidates))


def _links_under(bound: BoundRelation, places: Sequence[int], coords: AnyArray) -> AnyArray:
    """The links with one of the coordinates at these places, in any writing of them."""
    over, cells = tuple(bound.indices[k] for k in places), bound.cells
    found = np.zeros(len(cells), bool)
    for names, rows in mirrored({over: coords}, bound.indices, bound.shape, bound.groups).items():
        at = [bound.indices.index(index) for index in names]
        sizes, counts = [bound.shape[k] for k in at], (len(cells), len(rows))
        found |= find(*pack_pair(columns_of(cells[:, at]), columns_of(rows), sizes, counts))[1]
    return cells[found]


def _some(count: int, fraction: float, rng: np.random.Generator, what: str) -> AnyArray:
    """Which of so many to hide, in order: exactly the fraction, to the nearest whole number."""
    return np.sort(rng.choice(count, _how_many(count, fraction, what), replace=False, shuffle=False))


def _how_many(count: int, fraction: float, what: str) -> int:
    chosen = math.floor(fraction * count + 0.5)
    if chosen == 0 or chosen == count:
        share = "none" if chosen == 0 else "all"
        raise SettingError(
            f"a fraction of {fraction:g} of {count:,} {what} is {share} of them.",
            hint=f"Give a {'larger' if chosen == 0 else 'smaller'} fraction, or more data.",
        )
    return chosen
