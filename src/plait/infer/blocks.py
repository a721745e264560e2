"""The order "blocks": links in blocks of whole root rows, after each of which the factors are updated (MATH.md).

Every block keeps the counts of its last visit. A visit takes them anew with the newest L; the block's own rows, those
of factors with the root index, get C and D at once, and the factors that blocks share get theirs from the sum of all
blocks' counts. Every visit raises the bound, which is that of each block's own q(S), as old as its visit:

    F = Σ_b [F_b − Σ counts_b · log L, both at its visit] + Σ counts · log L now.

Sums of counts are only ever added up, in the order of the blocks: at the beginning of a sweep the kept counts become
sums over a block and all that follow it, so that with those of the blocks before, which are new, nothing is subtracted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from plait.data.cells.runs import Run
from plait.execute.executor import here
from plait.infer.counts import Counted, Counts
from plait.infer.cutting import Block, Cut, cut_relation
from plait.infer.gamma import PriorTerms, Range, dot_log, sum_over_rows
from plait.infer.problem import Problem
from plait.infer.relation import RelationSums
from plait.infer.state import Visits
from plait.types import Array

NONE = np.zeros((1, 1))


@dataclass
class _Relation:
    """A relation in blocks, and what their last visits left: counts by factor, H = F_b − Σ counts_b · log L, ΣM E[n].

    parts: of factors that blocks share, (blocks, rows, columns); totals: of every factor, over all blocks.
    """

    sums: RelationSums
    counts: Counts
    cut: Cut
    parts: dict[str, Array]
    totals: dict[str, Array]
    kept: Array
    events: Array
    done: dict[str, Array] = field(default_factory=dict)  # shared counts of the blocks visited in this sweep

    def runs(self) -> Iterator[tuple[int, Block, Run]]:
        """The blocks as tables, which share one walk."""
        table = self.counts.trees[0]
        pieces = table.walk()
        for number, block in enumerate(self.cut.blocks):
            yield number, block, Run(table, block.lo, block.hi, block.entries, pieces)

    def begin(self) -> None:
        """Let the counts of every block become those of it and of all that follow."""
        for parts in self.parts.values():
            for number in range(len(parts) - 2, -1, -1):
                parts[number] += parts[number + 1]
        self.done = {name: np.zeros_like(total) for name, total in self.totals.items() if name in self.parts}

    def replace(self, number: int, name: str, counts: Array) -> None:
        """Put the new counts of a block in the place of its old ones, in a sum over all blocks."""
        parts, done = self.parts[name], self.done[name]
        parts[number] = counts
        done += counts
        if number + 1 < len(parts):
            np.add(done, parts[number + 1], out=self.totals[name])
        else:
            np.copyto(self.totals[name], done)

    def expected(self, number: int, name: str, times: Array) -> Array | None:
        """What the counts of the blocks after one are expected to have more than they had; None after the last."""
        rest = self.parts[name][number + 1 : number + 2]
        return rest[0] * (times - 1.0) if len(rest) else None


class Blocks:
    """The relations of a problem in blocks."""

    def __init__(self, problem: Problem, cuts: Mapping[str, Cut]) -> None:
        self.problem = problem
        self.relations = {
            relation.part.name: _made(problem, relation, relation.counts, cuts[relation.part.name])
            for relation in problem.relations
            if relation.counts is not None
        }
        self._sums: dict[str, Array] = {}  # of several relations, by factor

    @classmethod
    def of(cls, problem: Problem) -> "Blocks | None":
        """The problem in blocks; None where no relation has several: that is the order of one pass."""
        cuts = {r.part.name: cut_relation(r, problem) for r in problem.relations if r.counts is not None}
        return cls(problem, cuts) if any(len(cut.blocks) > 1 for cut in cuts.values()) else None

    def fill(self) -> None:
        """Count every block at the state as it stands, without an update."""
        for relation in self.relations.values():
            relation.begin()
            for number, block, table in relation.runs():
                self._count(relation, number, block, table)

    def sweep(self, waiting: frozenset[str] = frozenset(), times: Mapping[str, Array] | None = None) -> None:
        """Visit every block once; factors that wait are not updated.

        times: how many times their counts those of a factor are expected to be in the blocks to come (`accelerate`).
        """
        problem = self.problem
        names = [name for name in problem.free if name not in waiting]
        priors = {name: problem.prior_terms(name) for name in names}
        for relation in self.relations.values():
            self._visit_all(relation, names, priors, times or {})
        problem.rates = [term.total(problem.factors) for term in problem.terms]

    def _visit_all(
        self,
        relation: _Relation,
        names: Sequence[str],
        priors: Mapping[str, PriorTerms],
        times: Mapping[str, Array],
    ) -> None:
        """Visit the blocks of a relation."""
        problem, cut = self.problem, relation.cut
        own, shared = ([name for name in some if name in names] for some in (cut.own, cut.shared))
        means = {name: [self._mean(name, cut.rows(name, block)) for block in cut.blocks] for name in own}
        divergences = {name: np.zeros(len(cut.blocks)) for name in own}
        relation.begin()
        for number, block, table in relation.runs():
            self._count(relation, number, block, table)
            for name in own:
                rows = cut.rows(name, block)
                divergences[name][number] = self._update(name, priors[name], rows)
                means[name][number] = self._mean(name, rows)
                problem.factors[name].tell_total(np.sum(means[name], axis=0))
            for name in shared:
                more = relation.expected(number, name, times[name]) if name in times else None
                problem.divergences[name] = self._update(name, priors[name], more=more)
            self.visited()
        for name in own:
            problem.divergences[name] = float(divergences[name].sum())
            problem.factors[name].forget_totals()  # a fit that is taken up here adds up all rows at once

    def visited(self) -> None:
        """A visit has ended: for who wants to look."""

    def _mean(self, name: str, rows: Range) -> Array:
        return sum_over_rows(self.problem.factors[name], "mean", self.problem.executor, rows=rows)

    def _update(self, name: str, prior: PriorTerms, rows: Range | None = None, more: Array | None = None) -> float:
        """New posteriors from the counts of all relations, and more; returns their part of the bound."""
        found = [relation.totals[name] for relation in self.relations.values() if name in relation.totals]
        found += [] if more is None else [more]
        if len(found) == 1:
            return self.problem.update_from(name, found[0], prior, rows)
        total, here = self._sums.setdefault(name, np.empty_like(found[0])), slice(*(rows or (None,)))
        np.add(found[0][here], found[1][here], out=total[here])
        for other in found[2:]:
            total[here] += other[here]
        return self.problem.update_from(name, total, prior, rows)

    def _count(self, relation: _Relation, number: int, block: Block, table: Run) -> None:
        """The counts of a block with the newest L, in the place of those of its last visit."""
        problem, cut = self.problem, relation.cut
        state, executor = problem.learnt[relation.sums.part.name], problem.executor
        found = relation.counts.of_block(problem.factors, state, executor, cut.names, table)
        kept = found.value
        for name in cut.names:
            factor, total = problem.factors[name], relation.totals[name]
            rows = cut.rows(name, block) if name in cut.own else (0, len(total))
            own = slice(*rows)
            counts = np.multiply(here(found.gradients[name])[own], factor.geomean[own], dtype=np.float64)
            if name in found.extras:
                counts += found.extras[name][own]
            if name in cut.own:
                total[own] = counts
            else:
                relation.replace(number, name, counts)
            kept -= dot_log(total if name in cut.own else counts, factor, executor, rows, scaled=True)
        relation.kept[number], relation.events[number] = kept, found.events

    def counted(self) -> list[Counted]:
        """The sums of every relation, as those of a pass: counts by factor, and F of each block's own q(S)."""
        problem = self.problem
        return [
            self._counted(self.relations[relation.part.name])
            if relation.counts is not None
            else problem.count_one(relation, (), bound=True)
            for relation in problem.relations
        ]

    def _counted(self, relation: _Relation) -> Counted:
        problem, value = self.problem, float(relation.kept.sum())
        for name, total in relation.totals.items():
            value += dot_log(total, problem.factors[name], problem.executor, (0, len(total)), scaled=False)
        value += relation.counts.constant(problem.learnt[relation.sums.part.name])
        value += relation.counts.scales(problem.factors, but=relation.totals)
        return Counted(dict.fromkeys(relation.totals, NONE), relation.totals, value, float(relation.events.sum()))

    def visits(self) -> dict[str, Visits]:
        """What a fit needs to go on from here."""
        return {
            name: Visits(r.kept, r.events, r.parts, {own: r.totals[own] for own in r.cut.own})
            for name, r in self.relations.items()
        }

    def recall(self, visits: Mapping[str, Visits]) -> bool:
        """Set what the last visits left, in arrays of its own; False where it is that of other blocks."""
        found = [(relation, visits.get(name)) for name, relation in self.relations.items()]
        if not all(kept is not None and _alike(relation, kept) for relation, kept in found):
            return False
        for relation, kept in found:
            assert kept is not None
            relation.kept, relation.events = kept.kept.copy(), kept.events.copy()
            relation.totals |= {name: array.copy() for name, array in kept.rows.items()}
            for name, array in kept.parts.items():
                relation.parts[name] = array.copy()
                relation.totals[name] = reduce(np.add, array, np.zeros_like(array[0]))
        return True


def _made(problem: Problem, sums: RelationSums, counts: Counts, cut: Cut) -> _Relation:
    """A relation in blocks that were never visited."""
    shapes = {name: problem.factors[name].geomean.shape for name in cut.names}
    count = len(cut.blocks)
    parts = {name: np.zeros((count, *shapes[name])) for name in cut.shared}
    totals = {name: np.zeros(shape) for name, shape in shapes.items()}
    return _Relation(sums, counts, cut, parts, totals, np.zeros(count), np.zeros(count))


def _alike(relation: _Relation, kept: Visits) -> bool:
    """Whether kept visits are those of such blocks."""
    now = {name: array.shape for name, array in relation.parts.items()}
    rows = {name: relation.totals[name].shape for name in relation.cut.own}
    same = now == {name: array.shape for name, array in kept.parts.items()}
    return (
        same
        and rows == {name: array.shape for name, array in kept.rows.items()}
        and len(kept.kept) == len(relation.kept)
    )
