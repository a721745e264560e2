"""Pruning: removal of components without expected counts, which with component-tied priors finds the model order."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.inference.expected_counts import ExpectedCounts
from plait.inference.gamma import FactorState, Prior, posterior
from plait.inference.problem import Problem
from plait.inference.relation_sums import Rate
from plait.inference.summed_terms import SummedTerm

MAX_PRUNED_COUNTS = 0.5  # expected counts of a candidate for removal


def prune(problem: Problem, counted: Sequence[ExpectedCounts]) -> tuple[Problem, Sequence[ExpectedCounts]] | None:
    """The problem without weak components; None if there are none or the objective would fall."""
    bound = problem.objective(counted)
    given = {
        problem.axis(index)
        for name, factor in problem.factors.items()
        if name not in problem.free
        for index in factor.layout.latent
    }
    given |= {sparse.index for part in problem.parts for sparse in part.summed.values()}
    for index, counts in component_counts(problem, counted).items():
        if index in given:  # a given factor keeps the components that it was given
            continue
        weak = np.flatnonzero(counts < MAX_PRUNED_COUNTS)
        weak = weak[np.argsort(counts[weak])][: len(counts) - 1]  # at least one stays
        for trial in [weak, weak[:1]] if len(weak) > 1 else [weak]:
            if len(trial):
                smaller = without(problem, index, trial)
                smaller.recompute_elbo_terms()
                sums = smaller.expected_counts()
                if smaller.objective(sums) >= bound:
                    return smaller, sums
    return None


def component_counts(problem: Problem, counted: Sequence[ExpectedCounts]) -> dict[str, Array]:
    """Expected counts of every component, by its axis, summed over relations.

    One factor with the index gives them for all its terms. A factor that occurs twice has every count twice; where it
    does so in some terms only, their counts are doubled, which keeps a component rather than removing it.
    """
    totals: dict[str, Array] = {}
    for relation, sums in zip(problem.relations, counted):
        counted_axes: set[tuple[str, str]] = set()
        for term in relation.terms:
            for member in term.members:
                axes = [problem.axis(index) for index in member.latent]
                new = [
                    n
                    for n, axis in enumerate(axes)
                    if axes.index(axis) == n and not _is_counted(term, axis, counted_axes)
                ]
                if member.factor not in sums.gradients or not new:
                    continue
                factor = problem.factors[member.factor]
                stored = sums.gradients[member.factor] * factor.exp_mean_log + sums.underflow.get(member.factor, 0.0)
                uses = min(other.uses[member.factor] for other in relation.terms if member.factor in other.uses)
                inside = member.layout.unpack(stored) / uses
                for n in new:
                    place = len(member.layout.visible) + n
                    others = tuple(at for at in range(inside.ndim) if at != place)
                    totals[axes[n]] = totals.get(axes[n], 0.0) + inside.sum(axis=others, dtype=np.float64)
                    counted_axes.add((member.factor, axes[n]))
    return totals


def _is_counted(term: Rate | SummedTerm, axis: str, counted_axes: set[tuple[str, str]]) -> bool:
    return any((member.factor, axis) in counted_axes for member in term.members)


def without(problem: Problem, index: str, gone: NDArray[np.integer]) -> Problem:
    """The problem without some components of a latent index."""
    along = {
        name: [n for n, i in enumerate(factor.layout.inside) if i in factor.layout.latent and problem.axis(i) == index]
        for name, factor in problem.factors.items()
    }
    factors = {name: _cut(factor, along[name], gone) for name, factor in problem.factors.items()}
    priors = {name: _cut_prior(prior, along[name], gone) for name, prior in problem.priors.items()}
    smaller = Problem(
        problem.method,
        problem.parts,
        factors,
        problem.free,
        priors,
        problem.executor,
        problem.forest,
        problem.likelihood_params,
    )
    smaller.exposed = dict(problem.exposed)
    return smaller


def _cut(factor: FactorState, axes: Sequence[int], gone: NDArray[np.integer]) -> FactorState:
    """The factor without some positions of its inside axes."""
    layout = factor.layout
    if not axes:
        return factor
    sizes = tuple(n - len(gone) if at in axes else n for at, n in enumerate(layout.sizes))
    smaller = replace(layout, sizes=sizes)
    C, D = (smaller.pack(_without(layout.unpack(stored), axes, gone)) for stored in factor.parameters)
    return posterior(smaller, C, D)


def _cut_prior(prior: Prior, axes: Sequence[int], gone: NDArray[np.integer]) -> Prior:
    return Prior(_without(prior.concentration, axes, gone), _without(prior.mean, axes, gone), prior.chain)


def _without(array: Array, axes: Sequence[int], gone: NDArray[np.integer]) -> Array:
    """The array without some positions of axes; an axis of length 1 stays."""
    for axis in axes:
        array = array if array.shape[axis] == 1 else np.delete(array, gone, axis=axis)
    return array
