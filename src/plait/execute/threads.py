"""The executor for one machine: compiled kernels over ranges of root fibres, one range a thread."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from plait.compile.kernels import Kernel, compiled
from plait.compile.step import Step, least_rate
from plait.data.cells.trees import FibreTree
from plait.execute.executor import Stats
from plait.execute.room import Room
from plait.likelihood import Likelihood, State
from plait.machine import processors
from plait.types import Array

RARE = 1024  # positions of rare entries kept in the first try
FLUSH = 1 << 18  # entries that a thread adds up in floats before it goes on in doubles …
ROWS = 4  # … and entries for each row of the gradients, else going on costs more than adding up
SMALL = 1 << 16  # entries or rows, times columns, below which starting a thread costs more than it saves


class Threads:
    """Sums by compiled kernels on threads of this process; kernels release the GIL."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or processors()
        self._begin()

    def _begin(self) -> None:
        """Have threads and memory; those of a parent process are of no use in a forked one."""
        self._process = os.getpid()
        self._room = Room()
        self._pool = ThreadPoolExecutor(max(1, self.threads - 1), thread_name_prefix="plait")

    def _map(self, work: Callable[[int], Any], count: int) -> list[Any]:
        """Work on parts 0 … count − 1; the calling thread takes the first itself, which saves a hand-over."""
        others = [self._pool.submit(work, part) for part in range(1, count)]
        return [work(0), *(other.result() for other in others)]

    def sum(
        self,
        step: Step,
        blocks: Sequence[FibreTree],
        arrays: Sequence[Array],
        state: State | None = None,
    ) -> Stats:
        """The sum of a step over all blocks."""
        if self._process != os.getpid():
            self._begin()
        extra = [cast(Likelihood, step.likelihood).packed(state or {})] if step.packed else []
        stats = [self._block(step, tree, arrays, extra) for tree in blocks if len(tree)]
        if not stats:
            return Stats.zero(step, arrays)
        for more in stats[1:]:
            stats[0] += more
        return stats[0]

    def _block(self, step: Step, tree: FibreTree, arrays: Sequence[Array], extra: Sequence[Array]) -> Stats:
        """One block. Threads own disjoint root fibres: operands with the root index share one gradient array."""
        kernel = compiled(step, (tree.rows[0].dtype, tree.entries.dtype, *(array.dtype for array in arrays)))
        shapes = [arrays[position].shape for position in step.wanted]
        columns = max((array.shape[1] for array in arrays), default=1)
        parts = self.threads if len(tree) * columns >= SMALL else 1
        pieces = _pieces(kernel, len(tree), parts, shapes)
        cuts, call = tree.cuts(parts * pieces), _Call(step, kernel, tree, arrays, extra)
        # Floats are added up over a piece only, then in doubles, which no two threads may do in the same array.
        own = [pieces == 1 and step.order[0] in step.operands[position].visible for position in step.wanted]
        numbers = kernel.gradients if pieces == 1 else np.float64
        shared = [self._zeros(shape, numbers) for shape in shapes]
        buffers = [
            [(g, True) if mine else self._room.array(g.shape, numbers) for g, mine in zip(shared, own)]
            for _ in range(1, parts)
        ]

        def run(part: int) -> tuple[list[Array], list[tuple[Array, NDArray[np.int64]]]]:
            gradients = shared if part == 0 else [_cleared(*buffer) for buffer in buffers[part - 1]]
            if pieces == 1:
                return gradients, [call(cuts[part], cuts[part + 1], gradients)]
            ranges = pairwise(cuts[part * pieces : (part + 1) * pieces + 1])
            return gradients, [call.flushed(lo, hi, gradients) for lo, hi in ranges]

        results = self._map(run, parts)
        for gradients, _ in results[1:]:
            for target, gradient, mine in zip(shared, gradients, own):
                if not mine:
                    self._add(target, gradient)
        found = [piece for _, some in results for piece in some]
        rare = np.concatenate([positions for _, positions in found])
        return Stats.of(shared, sum((value for value, _ in found), np.zeros(2)), tree, rare)

    def _zeros(self, shape: tuple[int, ...], numbers: DTypeLike) -> Array:
        array, ready = self._room.array(shape, numbers)

        def work(lo: int, hi: int) -> float:
            array[lo:hi].fill(0.0)
            return 0.0

        if not ready:
            self.rows(work, *shape)
        return array

    def _add(self, target: Array, more: Array) -> None:
        def work(lo: int, hi: int) -> float:
            target[lo:hi] += more[lo:hi]
            return 0.0

        self.rows(work, *target.shape)

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Run the work over one range of rows a thread."""
        if self._process != os.getpid():
            self._begin()
        parts = min(self.threads, count) if count * columns >= SMALL else 1
        if parts == 1:
            return work(0, count)
        cuts = [count * part // parts for part in range(parts + 1)]
        return float(sum(self._map(lambda part: work(cuts[part], cuts[part + 1]), parts)))


def _cleared(array: Array, ready: bool) -> Array:
    if not ready:
        array.fill(0.0)
    return array


def _pieces(kernel: Kernel, entries: int, parts: int, shapes: Sequence[tuple[int, ...]]) -> int:
    """Into how many pieces a thread's entries are cut, so that no float has too many numbers added to it."""
    if kernel.gradients != np.float32:
        return 1
    return -(-entries // (parts * max(FLUSH, ROWS * sum(shape[0] for shape in shapes))))


class _Call:
    """A kernel with its inputs, to be run over ranges of root fibres."""

    def __init__(
        self, step: Step, kernel: Kernel, tree: FibreTree, arrays: Sequence[Array], extra: Sequence[Array]
    ) -> None:
        self.step, self.kernel, self.inputs = step, kernel, _inputs(step, tree, arrays, extra)
        self.tiny = least_rate(arrays)

    def __call__(self, lo: int, hi: int, gradients: Sequence[Array]) -> tuple[Array, NDArray[np.int64]]:
        """Add to the gradients; returns the value and the events, and the positions of rare entries."""
        value, rare = self._run(lo, hi, gradients, RARE)
        if rare[0] > RARE:  # they did not fit: once more, only to list them
            rare = self._run(lo, hi, [np.zeros_like(g) for g in gradients], int(rare[0]))[1]
        return value, rare[1 : rare[0] + 1]

    def flushed(self, lo: int, hi: int, gradients: Sequence[Array]) -> tuple[Array, NDArray[np.int64]]:
        """The same by way of arrays of the kernel's own numbers."""
        own = [np.zeros(gradient.shape, self.kernel.gradients) for gradient in gradients]
        result = self(lo, hi, own)
        for gradient, more in zip(gradients, own):
            gradient += more
        return result

    def _run(self, lo: int, hi: int, gradients: Sequence[Array], room: int) -> tuple[Array, NDArray[np.int64]]:
        value, rare = np.zeros(2), np.zeros(room + 1, np.int64)
        # Zeros, not empty: a block's padding is read, times 0, but not always written.
        outputs: list[Any] = [*gradients, np.zeros((1, self.kernel.scratch))]
        outputs += [] if self.step.likelihood is None else [self.tiny, value, rare]
        self.kernel.run(lo, hi, *self.inputs, *outputs)
        return value, rare


def _inputs(step: Step, tree: FibreTree, arrays: Sequence[Array], extra: Sequence[Array]) -> list[Any]:
    """The kernel's arguments between the root range and the gradients (see `plait.compile.source.arguments`).

    extra: the log-scales of the operands' rows and the packed state of the likelihood, where they are read.
    """
    inputs: list[Any] = [*tree.sizes, *tree.starts, *tree.rows, tree.entries]
    inputs += tree.beside if step.beside else ()
    inputs += tree.numbers
    return [*inputs, *arrays, *extra]
