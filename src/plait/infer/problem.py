"""A fit's working set: the relations' sums and the factors' state, and the terms of the bound that go with them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from plait.compile.layout import Layout
from plait.compile.plan import Listed, Plan, plan_counts
from plait.compile.step import Kind, Operand
from plait.data.blocks import Forest
from plait.data.weights import Weights
from plait.execute import Executor
from plait.infer.counts import Counted, Counts, Nonzeros
from plait.infer.exposure import Exposure
from plait.infer.gamma import (
    Evidence,
    Factor,
    add_up,
    divergence,
    log_density,
    place_em,
    place_map,
    place_vb,
    point,
    posterior,
    update_em,
    update_map,
    update_vb,
)
from plait.infer.members import Member
from plait.infer.prior import Prior
from plait.infer.state import Kept, Record, State, Trail

Array = NDArray[np.float64]
Method = Literal["vb", "em", "map"]


@dataclass(frozen=True)
class Part:
    """One relation as inference needs it: which factors, which nonzeros, which weights M·V."""

    name: str
    kind: Kind
    indices: tuple[str, ...]
    sizes: dict[str, int]  # of its visible indices
    factors: tuple[tuple[str, tuple[str, ...]], ...]  # factor, indices as written in this equation
    nonzeros: Nonzeros
    weights: Weights


class Relation:
    """The sums of one relation: counts and exposure, for given sizes and ranks."""

    def __init__(self, part: Part, layouts: Mapping[str, Layout], executor: Executor, forest: Forest) -> None:
        self.part = part
        self.members = [_member(layouts[name], indices) for name, indices in part.factors]
        self.names = frozenset(member.name for member in self.members)
        sizes = dict(part.sizes)
        for member in self.members:
            sizes |= dict(zip(member.indices, member.layout.sizes))
        self.executor = executor
        self.counts = Counts(self._plan(part), part.nonzeros, forest) if self.members else None
        self.exposure = Exposure(self.members, part.weights, sizes, executor, forest)

    @property
    def plan(self) -> Plan | None:
        """How the sums are computed; None where nothing latent is left."""
        if self.counts is None:
            return None
        own = {id(tree.rows) for tree in self.counts.trees}
        tables = tuple(Listed(tree.order, len(tree), id(tree.rows) in own) for tree in self.exposure.trees)
        return replace(self.counts.plan, tables=tables)

    def _plan(self, part: Part) -> Plan:
        operands = tuple(Operand(member.visible, member.latent) for member in self.members)
        layouts = tuple(member.layout for member in self.members)
        exposed = part.kind == "bernoulli" and part.nonzeros.exposure is not None
        return plan_counts(
            part.name, part.kind, part.indices, part.sizes, operands, layouts, len(part.nonzeros.values),
            self.executor.threads, exposed=exposed,
        )  # fmt: skip

    def count(self, factors: Mapping[str, Factor], wanted: Sequence[str], *, bound: bool) -> Counted:
        """Gradients of F for the wanted factors, and F itself if asked for."""
        if self.counts is None:
            return Counted({}, {}, self._known() if bound else 0.0)
        return self.counts(factors, self.executor, wanted, bound=bound)

    def marginals(self) -> dict[str, Array]:
        """Σ M X over the links of every row, by factor; a link of Bernoulli is one count."""
        if self.counts is None:
            return {}
        cells, _, weights, _ = self.part.nonzeros
        known = self.part.kind != "bernoulli"
        return dict(
            zip(self.counts.plan.names, self.counts.marginals if known else self.counts.marginals_of(cells, weights))
        )

    def _known(self) -> float:
        """F of a relation whose factors are all exposures: nothing latent is left."""
        _, stored, weights, exposure = self.part.nonzeros
        values = stored.astype(np.float64)
        rate = np.ones(len(values)) if exposure is None else exposure
        if self.part.kind == "bernoulli":
            return float(weights @ (rate + np.log(-np.expm1(-rate))))
        return float(weights @ (values * np.log(rate) - gammaln(values + 1.0)))


def _member(layout: Layout, indices: tuple[str, ...]) -> Member:
    """An occurrence: the factor's inside indices under this equation's names."""
    here = dict(zip(layout.indices, indices))
    return Member(layout.name, tuple(here[i] for i in layout.visible), tuple(here[i] for i in layout.latent), layout)


@dataclass
class Problem:
    """Relations, factors and priors of a fit. `free` are the factors that are updated, in the model's order."""

    method: Method
    parts: Sequence[Part]
    factors: dict[str, Factor]
    free: tuple[str, ...]
    priors: dict[str, Prior]
    executor: Executor
    forest: Forest = field(default_factory=Forest)

    def __post_init__(self) -> None:
        layouts = {name: factor.layout for name, factor in self.factors.items()}
        self.relations = [Relation(part, layouts, self.executor, self.forest) for part in self.parts]
        self.rates = [0.0] * len(self.relations)  # G of every relation, as of the end of the last sweep
        self._first = [next((f for f in self.free if f in r.names), None) for r in self.relations]
        self._last = [next((f for f in reversed(self.free) if f in r.names), None) for r in self.relations]
        self.divergences = dict.fromkeys(self.free, 0.0)
        self.exposed: dict[str, NDArray[np.bool_]] = {}  # rows of each factor that any observed cell depends on
        self._links: dict[str, Array] = {}
        self._ahead: dict[int, Array] = {}  # exposures of the relations' first free factors, where known already

    @property
    def numbers(self) -> str:
        """What the factors are stored in, for errors."""
        singles = any(self.factors[name].mean.dtype == np.float32 for name in self.free)
        return "floats" if singles else "doubles"

    @property
    def plan(self) -> str:
        """Trees, buffers, memory and cost of every relation, and the memory of the factors, to be read."""
        factors = sum(5 * factor.mean.nbytes for factor in self.factors.values())
        lines = [str(relation.plan) for relation in self.relations if relation.plan is not None]
        return "\n".join([*lines, f"factors: {factors / 1e6:,.1f} MB"])

    def measure(self) -> None:
        """Compute every G and KL afresh (after initialisation and pruning; updates keep them in step)."""
        self.rates = [relation.exposure.rate(self.factors) for relation in self.relations]
        for name in self.free:
            self.divergences[name] = self._divergence(name)

    def _divergence(self, name: str) -> float:
        if self.method == "em":
            return 0.0
        A, B = self.spread(name)
        return (divergence if self.method == "vb" else log_density)(self.factors[name], A, B)

    def spread(self, name: str) -> tuple[Array, Array]:
        """A factor's A and B as (rows or 1) × (columns or 1)."""
        layout, prior = self.factors[name].layout, self.priors[name]
        return layout.spread(prior.concentration), layout.spread(prior.mean)

    def links(self, name: str) -> Array:
        """Σ M X of every row of a factor, over all relations; kept, for the data do not change."""
        if name not in self._links:
            sums = [relation.marginals() for relation in self.relations if name in relation.names]
            self._links[name] = sum((each[name] for each in sums), np.zeros(self.factors[name].layout.rows))
        return self._links[name]

    def rescale(self, name: str, log_scale: float) -> None:
        """Multiply a factor by a constant."""
        old, scale = self.factors[name], float(np.exp(log_scale))
        if old.concentration is None or old.scale is None:
            new = point(old.layout, old.mean * scale)
        else:
            new = posterior(old.layout, old.concentration, old.scale * scale)
        self.factors[name] = replace(new, version=old.version + 1)

    def parameters(self, name: str) -> tuple[Array, ...]:
        """What a free factor is made from, as stored: C and D of a posterior, Z of a point."""
        factor = self.factors[name]
        if factor.concentration is None or factor.scale is None:
            return (factor.mean,)
        return factor.concentration, factor.scale

    def place(self, name: str) -> None:
        """Let a factor and its KL follow its parameters, which were changed in place."""
        factor = self.factors[name]
        self._ahead.clear()
        if self.method == "em":
            place_em(factor, self.executor)
        else:
            place = place_vb if self.method == "vb" else place_map
            self.divergences[name] = place(factor, *self.spread(name), self.executor)

    def look_ahead(self) -> None:
        """G of every relation afresh, by the exposures that the next sweep begins with."""
        for n, (relation, name) in enumerate(zip(self.relations, self._first)):
            if name is not None:
                self._ahead[n] = relation.exposure(name, self.factors)
                self.rates[n] = relation.exposure.rate(self.factors, name, self._ahead[n])

    def state(self, history: Sequence[Record], pause: int, trail: Trail) -> State:
        """All that changes in the loop, as it stands."""
        factors, priors = {name: Kept.of(factor) for name, factor in self.factors.items()}, dict(self.priors)
        rates, divergences, exposed = list(self.rates), dict(self.divergences), dict(self.exposed)
        return State(factors, priors, rates, divergences, exposed, history, pause, trail)

    def recall(self, state: State) -> None:
        """Set what was computed on the way to a state; its factors and priors are this problem's already."""
        self.rates, self.divergences, self.exposed = list(state.rates), dict(state.divergences), dict(state.exposed)

    def count(self, *, bound: bool = True) -> list[Counted]:
        """One counts pass over every relation, for all free factors."""
        return [relation.count(self.factors, self.free, bound=bound) for relation in self.relations]

    def bound(self, counted: Sequence[Counted]) -> float:
        """𝓑 of the state at which the counts were taken (EM: log-likelihood, MAP: log joint)."""
        return sum(c.value for c in counted) - sum(self.rates) + sum(self.divergences.values())

    def update(self, name: str, counted: Sequence[Counted]) -> None:
        """One coordinate update: the factor's new posterior, its KL, and G of the relations it is the last of."""
        factor = self.factors[name]
        exposures = {n: self._exposure(n, name) for n, r in enumerate(self.relations) if name in r.names}
        evidence = _evidence(name, [counted[n] for n in exposures], list(exposures.values()), self.executor)
        if name not in self.exposed:  # it is the weights that decide
            self.exposed[name] = np.broadcast_to((evidence.exposure > 0).any(axis=1), (factor.layout.rows,))
        if self.method == "vb":
            self.divergences[name] = update_vb(factor, evidence, *self.spread(name), self.executor)
        elif self.method == "map":
            self.divergences[name] = update_map(factor, evidence, *self.spread(name), self.executor)
        else:
            update_em(factor, evidence, self.executor)
        for n, exposure in exposures.items():
            if self._last[n] == name:  # all other factors of the relation are as new as this one
                self.rates[n] = self.relations[n].exposure.rate(self.factors, name, exposure)

    def _exposure(self, n: int, name: str) -> Array:
        """A factor's exposure in a relation; that of the first one may be known."""
        known = self._ahead.pop(n, None) if self._first[n] == name else None
        return self.relations[n].exposure(name, self.factors) if known is None else known


def _evidence(name: str, counted: Sequence[Counted], exposures: Sequence[Array], executor: Executor) -> Evidence:
    """All relations' gradients, rare counts and exposures of one factor, added up."""
    gradient = add_up([c.gradients[name] for c in counted], executor)
    extras = [c.extras[name] for c in counted if name in c.extras]
    return Evidence(gradient, np.sum(extras, axis=0) if extras else None, add_up(exposures, executor))
