"""The executor for one machine: compiled kernels over ranges of root fibres, one range a thread."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait.compile.kernels import Kernel, compiled
from plait.compile.step import Step
from plait.data.blocks import FibreTree
from plait.execute.executor import Stats
from plait.machine import processors

Array = NDArray[np.float64]

RARE = 1024  # positions of rare entries kept in the first try
SMALL = 4096  # entries or rows below which starting a thread costs more than it saves


class Threads:
    """Sums by compiled kernels on threads of this process; kernels release the GIL."""

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or processors()

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads - 1, thread_name_prefix="plait")

    def _map(self, work: Callable[[int], Any], count: int) -> list[Any]:
        """Work on parts 0 … count − 1; the calling thread takes the first itself, which saves a hand-over."""
        others = [self._pool.submit(work, part) for part in range(1, count)]
        return [work(0), *(other.result() for other in others)]

    def sum(
        self, step: Step, blocks: Sequence[FibreTree], arrays: Sequence[Array], shifts: Sequence[Array] | None = None
    ) -> Stats:
        """The sum of a step over all blocks."""
        kernel = compiled(step)
        stats = [self._block(step, kernel, tree, arrays, shifts) for tree in blocks if len(tree)]
        if not stats:
            return Stats.zero(step, arrays)
        for more in stats[1:]:
            stats[0] += more
        return stats[0]

    def _block(
        self, step: Step, kernel: Kernel, tree: FibreTree, arrays: Sequence[Array], shifts: Sequence[Array] | None
    ) -> Stats:
        """One block. Threads own disjoint root fibres: operands with the root index share one gradient array."""
        parts = self.threads if len(tree) >= SMALL else 1
        cuts = tree.cuts(parts)
        inputs = _inputs(step, tree, arrays, shifts)
        own = [step.order[0] in step.operands[position].visible for position in step.wanted]
        shared = [np.zeros(arrays[position].shape) for position in step.wanted]

        def call(part: int, gradients: list[Array], room: int) -> tuple[float, NDArray[np.int64]]:
            value, rare = np.zeros(1), np.zeros(room + 1, np.int64)
            # Zeros, not empty: a block's padding is read, times 0, but not always written.
            outputs: list[Any] = [*gradients, np.zeros((1, kernel.scratch))]
            outputs += [] if step.kind == "linear" else [value, rare]
            kernel.run(cuts[part], cuts[part + 1], *inputs, *outputs)
            return float(value[0]), rare

        def run(part: int) -> tuple[list[Array], float, NDArray[np.int64]]:
            gradients = [g if part == 0 or mine else np.zeros(g.shape) for g, mine in zip(shared, own)]
            value, rare = call(part, gradients, RARE)
            if rare[0] > RARE:  # they did not fit: once more, only to list them
                rare = call(part, [np.zeros(g.shape) for g in shared], int(rare[0]))[1]
            return gradients, value, rare[1 : rare[0] + 1]

        results = self._map(run, parts)
        for gradients, _, _ in results[1:]:
            for target, gradient, mine in zip(shared, gradients, own):
                if not mine:
                    target += gradient
        rare = np.concatenate([found for _, _, found in results])
        return Stats.of(shared, sum(value for _, value, _ in results), tree, rare)

    def rows(self, work: Callable[[int, int], float], count: int) -> float:
        """Run the work over one range of rows a thread."""
        parts = self.threads if count >= SMALL else 1
        cuts = [count * part // parts for part in range(parts + 1)]
        return float(sum(self._map(lambda part: work(cuts[part], cuts[part + 1]), parts)))


def _inputs(step: Step, tree: FibreTree, arrays: Sequence[Array], shifts: Sequence[Array] | None) -> list[Any]:
    """The kernel's arguments between the root range and the gradients (see `plait.compile.source.arguments`)."""
    inputs: list[Any] = [*tree.sizes, *tree.starts, *tree.rows, tree.entries]
    inputs += [tree.log_exposure] if step.exposed else []
    inputs += arrays
    inputs += list(shifts or []) if step.kind == "bernoulli" else []
    return inputs
