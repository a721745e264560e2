"""Executor interface, `sum(step, table, arrays) -> Stats`; and a dense reference executor for tests."""

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
    """Sums over the entries of a table, as `Executor.sum` returns them.

    Sums of parts of a table add up: ``stats + others``.

    Attributes
    ----------
    gradients : tuple of numpy.ndarray
        One array per requested operand.
    value : float
        Contribution of the entries to the ELBO, on the scale of the rows.
    underflow_cells, underflow_entries, underflow_side_values : numpy.ndarray
        Cells, entries and further numbers of entries whose rate underflows. They are in no
        other sum.
    events : float
        Σ M E[n], for likelihoods with a state.

    Examples
    --------
    >>> none = np.zeros((0, 2), np.int64), np.zeros(0), np.zeros((0, 0))
    >>> stats = plait.executors.Stats((np.ones(2),), 1.5, *none)
    >>> (stats + stats).value
    3.0
    """

    gradients: tuple[Array, ...]
    value: float
    underflow_cells: NDArray[np.int64]
    underflow_entries: Array
    underflow_side_values: Array  # (n_underflow, arrays read next to the entries)
    events: float = 0.0

    def __add__(self, other: "Stats") -> "Stats":
        return Stats(
            tuple(a + b for a, b in zip(self.gradients, other.gradients, strict=True)),
            self.value + other.value,
            np.concatenate([self.underflow_cells, other.underflow_cells]),
            np.concatenate([self.underflow_entries, other.underflow_entries]),
            np.concatenate([self.underflow_side_values, other.underflow_side_values]),
            self.events + other.events,
        )

    @classmethod
    def zero(cls, step: Step, arrays: Sequence[Array]) -> "Stats":
        """The empty sum."""
        gradients = tuple(np.zeros(arrays[position].shape) for position in step.wanted)
        return cls(gradients, 0.0, *no_underflow(step))


def no_underflow(step: Step) -> tuple[NDArray[np.int64], Array, Array]:
    """Cells and entries of no entry, and the arrays next to them."""
    return np.zeros((0, len(step.order)), np.int64), np.zeros(0), np.zeros((0, step.n_side_values))


def underflow_of(tree: CSFTensor, underflow: NDArray[np.int64]) -> tuple[NDArray[np.int64], Array, Array]:
    """Cells and entries at positions of a tree, and the arrays next to them."""
    side_values = (
        np.array([array[underflow] for array in tree.side_values]).reshape(len(tree.side_values), len(underflow)).T
    )
    return tree.cells(underflow), tree.entries[underflow].astype(np.float64), side_values


class Executor(Protocol):
    """Interface of executors: where the sums over links are computed.

    Attributes
    ----------
    threads : int
        Number of threads of this process.

    Examples
    --------
    >>> executor = plait.executors.Threads(2)
    >>> executor.threads
    2
    """

    threads: int

    def sum(self, step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None = None) -> Stats:
        """Sum a step over all entries of a table.

        Parameters
        ----------
        step : Step
            The sum to compute.
        table : SummedTable
            The entries, in leaves.
        arrays : sequence of numpy.ndarray
            The operands of the step.
        state : dict of str to float, default None
            State of the likelihood, if it has one.

        Returns
        -------
        Stats
            The sums.
        """

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Run work over ranges of rows and add up its results.

        Parameters
        ----------
        work : callable
            ``work(lo, hi)`` for rows lo to hi.
        count : int
            Number of rows.
        columns : int, default 1
            Numbers per row.

        Returns
        -------
        float
            The sum of the results.
        """


class Reference:
    """Executor that computes dense sums with einsum, for tests: slow and simple.

    Examples
    --------
    >>> executor = plait.executors.Reference()
    >>> fit = plait.fit(model, {"visits": visits}, executor=executor, **quick)
    """

    threads = 1

    def sum(self, step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None = None) -> Stats:
        stats = Stats.zero(step, arrays)
        for tree in table.trees():
            cells = tree.cells(np.arange(len(tree)))
            side_values = tree.side_values if step.n_side_values else ()
            numbers = {p: _by_entry(step, tree, p, own) for p, own in zip(step.listed, tree.numbers)}
            gradients, value, underflow = reference.run(
                step, tree.sizes, cells, tree.entries, list(arrays), side_values,
                numbers, state,
            )  # fmt: skip
            bound, events = value.tolist()
            stats += Stats(
                tuple(gradients),
                bound,
                *(underflow_of(tree, underflow) if len(underflow) else no_underflow(step)),
                events,
            )
        return stats

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        return work(0, count)


def _by_entry(step: Step, tree: CSFTensor, position: int, numbers: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Row of an operand at every entry, from those of fibres."""
    rows = numbers.astype(np.int64)
    for starts in tree.starts[step.level(position) :]:
        rows = np.repeat(rows, np.diff(starts))
    return rows
