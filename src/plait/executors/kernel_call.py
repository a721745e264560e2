"""Call of a kernel with its operands, leaf by leaf, and the sum of its results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from plait._typing import Array
from plait.codegen.compiler import Kernel
from plait.codegen.step import Step, least_rate
from plait.data.sparse.csf import CSFTensor
from plait.data.sparse.leaves import Leaf
from plait.executors.executor import Stats, no_underflow, underflow_of
from plait.tuning import TUNING

UNDERFLOW_POSITIONS = 1024  # of entries that the first call lists: 8 kB, and hardly any sum has more

T = TypeVar("T")
Zeros = Callable[[tuple[int, ...], DTypeLike], Array]
Underflow = tuple[NDArray[np.int64], Array, Array]


class Aside(NamedTuple):
    """Gradient of an operand with the root index, from a part of a root row; its position among all wanted ones."""

    place: int
    row: int  # the first of its rows
    gradient: Array


@dataclass(frozen=True)
class LeafSum:
    """Sums of some leaves: shared gradients, F and events, underflowing entries, rows aside."""

    gradients: tuple[Array, ...]
    value: Array
    underflow: Underflow
    aside: tuple[Aside, ...] = ()

    def join(self, other: "LeafSum") -> "LeafSum":
        """Sum of both, in the memory of this one."""
        for target, more in zip(self.gradients, other.gradients, strict=True):
            target += more
        return LeafSum(
            self.gradients,
            self.value + other.value,
            _concatenate(self.underflow, other.underflow),
            self.aside + other.aside,
        )


class Call:
    """A kernel and its operands; `extra`: packed parameters of the likelihood, where they are read.

    `alone`: whether the table is a single leaf, whose float32 sums stay float32.
    """

    def __init__(
        self, step: Step, kernel: Kernel, arrays: Sequence[Array], extra: Sequence[Array], *, alone: bool
    ) -> None:
        self.step, self.kernel, self.arrays, self.extra, self.alone = step, kernel, arrays, extra, alone
        self.tiny = least_rate(arrays)
        self.shapes = [arrays[position].shape for position in step.wanted]
        self.rooted = [step.order[0] in step.operands[position].visible for position in step.wanted]

    def whole(self, zeros: Zeros) -> list[Array | None]:
        """Arrays for gradients that leaves write in their own rows; None for the others."""
        return [zeros(shape, self.kernel.gradients) if own else None for shape, own in zip(self.shapes, self.rooted)]

    def leaf(self, tree: CSFTensor, leaf: Leaf, whole: Sequence[Array | None], zeros: Zeros) -> LeafSum:
        """Sums of one leaf; whole gradients are written in place."""
        if leaf.inside:
            return self._sum_part(tree, leaf, zeros)
        run = _Run(self, tree, self.arrays, tree.starts, tree.rows)
        shapes = [shape for shape, target in zip(self.shapes, whole) if target is None]
        pieces = self._pieces(tree.length(leaf), shapes)
        own = [zeros(shape, self._numbers(pieces)) for shape in shapes]
        value, underflow = run.over(tree.cut(leaf, pieces), _merged(whole, own), flushed=[g is None for g in whole])
        return LeafSum(tuple(own), value, underflow_of(tree, underflow) if len(underflow) else no_underflow(self.step))

    def _sum_part(self, tree: CSFTensor, leaf: Leaf, zeros: Zeros) -> LeafSum:
        """Sums of a part of one root row: gradients of operands with the root index have its rows only,
        if contiguous.
        """
        root, apart = int(tree.rows[0][leaf.lo]), lies_together(self.step)
        arrays = [
            _rows_of(array, root, tree.sizes[0]) if apart and own else array
            for array, own in zip(self.arrays, self._has_root())
        ]
        rows = (np.array([0 if apart else root], tree.rows[0].dtype), *tree.rows[1:])
        pieces = self._pieces(tree.length(leaf), [arrays[position].shape for position in self.step.wanted])
        own = [zeros(arrays[position].shape, self._numbers(pieces)) for position in self.step.wanted]
        parts = tree.cut(leaf, pieces)
        value, underflows = np.zeros(2), [np.zeros(0, np.int64)]
        for part in parts:
            starts = (np.array(part.inside, tree.starts[0].dtype), *tree.starts[1:])
            run = _Run(self, tree, arrays, starts, rows)
            more, underflow = run.over([Leaf(0, 1)], own, flushed=[True] * len(own))
            value += more
            underflows.append(underflow)
        aside = tuple(
            Aside(place, root * len(gradient) if apart else 0, gradient)
            for place, (gradient, mine) in enumerate(zip(own, self.rooted))
            if mine
        )
        shared = tuple(gradient for gradient, mine in zip(own, self.rooted) if not mine)
        underflow = np.concatenate(underflows)
        return LeafSum(
            shared, value, underflow_of(tree, underflow) if len(underflow) else no_underflow(self.step), aside
        )

    def _has_root(self) -> list[bool]:
        return [self.step.order[0] in operand.visible for operand in self.step.operands]

    def _pieces(self, entries: int, shapes: Sequence[tuple[int, ...]]) -> int:
        """Number of pieces of a leaf, so that no float32 sum gets too long."""
        if self.kernel.gradients != np.float32:
            return 1
        return -(-entries // max(TUNING.float_sum_entries, TUNING.float_sum_rows * sum(shape[0] for shape in shapes)))

    def _numbers(self, pieces: int) -> DTypeLike:
        """Dtype of a leaf's sums."""
        return self.kernel.gradients if self.alone and pieces == 1 else np.float64


def lies_together(step: Step) -> bool:
    """Whether all operands with the root index are contiguous by root row."""
    root = step.order[0]
    own = [operand for operand in step.operands if root in operand.visible]
    return all(operand.visible[0] == root and not operand.listed for operand in own)


class _Run:
    """A kernel with all its inputs, over ranges of root fibres."""

    def __init__(
        self, call: Call, tree: CSFTensor, arrays: Sequence[Array], starts: Sequence[Any], rows: Sequence[Any]
    ) -> None:
        step = call.step
        self.call, self.kernel = call, call.kernel
        side_values = tree.side_values if step.n_side_values else ()
        self.inputs = [*tree.sizes, *starts, *rows, tree.entries, *side_values, *tree.numbers, *arrays, *call.extra]

    def over(
        self, pieces: Sequence[Leaf], gradients: Sequence[Array], flushed: Sequence[bool]
    ) -> tuple[Array, NDArray[np.int64]]:
        """Add pieces to the gradients; flushed ones are summed per piece in the kernel's own dtype."""
        value, underflows = np.zeros(2), []
        for piece in pieces:
            own = [
                np.zeros(gradient.shape, self.kernel.gradients)
                if again and gradient.dtype != self.kernel.gradients
                else gradient
                for gradient, again in zip(gradients, flushed)
            ]
            more, underflow = self._add_entries(piece, own)
            value += more
            underflows.append(underflow)
            for target, gradient in zip(gradients, own):
                if gradient is not target:
                    target += gradient
        return value, underflows[0] if len(underflows) == 1 else np.concatenate(underflows)

    def _add_entries(self, piece: Leaf, gradients: Sequence[Array]) -> tuple[Array, NDArray[np.int64]]:
        """Add to the gradients; returns F and events, and the positions of underflowing entries."""
        value, underflow = self._run(piece, gradients, UNDERFLOW_POSITIONS)
        if underflow[0] > UNDERFLOW_POSITIONS:  # they did not fit: call again to list them
            underflow = self._run(piece, [np.zeros_like(g) for g in gradients], int(underflow[0]))[1]
        return value, underflow[1 : underflow[0] + 1]

    def _run(self, piece: Leaf, gradients: Sequence[Array], capacity: int) -> tuple[Array, NDArray[np.int64]]:
        value, underflow = np.zeros(2), np.zeros(capacity + 1, np.int64)
        # Zeros, not empty: padding of a block is read, times 0, but not always written.
        outputs: list[Any] = [*gradients, np.zeros((1, self.kernel.scratch))]
        outputs += [] if self.call.step.likelihood is None else [self.call.tiny, value, underflow]
        self.kernel.run(piece.lo, piece.hi, *self.inputs, *outputs)
        return value, underflow


def as_stats(total: LeafSum, whole: Sequence[Array | None]) -> Stats:
    """Sums of all leaves, with the whole gradients."""
    for place, row, gradient in total.aside:
        target = whole[place]
        assert target is not None
        target[row : row + len(gradient)] += gradient
    value, events = total.value.tolist()
    return Stats(tuple(_merged(whole, total.gradients)), value, *total.underflow, events)


def _concatenate(some: Underflow, more: Underflow) -> Underflow:
    """Underflowing entries of two leaves."""
    if not len(more[0]):
        return some
    cells, entries, side_values = (np.concatenate(arrays) for arrays in zip(some, more))
    return cells, entries, side_values


def _merged(whole: Sequence[T | None], others: Sequence[T]) -> list[T]:
    """Gradients in the order of the wanted operands."""
    rest = iter(others)
    return [next(rest) if gradient is None else gradient for gradient in whole]


def _rows_of(array: Array, root: int, roots: int) -> Array:
    """Rows of one root row."""
    each = len(array) // roots
    return array[root * each : (root + 1) * each]
