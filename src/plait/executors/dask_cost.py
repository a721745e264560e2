"""Forecast of a sweep on a cluster, from the sums of a sweep measured here and the constants of decision 29.

A sum on W workers takes

    computing   seconds of one thread / threads of all workers, at most one per leaf
    sending     rows with the root index out and back; other rows once from here and ⌈log₂ W⌉ times between workers;
                their sums back from each run, or, beyond `join_bytes`, joined on the way
    waiting     a fixed time, and some per task, for the scheduler

Row updates stay on this machine.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from plait._typing import Array
from plait.codegen.step import Step
from plait.data.sparse.csf import SummedTable
from plait.executors.dask import LOCAL_ENTRIES, RUNS_PER_THREAD
from plait.executors.executor import Executor, Stats
from plait.likelihood import State
from plait.tuning import TUNING

WAIT_SECONDS = 25e-3  # per sum, measured
TASK_SECONDS = 2.5e-3  # per task, at the scheduler, measured
BYTES_PER_SECOND = 1e9  # of a network of 10 Gbit/s
MAX_TIME_RATIO = 0.8  # of cluster to machine, for a cluster to be recommended


@dataclass(frozen=True)
class Sum:
    """One sum of a sweep; `seconds`: of all threads together. Bytes out and back, of rows with the root
    index or not.
    """

    entries: int
    columns: int
    leaves: int
    seconds: float
    rooted_out: int
    rooted_back: int
    shared_out: int
    shared_back: int


@dataclass
class Watched:
    """An executor that records its sums, and the seconds of row updates."""

    inner: Executor
    sums: list[Sum] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def threads(self) -> int:
        return self.inner.threads

    def forget(self) -> None:
        """Delete all records."""
        self.sums.clear()
        self.seconds = 0.0

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        began = time.perf_counter()
        result = self.inner.rows(work, count, columns)
        self.seconds += time.perf_counter() - began
        return result

    def sum(self, step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None = None) -> Stats:
        began = time.perf_counter()
        stats = self.inner.sum(step, table, arrays, state)
        seconds = time.perf_counter() - began
        rooted = [step.order[0] in operand.visible for operand in step.operands]
        wanted = [rooted[position] for position in step.wanted]
        out = [sum(a.nbytes for a, own in zip(arrays, rooted) if own is kind) for kind in (True, False)]
        back = [sum(g.nbytes for g, own in zip(stats.gradients, wanted) if own is kind) for kind in (True, False)]
        columns = max((array.shape[1] for array in arrays), default=1)
        threads = max(min(self.threads, table.leaf_count), 1)
        self.sums.append(
            Sum(len(table), columns, table.leaf_count, seconds * threads, out[0], back[0], out[1], back[1])
        )
        return stats


@dataclass(frozen=True)
class Forecast:
    """Seconds of a sweep on a cluster, by purpose; `here`: on this machine alone."""

    workers: int
    threads: int
    computing: float
    sending: float
    waiting: float
    rows: float
    here: float

    @property
    def seconds(self) -> float:
        """Total of a sweep."""
        return self.computing + self.sending + self.waiting + self.rows

    @property
    def pays(self) -> bool:
        """Whether a cluster is worth it."""
        return self.seconds < MAX_TIME_RATIO * self.here


def forecast(sums: Sequence[Sum], rows: float, workers: int, threads: int, own_threads: int) -> Forecast:
    """Forecast of a sweep of these sums and row updates (seconds here) on workers with `threads` each. `own_threads`:
    of this machine.
    """
    parts = [_of_one(one, workers, threads, own_threads) for one in sums]
    computing, sending, waiting = (math.fsum(part[n] for part in parts) for n in range(3))
    here = math.fsum(_alone(one, own_threads) for one in sums) + rows
    return Forecast(workers, threads, computing, sending, waiting, rows, here)


def _of_one(one: Sum, workers: int, threads: int, own_threads: int) -> tuple[float, float, float]:
    """Computing, sending and waiting of one sum."""
    if one.entries * one.columns < LOCAL_ENTRIES:
        return _alone(one, own_threads), 0.0, 0.0
    runs = min(RUNS_PER_THREAD * workers * threads, one.leaves)
    steps = math.ceil(math.log2(workers))
    back = one.shared_back * (runs if runs * one.shared_back <= TUNING.join_bytes else 1 + steps)
    sent = one.rooted_out + one.rooted_back + one.shared_out * (1 + steps) + back
    computing = one.seconds / min(workers * threads, one.leaves)
    return computing, sent / BYTES_PER_SECOND, WAIT_SECONDS + runs * TASK_SECONDS


def _alone(one: Sum, threads: int) -> float:
    return one.seconds / max(min(threads, one.leaves), 1)
