"""The executor that stands in for the compiler in tests: dense einsum, no kernels."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from plait.compile import reference
from plait.compile.step import Step
from plait.data.cells.trees import FibreTree, Table
from plait.execute.executor import Stats, none_rare, rare_of
from plait.likelihood import State
from plait.types import Array


class Reference:
    """Sums by dense einsum: slow and obvious."""

    threads = 1

    def sum(self, step: Step, table: Table, arrays: Sequence[Array], state: State | None = None) -> Stats:
        """The sum of a step over all entries of a table."""
        stats = Stats.zero(step, arrays)
        for tree in table.trees():
            cells = tree.cells(np.arange(len(tree)))
            beside = tree.beside if step.beside else ()
            numbers = {p: _by_entry(step, tree, p, own) for p, own in zip(step.listed, tree.numbers)}
            gradients, value, rare = reference.run(
                step, tree.sizes, cells, tree.entries, list(arrays), beside,
                numbers, state,
            )  # fmt: skip
            bound, events = value.tolist()
            stats += Stats(tuple(gradients), bound, *(rare_of(tree, rare) if len(rare) else none_rare(step)), events)
        return stats

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Run the work in one piece."""
        return work(0, count)


def _by_entry(step: Step, tree: FibreTree, position: int, numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The row that an operand has at every entry, from those of the fibres where it is known."""
    rows = numbers.astype(np.int64)
    for starts in tree.starts[step.level(position) :]:
        rows = np.repeat(rows, np.diff(starts))
    return rows
