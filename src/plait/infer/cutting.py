"""Where the links of a relation are cut into blocks for the order "blocks": decided by model and data alone.

A block is a run of leaves of the relation's first tree that ends where a root row does. More blocks need fewer sweeps,
but every visit updates all factors that blocks share; so there are only as many as leave most of the work to the links.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from plait.data.cells.trees import Table
from plait.execute import Executor, Reference, Threads
from plait.infer.counts import Counts
from plait.infer.gamma import Range
from plait.infer.problem import Problem
from plait.infer.relation import RelationSums

MOST = 16  # blocks: beyond, few passes are saved
LEAVES = 2  # of a block at least, so that threads have something to share
SHARE = 0.25  # of the time of the links that visits may take for the factors (docs/decisions/0030-blocks.md)
ROOM = 1.0  # times the memory of the links that their counts may take
# In multiplications of a pass over the links:
NUMBER = 50  # the update of a number of a factor, with the sums of counts
UPDATE = 300_000  # what an update costs besides


class Block(NamedTuple):
    """Leaves lo … hi, their root rows with those between them that have no link, and how many entries they have."""

    lo: int
    hi: int
    rows: Range
    entries: int


class Cut(NamedTuple):
    """The blocks of a relation.

    own: free factors whose rows belong to blocks, and how many each root row has; shared: the others. why: there is
    but one block.
    """

    blocks: list[Block]
    own: dict[str, int]
    shared: tuple[str, ...]
    why: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """All free factors of the relation."""
        return *self.own, *self.shared

    def rows(self, name: str, block: Block) -> Range:
        """The rows of a factor that belong to a block."""
        first, last = block.rows
        return first * self.own[name], last * self.own[name]


def cut_relation(relation: RelationSums, problem: Problem) -> Cut:
    """The blocks of a relation that has latent factors."""
    counts = relation.counts
    assert counts is not None
    table, own = counts.trees[0], _own(counts, problem)
    shared = tuple(name for name in problem.free if name in relation.names and name not in own)
    why = _hindrance(counts, problem.executor)
    blocks = cut_blocks(table, 1 if why else _paying(counts, problem, own, shared), _roots(counts))
    if len(blocks) == 1 and not why:
        why = "updates after every block would take longer than its links"
    return Cut(blocks, own, shared, why)


def cut_blocks(table: Table, count: int, roots: int) -> list[Block]:
    """About so many blocks of equally many entries, rows of their own each; roots: how many rows there are."""
    extents = table.extents()
    total, seen, ends = sum(extent.entries for extent in extents), 0, list[int]()
    for number, extent in enumerate(extents):
        if number and extent.first != extents[number - 1].last and seen * count >= total * (len(ends) + 1):
            ends.append(number)
        seen += extent.entries
    cuts, firsts = [0, *ends, len(extents)], [0, *(extents[end].first for end in ends), roots]
    return [
        Block(lo, hi, (first, last), sum(extent.entries for extent in extents[lo:hi]))
        for lo, hi, first, last in zip(cuts, cuts[1:], firsts, firsts[1:])
    ]


def _roots(counts: Counts) -> int:
    return counts.plan.sizes[counts.trees[0].order[0]]


def _own(counts: Counts, problem: Problem) -> dict[str, int]:
    """Free factors all whose occurrences have the root index first: the rows of a root row lie together.

    One that stands twice in a term is none of them, for its occurrences have different indices.
    """
    plan, root = counts.plan, counts.trees[0].order[0]
    others = {n for n, o in zip(plan.names, plan.operands) if o.visible[:1] != (root,) or o.listed}
    names = [name for name in problem.free if name in plan.names and name not in others]
    return {name: problem.factors[name].layout.rows // _roots(counts) for name in names}


def _hindrance(counts: Counts, executor: Executor) -> str:
    """Why there can be no blocks."""
    if not isinstance(executor, (Threads, Reference)):
        return "every block would be a round of the cluster"
    if len(counts.plan.passes) > 1:
        return "a factor has far more rows than there are links"
    if any(operand.listed for operand in counts.plan.operands):
        return "a factor has a row for every pair"
    return ""


def _paying(counts: Counts, problem: Problem, own: Mapping[str, int], shared: Sequence[str]) -> int:
    """How many blocks pay: visits take a small part of a pass over the links, and their counts less memory."""
    plan = counts.plan
    numbers = sum(problem.factors[name].geomean.size for name in shared)
    visit = NUMBER * numbers + sum(UPDATE + _tables(problem, name) for name in (*own, *shared))
    paying = int(SHARE * plan.multiplications(0) / max(visit, 1))
    held = int(ROOM * plan.tree_bytes(0) / (8 * max(numbers, 1)))
    return max(1, min(MOST, counts.trees[0].leaf_count // LEAVES, paying, held))


def _tables(problem: Problem, name: str) -> int:
    """Multiplications of the walks over tables of weights that an update of a factor takes."""
    trees = [tree for term in problem.terms if name in term.uses for tree in term.exposure.trees]
    return 3 * problem.factors[name].layout.columns * sum(map(len, trees))
