"""Exposure where differences cannot be trusted: a sum over the boxes of a cover, which only adds.

Every factor is summed over the nodes of its visible indices first; then the boxes are an ordinary table, one pass over
which gives the gradient by node, and from the nodes it goes back to their entities.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from plait.compile.layout import Layout
from plait.compile.plan import tree_order
from plait.compile.step import Operand, make_step
from plait.data.blocks import grow
from plait.data.cover import Cover, cover, gather, places, spread
from plait.data.keys import coordinate_type
from plait.data.terms import Table, sum_up
from plait.data.weights import Weights
from plait.execute import Executor
from plait.infer.gamma import Factor
from plait.infer.members import Member

Array = NDArray[np.float64]


class CoveredTerm:
    """All of M·V, as boxes, for members that have a visible index."""

    def __init__(
        self, members: Sequence[Member], weights: Weights, ranks: Mapping[str, int], executor: Executor
    ) -> None:
        found = cover(weights)
        self.members, self.vectors, self.executor = list(members), found.vectors, executor
        self.layouts = [_over_places(member) for member in members]
        self.ranks = dict(ranks)
        own = tuple(i for i in weights.indices if any(i in member.visible for member in members))
        sizes = {index: places(weights.sizes[index]) for index in own}
        boxes = found.boxes[:, [weights.indices.index(index) for index in own]]
        values = _times_entities(found, weights, [index for index in weights.indices if index not in own])
        table = sum_up(Table(own, boxes.astype(coordinate_type(list(sizes.values()))), values), sizes)
        self.tree = grow(own, sizes, table.cells, table.values, tree_order(own, sizes))

    def __call__(self, name: str, layout: Layout, factors: Mapping[str, Factor]) -> Array:
        """A factor's exposure: rows × columns."""
        position = next(n for n, member in enumerate(self.members) if member.name == name)
        operands = tuple(Operand(member.visible, member.latent) for member in self.members)
        step = make_step("linear", self.tree.order, operands, self.ranks, (position,))
        arrays = [self._gathered(*pair, factors) for pair in zip(self.members, self.layouts)]
        (gradient,) = self.executor.sum(step, [self.tree], arrays).gradients
        inside = self.layouts[position].unpack(gradient)
        for axis, index in enumerate(self.members[position].visible):
            inside = spread(inside, axis, layout.sizes[axis], self.vectors.get(index))
        return layout.pack(inside)

    def _gathered(self, member: Member, layout: Layout, factors: Mapping[str, Factor]) -> Array:
        """A factor's means summed over every place of its visible indices, as stored."""
        inside = np.asarray(member.layout.unpack(factors[member.name].mean), np.float64)
        for axis, index in enumerate(member.visible):
            inside = gather(inside, axis, self.vectors.get(index))
        return layout.pack(inside)


def _over_places(member: Member) -> Layout:
    """A member's layout with places instead of entities."""
    visible = len(member.visible)
    sizes = (*map(places, member.layout.sizes[:visible]), *member.layout.sizes[visible:])
    return Layout(member.name, member.indices, member.visible, member.latent, sizes)


def total_of(weights: Weights) -> float:
    """Σ M·V over all cells, by a sum that only adds."""
    return math.fsum(_times_entities(cover(weights), weights, weights.indices))


def _times_entities(found: Cover, weights: Weights, indices: Sequence[str]) -> Array:
    """Values of boxes, each times how much its entities weigh together along some indices."""
    values = found.values
    for index in indices:
        size = weights.sizes[index]
        weigh = gather(np.ones(size), 0, found.vectors.get(index))
        values = values * weigh[found.boxes[:, weights.indices.index(index)]]
    return values
