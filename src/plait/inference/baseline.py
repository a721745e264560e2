"""What popularity alone explains: a lower bound of the bound of the same model with every latent index of size 1.

For relations of a single term with every factor once. Every factor is then a vector over its visible indices, whose
counts are the sums of its links, once for all; only the exposures are computed, by the fit's own sums with all
components but the first at 0. Any state of the smaller model is below its optimum, and where counts are not known one
event a link is a lower bound too, so what comes out is never too high.
"""

import math
from collections.abc import Collection
from typing import cast

import numpy as np
from scipy.special import gammaln, psi

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.inference.empirical_bayes import SMALLEST, solve_concentration
from plait.inference.gamma import FactorState, Prior
from plait.inference.loop import Outcome
from plait.inference.nonzeros import Nonzeros
from plait.inference.problem import Method, Problem
from plait.inference.relation_sums import RelationSums
from plait.inference.state import Reason, State

FRESH = -2  # a version that no factor of a fit has; those of later sweeps are below
LOW = -600.0  # log λ at which a link is one event
MIN_COMPARED_LINKS = 100  # a fit of fewer links is not compared
MIN_COMPARED_SWEEPS = 100  # a fit that has not converged is compared after this many sweeps
SWEEPS, WITH_TABLES = 25, 4  # how many are made; fewer where exposures take a pass over listed cells


class Popularity:
    """The rank-one model of a problem, its factors as vectors (rows,): E and log L, and −KL of each."""

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
        self.factors = {name: _factor(problem.factors[name], mean, FRESH) for name, mean in start.items()}

    def _count(self, name: str, rows: int) -> Array:
        """Σ M X of every row of a factor, over all relations."""
        return sum((sums[name] for sums in self.marginals if name in sums), np.zeros(rows))

    def _scale(self) -> float:
        """The mean of every factor at which the first relation has the total that it should."""
        part, sums = self.relations[0].part, self.marginals[0]
        weight, total = part.weights[0].total(), float(next(iter(sums.values())).sum())
        return (total / weight) ** (1.0 / len(sums)) if total > 0 and weight > 0 else 1.0

    def sweep(self, *, adapt: bool) -> None:
        """Update every factor once; adapt: their priors before."""
        for name in self.problem.free:
            if adapt and name in self.adapted:
                self.priors[name] = self._adapted(name)
            exposure = sum((self._exposure(r, name) for r in self.relations if name in r.names), np.zeros(1))
            self._update(name, exposure)
            self.factors[name] = _factor(self.problem.factors[name], self.means[name], self.factors[name].version - 1)

    def _exposure(self, relation: RelationSums, name: str) -> Array:
        return np.asarray(relation.terms[0].exposed(name, self.factors)[:, 0], np.float64)

    def _adapted(self, name: str) -> tuple[Array, Array]:
        """One prior for a whole factor, as in `plait.inference.empirical_bayes`."""
        A, mean = self.priors[name][0].mean(keepdims=True), self.means[name].mean(keepdims=True)
        if len(self.means[name]) >= SMALLEST:
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
        self.means[name], self.logs[name] = C * D, psi(C) + np.log(D)
        kl = (C - A) * psi(C) - gammaln(C) + gammaln(A) - A * np.log(D * A / B) + C * (D * A / B - 1.0)
        self.divergences[name] = -float(kl.sum())

    def bound(self) -> float:
        """𝓑 of the rank-one model as it stands (EM: log-likelihood)."""
        total = sum(self.divergences.values())
        for relation, sums in zip(self.relations, self.marginals):
            name = next(reversed(sums))
            total += self._constant(relation) - float(np.sum(self.means[name] * self._exposure(relation, name)))
            total += sum(float(n[n > 0] @ self.logs[other][n > 0]) for other, n in sums.items())
        for relation in self.problem.relations:
            if not relation.names:  # nothing unknown in it
                total += self.problem.relation_counts(relation, (), bound=True).value - relation.rate({})
        return total

    def _constant(self, relation: RelationSums) -> float:
        """What F has besides the logarithms of the factors; where counts are not known, if each link is one event."""
        counts, likelihood = relation.counts, relation.part.likelihood
        assert counts is not None
        state = self.likelihood_params.get(relation.part.name, {})
        if not likelihood.true_scale:
            return counts.constant(state)
        _, values, weights, (exposure,) = cast(Nonzeros, relation.part.nonzeros)
        low = np.full(len(values), LOW)
        own = likelihood.expect(values, low, state)[1] - low + (0.0 if exposure is None else np.log(exposure))
        return counts.constant(state) + float(weights @ own)


def popularity_bound(problem: Problem, method: Method, state: State, adapted: Collection[str]) -> float:
    """The bound that the model without latent indices reaches, or a little less.

    method: of the fit, whose problem may have begun as one of EM; state: how it ended, for its priors; adapted: factors
    whose priors are.
    """
    model = Popularity(problem, method, state, adapted)
    tables = any(relation.tables for relation in model.relations)
    for number in range(WITH_TABLES if tables else SWEEPS):
        model.sweep(adapt=number > 0)
    return model.bound()


def _first(layout: Layout, prior: Prior) -> tuple[Array, Array]:
    """A and B of the first component, (rows,) or (1,)."""
    return layout.spread(prior.concentration)[:, 0], layout.spread(prior.mean)[:, 0]


def _factor(like: FactorState, mean: Array, version: int) -> FactorState:
    """A factor of which exposures can be taken: its first component is the mean, all others are 0."""
    stored = np.zeros_like(like.exp_mean_log)
    stored[:, 0] = mean
    return FactorState(like.layout, (stored,), stored, stored, like.shift, version)


def popularity_alone(
    problem: Problem, method: Method, outcome: Outcome, adapted: Collection[str]
) -> dict[str, float] | None:
    """The bound that popularity reaches, beside that of the fit; None where the two do not compare.

    The problem may have begun as one of EM.
    """
    if method == "map" or not _comparable(problem) or not _ended(outcome):
        return None
    alone = popularity_bound(problem, method, outcome.state, adapted)
    return {"baseline": float(alone), "objective": float(outcome.state.history[-1].objective)}


def _ended(outcome: Outcome) -> bool:
    return outcome.stop.reason == Reason.CONVERGED or outcome.state.history[-1].sweep >= MIN_COMPARED_SWEEPS


def _comparable(problem: Problem) -> bool:
    """Whether there is a smaller model to compare with: latent indices, none in a given factor; and enough data.

    Only a product of different factors is compared: of others the counts are not those of their links.
    """
    if any(len(r.terms) > 1 or max(r.terms[0].uses.values(), default=1) > 1 for r in problem.relations):
        return False
    given = [factor for name, factor in problem.factors.items() if name not in problem.free]
    ranks = [math.prod(f.layout.sizes[len(f.layout.visible) :]) for f in problem.factors.values()]
    on_disk = any(p.likelihood.true_scale and p.nonzeros.order is not None for p in problem.parts)
    links = sum(part.nonzeros.links for part in problem.parts)
    return not given and not on_disk and max(ranks, default=1) > 1 and links >= MIN_COMPARED_LINKS
