"""Sums of one relation: expected counts, and exposures term by term, for given sizes and ranks."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import cast

import numpy as np

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.codegen.plan import Plan, TableSize, plan_counts
from plait.codegen.step import Operand
from plait.data.binding.sparse_factors import SparseFactor
from plait.data.observation.weights import Weights
from plait.data.outofcore.block_table import PackedTable
from plait.data.sparse.csf import CSFCache, CSFTensor, SummedTable
from plait.data.sparse.csf_index import CSFIndex
from plait.executors import Executor
from plait.inference.expected_counts import Counts, ExpectedCounts
from plait.inference.exposure import ExposureSums
from plait.inference.gamma import FactorState, add_up
from plait.inference.nonzeros import LinkSums, Nonzeros
from plait.inference.occurrences import Indices, Use
from plait.inference.summed_terms import SummedTerm
from plait.likelihood import Likelihood, Sums
from plait.likelihood import State as Learnt

Uses = tuple[tuple[str, Indices], ...]  # the factors of a term, each with its indices as written there


@dataclass(frozen=True)
class RelationData:
    """One relation for inference: the factors of every term, the nonzeros, and the weights M·V of every term.

    `summed`: sparse given factors, by number of the term.
    """

    name: str
    likelihood: Likelihood
    indices: tuple[str, ...]
    sizes: dict[str, int]  # of its visible indices
    terms: tuple[Uses, ...]
    nonzeros: LinkSums
    weights: tuple[Weights, ...]
    summed: Mapping[int, SparseFactor] = field(default_factory=dict)


class Rate:
    """G of one term or a part of it: exposures of its factors, and their product with the factors.

    `number`: position of the term in its equation.
    """

    def __init__(
        self,
        number: int,
        members: Sequence[Use],
        weights: Weights,
        visible: Mapping[str, int],
        executor: Executor,
        forest: CSFCache,
    ) -> None:
        self.number, self.members, self.executor = number, members, executor
        self.uses = Counter(member.factor for member in members)
        sizes = dict(visible)
        for member in members:
            sizes |= dict(zip(member.latent, member.layout.sizes[len(member.layout.visible) :]))
        self.exposure = ExposureSums(members, weights, sizes, executor, forest)

    @property
    def trees(self) -> list[SummedTable]:
        """Trees of the tables in its weights."""
        return self.exposure.trees

    def exposed(self, name: str, factors: Mapping[str, FactorState]) -> Array:
        """Exposure of a factor, over both occurrences where there are two."""
        own = [member.name for member in self.members if member.factor == name]
        return add_up([self.exposure(occurrence, factors) for occurrence in own], self.executor)

    def member(self, name: str) -> Use:
        """First occurrence of a factor."""
        return next(member for member in self.members if member.factor == name)

    def total(
        self, factors: Mapping[str, FactorState], name: str | None = None, exposure: Array | None = None
    ) -> float:
        """Σ M·V·Xhat_E over all cells; a known exposure of `name` saves work."""
        return self.exposure.rate(factors, name, exposure) / (
            1 if exposure is None or name is None else self.uses[name]
        )


class RelationSums:
    def __init__(self, part: RelationData, layouts: Mapping[str, Layout], executor: Executor, forest: CSFCache) -> None:
        self.part = part
        self.members = [_members(uses, layouts) for uses in part.terms]  # of every term of the equation
        self.names = frozenset(member.factor for term in self.members for member in term)
        self.executor = executor
        self.summed = _summed_terms(part, layouts)
        self.terms: list[Rate | SummedTerm] = [
            term
            for number, (members, M) in enumerate(zip(self.members, part.weights))
            for term in (
                [self.summed[number]]
                if number in self.summed
                else [
                    Rate(number, own, weights, part.sizes, executor, forest)
                    for own, weights in _parted(part, members, M)
                ]
            )
        ]
        self.counts = Counts(self._plan(part), part.nonzeros, forest) if self.names else None
        self.sums = self._known_sums() if self.counts is None else self.counts.sums

    def _known_sums(self) -> Sums:
        """Sums of the values of a relation without latent factors."""
        nonzeros = cast(Nonzeros, self.part.nonzeros)
        return self.part.likelihood.sums(nonzeros.values, nonzeros.weights)

    @property
    def plan(self) -> Plan | None:
        """Plan of the sums; None where all factors are given."""
        if self.counts is None:
            return None
        own = {_cells_of(tree) for tree in self.counts.trees}
        tables = tuple(TableSize(tree.order, len(tree), _cells_of(tree) in own) for tree in self.tables)
        return replace(self.counts.plan, tables=tables)

    @property
    def tables(self) -> list[SummedTable]:
        """Trees of the tables in the weights."""
        return [tree for term in self.terms for tree in term.trees]

    def _plan(self, part: RelationData) -> Plan:
        planned: list[tuple[Operand, Layout]] = []
        for number, members in enumerate(self.members):
            if number in self.summed:
                planned.append((self.summed[number].operand, self.summed[number].layout))
            else:
                planned += [(Operand(m.visible, m.latent, number, m.listed), m.layout) for m in members]
        operands, layouts = tuple(operand for operand, _ in planned), tuple(layout for _, layout in planned)
        given = part.nonzeros.exposed
        # The exposure of a single term cancels in the counts, unless the true scale matters.
        exposed = given if len(part.terms) > 1 or part.likelihood.true_scale else ()
        return plan_counts(
            part.name, part.likelihood, part.indices, part.sizes, operands, layouts, part.nonzeros.links,
            self.executor.threads, exposed=exposed, terms=len(part.terms),
            order=part.nonzeros.order,
        )  # fmt: skip

    def count(
        self, factors: Mapping[str, FactorState], state: Learnt, wanted: Sequence[str], *, bound: bool
    ) -> ExpectedCounts:
        """Gradients of F for the wanted factors, and F if `bound`."""
        if self.counts is None:
            return self._known(state) if bound else ExpectedCounts({}, {}, 0.0)
        if not self.summed:
            return self.counts(factors, state, self.executor, wanted, bound=bound)
        sums = self._with_sums(factors)
        derived = [term.name for term in self.summed.values() if term.weights in wanted]
        relation_counts = self.counts(sums, state, self.executor, [*wanted, *derived], bound=bound)
        for term in self.summed.values():
            if term.name in relation_counts.gradients:
                gradient = relation_counts.gradients.pop(term.name)
                relation_counts.gradients[term.weights] = term.gradient(factors, gradient)
            if term.name in relation_counts.underflow:
                counts = relation_counts.underflow.pop(term.name)
                relation_counts.underflow[term.weights] = term.counts(factors, counts, sums[term.name])
        return relation_counts

    def _with_sums(self, factors: Mapping[str, FactorState]) -> Mapping[str, FactorState]:
        """The factors as kernels see them: with Σ_q w[q] N of every sparse given factor."""
        return {**factors, **{term.name: term.state(factors) for term in self.summed.values()}}

    def choose(self, factors: Mapping[str, FactorState], state: Learnt) -> dict[str, float]:
        """Likelihood parameters chosen by the rate of every nonzero."""
        if self.counts is None:
            nonzeros = cast(Nonzeros, self.part.nonzeros)
            return self.part.likelihood.choose(state, nonzeros.values, nonzeros.weights, self._log_known())
        plan = self.counts.plan
        sums = self._with_sums(factors)
        looked = self.part.nonzeros.look(plan, self.counts.trees[0], [sums[name] for name in plan.names])
        return self.part.likelihood.choose(state, *looked)

    def start(self) -> dict[str, float]:
        """Initial likelihood parameters."""
        return self.part.likelihood.start(self.sums)

    def rate(self, factors: Mapping[str, FactorState]) -> float:
        """G of all terms."""
        return sum(term.total(factors) for term in self.terms)

    def marginals(self) -> dict[str, Array]:
        """Events over the links of each row, by factor: Σ M X where these are the counts, else one per link.

        A row that a link uses several times has it once.
        """
        if self.counts is None:
            return {}
        known, plan = not self.part.likelihood.true_scale, self.counts.plan
        marginals = self.counts.marginals if known else self.counts.weights()
        distinct = {(name, o.visible): m for name, o, m in zip(plan.names, plan.operands, marginals)}
        result: dict[str, Array] = {}
        for (name, _), marginal in distinct.items():
            result[name] = result[name] + marginal if name in result else marginal
        for term in self.summed.values():  # one row for all values of the index
            result[term.weights] = np.array([result.pop(term.name)[: term.matrix.shape[0]].sum()])
        return result

    def _known(self, state: Learnt) -> ExpectedCounts:
        """F of a relation whose factors are all given."""
        likelihood, nonzeros = self.part.likelihood, cast(Nonzeros, self.part.nonzeros)
        expected, term = likelihood.expect(nonzeros.values, self._log_known(), state)
        value = float(nonzeros.weights @ term) + likelihood.constant(self.sums, state)
        return ExpectedCounts({}, {}, value, float(nonzeros.weights @ expected))

    def _log_known(self) -> Array:
        exposures, count = cast(Nonzeros, self.part.nonzeros).exposures, self.part.nonzeros.links
        return np.log(sum((np.ones(1) if V is None else V for V in exposures), np.zeros(count)))


def _summed_terms(part: RelationData, layouts: Mapping[str, Layout]) -> dict[int, SummedTerm]:
    if not part.summed:
        return {}
    cells = cast(Nonzeros, part.nonzeros).cells
    links = cells.cells() if isinstance(cells, CSFIndex) else cells
    return {
        number: SummedTerm(number, sparse, part.weights[number], links, layouts)
        for number, sparse in part.summed.items()
    }


def _cells_of(table: SummedTable) -> int:
    """Key of tables with the same cells."""
    return id(table.rows) if isinstance(table, CSFTensor) else id(cast(PackedTable, table).blocks)


def _members(uses: Uses, layouts: Mapping[str, Layout]) -> list[Use]:
    """Occurrences in a term, under distinct names."""
    members: list[Use] = []
    for factor, indices in uses:
        again = any(member.factor == factor for member in members)
        members.append(Use.of(layouts[factor], indices, f"{factor} again" if again else factor))
    return members


def _parted(part: RelationData, members: Sequence[Use], weights: Weights) -> Iterator[tuple[list[Use], Weights]]:
    """Members and weights of a term, split by which factors over pairs have their own row at a cell."""
    listed = [member for member in members if member.listed]
    for own in product((True, False), repeat=len(listed)):
        here, there = weights, list(members)
        for member, mine in zip(listed, own):
            assert member.pairs is not None
            table = member.pairs.table(part.indices, list(part.sizes.values()), member.visible)
            here = here * table if mine else here - here * table
            if not mine:
                there[there.index(member)] = member.of_others()
        yield there, here
