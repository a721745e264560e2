"""Plan of a relation's sums: the order of its CSF trees, and which factors a second tree serves better.

Threads own ranges of root fibres. A factor with the root index is written directly; the others add into a buffer per
thread while that is small compared with the nonzeros, else a second tree with their own index at the root serves them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plait.codegen.layout import Layout
from plait.codegen.step import Operand, Step, chain, make_step
from plait.likelihood import Likelihood

ALONE = "·"  # the index of a relation that has none: one cell
ENTRY, PLACE, START = 1, 4, 4  # bytes of an entry that is a small count or a link (others have 2, 4 or 8), of its place
# before sorting, and of where a fibre begins


@dataclass(frozen=True)
class Pass:
    """One walk over a tree: which operands' gradients it gives, and how each is written."""

    order: tuple[str, ...]
    serves: tuple[int, ...]
    direct: tuple[int, ...]
    buffered: tuple[int, ...]


@dataclass(frozen=True)
class TableSize:
    """A table in the weights: its exposure takes one walk over its entries per factor."""

    order: tuple[str, ...]
    entries: int
    shared: bool  # its cells are the nonzeros, so it has their tree


@dataclass(frozen=True)
class Plan:
    """Plan of one relation's sums. `print(plan)` shows trees, buffers, memory and cost."""

    relation: str
    likelihood: Likelihood
    indices: tuple[str, ...]
    sizes: dict[str, int]
    names: tuple[str, ...]
    operands: tuple[Operand, ...]
    layouts: tuple[Layout, ...]
    ranks: dict[str, int]
    entries: int
    threads: int
    passes: tuple[Pass, ...]
    tables: tuple[TableSize, ...] = ()
    exposed: tuple[int, ...] = ()
    terms: int = 1

    def step(self, number: int, wanted: tuple[int, ...], *, bound: bool = False) -> Step:
        """Step of one pass, for some of its operands."""
        order = self.passes[number].order
        return make_step(
            self.likelihood,
            order,
            self.operands,
            self.ranks,
            wanted,
            bound=bound,
            exposed=self.exposed,
            terms=self.terms,
        )

    def rows(self, position: int, columns: Mapping[str, NDArray[np.integer]]) -> NDArray[np.int64]:
        """Rows of an operand at cells given by columns."""
        count, pairs = len(next(iter(columns.values()))), self.layouts[position].pairs
        if pairs is not None:
            return pairs.find([columns[index] for index in self.operands[position].visible])
        row = np.zeros(count, np.int64)
        for index in self.operands[position].visible:
            row = row * self.sizes[index] + columns[index]
        return row

    def tree_bytes(self, number: int) -> int:
        """Bytes of the tree of a pass, about, and of the values and exposures that it reads."""
        return self._bytes(self.passes[number].order, self.entries) + 8 * self.entries * (
            self.likelihood.reads_values + len(self.exposed)
        )

    def table_bytes(self, number: int) -> int:
        """Bytes of the tree of a table in the weights, about; a shared one only has its own entries."""
        table = self.tables[number]
        return ENTRY * table.entries if table.shared else self._bytes(table.order, table.entries)

    def _bytes(self, order: tuple[str, ...], entries: int) -> int:
        """A row number per level and fibre, a pointer per fibre, the entries; and their permutation where they were
        sorted.
        """
        fibres = [min(entries, self._cells(order, level)) for level in range(len(order))]
        rows = sum(_width(self.sizes[index]) * count for index, count in zip(order, fibres))
        pointers = sum(START * (count + 1) for count in fibres[:-1])
        moved = PLACE * entries if order != tuple(index for index in self.indices if index in order) else 0
        return rows + pointers + ENTRY * entries + moved

    def _cells(self, order: tuple[str, ...], level: int) -> int:
        return math.prod(self.sizes[index] for index in order[: level + 1])

    def buffer_bytes(self, number: int) -> int:
        """Bytes of gradients and of the threads' buffers during the pass."""
        part = self.passes[number]
        size = {position: 8 * self.layouts[position].rows * self.layouts[position].columns for position in part.serves}
        extra = sum(size[position] for position in part.buffered)
        return sum(size.values()) + extra * (self.threads - 1)

    def multiplications(self, number: int) -> int:
        """Upper bound of the multiplications of a pass: every product of the chain, forward once and backward twice."""
        part, cost, step = self.passes[number], 0, self.step(number, self.passes[number].serves)
        for link in (link for term in range(self.terms) for link in chain(step, term)):
            extent = 1
            for index in {*(link.before or ()), *self.operands[link.position].latent}:
                extent *= self.ranks[index]
            fibres = min(self.entries, self._cells(part.order, link.level)) if link.level >= 0 else 1
            cost += 3 * extent * fibres
        return cost

    def __str__(self) -> str:
        lines = [f"{self.relation}: {self.likelihood}, {self.entries:,} entries, {self.threads} threads"]
        for number, part in enumerate(self.passes):
            lines.append(
                f"  tree {' > '.join(part.order)}: {self.tree_bytes(number) / 1e6:,.1f} MB, "
                f"buffers {self.buffer_bytes(number) / 1e6:,.1f} MB, "
                f"{self.multiplications(number) / 1e6:,.1f} million multiplications a pass"
            )
            lines += [f"    {self.names[position]}: direct (has the root index)" for position in part.direct]
            lines += [f"    {self.names[position]}: one buffer a leaf" for position in part.buffered]
        for number, table in enumerate(self.tables):
            tree = "the tree of the nonzeros" if table.shared else f"tree {' > '.join(table.order)}"
            lines.append(
                f"  weights: {table.entries:,} entries, {tree}, {self.table_bytes(number) / 1e6:,.1f} MB, "
                "one walk a factor"
            )
        return "\n".join(lines)


def plan_counts(
    relation: str,
    likelihood: Likelihood,
    indices: tuple[str, ...],
    sizes: dict[str, int],
    operands: tuple[Operand, ...],
    layouts: tuple[Layout, ...],
    entries: int,
    threads: int,
    *,
    exposed: tuple[int, ...] = (),
    terms: int = 1,
    order: tuple[str, ...] | None = None,
) -> Plan:
    """Choose trees for a relation: the longest axis at the root, then the others from short to long.

    `order`: that of the only tree, for blocks on disk.
    """
    indices = indices or (ALONE,)
    sizes = {ALONE: 1, **sizes}
    names = tuple(layout.name for layout in layouts)
    ranks = {
        index: size
        for operand, layout in zip(operands, layouts)
        for index, size in zip(operand.latent, layout.sizes[len(layout.visible) :])
    }
    root = order or tree_order(indices, sizes)
    remaining = list(range(len(operands)))
    passes: list[Pass] = []
    while remaining or not passes:
        far = [p for p in remaining if root[0] not in operands[p].visible and _too_large(layouts[p], entries)]
        far = [p for p in far if operands[p].visible and order is None]
        serves = tuple(p for p in remaining if p not in far)
        direct = tuple(p for p in serves if root[0] in operands[p].visible)
        passes.append(Pass(root, serves, direct, tuple(p for p in serves if p not in direct)))
        remaining = far
        if far:
            first = max(operands[far[0]].visible, key=lambda index: sizes[index])
            root = tree_order(indices, sizes, first)
    return Plan(
        relation, likelihood, indices, sizes, names, operands, layouts, ranks, entries, threads, tuple(passes),
        exposed=exposed, terms=terms,
    )  # fmt: skip


def _width(size: int) -> int:
    """Bytes of a row number of an axis."""
    return np.min_scalar_type(max(size - 1, 0)).itemsize


def tree_order(indices: tuple[str, ...], sizes: dict[str, int], root: str | None = None) -> tuple[str, ...]:
    """The longest axis (or the given one) first: its factor needs no buffer and threads have many roots to share."""
    root = root or max(indices, key=lambda index: sizes[index])
    return (root, *sorted((index for index in indices if index != root), key=lambda index: sizes[index]))


def _too_large(layout: Layout, entries: int) -> bool:
    """Whether a buffer per leaf, cleared and summed in every pass, costs more than another walk over the entries.

    Independent of the number of threads, which must not change bits.
    """
    return layout.rows > 2 * max(entries, 1) and layout.rows > 1024
