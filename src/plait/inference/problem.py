"""State of a fit: the sums of relations, the factors and priors, and the terms of the objective."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.data.sparse.csf import CSFCache
from plait.executors import Executor
from plait.inference.chains import chain_objective, update_chain
from plait.inference.expected_counts import ExpectedCounts
from plait.inference.gamma import NO_PRIOR, FactorState, Prior, add_up, prior_terms, rescale
from plait.inference.relation_sums import RelationData, RelationSums
from plait.inference.state import FactorSnapshot, MomentumState, Record, State
from plait.inference.updates import (
    RowEvidence,
    divergence,
    log_density,
    refresh_em,
    refresh_map,
    refresh_vb,
    update_em,
    update_map,
    update_vb,
)

Method = Literal["vb", "em", "map"]


@dataclass
class Problem:
    """Relations, factors and priors of a fit. `free` names the factors that are updated, in the model's order."""

    method: Method
    parts: Sequence[RelationData]
    factors: dict[str, FactorState]
    free: tuple[str, ...]
    priors: dict[str, Prior]
    executor: Executor
    forest: CSFCache = field(default_factory=CSFCache)
    likelihood_params: dict[str, dict[str, float]] = field(
        default_factory=dict
    )  # by relation the state of its likelihood
    relations: list[RelationSums] = field(default_factory=list)  # built from the parts if empty

    def __post_init__(self) -> None:
        layouts = {name: factor.layout for name, factor in self.factors.items()}
        if not self.relations:
            self.relations = [RelationSums(part, layouts, self.executor, self.forest) for part in self.parts]
        self.likelihood_params = {
            r.part.name: self.likelihood_params.get(r.part.name) or r.start() for r in self.relations
        }
        self.terms = [term for relation in self.relations for term in relation.terms]
        self.rates = [0.0] * len(self.terms)  # G of every term, as of the end of the last sweep
        self._first = [next((f for f in self.free if f in term.uses), None) for term in self.terms]
        self._last = [next((f for f in reversed(self.free) if f in term.uses), None) for term in self.terms]
        self.divergences = dict.fromkeys(self.free, 0.0)
        self.exposed: dict[str, NDArray[np.bool_]] = {}  # rows of each factor with observed cells
        self._links: dict[str, Array] = {}
        self._ahead: dict[int, Array] = {}  # cached exposures of the first free factor of each term

    def axis(self, index: str) -> str:
        """The latent index that `index` is tied to by a factor that occurs twice; else itself."""
        return self._tied.get(index, index)

    @cached_property
    def _tied(self) -> dict[str, str]:
        members = [member for term in self.terms for member in term.members]
        return {i: own for m in members for i, own in zip(m.latent, m.layout.latent) if i != own}

    @property
    def numbers(self) -> str:
        """Dtype of the factors, for messages."""
        singles = any(self.factors[name].exp_mean_log.dtype == np.float32 for name in self.free)
        return "floats" if singles else "doubles"

    @property
    def plan(self) -> str:
        """Trees, buffers, memory and cost of every relation, and memory of the factors, as text."""
        factors = sum((2 + len(factor.parameters)) * factor.exp_mean_log.nbytes for factor in self.factors.values())
        lines = [str(relation.plan) for relation in self.relations if relation.plan is not None]
        return "\n".join([*lines, f"factors: {factors / 1e6:,.1f} MB"])

    def recompute_elbo_terms(self) -> None:
        """Compute every G and KL from the factors; updates then keep them current."""
        self.rates = [term.total(self.factors) for term in self.terms]
        for name in self.free:
            self.divergences[name] = self._divergence(name)

    def _divergence(self, name: str) -> float:
        if self.method == "em":
            return 0.0
        if self.priors[name].chain:
            return chain_objective(self.factors[name], self.priors[name], self.method, self.executor)
        A, B = self.spread(name)
        return (divergence if self.method == "vb" else log_density)(self.factors[name], A, B)

    def spread(self, name: str) -> tuple[Array, Array]:
        """A and B of a factor, (n_rows or 1, n_columns or 1)."""
        layout, prior = self.factors[name].layout, self.priors[name]
        return layout.spread(prior.concentration), layout.spread(prior.mean)

    def links(self, name: str) -> Array:
        """Σ M X of each row of a factor, over all relations; cached."""
        if name not in self._links:
            sums = [relation.marginals() for relation in self.relations if name in relation.names]
            self._links[name] = sum((each[name] for each in sums), np.zeros(self.factors[name].layout.rows))
        return self._links[name]

    def rescale(self, name: str, log_scale: float) -> None:
        rescale(self.factors[name], float(np.exp(log_scale)))

    def parameters(self, name: str) -> tuple[Array, ...]:
        """C and D of a posterior, Z of a point, as stored."""
        return self.factors[name].parameters

    def refresh(self, name: str) -> None:
        """Recompute statistics and KL of a factor after its parameters were changed in place."""
        factor = self.factors[name]
        self._ahead.clear()
        if self.method == "em":
            refresh_em(factor, self.executor)
        elif self.priors[name].chain:
            (refresh_vb if self.method == "vb" else refresh_map)(factor, *NO_PRIOR, self.executor)
            self.divergences[name] = chain_objective(factor, self.priors[name], self.method, self.executor)
        else:
            refresh = refresh_vb if self.method == "vb" else refresh_map
            self.divergences[name] = refresh(factor, *self.spread(name), self.executor)

    def cache_exposures(self) -> None:
        """Recompute G of every term by the exposures that the next sweep starts with."""
        for n, (term, name) in enumerate(zip(self.terms, self._first)):
            if name is not None:
                self._ahead[n] = term.exposed(name, self.factors)
                self.rates[n] = term.total(self.factors, name, self._ahead[n])

    def state(self, history: Sequence[Record], pause: int, momentum: MomentumState) -> State:
        factors, priors = {name: FactorSnapshot.of(factor) for name, factor in self.factors.items()}, dict(self.priors)
        rates, divergences, exposed = list(self.rates), dict(self.divergences), dict(self.exposed)
        return State(
            factors, priors, rates, divergences, exposed, history, pause, momentum, dict(self.likelihood_params)
        )

    def restore(self, state: State) -> None:
        """Set rates, KL and likelihood parameters from a state whose factors and priors this problem has."""
        self.rates, self.divergences, self.exposed = list(state.rates), dict(state.divergences), dict(state.exposed)

    def expected_counts(self, *, bound: bool = True) -> list[ExpectedCounts]:
        """One pass over every relation, for all free factors."""
        return [self.relation_counts(relation, self.free, bound=bound) for relation in self.relations]

    def relation_counts(self, relation: RelationSums, wanted: Sequence[str], *, bound: bool) -> ExpectedCounts:
        return relation.count(self.factors, self.likelihood_params[relation.part.name], wanted, bound=bound)

    def learn(self, counted: Sequence[ExpectedCounts]) -> None:
        """Update the parameters of the likelihoods at fixed counts; the objective does not fall."""
        for relation, sums in zip(self.relations, counted):
            name = relation.part.name
            self.likelihood_params[name] = relation.part.likelihood.update(
                self.likelihood_params[name], relation.sums, sums.events
            )

    def choose(self) -> bool:
        """Choose likelihood parameters by a pass over all nonzeros at fixed factors; return whether any changed."""
        before = dict(self.likelihood_params)
        for relation in self.relations:
            name, likelihood = relation.part.name, relation.part.likelihood
            if likelihood.chooses:
                self.likelihood_params[name] = relation.choose(self.factors, self.likelihood_params[name])
        return self.likelihood_params != before

    def objective(self, counted: Sequence[ExpectedCounts]) -> float:
        """ELBO at the factors of the counts (EM: log-likelihood, MAP: log joint)."""
        return sum(c.value for c in counted) - sum(self.rates) + sum(self.divergences.values())

    @property
    def by_unit(self) -> float:
        """Part of the objective that depends on the unit of values only; relative changes leave it out."""
        return sum(relation.part.likelihood.by_unit(relation.sums) for relation in self.relations)

    def update(self, name: str, counted: Sequence[ExpectedCounts]) -> None:
        """One coordinate update of a factor's posterior, its KL, and G of the terms whose last factor it is."""
        exposures = {n: self._exposure(n, name) for n, term in enumerate(self.terms) if name in term.uses}
        own = [c for c, relation in zip(counted, self.relations) if name in relation.names]
        gradient = add_up([c.gradients[name] for c in own], self.executor)
        underflow = [c.underflow[name] for c in own if name in c.underflow]
        self.divergences[name] = self.settle(
            name,
            self._evidence(name, gradient, np.sum(underflow, axis=0) if underflow else None, exposures),
        )
        for n, exposure in exposures.items():
            if self._last[n] == name:  # the other factors of the term are up to date
                self._measure(n, name, exposure)

    def settle(self, name: str, evidence: RowEvidence) -> float:
        """Update a factor's posterior; return −KL, or the log prior density."""
        factor = self.factors[name]
        if name not in self.exposed:  # depends on the weights only
            seen = [(e > 0).any(axis=1) for e in (evidence.exposure, evidence.twice) if e is not None]
            self.exposed[name] = np.broadcast_to(reduce(np.logical_or, seen), (factor.layout.rows,))
        if self.method == "em":
            update_em(factor, evidence, self.executor)
            return 0.0
        if self.priors[name].chain:
            return update_chain(factor, evidence, self.priors[name], self.method, self.executor)
        update = update_vb if self.method == "vb" else update_map
        return update(factor, evidence, prior_terms(*self.spread(name), self.executor), self.executor)

    def _measure(self, n: int, name: str, exposure: Array) -> None:
        """G of a term after its last factor; an exposure that contains the factor itself is recomputed."""
        term = self.terms[n]
        if term.uses[name] > 1:
            exposure = term.exposed(name, self.factors)
            if self._first[n] == name:
                self._ahead[n] = exposure
        self.rates[n] = term.total(self.factors, name, exposure)

    def _exposure(self, n: int, name: str) -> Array:
        """Exposure of a factor in a term, from the cache for the first one."""
        known = self._ahead.pop(n, None) if self._first[n] == name else None
        return self.terms[n].exposed(name, self.factors) if known is None else known

    def _evidence(
        self, name: str, gradient: Array, underflow: Array | None, exposures: Mapping[int, Array]
    ) -> RowEvidence:
        """Sum of gradient, underflow counts and exposures of one factor."""
        own = {n: exposure for n, exposure in exposures.items() if not self.terms[n].member(name).shared}
        once, twice = (
            [e for n, e in own.items() if (self.terms[n].uses[name] > 1) == again] for again in (False, True)
        )
        others = [self.terms[n].member(name).mean_of_others(e) for n, e in exposures.items() if n not in own]
        exposure = add_up(once, self.executor) if once else np.zeros((1, 1))
        return RowEvidence(
            gradient,
            underflow,
            self._with_others(name, exposure, others) if others else exposure,
            add_up(twice, self.executor) if twice else None,
        )

    def _with_others(self, name: str, exposure: Array, others: Sequence[Array]) -> Array:
        """Exposure of all rows of a factor over pairs; rows that pairs share take the mean of theirs."""
        layout = self.factors[name].layout
        assert layout.pairs is not None
        whole = np.array(np.broadcast_to(exposure, (layout.rows, layout.columns)))
        whole[len(layout.pairs) :] = sum(others, np.zeros((1, 1)))
        return whole
