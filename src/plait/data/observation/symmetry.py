"""Undirected relations: a pair is one cell in all its orientations.

The positions whose indices may be exchanged (`Equation.exchanged`) form groups. A cell is stored in canonical
orientation, rows ascending within each group; its other orientations are its images. Usually there is one group of two
positions, and every cell but a self-link has two images.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations, product

import numpy as np
from numpy.typing import NDArray

from plait._typing import AnyArray, Array
from plait.data.observation.weights import Weights, diagonal
from plait.data.sparse.csf_index import CSFIndex, distinct
from plait.data.sparse.sorting import sort_cells, take
from plait.model.model import Equation

Groups = tuple[tuple[int, ...], ...]
Indices = tuple[str, ...]


def groups_of(equation: Equation) -> Groups:
    """Exchangeable positions, in groups of two or more."""
    groups: list[set[int]] = []
    for pair in equation.exchanged:
        places = {equation.indices.index(index) for index in pair}
        near = [group for group in groups if group & places]
        groups = [group for group in groups if group not in near] + [places.union(*near)]
    return tuple(tuple(sorted(group)) for group in groups)


def without(groups: Groups, places: Sequence[int]) -> Groups:
    """The groups without some positions."""
    left = (tuple(place for place in group if place not in places) for group in groups)
    return tuple(group for group in left if len(group) > 1)


def among(groups: Groups, places: Sequence[int]) -> Groups:
    """The groups among some positions, by their number there."""
    groups_within = (tuple(n for n, place in enumerate(places) if place in group) for group in groups)
    return tuple(group for group in groups_within if len(group) > 1)


def canonical(cells: AnyArray, groups: Groups) -> AnyArray:
    """Cells (n, order) with rows ascending within each group; the same array where they are already."""
    if not groups or not writing(cells, groups).any():
        return cells
    result = cells.copy()
    for group in groups:
        if len(group) == 2:
            first, second = cells[:, group[0]], cells[:, group[1]]
            np.minimum(first, second, out=result[:, group[0]])
            np.maximum(first, second, out=result[:, group[1]])
        else:
            result[:, group] = np.sort(cells[:, group], axis=1)
    return result


def writing(cells: AnyArray, groups: Groups) -> NDArray[np.uint8]:
    """Number of the orientation of each cell (n, order), (n,); 0 is canonical."""
    orientation = np.zeros(len(cells), np.uint8)
    for k, other in (pair for group in groups for pair in combinations(group, 2)):
        orientation <<= 1
        orientation |= cells[:, k] > cells[:, other]
    return orientation


def written(cells: AnyArray, shape: Sequence[int], groups: Groups) -> AnyArray:
    """All images (m, order) of cells (n, order), sorted and distinct; the same array without groups."""
    if not groups:
        return cells
    ways = [cells[:, order] for order in orders(groups, cells.shape[1])]
    return distinct(np.concatenate(ways), shape)


def in_all_ways(links: CSFIndex, numbers: Array, groups: Groups) -> tuple[CSFIndex, Array]:
    """All orientations of cells, sorted and distinct, with their numbers (n,)."""
    if not groups:
        return links, numbers
    cells = links.cells()
    ways = [cells[:, order] for order in orders(groups, cells.shape[1])]
    order, cells = sort_cells(np.concatenate(ways), links.sizes)
    first = np.ones(len(cells), bool)
    first[1:] = (cells[1:] != cells[:-1]).any(axis=1)
    from_ = (np.arange(len(cells)) if order is None else order)[first] % max(len(links), 1)
    return CSFIndex.of(links.indices, links.sizes, cells[first]), take(numbers, from_)


def orders(groups: Groups, order: int) -> Iterator[list[int]]:
    """All orientations of a cell, as positions to take its rows from; the first is the identity."""
    for ways in product(*(permutations(group) for group in groups)):
        places = list(range(order))
        for group, way in zip(groups, ways):
            for place, source in zip(group, way):
                places[place] = source
        yield places


def mirrored(
    tables: Mapping[Indices, AnyArray], indices: Indices, shape: Sequence[int], groups: Groups
) -> dict[Indices, AnyArray]:
    """Coordinates by index set, with those of all images: over one index of a group, an entity counts at all of them.
    Sorted and distinct.
    """
    if not groups:
        return dict(tables)
    images: dict[Indices, list[AnyArray]] = {}
    for over, coords in tables.items():
        for order in orders(groups, len(indices)):
            # An index of this table takes the position of another one in the image.
            names = {indices[source]: index for index, source in zip(indices, order)}
            image = tuple(names[index] for index in over)
            ordered = tuple(index for index in indices if index in image)
            images.setdefault(ordered, []).append(coords[:, [image.index(index) for index in ordered]])
    sizes = dict(zip(indices, shape))
    return {over: distinct(np.concatenate(parts), [sizes[i] for i in over]) for over, parts in images.items()}


def count_cells(shape: Sequence[int], groups: Groups) -> int:
    """Number of cells, each counted once."""
    grouped = {place for group in groups for place in group}
    alone = math.prod(size for place, size in enumerate(shape) if place not in grouped)
    return alone * math.prod(math.comb(shape[group[0]] + len(group) - 1, len(group)) for group in groups)


def total_once(weights: Weights, groups: Groups) -> float:
    """Sum of symmetric weights, each cell counted once.

    By Burnside's lemma: the mean, over all orientations, of the sum over the cells that an orientation leaves
    unchanged.
    """
    ways = list(orders(groups, len(weights.shape)))
    return math.fsum(_unchanged(weights, order).total() for order in ways) / len(ways)


def each_once(weights: Weights, groups: Groups) -> Weights:
    """Symmetric weights divided by the number of images of each cell.

    By Burnside's lemma, as in `total_once`. A table on disk has every cell in one orientation, with the same sums.
    """
    if not groups:
        return weights
    once = tuple(term for term in weights.terms if not term.in_memory)
    weights = replace(weights, terms=tuple(term for term in weights.terms if term.in_memory))
    ways = list(orders(groups, len(weights.shape)))
    halved = sum((_among_unchanged(weights, order) for order in ways[1:]), weights) * (1.0 / len(ways))
    return replace(halved, terms=(*halved.terms, *once))


def _among_unchanged(weights: Weights, order: Sequence[int]) -> Weights:
    """The weights, 0 at cells that an orientation changes."""
    indices, shape = weights.indices, weights.shape
    for place, index in enumerate(indices):
        first = min(_cycle(order, place))
        if first != place:
            rows = np.repeat(np.arange(shape[place])[:, None], 2, axis=1)
            weights = weights * Weights.from_table(indices, shape, (indices[first], index), rows)
    return weights


def _unchanged(weights: Weights, order: Sequence[int]) -> Weights:
    """Weights of the cells that an orientation leaves unchanged: equal rows along each of its cycles."""
    indices = weights.indices
    for place, index in enumerate(indices):
        first = min(_cycle(order, place))
        if first != place:
            weights = diagonal(weights, indices[first], index)
    return weights


def _cycle(order: Sequence[int], place: int) -> list[int]:
    """Positions in the cycle of one position."""
    cycle = [place]
    while (after := order[cycle[-1]]) != place:
        cycle.append(after)
    return cycle
