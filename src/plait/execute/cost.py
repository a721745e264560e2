"""What a sweep would cost on a cluster, foretold from the sums of one sweep here and a few measured numbers.

A sum on W workers takes

    computing   seconds of one thread / (as many threads as there are, or leaves)
    sending     rows with the root index, out and back, over the link of this process; rows that workers share once over
                it and ⌈log₂ W⌉ times from peer to peer; their sums back from every run, or, where these are large,
                joined on the way
    waiting     a fixed time for each sum, and some for each of its tasks, which one scheduler hands out

and row updates stay here.

The constants are those of docs/decisions/0029-dask.md.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from plait.compile.step import Step
from plait.data.cells.trees import Table
from plait.execute.cluster import Cluster
from plait.execute.dask import HERE
from plait.execute.executor import Executor, Stats
from plait.execute.passing import WIDE
from plait.execute.placing import EACH
from plait.likelihood import State
from plait.types import Array

PAYS = 0.8  # of the time on one machine: less is worth the trouble


@dataclass(frozen=True)
class Sum:
    """One sum of a sweep; seconds: of all threads together. Bytes out and back, of rows with the root index or not."""

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
    """An executor that remembers what it was asked for, and how long it took."""

    inner: Executor
    sums: list[Sum] = field(default_factory=list)
    seconds: float = 0.0  # of row updates

    @property
    def threads(self) -> int:
        """Those of the executor."""
        return self.inner.threads

    def forget(self) -> None:
        """Begin anew."""
        self.sums.clear()
        self.seconds = 0.0

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Rows as the executor does them."""
        began = time.perf_counter()
        found = self.inner.rows(work, count, columns)
        self.seconds += time.perf_counter() - began
        return found

    def sum(self, step: Step, table: Table, arrays: Sequence[Array], state: State | None = None) -> Stats:
        """The sum as the executor does it."""
        began = time.perf_counter()
        found = self.inner.sum(step, table, arrays, state)
        seconds = time.perf_counter() - began
        rooted = [step.order[0] in operand.visible for operand in step.operands]
        wanted = [rooted[position] for position in step.wanted]
        out = [sum(a.nbytes for a, own in zip(arrays, rooted) if own is kind) for kind in (True, False)]
        back = [sum(g.nbytes for g, own in zip(found.gradients, wanted) if own is kind) for kind in (True, False)]
        columns = max((array.shape[1] for array in arrays), default=1)
        threads = max(min(self.threads, table.leaf_count), 1)
        self.sums.append(
            Sum(len(table), columns, table.leaf_count, seconds * threads, out[0], back[0], out[1], back[1])
        )
        return found


@dataclass(frozen=True)
class Network:
    """Seconds that a sum waits besides its tasks, seconds a task costs the scheduler, bytes a second of a link."""

    latency: float = 25e-3
    task: float = 2.5e-3
    bandwidth: float = 1e9  # of 10 Gbit/s, what is left of it

    @classmethod
    def of(cls, cluster: Cluster, megabytes: int = 8) -> "Network":
        """That of a cluster, by asking it."""
        worker = next(iter(cluster.workers()))
        few, many = (min(_time_tasks(cluster, worker, count) for _ in range(3)) for count in (1, 17))
        thing = bytes(megabytes << 20)
        began = time.perf_counter()
        for _, found in cluster.collect(dict(enumerate(cluster.send([(thing, worker)])))):
            assert len(found) == len(thing)
        travel = max(time.perf_counter() - began - few, 1e-6)
        task = max((many - few) / 16, 1e-4)
        return cls(max(few - task, 1e-3), task, 2 * len(thing) / travel)


@dataclass(frozen=True)
class Foretold:
    """Seconds of a sweep on a cluster, by what they are spent on; here: on this machine alone."""

    workers: int
    threads: int
    computing: float
    sending: float
    waiting: float
    rows: float
    here: float

    @property
    def seconds(self) -> float:
        """All of a sweep."""
        return self.computing + self.sending + self.waiting + self.rows

    @property
    def pays(self) -> bool:
        """Whether a cluster is worth it."""
        return self.seconds < PAYS * self.here


def foretell(
    sums: Sequence[Sum], rows: float, workers: int, threads: int, network: Network, own_threads: int
) -> Foretold:
    """The cost of a sweep of these sums and row updates (seconds here) on workers with so many threads each.

    own_threads: of this machine. A sum that is too small to travel stays here.
    """
    parts = [_of_one(one, workers, threads, network, own_threads) for one in sums]
    computing, sending, waiting = (math.fsum(part[n] for part in parts) for n in range(3))
    here = math.fsum(_alone(one, own_threads) for one in sums) + rows
    return Foretold(workers, threads, computing, sending, waiting, rows, here)


def _of_one(one: Sum, workers: int, threads: int, network: Network, own: int) -> tuple[float, float, float]:
    """Computing, sending, waiting of one sum."""
    if not _travels(one):
        return _alone(one, own), 0.0, 0.0
    runs = min(EACH * workers * threads, one.leaves)
    steps = math.ceil(math.log2(workers)) if workers > 1 else 0
    back = one.shared_back * (runs if runs * one.shared_back <= WIDE else 1 + steps)
    rooted = one.rooted_out + one.rooted_back
    shared = one.shared_out * (1 + steps) + back
    return (
        one.seconds / min(workers * threads, one.leaves),
        (rooted + shared) / network.bandwidth,
        network.latency + runs * network.task,
    )


def _travels(one: Sum) -> bool:
    """Whether a sum is worth sending."""
    return one.entries * one.columns >= HERE


def _alone(one: Sum, threads: int) -> float:
    return one.seconds / max(min(threads, one.leaves), 1)


def _time_tasks(cluster: Cluster, worker: str, count: int) -> float:
    began = time.perf_counter()
    tasks = cluster.submit(_nothing, [(n,) for n in range(count)], [worker] * count)
    for _ in cluster.collect(dict(enumerate(tasks))):
        pass
    return time.perf_counter() - began


def _nothing(number: int) -> int:
    return number
