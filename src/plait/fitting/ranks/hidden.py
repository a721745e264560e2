"""Links put aside from bound data, by which settings are judged: no other cell may give them away."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from plait.answer.predict.prediction import columns
from plait.data.blocks.binding import in_memory
from plait.data.bound import BoundRelation, Data
from plait.data.cells.keys import columns_of, find, pack, pack_pair
from plait.data.observing.link_store import LinksInMemory
from plait.data.observing.undirected import orders, writing
from plait.data.observing.weights import Weights
from plait.machine import memory
from plait.result import Fit
from plait.types import Array

Cells = NDArray[np.int64]

ZEROS = 10  # that are put aside with every link
ROUNDS = 20  # of draws for them
BYTES = 60  # that a link takes while it is bound in memory, about
SHARE = 0.25  # of the machine's memory that links on disk may take
LEAST = 1e-300  # probability of a cell that was thought impossible


@dataclass(frozen=True, eq=False)
class Aside:
    """Data without some cells of a relation, and these: cells (n, order) by row numbers, values (n,), 0 for zeros."""

    data: Data
    relation: str
    cells: Cells
    values: Array

    def score(self, fits: Sequence[Fit], links_only: bool = False) -> Array:
        """Log-probability (n,) of every cell's value under the mixture of some fits of the rest.

        links_only: of whether there is a link, which compares fits of counts with fits of links.
        """
        logs = [log_chance(fit, self.relation, self.cells, self.values, links_only) for fit in fits]
        return np.asarray(logsumexp(logs, axis=0) - math.log(len(logs)))

    def chance(self, fits: Sequence[Fit]) -> Array:
        """Probability (n,) of a link at every cell under the mixture of some fits."""
        chances = [columns(fit, self.relation, self.cells, ("probability",))["probability"] for fit in fits]
        return np.asarray(np.mean(chances, axis=0))


def put_aside(data: Data, relation: str, fraction: float, rng: np.random.Generator) -> Aside | None:
    """Hide a fraction of a relation's links and, ten for each, of its zeros; None where there are too few links.

    Those on disk are read into memory: they are few enough wherever settings are tried (`can_hold`).

    Where two indices share an axis, the mirror images of a cell are hidden with it: a friendship listed both ways would
    tell itself.
    """
    bound = in_memory(data.relations[relation], data.labels)
    axes = [data.labels[index].axis for index in bound.indices]
    links = bound.cells.astype(np.int64)
    kinds = np.unique(_canonical(links, axes, bound.shape), return_inverse=True)[1]
    count = int(kinds.max()) + 1 if len(kinds) else 0
    chosen = round(fraction * count)
    if chosen == 0 or chosen == count:
        return None
    gone = np.zeros(count, bool)
    gone[rng.choice(count, chosen, replace=False)] = True
    hidden = _images(links[gone[kinds]], axes)
    # Images that are cells of their own: what is counted once is drawn once.
    ways = len(_images(links[:1], axes)) // len(list(orders(bound.groups, len(axes))))
    wanted = min(ZEROS * int(gone[kinds].sum()), round(fraction * bound.observed_zeros)) // ways
    hidden = np.concatenate([hidden, _images(_zeros(bound, axes, wanted, rng), axes)])
    hidden = np.unique(hidden, axis=0)
    hidden = hidden[bound.weights.at(hidden) > 0]
    left = replace(data, relations={**data.relations, relation: _without(bound, hidden)})
    tested = hidden[writing(hidden, bound.groups) == 0]  # of a pair that is one cell, one writing
    return Aside(left, relation, tested, bound.values_at(tested))


def can_hold(relation: BoundRelation) -> bool:
    """Whether the links of a relation are in memory, or would be little beside it."""
    return relation.links.in_memory or len(relation.links) * BYTES <= SHARE * memory()


def _canonical(cells: Cells, axes: Sequence[str], shape: Sequence[int]) -> NDArray[np.integer]:
    """One key for a cell and all its mirror images."""
    ordered = cells.copy()
    for places in _shared(axes):
        ordered[:, places] = np.sort(cells[:, places], axis=1)
    return pack(columns_of(ordered), shape, len(cells))


def _shared(axes: Sequence[str]) -> list[list[int]]:
    groups = [[k for k, own in enumerate(axes) if own == axis] for axis in dict.fromkeys(axes)]
    return [places for places in groups if len(places) > 1]


def _images(cells: Cells, axes: Sequence[str]) -> Cells:
    """Cells and their mirror images, some perhaps more than once."""
    groups, found = _shared(axes), []
    for turns in product(*(permutations(places) for places in groups)):
        order = list(range(cells.shape[1]))
        for places, turned in zip(groups, turns):
            for place, source in zip(places, turned):
                order[place] = source
        found.append(cells[:, order])
    return np.concatenate(found)


def _zeros(bound: BoundRelation, axes: Sequence[str], wanted: int, rng: np.random.Generator) -> Cells:
    """About so many observed zeros, drawn at random, none with a link among its mirror images."""
    found: Cells = np.zeros((0, len(bound.shape)), np.int64)
    for _ in range(ROUNDS):
        if len(found) >= wanted:
            break
        drawn = np.stack([rng.integers(0, size, 2 * wanted) for size in bound.shape], axis=1)
        drawn = drawn[bound.weights.at(drawn) > 0]
        linked = (bound.values_at(_images(drawn, axes)) > 0).reshape(-1, len(drawn)).any(axis=0)
        found = np.unique(np.concatenate([found, drawn[~linked]]), axis=0)
    return found[rng.permutation(len(found))[:wanted]]


def _without(bound: BoundRelation, cells: Cells) -> BoundRelation:
    """The relation with some observed cells, sorted, missing."""
    keys = pack_pair(columns_of(bound.cells), columns_of(cells), bound.shape, (len(bound.links), len(cells)))
    keep = ~find(*keys)[1]
    table = Weights.from_sorted(bound.indices, bound.shape, cells, bound.weights.at(cells))
    return replace(
        bound,
        links=LinksInMemory.of(
            bound.indices,
            bound.shape,
            bound.cells[keep],
            bound.links.stored[keep],
            np.asarray(bound.cell_weights)[keep],
        ),
        weights=bound.weights - table,
        observed_cells=bound.observed_cells - int(np.count_nonzero(writing(cells, bound.groups) == 0)),
    )


def log_chance(fit: Fit, relation: str, cells: Cells, values: Array, links_only: bool = False) -> Array:
    """Log predictive probability of values at cells, (n,): of the link, or of the value under matched moments."""
    likelihood = fit.likelihood[relation]
    if links_only or likelihood.binary:
        chance = columns(fit, relation, cells, ("probability",))["probability"]
        return np.asarray(np.log(np.maximum(np.where(values > 0, chance, 1.0 - chance), LEAST)))
    found = columns(fit, relation, cells, ("rate", "variance"))
    rate = np.maximum(found["rate"], LEAST)
    return likelihood.log_probability_by_moments(values, rate, found["variance"], fit.learnt[relation])
