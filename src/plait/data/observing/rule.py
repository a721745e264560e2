"""What a fit remembers of how a relation is observed: M itself, and the rule that cells of new entities follow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from plait.data.observing.closed import Tables
from plait.data.observing.terms import Table, Term, sum_up
from plait.data.observing.undirected import Groups, orders
from plait.data.observing.weights import Weights
from plait.types import Array


@dataclass(frozen=True, eq=False)
class Rule:
    """How a cell is observed that nothing is said of yet.

    unlisted: the weight of a cell that is not listed; zero: that of a listed 0; weight: of the whole relation.
    universe: "relation" or "model". diagonal: what became of it, "missing" or "observed", "" where there is none;
    apart: whether listed self-links are dropped. seen: by index the entities that the relation has, where these are not
    all. hidden: coordinates over some, not all, of the indices.
    """

    unlisted: float
    zero: float = 1.0
    weight: float = 1.0
    universe: str = "relation"
    diagonal: str = ""
    apart: bool = False
    seen: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    hidden: Tables = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Box:
    """Weights of a box of a tensor's cells: along each index, those of the rows from some start on."""

    starts: tuple[int, ...]
    weights: Weights


def together(indices: tuple[str, ...], shape: tuple[int, ...], boxes: Sequence[Box], groups: Groups = ()) -> Weights:
    """The weights of boxes that do not overlap as those of a whole tensor, 0 elsewhere.

    groups: places whose order says nothing: a box is then all its images, too.
    """
    result = Weights.constant(indices, shape, 0.0)
    for box in boxes:
        for image in _images(box, groups):
            result = result + _placed(image, shape)
    return result


def _images(box: Box, groups: Groups) -> list[Box]:
    """A box and those of its images that are other boxes."""
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], Box] = {}
    for order in orders(groups, len(box.starts)):
        starts, shape = _taken(box.starts, order), _taken(box.weights.shape, order)
        if (starts, shape) not in found:
            found[starts, shape] = Box(starts, _turned(box.weights, order)) if found else box
    return list(found.values())


def _taken(numbers: tuple[int, ...], order: Sequence[int]) -> tuple[int, ...]:
    return tuple(numbers[source] for source in order)


def _turned(weights: Weights, order: Sequence[int]) -> Weights:
    """The weights of cells that are written in another way."""
    indices, shape = weights.indices, _taken(weights.shape, order)
    now = {indices[source]: index for index, source in zip(indices, order)}
    sizes = dict(zip(indices, shape))
    terms = []
    for term in weights.terms:
        table = term.table
        if table is not None:
            over = tuple(index for index in indices if index in {now[i] for i in table.indices})
            then = {now[index]: index for index in table.indices}
            coords = np.stack([table.column(then[index]) for index in over], axis=1)
            table = sum_up(Table(over, coords, table.values), sizes)
        terms.append(Term(term.coefficient, {now[i]: v for i, v in term.vectors.items()}, table))
    return Weights(indices, shape, tuple(terms))


def _placed(box: Box, shape: tuple[int, ...]) -> Weights:
    """The weights of a box in the whole tensor."""
    weights, indices = box.weights, box.weights.indices
    if weights.shape == shape:
        return weights
    starts, sizes = dict(zip(indices, box.starts)), dict(zip(indices, shape))
    own = weights.sizes
    terms = []
    for term in weights.terms:
        vectors = dict(term.vectors)
        for index in indices:
            if index not in term.table_indices and (own[index] < sizes[index]):
                vectors[index] = _padded(vectors.get(index), starts[index], own[index], sizes[index])
        table = None if term.table is None else term.table.placed(starts, shape)
        terms.append(Term(term.coefficient, vectors, table))
    return Weights(indices, shape, tuple(terms))


def _padded(vector: Array | None, start: int, own: int, size: int) -> Array:
    """A vector over the rows of a box, ones if None, with zeros for all other rows."""
    whole = np.zeros(size)
    whole[start : start + own] = 1.0 if vector is None else vector
    return whole
