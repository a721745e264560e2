"""Executor on threads of one machine: compiled kernels over leaves."""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from plait._typing import Array
from plait.codegen.compiler import compiled
from plait.codegen.step import Step
from plait.data.sparse.csf import CSFChunk, SummedTable
from plait.executors.executor import Stats
from plait.executors.kernel_call import Call, LeafSum, as_stats
from plait.executors.tree_reduce import BufferPool, Joined
from plait.likelihood import Likelihood, State
from plait.machine import processors
from plait.tuning import TUNING

MIN_THREADED_NUMBERS = 1 << 18  # fewer are summed before a second thread starts
CHUNK_NUMBERS = 1 << 16  # in a range of rows; independent of threads, so that sums are


class Threads:
    """Executor that sums links on threads of this process; the default.

    Parameters
    ----------
    threads : int or None, default None
        Number of threads; by default one per processor.

    Examples
    --------
    >>> executor = plait.executors.Threads(1)
    >>> fit = plait.fit(model, {"visits": visits}, executor=executor, **quick)
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = threads or processors()
        self._begin()

    def _begin(self) -> None:
        """Create threads and memory; those of a parent process are useless after a fork."""
        self._process = os.getpid()
        self._buffers = BufferPool()
        self._pool = ThreadPoolExecutor(max(1, self.threads - 1), thread_name_prefix="plait")

    def _take(self, work: Callable[[Any], object], items: Iterator[Any], threads: int) -> None:
        """Work on all items, each taken by the next free thread, including this one."""
        if self._process != os.getpid():
            self._begin()
        lock, left = threading.Lock(), [True]

        def take() -> None:
            try:
                while left[0]:
                    with lock:
                        item = next(items, None)
                    if item is None:
                        return
                    work(item)
            except BaseException:
                left[0] = False  # the others stop
                raise

        others = [self._pool.submit(take) for _ in range(1, threads)]
        try:
            take()
        finally:
            wait(others)
        for other in others:
            other.result()

    def sum(self, step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None = None) -> Stats:
        """The sum of a step over all entries of a table.

        Leaves have separate root fibres, so that operands with the root index share one gradient.
        """
        if not len(table):
            return Stats.zero(step, arrays)
        call, joined = make_call(step, table, arrays, state), Joined(table.leaf_count, LeafSum.join)
        whole = call.whole(self._zeros)

        def work(piece: CSFChunk) -> None:
            joined.add(piece.number, call.leaf(piece.tree, piece.leaf, whole, self._cleared))
            piece.done()

        columns = max((array.shape[1] for array in arrays), default=1)
        parallel = len(table) * columns >= TUNING.min_parallel_entries
        self._take(work, table.walk(), min(self.threads, table.leaf_count) if parallel else 1)
        return as_stats(joined.total, whole)

    def _cleared(self, shape: tuple[int, ...], numbers: DTypeLike) -> Array:
        """Zeros for this thread."""
        array, ready = self._buffers.array(shape, numbers)
        if not ready:
            array.fill(0.0)
        return array

    def _zeros(self, shape: tuple[int, ...], numbers: DTypeLike) -> Array:
        array, ready = self._buffers.array(shape, numbers)

        def work(lo: int, hi: int) -> float:
            array[lo:hi].fill(0.0)
            return 0.0

        if not ready:
            self.rows(work, *shape)
        return array

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Run the work over ranges of rows, and add up what it returns, in order."""
        parts = 1 if count * columns < TUNING.min_parallel_entries else min(-(-count * columns // CHUNK_NUMBERS), count)
        if parts == 1:
            return work(0, count)
        sums = np.zeros(parts)

        def run(part: int) -> None:
            sums[part] = work(count * part // parts, count * (part + 1) // parts)

        self._take(run, iter(range(parts)), min(self.threads, parts))
        return float(sums.sum())


def make_call(step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None) -> Call:
    """A step as a kernel with its operands."""
    extra = [cast(Likelihood, step.likelihood).packed(state or {})] if step.packed else []
    kernel = compiled(step, (*table.types, *(array.dtype for array in arrays)))
    return Call(step, kernel, arrays, extra, alone=table.leaf_count == 1)
