"""Structural zeros: cells in which a rule excludes links, whatever the factors say.

Such rules are pairs and slices in `missing=` tables over some of the indices, and self-links where two indices share an
axis and hardly any entity is observed with itself. Single cells of `missing=`, gaps of an array and `hidden=` cells are
unknown instead.

In a relation with further indices, such as triples, a slice of the diagonal with enough links and no self-link among
them is a structural zero, too (decision 17).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from plait._typing import AnyArray, Flags
from plait.data.observation.symmetry import Groups
from plait.data.observation.weights import Weights, along, diagonal
from plait.data.sparse.keys import FibreLookup, Lookup, columns_of, pack

Tables = dict[tuple[str, ...], AnyArray]
Counts = tuple[AnyArray, AnyArray]  # slices, and how many links and self-links each has

# Largest share of open self-links, among those that are missing by name or open.
MAX_OPEN_SHARE = 0.1

# Links of a slice that must all be between different entities: then at most 14 % of such links are self-links (the
# upper end of a 95 % interval, 1 − 0.05^(1/20)).
MIN_SLICE_LINKS = 20


@dataclass(frozen=True, eq=False)
class DiagonalSlices:
    """Slices of the diagonal of two indices: cells with one entity at both positions of a pair.

    `over`: positions of all other indices. `coords` (n, len(over)): the slices, distinct and in lexicographic order.
    """

    pair: tuple[int, int]
    over: tuple[int, ...]
    coords: AnyArray
    shape: tuple[int, ...]

    def contain(self, cells: AnyArray) -> Flags:
        """Which cells (m, order), as row numbers, are among them."""
        inside = np.asarray(cells[:, self.pair[0]] == cells[:, self.pair[1]])
        inside[inside] = self._lookup.contain(cells[inside][:, self.over])
        return inside

    def mark_fibres(self, cells: AnyArray, place: int, marked: Flags) -> None:
        """Mark those among cells (m, order) with any entity at one place; marked (m, size)."""
        if place in self.pair:
            entity = cells[:, self.pair[0] if place == self.pair[1] else self.pair[1]]
            excluded = np.flatnonzero(self._lookup.contain(cells[:, self.over]))
            marked[excluded, entity[excluded]] = True
            return
        on = np.flatnonzero(cells[:, self.pair[0]] == cells[:, self.pair[1]])
        lookup = FibreLookup(self.coords, [self.shape[k] for k in self.over], self.over.index(place))
        which, _, entity = lookup.find(cells[on][:, self.over])
        marked[on[which], entity] = True

    @cached_property
    def _lookup(self) -> Lookup:
        return Lookup(self.coords, [self.shape[k] for k in self.over])


@dataclass(frozen=True, eq=False)
class StructuralZeros:
    """`tables`: coordinates (n, k), distinct and in lexicographic order, over some of the indices of a relation.

    `diagonals`: slices without self-links.
    """

    indices: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    tables: Tables = field(default_factory=dict)
    diagonals: tuple[DiagonalSlices, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.tables or self.diagonals)

    def contain(self, cells: AnyArray) -> Flags:
        """Which cells (m, order), as row numbers, are structural zeros."""
        inside = np.zeros(len(cells), bool)
        for over, lookup in self._lookups.items():
            inside |= lookup.contain(cells[:, self.places(over)])
        for slices in self.diagonals:
            inside |= slices.contain(cells)
        return inside

    def mark_fibres(self, cells: AnyArray, place: int, marked: Flags) -> None:
        """Mark the structural zeros among cells (m, order) with any entity at one place; marked (m, size)."""
        for over, coords in self.tables.items():
            places = self.places(over)
            if place in places:
                lookup = FibreLookup(coords, [self.shape[k] for k in places], places.index(place))
                which, _, entity = lookup.find(cells[:, places])
                marked[which, entity] = True
            else:
                marked[self._lookups[over].contain(cells[:, places])] = True
        for slices in self.diagonals:
            slices.mark_fibres(cells, place, marked)

    def places(self, over: Sequence[str]) -> list[int]:
        """Positions of indices in a cell."""
        return [self.indices.index(index) for index in over]

    @cached_property
    def _lookups(self) -> dict[tuple[str, ...], Lookup]:
        return {over: Lookup(t, [self.shape[k] for k in self.places(over)]) for over, t in self.tables.items()}


def find_structural_zeros(weights: Weights, axes: Sequence[str], missing: Tables, hidden: Tables) -> StructuralZeros:
    """Structural zeros of a relation with weights M and indices on these axes. `missing`, `hidden`: coordinates by
    index set.
    """
    indices = weights.indices
    tables = {over: coords for over, coords in missing.items() if len(over) < len(indices) and len(coords)}
    for (a, first), (b, second) in combinations(zip(indices, axes), 2):
        if first == second:
            own = _self_links(weights, a, b, missing, hidden)
            known = tables.get((a, b), np.zeros((0, 2), own.dtype))
            if len(own):
                tables[a, b] = np.unique(np.concatenate([known, own]), axis=0)
    return StructuralZeros(indices, weights.shape, tables)


def _self_links(weights: Weights, a: str, b: str, missing: Tables, hidden: Tables) -> AnyArray:
    """Coordinates (n, 2) of unobserved self-links, if they are a rule; else none."""
    size = weights.sizes[a]
    named = _with_itself({over: t for over, t in missing.items() if a in over and b in over}, a, b, size)
    is_open = (along(diagonal(weights, a, b), [a]) > 0) | (_with_itself(hidden, a, b, size) & ~named)
    rule = np.count_nonzero(is_open) <= MAX_OPEN_SHARE * np.count_nonzero(is_open | named)
    rows = np.flatnonzero(~is_open) if rule else np.zeros(0, np.int64)
    return np.stack([rows, rows], axis=1)


def _with_itself(tables: Tables, a: str, b: str, size: int) -> Flags:
    """Entities that tables name with themselves, or with all entities of the other index."""
    paired = np.zeros(size, bool)
    for over, coords in tables.items():
        columns = [coords[:, over.index(index)] for index in (a, b) if index in over]
        if len(columns) == 2:
            paired[columns[0][columns[0] == columns[1]]] = True
        elif columns:
            paired[columns[0]] = True
        else:
            paired[:] = True
    return paired


def add_diagonal_slices(
    zeros: StructuralZeros, axes: Sequence[str], pieces: Iterable[AnyArray], groups: Groups = ()
) -> StructuralZeros:
    """The same, with the diagonal of every slice that has MIN_SLICE_LINKS links or more, and no self-link.

    A slice is one entity of every further index. pieces: all links (n, order) in all their writings, some at a time.
    groups: places whose order says nothing.
    """
    order = len(axes)
    pairs = [(a, b) for a, b in combinations(range(order), 2) if axes[a] == axes[b]] if order > 2 else []
    if not pairs:
        return zeros
    rest = {pair: tuple(k for k in range(order) if k not in pair) for pair in pairs}
    counts: dict[tuple[int, int], list[Counts]] = {pair: [] for pair in pairs}
    for cells in pieces:
        for pair, over in rest.items():
            once = any({*pair} <= {*group} for group in groups)
            own = cells[cells[:, pair[0]] <= cells[:, pair[1]]] if once else cells
            counts[pair].append(_count_slices(own, pair, over, zeros.shape))
    diagonals = []
    for pair, over in rest.items():
        coords, number = _add_slices(counts[pair], [zeros.shape[k] for k in over])
        clean = coords[(number[:, 0] >= MIN_SLICE_LINKS) & (number[:, 1] == 0)]
        if len(clean):
            diagonals.append(DiagonalSlices(pair, over, clean, zeros.shape))
    return replace(zeros, diagonals=tuple(diagonals))


def _count_slices(cells: AnyArray, pair: tuple[int, int], over: Sequence[int], shape: Sequence[int]) -> Counts:
    """The slices (n, len(over)) of some links, and how many links and self-links each has, (n, 2)."""
    own = cells[:, pair[0]] == cells[:, pair[1]]
    numbers = np.stack([np.ones(len(cells)), own], axis=1)
    return _add_slices([(cells[:, over], numbers)], [shape[k] for k in over])


def _add_slices(counts: Sequence[Counts], sizes: Sequence[int]) -> Counts:
    """Each slice once, in lexicographic order, with the sums of its numbers."""
    coords = np.concatenate([np.zeros((0, len(sizes)), np.int64), *(own for own, _ in counts)])
    numbers = np.concatenate([np.zeros((0, 2)), *(own for _, own in counts)])
    _, first, which = np.unique(pack(columns_of(coords), sizes, len(coords)), return_index=True, return_inverse=True)
    sums = [np.bincount(which.reshape(-1), column, len(first)) for column in numbers.T]
    return coords[first], np.stack(sums, axis=1)
