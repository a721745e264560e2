"""Removing components that explain nothing: how, with component-tied priors, the model order is found."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from plait.compile.layout import Layout
from plait.infer.counts import Counted
from plait.infer.gamma import Factor, posterior
from plait.infer.prior import Prior
from plait.infer.problem import Problem

Array = NDArray[np.float64]

FEW = 0.5  # a component with fewer expected counts is a candidate


def prune(problem: Problem, counted: Sequence[Counted]) -> tuple[Problem, Sequence[Counted]] | None:
    """The problem without components that have too few counts, if the bound does not fall; None if nothing goes."""
    bound = problem.bound(counted)
    given = {i for name, f in problem.factors.items() if name not in problem.free for i in f.layout.latent}
    for index, counts in component_counts(problem, counted).items():
        if index in given:  # a given factor keeps the components that it was given
            continue
        weak = np.flatnonzero(counts < FEW)
        weak = weak[np.argsort(counts[weak])][: len(counts) - 1]  # at least one stays
        for trial in [weak, weak[:1]] if len(weak) > 1 else [weak]:
            if len(trial):
                smaller = without(problem, index, trial)
                smaller.measure()
                sums = smaller.count()
                if smaller.bound(sums) >= bound:
                    return smaller, sums
    return None


def component_counts(problem: Problem, counted: Sequence[Counted]) -> dict[str, Array]:
    """Expected counts of every component, added up over relations: any factor that has the index tells."""
    totals: dict[str, Array] = {}
    for relation, sums in zip(problem.relations, counted):
        done: set[str] = set()
        for member in relation.members:
            if member.name not in sums.gradients:
                continue
            factor = problem.factors[member.name]
            stored = sums.gradients[member.name] * factor.geomean + sums.extras.get(member.name, 0.0)
            inside = member.layout.unpack(stored)
            for index in set(member.latent) - done:
                axis = member.indices.index(index)
                counts = inside.sum(axis=tuple(n for n in range(inside.ndim) if n != axis), dtype=np.float64)
                totals[index] = totals.get(index, 0.0) + counts
            done |= set(member.latent)
    return totals


def without(problem: Problem, index: str, gone: NDArray[np.integer]) -> Problem:
    """The same state with some components of a latent index left out."""
    factors = {name: _cut(factor, index, gone) for name, factor in problem.factors.items()}
    priors = {
        name: _cut_prior(problem.factors[name].layout, prior, index, gone) for name, prior in problem.priors.items()
    }
    smaller = Problem(problem.method, problem.parts, factors, problem.free, priors, problem.executor, problem.forest)
    smaller.exposed = dict(problem.exposed)
    return smaller


def _cut(factor: Factor, index: str, gone: NDArray[np.integer]) -> Factor:
    layout = factor.layout
    if index not in layout.latent:
        return factor
    axis = layout.inside.index(index)
    sizes = tuple(n - len(gone) if at == axis else n for at, n in enumerate(layout.sizes))
    smaller = Layout(layout.name, layout.indices, layout.visible, layout.latent, sizes)
    assert factor.concentration is not None
    assert factor.scale is not None
    C, D = (
        smaller.pack(np.delete(layout.unpack(stored), gone, axis=axis))
        for stored in (factor.concentration, factor.scale)
    )
    return posterior(smaller, C, D)


def _cut_prior(layout: Layout, prior: Prior, index: str, gone: NDArray[np.integer]) -> Prior:
    if index not in layout.latent:
        return prior
    axis = layout.inside.index(index)

    def cut(array: Array) -> Array:
        return array if array.shape[axis] == 1 else np.delete(array, gone, axis=axis)

    return Prior(cut(prior.concentration), cut(prior.mean))
