"""What an executor promises: `sum(step, blocks, arrays) -> Stats`, and Stats add up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from plait.compile.step import Step
from plait.data.cells.trees import FibreTree
from plait.likelihood import State
from plait.types import Array


@dataclass(frozen=True)
class Stats:
    """Sums over the entries of one or more blocks; blocks on threads, disks or workers just add.

    `gradients`: one stored array for each wanted operand. `value`: the entries' part of the bound, on the rows' scale.
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
        return cls(gradients, 0.0, *_none(step.order, step.beside))

    @classmethod
    def of(cls, gradients: Sequence[Array], value: Array, tree: FibreTree, rare: NDArray[np.int64]) -> "Stats":
        """Sums over one block, whose entries at the positions `rare` were left out; value: that, and the events."""
        bound, events = value.tolist()
        if len(rare) == 0:  # as nearly always
            return cls(tuple(gradients), bound, *_none(tree.order, len(tree.beside)), events)
        beside = np.array([array[rare] for array in tree.beside]).reshape(len(tree.beside), len(rare)).T
        return cls(tuple(gradients), bound, tree.cells(rare), tree.entries[rare].astype(np.float64), beside, events)


def _none(order: tuple[str, ...], beside: int) -> tuple[NDArray[np.int64], Array, Array]:
    """Cells and entries of no entry, and what is beside them."""
    return np.zeros((0, len(order)), np.int64), np.zeros(0), np.zeros((0, beside))


class Executor(Protocol):
    """Sums steps over blocks, and spreads row-by-row work."""

    threads: int

    def sum(
        self,
        step: Step,
        blocks: Sequence[FibreTree],
        arrays: Sequence[Array],
        state: State | None = None,
    ) -> Stats:
        """The sum of a step over all blocks; `arrays` are the stored operands.

        state: of the likelihood, where it has one.
        """

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Run `work(lo, hi)` over ranges that make up 0 … count, and add up what it returns; columns: of a row."""
