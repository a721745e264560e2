"""What an executor promises: `sum(step, table, arrays) -> Stats`, and Stats add up.

The executor that stands in for the compiler in tests: dense einsum, no kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen import reference
from plait.codegen.step import Step
from plait.data.sparse.csf import CSFTensor, SummedTable
from plait.likelihood import State


@dataclass(frozen=True)
class Stats:
    """Sums over the entries of a table; those of leaves on threads, disks or workers just add.

    `gradients`: one stored array for each wanted operand. `value`: the part of the entries in the bound, on the rows'
    scale.
    Rare entries, whose scaled Xhat underflows, are left out of both and listed by cell (in tree order) instead.
    `events`: ΣM E[n] beside the value, for likelihoods with a state.
    """

    gradients: tuple[Array, ...]
    value: float
    rare_cells: NDArray[np.int64]
    rare_entries: Array
    rare_beside: Array  # (rare entries, arrays beside the entries)
    events: float = 0.0

    def __add__(self, other: "Stats") -> "Stats":
        return Stats(
            tuple(a + b for a, b in zip(self.gradients, other.gradients, strict=True)),
            self.value + other.value,
            np.concatenate([self.rare_cells, other.rare_cells]),
            np.concatenate([self.rare_entries, other.rare_entries]),
            np.concatenate([self.rare_beside, other.rare_beside]),
            self.events + other.events,
        )

    @classmethod
    def zero(cls, step: Step, arrays: Sequence[Array]) -> "Stats":
        """The sum over no block."""
        gradients = tuple(np.zeros(arrays[position].shape) for position in step.wanted)
        return cls(gradients, 0.0, *none_rare(step))


def none_rare(step: Step) -> tuple[NDArray[np.int64], Array, Array]:
    """Cells and entries of no entry, and what is beside them."""
    return np.zeros((0, len(step.order)), np.int64), np.zeros(0), np.zeros((0, step.beside))


def rare_of(tree: CSFTensor, rare: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array, Array]:
    """Cells and entries at some positions of a tree, and what is beside them."""
    beside = np.array([array[rare] for array in tree.beside]).reshape(len(tree.beside), len(rare)).T
    return tree.cells(rare), tree.entries[rare].astype(np.float64), beside


class Executor(Protocol):
    """Sums steps over tables, and spreads row-by-row work."""

    threads: int

    def sum(self, step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None = None) -> Stats:
        """The sum of a step over all entries of a table; `arrays` are the stored operands.

        state: of the likelihood, where it has one.
        """

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Run `work(lo, hi)` over ranges that make up 0 … count, and add up what it returns; columns: of a row."""


class Reference:
    """Sums by dense einsum: slow and obvious."""

    threads = 1

    def sum(self, step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None = None) -> Stats:
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


def _by_entry(step: Step, tree: CSFTensor, position: int, numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The row that an operand has at every entry, from those of the fibres where it is known."""
    rows = numbers.astype(np.int64)
    for starts in tree.starts[step.level(position) :]:
        rows = np.repeat(rows, np.diff(starts))
    return rows
