"""Popularity baseline: the objective of the same model with every latent index of size 1, for the warning
`BelowBaselineWarning`.

It holds for relations of a single term with every factor once. Each factor is then a vector over its visible indices,
and its counts are sums of links that do not change. Only exposures are computed, by the sums of the fit with all
components but the first at 0. Any state of the smaller model is below its optimum, and where counts are unknown one
event per link is a lower bound too, so the result is never too high.
"""

import math
from collections.abc import Collection
from typing import cast

import numpy as np

from plait import special
from plait._typing import Array
from plait.codegen.layout import Layout
from plait.inference.empirical_bayes import MIN_GROUP_ENTRIES
from plait.inference.gamma import FactorState, Prior, solve_concentration
from plait.inference.loop import Outcome
from plait.inference.nonzeros import Nonzeros
from plait.inference.problem import Method, Problem
from plait.inference.relation_sums import RelationSums
from plait.inference.state import Reason, State

FIRST_VERSION = -2  # no factor of a fit has it; later sweeps count down
LOG_TINY_RATE = -600.0  # log λ so small that a link is one event
MIN_COMPARED_LINKS = 100  # a fit of fewer links is not compared
MIN_COMPARED_SWEEPS = 100  # a fit that has not converged is compared after this many sweeps
MAX_SWEEPS, MAX_SWEEPS_WITH_TABLES = 25, 4  # fewer where exposures take a pass over listed cells


class BaselineModel:
    """Rank-one model of a problem; factors are vectors (n_rows,): E, log L and −KL."""

    def __init__(self, problem: Problem, method: Method, state: State, adapted: Collection[str]) -> None:
        self.problem, self.method, self.adapted = problem, method, adapted
        self.likelihood_params = state.likelihood_params
        self.relations = [relation for relation in problem.relations if relation.names]
        self.marginals = [relation.marginals() for relation in self.relations]
        layouts = {name: problem.factors[name].layout for name in problem.free}
        self.priors = {name: _first(state.factors[name].layout, prior) for name, prior in state.priors.items()}
        self.counts = {name: self._count(name, layouts[name].rows) for name in problem.free}
        start = {name: np.full(layout.rows, self._scale()) for name, layout in layouts.items()}
        self.means, self.logs, self.divergences = start, dict[str, Array](), dict[str, float]()
        self.factors = {name: _factor(problem.factors[name], mean, FIRST_VERSION) for name, mean in start.items()}

    def _count(self, name: str, rows: int) -> Array:
        """Σ M X of each row of a factor, over all relations, (n_rows,)."""
        return sum((sums[name] for sums in self.marginals if name in sums), np.zeros(rows))

    def _scale(self) -> float:
        """Mean of every factor at which the first relation has the total of its data."""
        part, sums = self.relations[0].part, self.marginals[0]
        weight, total = part.weights[0].total(), float(next(iter(sums.values())).sum())
        return (total / weight) ** (1.0 / len(sums)) if total > 0 and weight > 0 else 1.0

    def sweep(self, *, adapt: bool) -> None:
        """Update every factor once; `adapt` updates its prior first."""
        for name in self.problem.free:
            if adapt and name in self.adapted:
                self.priors[name] = self._adapt_prior(name)
            exposure = sum((self._exposure(r, name) for r in self.relations if name in r.names), np.zeros(1))
            self._update(name, exposure)
            self.factors[name] = _factor(self.problem.factors[name], self.means[name], self.factors[name].version - 1)

    def _exposure(self, relation: RelationSums, name: str) -> Array:
        return np.asarray(relation.terms[0].exposed(name, self.factors)[:, 0], np.float64)

    def _adapt_prior(self, name: str) -> tuple[Array, Array]:
        """One prior for the whole factor, as in `plait.inference.empirical_bayes`."""
        A, mean = self.priors[name][0].mean(keepdims=True), self.means[name].mean(keepdims=True)
        if len(self.means[name]) >= MIN_GROUP_ENTRIES:
            A = solve_concentration(np.log(mean) - self.logs[name].mean(keepdims=True), A)
        return A, mean

    def _update(self, name: str, exposure: Array) -> None:
        counts = self.counts[name]
        if self.method == "em":
            with np.errstate(divide="ignore", invalid="ignore"):
                self.means[name] = np.where(exposure > 0, counts / exposure, self.means[name])
                self.logs[name], self.divergences[name] = np.log(self.means[name]), 0.0
            return
        A, B = self.priors[name]
        C, D = A + counts, 1.0 / (A / B + exposure) + np.zeros(len(counts))
        self.means[name], self.logs[name] = C * D, special.psi(C) + np.log(D)
        kl = (
            (C - A) * special.psi(C)
            - special.gammaln(C)
            + special.gammaln(A)
            - A * np.log(D * A / B)
            + C * (D * A / B - 1.0)
        )
        self.divergences[name] = -float(kl.sum())

    def objective(self) -> float:
        total = sum(self.divergences.values())
        for relation, sums in zip(self.relations, self.marginals):
            name = next(reversed(sums))
            total += self._constant(relation) - float(np.sum(self.means[name] * self._exposure(relation, name)))
            total += sum(float(n[n > 0] @ self.logs[other][n > 0]) for other, n in sums.items())
        for relation in self.problem.relations:
            if not relation.names:  # all its factors are given
                total += self.problem.relation_counts(relation, (), bound=True).value - relation.rate({})
        return total

    def _constant(self, relation: RelationSums) -> float:
        """Terms of F without factors; where counts are unknown, one event per link."""
        counts, likelihood = relation.counts, relation.part.likelihood
        assert counts is not None
        state = self.likelihood_params.get(relation.part.name, {})
        if not likelihood.true_scale:
            return counts.constant(state)
        _, values, weights, (exposure,) = cast(Nonzeros, relation.part.nonzeros)
        low = np.full(len(values), LOG_TINY_RATE)
        own = likelihood.expect(values, low, state)[1] - low + (0.0 if exposure is None else np.log(exposure))
        return counts.constant(state) + float(weights @ own)


def baseline_objective(problem: Problem, method: Method, state: State, adapted: Collection[str]) -> float:
    """A lower bound of the objective of the rank-one model.

    `method` is that of the fit, whose problem may have started as one of EM; `state` is its final state; `adapted`
    names the factors whose priors adapt.
    """
    model = BaselineModel(problem, method, state, adapted)
    tables = any(relation.tables for relation in model.relations)
    for number in range(MAX_SWEEPS_WITH_TABLES if tables else MAX_SWEEPS):
        model.sweep(adapt=number > 0)
    return model.objective()


def _first(layout: Layout, prior: Prior) -> tuple[Array, Array]:
    """A and B of the first component, (n_rows,) or (1,)."""
    return layout.spread(prior.concentration)[:, 0], layout.spread(prior.mean)[:, 0]


def _factor(like: FactorState, mean: Array, version: int) -> FactorState:
    """A factor with the mean as its first component and 0 in all others."""
    stored = np.zeros_like(like.exp_mean_log)
    stored[:, 0] = mean
    return FactorState(like.layout, (stored,), stored, stored, like.shift, version)


def compare_with_baseline(
    problem: Problem, method: Method, outcome: Outcome, adapted: Collection[str]
) -> dict[str, float] | None:
    """Objectives of the baseline and of the fit; None where they are not comparable."""
    if method == "map" or not _is_comparable(problem) or not _has_ended(outcome):
        return None
    alone = baseline_objective(problem, method, outcome.state, adapted)
    return {"baseline": float(alone), "objective": float(outcome.state.history[-1].objective)}


def _has_ended(outcome: Outcome) -> bool:
    return outcome.stop.reason == Reason.CONVERGED or outcome.state.history[-1].sweep >= MIN_COMPARED_SWEEPS


def _is_comparable(problem: Problem) -> bool:
    """Whether the model has latent indices, none of them in a given factor, no chains, and enough data.

    Only products of different factors are compared: elsewhere the counts are not those of the links.
    """
    if any(prior.chain for prior in problem.priors.values()):
        return False
    if any(r.summed or len(r.terms) > 1 or max(r.terms[0].uses.values(), default=1) > 1 for r in problem.relations):
        return False
    given = [factor for name, factor in problem.factors.items() if name not in problem.free]
    ranks = [math.prod(f.layout.sizes[len(f.layout.visible) :]) for f in problem.factors.values()]
    on_disk = any(p.likelihood.true_scale and p.nonzeros.order is not None for p in problem.parts)
    links = sum(part.nonzeros.links for part in problem.parts)
    return not given and not on_disk and max(ranks, default=1) > 1 and links >= MIN_COMPARED_LINKS
