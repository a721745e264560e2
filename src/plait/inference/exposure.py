"""Exposure of one term of an equation: Δ(M·V) for each occurrence in it, with weights that are a sum of products
(docs/math.md, section 8).

A weight term without a table is a contraction of sums. One with a table takes a pass over its entries: factors are
first summed over the visible indices that the table lacks, and their gradients are spread over them afterwards.

A difference of terms may cancel. Where it is small relative to its terms, the exposure is summed over the boxes of a
cover instead, which only adds (decision 12). Each factor is summed over the nodes of its visible indices, one pass over
the table of boxes gives the gradient by node, and nodes pass it on to their entities. Factors over the same entities
are multiplied first. Along an index that two groups of factors share otherwise, boxes hold one entity.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from plait._typing import Array
from plait.codegen.layout import Layout, PairRows
from plait.codegen.plan import tree_order
from plait.codegen.step import Operand, Step, make_step
from plait.data.observation.cover import Cover, cover, gather, places, spread
from plait.data.observation.terms import Term, WeightTable, sum_up
from plait.data.observation.weights import Weights
from plait.data.sparse.csf import CSFCache, CSFTensor, SummedTable, grow
from plait.data.sparse.keys import coordinate_type
from plait.executors import Executor
from plait.inference.gamma import FactorState, dot_mean, latent, sum_over_rows
from plait.inference.occurrences import Einsum, Indices, Use, numbered


class CoveredTerm:
    """M·V as boxes, for members that have a visible index."""

    def __init__(self, members: Sequence[Use], weights: Weights, sizes: Mapping[str, int], executor: Executor) -> None:
        self.groups = [_BoxGroup(group, members, sizes) for group in _grouped(members)]
        self.sizes, self.executor = dict(sizes), executor
        visible = [index for group in self.groups for index in group.visible]
        covered = cover(weights, {index for index in visible if visible.count(index) > 1})
        self.vectors = covered.vectors
        own = tuple(index for index in weights.indices if index in visible)
        table = _table(covered, weights, own)
        extended = {index: places(weights.sizes[index]) for index in own}
        self.tree = grow(own, extended, table.cells, table.values, tree_order(own, extended))

    def __call__(self, name: str, layout: Layout, factors: Mapping[str, FactorState]) -> Array:
        """Exposure of a factor, (n_rows, n_columns)."""
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

    def _gathered(self, group: "_BoxGroup", factors: Mapping[str, FactorState]) -> Array:
        """Product of a group, summed over every node of its visible indices."""
        inside = group.product(factors)
        for axis, index in enumerate(group.visible):
            inside = gather(inside, axis, self.vectors.get(index))
        return inside


class _BoxGroup:
    """Product of members whose visible indices are among those of the first, over its visible indices, then latent
    ones.
    """

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
        return self._product(*(_mean(member, factors) for member in self.members.values()))

    def part_of(self, name: str, gradient: Array, factors: Mapping[str, FactorState]) -> Array:
        """Gradient of one member from that of the product, broadcastable to its shape."""
        others = [member for member in self.members.values() if member.name != name]
        if not others:
            return gradient
        inputs = [self.indices, *(member.indices for member in others)]
        back = Einsum(inputs, self.members[name].indices, self.sizes)
        return back(gradient, *(_mean(member, factors) for member in others))


def _mean(member: Use, factors: Mapping[str, FactorState]) -> Array:
    return np.asarray(member.layout.unpack(member.take(factors).mean), np.float64)


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


def _table(covered: Cover, weights: Weights, own: Indices) -> WeightTable:
    """Boxes as a table over the indices of factors."""
    sizes = {index: places(weights.sizes[index]) for index in own}
    boxes = covered.boxes[:, [weights.indices.index(index) for index in own]]
    values = _times_entities(covered, weights, [index for index in weights.indices if index not in own])
    return sum_up(WeightTable(own, boxes.astype(coordinate_type(list(sizes.values()))), values), sizes)


def total_of(weights: Weights) -> float:
    """Σ M·V over all cells, without subtraction."""
    return math.fsum(_times_entities(cover(weights), weights, weights.indices))


def _times_entities(covered: Cover, weights: Weights, indices: Sequence[str]) -> Array:
    """Values of boxes times the total weights of their entities along some indices."""
    values = covered.values
    for index in indices:
        size = weights.sizes[index]
        weigh = gather(np.ones(size), 0, covered.vectors.get(index))
        values = values * weigh[covered.boxes[:, weights.indices.index(index)]]
    return values


# Sums of many numbers have errors of some 1e-14 of their size, so a difference of this size has eight digits.
# Priors keep VB and MAP above it, but for weights and exposures of very different sizes. EM goes below it as soon as
# all links of a component are hidden from one entity.
MIN_RELATIVE_DIFFERENCE = 1e-6
MAX_RELATIVE_ZERO = 1e-12  # a smaller difference counts as 0


class ExposureSums:
    """Δ(M·V) of every occurrence in a term, by the name of the occurrence."""

    def __init__(
        self,
        members: Sequence[Use],
        weights: Weights,
        sizes: Mapping[str, int],
        executor: Executor,
        forest: CSFCache,
    ) -> None:
        self.members = {member.name: member for member in members}
        self.weights, self.sizes = weights, sizes
        self.terms = [_term(term, members, sizes, executor, forest) for term in weights.terms]
        self.mixed = len({term.sign for term in self.terms}) > 1
        self.total = weights.total() if not members else 0.0
        self.executor = executor

    @property
    def trees(self) -> list[SummedTable]:
        return [term.tree for term in self.terms if isinstance(term, _TableTerm)]

    def __call__(self, name: str, factors: Mapping[str, FactorState]) -> Array:
        """Exposure of one occurrence at the current means of the others, (n_rows or 1, n_columns or 1)."""
        layout = self.members[name].layout
        zero = np.zeros((1, 1))
        if not self.terms:
            return zero
        parts = [term(name, layout, factors) for term in self.terms]
        result = parts[0] if len(parts) == 1 else sum(parts, zero)
        if not self.mixed:
            return result
        most = sum((part for part, term in zip(parts, self.terms) if term.sign > 0), zero)
        if any(member.listed for member in self.members.values()):  # pairs with links: few of their cells are hidden
            return np.where(result < MAX_RELATIVE_ZERO * most, 0.0, result)
        return self._covered(name, layout, factors) if (result < MIN_RELATIVE_DIFFERENCE * most).any() else result

    @cached_property
    def _covered(self) -> "CoveredTerm | _DenseTerm":
        """The same sum over boxes, built at first use."""
        members = list(self.members.values())
        if any(member.visible for member in members):
            return CoveredTerm(members, self.weights, self.sizes, self.executor)
        ranks = {index: self.sizes[index] for member in members for index in member.latent}
        return _DenseTerm(Term(total_of(self.weights)), members, ranks, self.executor)

    def rate(self, factors: Mapping[str, FactorState], name: str | None = None, exposure: Array | None = None) -> float:
        """Σ M·V·Xhat_E over all cells; a known exposure of `name` saves work."""
        if not self.members:
            return self.total
        name = name or next(iter(self.members))
        exposure = self(name, factors) if exposure is None else exposure
        factor = self.members[name].take(factors)
        if exposure.shape[0] == 1:
            return float(np.sum(factor.total("mean", self.executor) * exposure))
        return dot_mean(factor, exposure, self.executor)


def _term(
    term: Term,
    members: Sequence[Use],
    sizes: Mapping[str, int],
    executor: Executor,
    forest: CSFCache,
) -> "_DenseTerm | _TableTerm":
    if term.table is None:
        return _DenseTerm(term, members, sizes, executor)
    return _TableTerm(term, members, sizes, executor, forest)


class _DenseTerm:
    """A constant times vectors: a contraction of factors summed over their own visible indices."""

    def __init__(
        self,
        term: Term,
        members: Sequence[Use],
        sizes: Mapping[str, int],
        executor: Executor,
        keep: Indices = (),
    ) -> None:
        self.sign = np.sign(term.coefficient)
        self.coefficient = term.coefficient
        for index in sizes:  # indices that only given factors have
            if index not in keep and all(index not in member.indices for member in members):
                self.coefficient *= float(np.sum(term.vectors[index])) if index in term.vectors else sizes[index]
        self.vectors = dict(term.vectors)
        self.members = {member.name: member for member in members}
        self.sizes = sizes
        self.executor = executor
        self.keep = keep  # indices of the table
        self._einsums: dict[Any, Einsum] = {}
        self._recipes: dict[str, tuple[list[str], list[Array], Einsum]] = {}
        self._weights: dict[str, Array] = {}
        self._kept: dict[str, tuple[int, Array]] = {}

    def private(self, name: str) -> Indices:
        """Visible indices of a member that no other member and no table has."""
        others = {i for member in self.members.values() if member.name != name for i in member.visible}
        return tuple(i for i in self.members[name].visible if i not in others and i not in self.keep)

    def left(self, name: str) -> Indices:
        """Indices of a member without its private ones."""
        private = self.private(name)
        return tuple(index for index in self.members[name].indices if index not in private)

    def einsum(self, key: Any, inputs: Sequence[Indices], output: Indices) -> Einsum:
        """Contraction, planned at its first use."""
        if key not in self._einsums:
            self._einsums[key] = Einsum(inputs, output, self.sizes)
        return self._einsums[key]

    def reduced(self, name: str, factors: Mapping[str, FactorState]) -> Array:
        """Mean of a factor, weighted and summed over its private indices; cached by version."""
        factor = self.members[name].take(factors)
        if name not in self._kept or self._kept[name][0] != factor.version:
            self._kept[name] = (factor.version, self._reduce(name, factor))
        return self._kept[name][1]

    def _reduce(self, name: str, factor: FactorState) -> Array:
        member, private = self.members[name], self.private(name)
        vectors = self.vectors_of(private)
        if len(private) < len(member.visible):
            einsum = self.einsum(("reduced", name), [member.indices, *vectors], self.left(name))
            return einsum(np.asarray(member.layout.unpack(factor.mean), np.float64), *vectors.values())
        if not vectors:
            return latent(member.layout, factor.total("mean", self.executor))
        if name not in self._weights:
            self._weights[name] = self._row_weights(member)
        return latent(member.layout, sum_over_rows(factor, "mean", self.executor, self._weights[name]))

    def _row_weights(self, member: Use) -> Array:
        """Product of the term's vectors at each row of a member."""
        weights = np.ones(1)
        for index in member.visible:
            weights = np.multiply.outer(weights, self.vectors.get(index, np.ones(self.sizes[index]))).ravel()
        return weights[:, None]

    def vectors_of(self, indices: Sequence[str]) -> dict[Indices, Array]:
        return {(index,): self.vectors[index] for index in indices if index in self.vectors}

    def __call__(self, name: str, layout: Layout, factors: Mapping[str, FactorState]) -> Array:
        """The term's part of a factor's exposure."""
        if name not in self._recipes:
            self._recipes[name] = self._recipe(name)
        others, vectors, einsum = self._recipes[name]
        result = einsum(*(self.reduced(other, factors) for other in others), *vectors)
        return layout.spread(result * self.coefficient)

    def _recipe(self, name: str) -> tuple[list[str], list[Array], Einsum]:
        """Operands and contraction of a factor's exposure: other factors, remaining vectors."""
        others = [other for other in self.members if other != name]
        shared = {i for other in self.members for i in self.left(other) if i in self.vectors}
        vectors = self.vectors_of(sorted(shared | set(self.private(name))))
        einsum = Einsum([*(self.left(o) for o in others), *vectors], self.members[name].indices, self.sizes)
        return others, list(vectors.values()), einsum


@dataclass(frozen=True)
class _Group:
    """Members that share visible indices outside the table: one operand of the pass over its entries."""

    names: tuple[str, ...]
    layout: Layout
    plain: bool  # a single member with nothing summed: its stored array is the operand
    pairs: PairRows | None  # pairs of entities of the rows of that array


class _TableTerm:
    """A table times vectors: one pass over its entries per factor."""

    def __init__(
        self,
        term: Term,
        members: Sequence[Use],
        sizes: Mapping[str, int],
        executor: Executor,
        forest: CSFCache,
    ) -> None:
        table = term.table
        assert table is not None
        self.sign = np.sign(term.coefficient)
        self.dense = _DenseTerm(term, members, sizes, executor, table.indices)
        self.executor = executor
        self.groups = _groups(members, table.indices, sizes)
        self._steps: dict[str, tuple[_Group, Step]] = {}
        self.tree = self._build_tree(table, sizes, forest)

    def _build_tree(self, table: WeightTable, sizes: Mapping[str, int], forest: CSFCache) -> SummedTable:
        order = tree_order(table.indices, dict(sizes))
        tree = table.tree(self.dense.coefficient, self.dense.vectors, sizes, order, forest)
        listed = [(group.pairs, group.layout.visible) for group in self.groups if group.pairs is not None]
        if not listed:
            return tree
        in_memory = cast(CSFTensor, tree)  # factors over pairs never read blocks from disk
        return replace(in_memory, numbers=tuple(numbered(in_memory, *each) for each in listed))

    def __call__(self, name: str, layout: Layout, factors: Mapping[str, FactorState]) -> Array:
        """The term's part of a factor's exposure."""
        if name not in self._steps:
            self._steps[name] = self._step(name)
        group, step = self._steps[name]
        arrays = [self._operand(group, factors) for group in self.groups]
        gradient = self.executor.sum(step, self.tree, arrays).gradients[0]
        return gradient if group.plain else layout.spread(self._spread_back(name, group, gradient, factors))

    def _step(self, name: str) -> tuple[_Group, Step]:
        """The group of a factor, and the pass of its exposure."""
        position = next(n for n, group in enumerate(self.groups) if name in group.names)
        operands = tuple(
            Operand(group.layout.visible, group.layout.latent, listed=group.pairs is not None) for group in self.groups
        )
        ranks = {i: n for group in self.groups for i, n in zip(group.layout.inside, group.layout.sizes)}
        return self.groups[position], make_step("linear", self.tree.order, operands, ranks, (position,))

    def _operand(self, group: _Group, factors: Mapping[str, FactorState]) -> Array:
        if group.plain:
            return self.dense.members[group.names[0]].take(factors).mean
        dense = self.dense
        vectors = dense.vectors_of(self._joining(group))
        einsum = dense.einsum(
            ("group", *group.names), [*(dense.left(n) for n in group.names), *vectors], group.layout.inside
        )
        inside = einsum(*(dense.reduced(name, factors) for name in group.names), *vectors.values())
        return group.layout.pack(inside)

    def _joining(self, group: _Group) -> list[str]:
        """Visible indices of the group that the table lacks."""
        left = dict.fromkeys(i for name in group.names for i in self.dense.left(name))
        visible = {i for name in group.names for i in self.dense.members[name].visible}
        return [i for i in left if i in visible and i not in group.layout.visible]

    def _spread_back(self, name: str, group: _Group, gradient: Array, factors: Mapping[str, FactorState]) -> Array:
        """Gradient of one member from that of the group's operand."""
        dense = self.dense
        others = [other for other in group.names if other != name]
        vectors = dense.vectors_of([*self._joining(group), *dense.private(name)])
        inputs = [group.layout.inside, *(dense.left(other) for other in others), *vectors]
        einsum = dense.einsum(("back", name), inputs, dense.members[name].indices)
        arrays = (group.layout.unpack(gradient), *(dense.reduced(other, factors) for other in others))
        return einsum(*arrays, *vectors.values())


def _groups(members: Sequence[Use], table: Indices, sizes: Mapping[str, int]) -> list[_Group]:
    """Members grouped by shared visible indices outside the table."""
    remaining, groups = list(members), []
    while remaining:
        group = [remaining.pop(0)]
        for member in group:
            joined = [m for m in remaining if set(m.visible) & set(member.visible) - set(table)]
            group += joined
            remaining = [m for m in remaining if m not in joined]
        groups.append(_group(group, members, table, sizes))
    return groups


def _group(group: Sequence[Use], members: Sequence[Use], table: Indices, sizes: Mapping[str, int]) -> _Group:
    visible = tuple(dict.fromkeys(i for member in group for i in member.visible if i in table))
    latent = tuple(dict.fromkeys(i for member in group for i in member.latent))
    plain = len(group) == 1 and set(group[0].visible) <= set(table)
    if len(group) > 1:
        outside = {i for member in members if member not in group for i in member.latent}
        latent = tuple(index for index in latent if index in outside)
    inside = visible + latent
    layout = Layout("+".join(m.name for m in group), inside, visible, latent, tuple(sizes[i] for i in inside))
    return _Group(tuple(m.name for m in group), layout, plain, group[0].pairs if group[0].listed else None)
