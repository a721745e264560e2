"""Exposure where differences cannot be trusted: a sum over the boxes of a cover, which only adds.

Every factor is summed over the nodes of its visible indices first; then the boxes are an ordinary table, one pass over
which gives the gradient by node, and from the nodes it goes back to their entities. Factors over the same entities are
multiplied before they are summed; along an index that two groups of them share otherwise, boxes are of one entity.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from plait.compile.layout import Layout
from plait.compile.plan import tree_order
from plait.compile.step import Operand, make_step
from plait.data.cells.keys import coordinate_type
from plait.data.cells.trees import grow
from plait.data.observing.cover import Cover, cover, gather, places, spread
from plait.data.observing.terms import Table, sum_up
from plait.data.observing.weights import Weights
from plait.execute import Executor
from plait.infer.gamma import FactorState
from plait.infer.members import Einsum, Indices, Use
from plait.types import Array


class CoveredTerm:
    """All of M·V, as boxes, for members that have a visible index."""

    def __init__(self, members: Sequence[Use], weights: Weights, sizes: Mapping[str, int], executor: Executor) -> None:
        self.groups = [_Group(group, members, sizes) for group in _grouped(members)]
        self.sizes, self.executor = dict(sizes), executor
        visible = [index for group in self.groups for index in group.visible]
        found = cover(weights, {index for index in visible if visible.count(index) > 1})
        self.vectors = found.vectors
        own = tuple(index for index in weights.indices if index in visible)
        table = _table(found, weights, own)
        extended = {index: places(weights.sizes[index]) for index in own}
        self.tree = grow(own, extended, table.cells, table.values, tree_order(own, extended))

    def __call__(self, name: str, layout: Layout, factors: Mapping[str, FactorState]) -> Array:
        """A factor's exposure: rows × columns."""
        position = next(n for n, group in enumerate(self.groups) if name in group.members)
        operands = tuple(Operand(group.visible, group.latent) for group in self.groups)
        step = make_step("linear", self.tree.order, operands, self.sizes, (position,))
        arrays = [group.layout.pack(self._gathered(group, factors)) for group in self.groups]
        (gradient,) = self.executor.sum(step, self.tree, arrays).gradients
        group = self.groups[position]
        inside = group.layout.unpack(gradient)
        for axis, index in enumerate(group.visible):
            inside = spread(inside, axis, self.sizes[index], self.vectors.get(index))
        return layout.pack(np.broadcast_to(group.part_of(name, inside, factors), layout.sizes))

    def _gathered(self, group: "_Group", factors: Mapping[str, FactorState]) -> Array:
        """A group's product summed over every place of its visible indices."""
        inside = group.product(factors)
        for axis, index in enumerate(group.visible):
            inside = gather(inside, axis, self.vectors.get(index))
        return inside


class _Group:
    """Members whose entities are those of one of them, multiplied; over its visible indices, then latent ones."""

    def __init__(self, group: Sequence[Use], members: Sequence[Use], sizes: Mapping[str, int]) -> None:
        self.members = {member.name: member for member in group}
        self.visible = group[0].visible
        outside = {index for member in members if member not in group for index in member.latent}
        latent = dict.fromkeys(index for member in group for index in member.latent)
        self.latent: Indices = tuple(i for i in latent if len(group) == 1 or i in outside)
        self.indices = self.visible + self.latent
        self.sizes = sizes
        extended = [places(sizes[i]) for i in self.visible] + [sizes[i] for i in self.latent]
        self.layout = Layout("+".join(self.members), self.indices, self.visible, self.latent, tuple(extended))
        self._product = Einsum([member.indices for member in group], self.indices, sizes)

    def product(self, factors: Mapping[str, FactorState]) -> Array:
        """The product of all members' means."""
        return self._product(*(_mean(member, factors) for member in self.members.values()))

    def part_of(self, name: str, gradient: Array, factors: Mapping[str, FactorState]) -> Array:
        """From the gradient of the product to that of one member, broadcastable to its shape."""
        others = [member for member in self.members.values() if member.name != name]
        if not others:
            return gradient
        inputs = [self.indices, *(member.indices for member in others)]
        back = Einsum(inputs, self.members[name].indices, self.sizes)
        return back(gradient, *(_mean(member, factors) for member in others))


def _mean(member: Use, factors: Mapping[str, FactorState]) -> Array:
    return np.asarray(member.layout.unpack(member.taken(factors).mean), np.float64)


def _grouped(members: Sequence[Use]) -> list[list[Use]]:
    """Members by the largest one that has all their visible indices."""
    groups: list[list[Use]] = []
    for member in sorted(members, key=lambda m: -len(m.visible)):
        home = next((g for g in groups if member.visible and set(member.visible) <= set(g[0].visible)), None)
        if home is None:
            groups.append([member])
        else:
            home.append(member)
    return groups


def _table(found: Cover, weights: Weights, own: Indices) -> Table:
    """The boxes over the indices that factors have."""
    sizes = {index: places(weights.sizes[index]) for index in own}
    boxes = found.boxes[:, [weights.indices.index(index) for index in own]]
    values = _times_entities(found, weights, [index for index in weights.indices if index not in own])
    return sum_up(Table(own, boxes.astype(coordinate_type(list(sizes.values()))), values), sizes)


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
