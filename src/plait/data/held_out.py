"""Held-out cells of bound data: which links and zeros are chosen, and the relation without them.

`plait.train_test_split` and the searches for ranks and weights choose by the same functions. A search holds cells
out of bound data (`hold_out`); `plait.train_test_split` writes its choice back into the user's tables.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array, Flags
from plait.data.bound import BoundRelation, Data
from plait.data.observation.links import LinksInMemory
from plait.data.observation.symmetry import Groups, canonical, mirrored, orders, writing
from plait.data.observation.weights import Weights
from plait.data.outofcore.bind_blocks import in_memory
from plait.data.sparse.keys import columns_of, find, pack, pack_pair
from plait.machine import memory

ZEROS_PER_LINK = 10
MAX_ROUNDS = 20  # of draws for zeros
LINK_BYTES = 60  # of a link while it is bound in memory, measured
MEMORY_SHARE = 0.25  # of the machine's memory that links on disk may take


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Data without some cells of a relation, and these: cells (n_cells, order), values (n_cells,), 0 for zeros."""

    data: Data
    relation: str
    cells: AnyArray
    values: Array


def hold_out(
    data: Data,
    relation: str,
    fraction: float,
    rng: np.random.Generator,
    *,
    as_zeros: bool = False,
    max_links: int | None = None,
) -> HeldOut | None:
    """Hold out a fraction of a relation's links and ten zeros per link; None where that is no link or all links.

    Links on disk are read into memory; `fits_memory` says whether they fit. Where two indices share an axis, the mirror
    images of a cell are held out with it: a friendship listed both ways would leak. `as_zeros`: held-out links become
    zeros, as links that a user does not know yet, and no cell becomes missing: weights, and the kernels of a fit, stay
    as they are. `max_links`: about the largest number of links held out.
    """
    bound = in_memory(data.relations[relation], data.entities)
    groups = _shared_axes([data.entities[index].axis for index in bound.indices])
    links = bound.cells.astype(np.int64)
    pairs = pack(columns_of(canonical(links, groups)), bound.shape, len(links))
    kinds = np.unique(pairs, return_inverse=True)[1]
    count = int(kinds.max()) + 1 if len(kinds) else 0
    if max_links is not None:
        fraction = min(fraction, max_links / max(len(links), 1))
    number = how_many(count, fraction)
    if number in (0, count):
        return None
    chosen = np.zeros(count, bool)
    chosen[pick(count, number, rng)] = True
    is_chosen = chosen[kinds]
    n_links = int(is_chosen.sum())
    # In an undirected relation all images are one cell, which is drawn once.
    ways = len(list(orders(groups, len(bound.shape)))) // len(list(orders(bound.groups, len(bound.shape))))
    share = 1.0 if as_zeros else fraction
    wanted = min(ZEROS_PER_LINK * n_links, round(share * bound.observed_zeros)) // ways
    cells = _images(np.concatenate([links[is_chosen], draw_zeros(bound, groups, wanted, rng)]), groups)
    cells = np.unique(cells, axis=0)
    cells = cells[bound.weights.at(cells) > 0]
    test = cells[writing(cells, bound.groups) == 0]
    kept = _with_links(bound, ~is_chosen) if as_zeros else _without(bound, cells)
    rest = replace(data, relations={**data.relations, relation: kept})
    return HeldOut(rest, relation, test, bound.values_at(test))


def fits_memory(relation: BoundRelation) -> bool:
    """Whether the links of a relation are in memory, or take a small share of it."""
    return relation.links.in_memory or len(relation.links) * LINK_BYTES <= MEMORY_SHARE * memory()


def how_many(count: int, fraction: float) -> int:
    """A fraction of a count, rounded to the nearest integer."""
    return math.floor(fraction * count + 0.5)


def pick(count: int, number: int, rng: np.random.Generator, *, shuffle: bool = True) -> NDArray[np.int64]:
    """Positions (number,) of distinct items among `count`, in order, at random; `shuffle` as for NumPy's `choice`."""
    return np.sort(rng.choice(count, number, replace=False, shuffle=shuffle))


def draw_zeros(bound: BoundRelation, groups: Groups, wanted: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """At most `wanted` observed zeros (n_cells, order), at random; no image of them under `groups` is a link."""
    zeros: NDArray[np.int64] = np.zeros((0, len(bound.shape)), np.int64)
    for _ in range(MAX_ROUNDS):
        if len(zeros) >= wanted:
            break
        drawn = np.stack([rng.integers(0, size, 2 * wanted) for size in bound.shape], axis=1)
        drawn = drawn[bound.weights.at(drawn) > 0]
        linked = (bound.values_at(_images(drawn, groups)) > 0).reshape(-1, len(drawn)).any(axis=0)
        zeros = np.unique(np.concatenate([zeros, drawn[~linked]]), axis=0)
    return zeros[rng.permutation(len(zeros))[:wanted]]


def links_among(bound: BoundRelation, tables: Mapping[tuple[str, ...], AnyArray]) -> Flags:
    """Which links (n_links,) agree with a row of a table on all its indices; `tables`: coordinates by indices."""
    cells = bound.cells
    is_link = np.zeros(len(cells), bool)
    for over, rows in mirrored(tables, bound.indices, bound.shape, bound.groups).items():
        places = [bound.indices.index(index) for index in over]
        sizes, counts = [bound.shape[k] for k in places], (len(cells), len(rows))
        needles, keys = pack_pair(columns_of(cells[:, places]), columns_of(rows), sizes, counts)
        is_link |= find(needles, np.unique(keys))[1]
    return is_link


def _shared_axes(axes: Sequence[str]) -> Groups:
    """Positions whose indices share an axis, in groups of two or more."""
    groups = [tuple(k for k, own in enumerate(axes) if own == axis) for axis in dict.fromkeys(axes)]
    return tuple(places for places in groups if len(places) > 1)


def _images(cells: AnyArray, groups: Groups) -> AnyArray:
    """Cells and their mirror images, possibly repeated; image after image."""
    return np.concatenate([cells[:, order] for order in orders(groups, cells.shape[1])])


def _without(bound: BoundRelation, cells: AnyArray) -> BoundRelation:
    """The relation with some observed cells, sorted, missing."""
    keys = pack_pair(columns_of(bound.cells), columns_of(cells), bound.shape, (len(bound.links), len(cells)))
    table = Weights.from_sorted(bound.indices, bound.shape, cells, bound.weights.at(cells))
    count = int(np.count_nonzero(writing(cells, bound.groups) == 0))
    rest = _with_links(bound, ~find(*keys)[1])
    return replace(rest, weights=bound.weights - table, observed_cells=bound.observed_cells - count)


def _with_links(bound: BoundRelation, keep: Flags) -> BoundRelation:
    """The relation with some of its links (n_links,), the others zeros."""
    links = LinksInMemory.of(
        bound.indices, bound.shape, bound.cells[keep], bound.links.stored[keep], np.asarray(bound.cell_weights)[keep]
    )
    return replace(bound, links=links)
