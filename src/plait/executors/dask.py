"""Executor on a Dask cluster: workers keep the links and sum them, this process keeps the factors and updates them
(decision 29).

A run is a range of consecutive leaves, a node of the summation tree (`tree_reduce`). Its links go to one worker, once,
and again if that worker is lost or another one joins. A sum is one task per run; Dask schedules and retries them. Nodes
are joined in the order of `Threads`, so results are bitwise identical.
"""

import math
import queue
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from plait._typing import Array
from plait.codegen.step import Step
from plait.data.sparse.csf import CSFTensor, SummedTable
from plait.errors import FitError, ParameterError, PlaitError, WorkerMismatchWarning, warn_of
from plait.executors.dask_worker import (
    RootRows,
    SumJob,
    WorkerBlocks,
    WorkerLinks,
    describe_machine,
    join_shared,
    sum_leaves,
)
from plait.executors.executor import Stats
from plait.executors.kernel_call import as_stats, lies_together
from plait.executors.threads import Threads
from plait.executors.tree_reduce import Joined, runs
from plait.likelihood import State
from plait.tuning import TUNING

if TYPE_CHECKING:
    from distributed import Client, Future

LOCAL_ENTRIES = 1 << 23  # entries × columns of a sum of 50 ms on one thread, the time to send its tasks
RUNS_PER_THREAD = 2  # a task costs some milliseconds; with two, others share the runs of a lost worker
MAX_TRIES = 5  # of a sum whose workers are lost
SEND_SECONDS = 5.0  # in which a worker must begin to receive
LOOK_SECONDS = 1.0  # without a result, after which this process looks whether any worker is left


Key = tuple[int, int]  # level and number of a node


@dataclass
class Run:
    """Leaves lo … hi of a table, a node of the summation tree, and the worker that keeps their links."""

    key: Key
    lo: int
    hi: int
    rows: RootRows
    worker: str = ""
    links: "Future | None" = None


class Dask:
    """Executor that sums links on the workers of a Dask cluster.

    Results are bitwise identical to those on one machine. Requires
    ``pip install 'tensorplait[dask]'`` here and on the workers.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler.
    threads : int or None, default None
        Number of threads of this process, which updates the factors.
    here : int, default 8388608
        Sums with fewer entries times columns stay in this process.
    patience : float, default 60.0
        Seconds to wait for a worker if none is left.

    Raises
    ------
    plait.errors.ParameterError
        If ``client`` is neither a client nor an address, or distributed is not installed.
    plait.errors.FitError
        If the scheduler does not answer, or there is no worker.

    Warns
    -----
    plait.errors.WorkerMismatchWarning
        If workers have other versions or processors than this process.

    Notes
    -----
    Links are sent to the workers once. If a worker is lost, its links go to another one.

    Guide: <https://tensorplait.github.io/tensorplait/large-data.html>.

    Examples
    --------
    >>> from distributed import Client
    >>> client = Client(processes=False, n_workers=1, dashboard_address=None)
    >>> with plait.executors.Dask(client) as executor:
    ...     fit = plait.fit(model, {"visits": visits}, executor=executor, **quick)
    >>> client.close()
    """

    def __init__(
        self, client: "Client | str", *, threads: int | None = None, here: int = LOCAL_ENTRIES, patience: float = 60.0
    ) -> None:
        self.client, self._made_here = connect(client)
        self.here, self.patience = here, patience
        self._threads = Threads(threads)
        self._runs: dict[int, list[Run]] = {}  # by id(table)
        self._compared: set[str] = set()
        self._senders = ThreadPoolExecutor(8, thread_name_prefix="plait-send")
        self._lock = threading.RLock()
        self.workers()
        self._direct = self._reaches_workers()

    @property
    def threads(self) -> int:
        """Threads of this process."""
        return self._threads.threads

    def close(self) -> None:
        """Release the links on the workers, and close a client that was made from an address.

        Examples
        --------
        >>> from distributed import Client
        >>> client = Client(processes=False, n_workers=1, dashboard_address=None)
        >>> executor = plait.executors.Dask(client)
        >>> executor.close()
        >>> client.close()
        """
        with self._lock:
            self._runs.clear()
        self._senders.shutdown()
        if self._made_here:
            self.client.close()

    def __enter__(self) -> "Dask":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Run the work over ranges of rows, in this process."""
        return self._threads.rows(work, count, columns)

    def sum(self, step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None = None) -> Stats:
        """The sum of a step over all entries of a table."""
        columns = max((array.shape[1] for array in arrays), default=1)
        if not len(table) or len(table) * columns < self.here:
            return self._threads.sum(step, table, arrays, state)
        with self._lock:
            return self._sum(step, table, arrays, state)

    # --- one sum

    def _sum(self, step: Step, table: SummedTable, arrays: Sequence[Array], state: State | None) -> Stats:
        from distributed import KilledWorker

        job = pickled(SumJob(step, (*table.types, *(array.dtype for array in arrays)), table.leaf_count == 1))
        tasks: dict[Key, Future] = {}
        for attempt in range(MAX_TRIES):
            try:
                placed = self._place_runs(table, forget=attempt > 1)
                left = [run for run in placed if run.key not in tasks or not _is_alive(tasks[run.key])]
                tasks |= self._submit(step, left, arrays, job, state)
                return self._collect(step, table, arrays, {run.key: tasks[run.key] for run in placed})
            except (CancelledError, KilledWorker, OSError) as error:
                lost = error
                if attempt > 0:
                    tasks.clear()
        raise FitError(
            f"Dask lost its workers {MAX_TRIES} times in a row: {lost!r}.",
            hint="Check the logs of the workers, in particular their memory, and continue from the checkpoint.",
        )

    def _place_runs(self, table: SummedTable, *, forget: bool) -> list[Run]:
        """Runs of a table, with the links of each on a worker; `forget` sends all of them again."""
        workers = self.workers()
        placed, wanted = self._runs.get(id(table)), RUNS_PER_THREAD * sum(workers.values())
        if placed is None:
            weakref.finalize(table, self._runs.pop, id(table), None)
        if placed is None or (len(placed) < wanted and placed[0].key[0] > 0):
            placed = self._runs[id(table)] = cut_runs(table, wanted)
        for run, worker in zip(placed, assign([run.worker for run in placed], workers)):
            if forget or run.worker != worker or (run.links is not None and run.links.status != "finished"):
                run.links = None
            run.worker = worker
        missing = [run for run in placed if run.links is None]
        for run, future in zip(missing, self._scatter([(run.worker, _links(table, run)) for run in missing])):
            run.links = future
        return placed

    def _submit(
        self, step: Step, left: Sequence[Run], arrays: Sequence[Array], job: bytes, state: State | None
    ) -> "dict[Key, Future]":
        """One task per run. All of them need the shared operands: one worker gets these, for its peers."""
        if not left:
            return {}
        sliced = lies_together(step)
        rooted = [p for p, operand in enumerate(step.operands) if sliced and step.order[0] in operand.visible]
        shared = {p: np.ascontiguousarray(array) for p, array in enumerate(arrays) if p not in rooted}
        own = [(run.worker, {p: np.ascontiguousarray(run.rows.of(arrays[p])) for p in rooted}) for run in left]
        whole, *parts = self._scatter([(left[0].worker, shared), *own])
        futures: dict[Key, Future] = {}
        for worker in dict.fromkeys(run.worker for run in left):
            mine = [(run, part) for run, part in zip(left, parts) if run.worker == worker]
            given = [
                (run.links, run.hi - run.lo, run.rows if sliced else None, part, whole, job, state)
                for run, part in mine
            ]
            tasks = self.client.map(sum_leaves, *zip(*given), workers=[worker], allow_other_workers=True, pure=False)
            futures |= {run.key: task for (run, _), task in zip(mine, tasks)}
        return futures

    def _collect(self, step: Step, table: SummedTable, arrays: Sequence[Array], nodes: "dict[Key, Future]") -> Stats:
        """Sum of all runs. Workers join large nodes, this process small ones."""
        shapes = [arrays[p].shape for p in step.wanted if step.order[0] not in step.operands[p].visible]
        tasks = list(nodes.values())
        if len(tasks) > 2 and len(tasks) * sum(8 * math.prod(shape) for shape in shapes) > TUNING.join_bytes:
            shared = self.client.map(attrgetter("shared"), tasks, pure=False)
            while len(shared) > 1:
                joined = self.client.map(join_shared, shared[:-1:2], shared[1::2], pure=False)
                shared = joined + shared[2 * len(joined) :]
            *own, total = self._gather([*self.client.map(attrgetter("own"), tasks, pure=False), *shared])
        else:
            tree, results = Joined(table.leaf_count, join_shared), self._gather(tasks)
            for (level, number), node in zip(nodes, results):
                tree.add(number, node.shared, level)
            own, total = [node.own for node in results], tree.total
        whole: list[Array | None] = [None] * len(step.wanted)
        for place, rows, gradient in (written for node in own for written in node):
            if (target := whole[place]) is None:
                target = whole[place] = np.zeros(arrays[step.wanted[place]].shape, gradient.dtype)
            target[rows] += gradient  # nodes share no rows, except a cut one, which they leave at 0
        gradients = tuple(np.require(gradient, requirements="W") for gradient in total.gradients)
        return as_stats(replace(total, gradients=gradients), whole)

    # --- the cluster

    def workers(self) -> dict[str, int]:
        """Threads by worker; waits until there is one."""
        end = time.monotonic() + self.patience
        while not (workers := self._ask(self.client.nthreads)):
            if time.monotonic() > end:
                raise FitError(
                    f"no Dask worker has been available for {self.patience:g} seconds.",
                    hint="Start workers with `dask worker ADDRESS`, and continue from the checkpoint.",
                )
            time.sleep(0.1)
        self._compare([worker for worker in workers if worker not in self._compared])
        return dict(workers)

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except (OSError, RuntimeError, ValueError) as error:
            raise FitError(
                f"the Dask scheduler does not answer: {_last_line(error)}.",
                hint="Start it again, and continue from the checkpoint.",
            ) from error

    def _compare(self, new: Sequence[str]) -> None:
        """Warn of workers with other versions or processors, which may change the last digits."""
        if not new:
            return
        self._compared |= set(new)
        here = describe_machine()
        answers = self._ask(lambda: self.client.run(describe_machine, workers=list(new), on_error="return"))
        for worker, there in answers.items():
            if isinstance(there, ImportError):
                raise FitError(
                    f"the Dask worker {worker} cannot import Plait: {there}.",
                    hint="Install the same version there with pip install "
                    f"'tensorplait[dask]=={here['Plait']}', and restart the worker.",
                )
        machines = {worker: there for worker, there in answers.items() if isinstance(there, dict)}
        if words := differences(here, machines):
            warning = WorkerMismatchWarning(
                f"{words}. Results may differ in their last digits.",
                location="Dask",
                hint="For bitwise identical results, use the same versions and processors.",
            )
            warn_of([warning])

    def _reaches_workers(self) -> bool:
        """Whether this process can connect to workers; else data go through the scheduler."""
        try:
            self.client.scatter([0], hash=False, direct=True, timeout=2)
            return True
        except OSError:
            return False

    def _scatter(self, things: Sequence[tuple[str, Any]]) -> "list[Future]":
        """Send each object to its worker, to all workers in parallel."""
        groups: dict[str, list[int]] = {}
        for number, (worker, _) in enumerate(things):
            groups.setdefault(worker, []).append(number)

        def send(worker: str) -> "Mapping[int, Future]":
            some = [things[number][1] for number in groups[worker]]
            futures = self.client.scatter(some, [worker], hash=False, direct=self._direct, timeout=SEND_SECONDS)
            return dict(zip(groups[worker], futures))

        by_number = {number: future for part in self._senders.map(send, groups) for number, future in part.items()}
        return [by_number[number] for number in range(len(things))]

    def _gather(self, tasks: "list[Future]") -> list[Any]:
        """Results of tasks, fetched as they complete.

        Raises CancelledError, KilledWorker or OSError where one is lost with its worker.
        """
        from distributed import KilledWorker

        done: queue.SimpleQueue[Future] = queue.SimpleQueue()
        for task in tasks:
            task.add_done_callback(done.put)
        results: dict[str, Any] = {}
        while len(results) < len(tasks):
            try:
                some = [done.get(timeout=LOOK_SECONDS)]
            except queue.Empty:
                self.workers()
                continue
            some += [done.get() for _ in range(done.qsize())]
            for task in some:
                if task.status == "error" and not isinstance(error := task.exception(), KilledWorker):
                    raise _failed(error) from error
            results |= zip((task.key for task in some), self.client.gather(some, direct=self._direct))
        return [results[task.key] for task in tasks]


def connect(client: "Client | str") -> "tuple[Client, bool]":
    """A client, and whether it was created here from an address."""
    try:
        from distributed import Client
    except ImportError:
        raise ParameterError(
            "Dask needs distributed, which is not installed.", hint="Install it: pip install 'tensorplait[dask]'."
        ) from None
    if isinstance(client, Client):
        if client.asynchronous:
            raise ParameterError(
                "the client is asynchronous.", location="Dask", hint="Use a synchronous one: Client(…)."
            )
        return client, False
    if not isinstance(client, str):
        wanted = 'a distributed.Client, or the address of a scheduler such as "tcp://10.0.0.1:8786"'
        raise ParameterError.must_be("client", wanted, client)
    try:
        return Client(client, timeout=TUNING.connect_seconds, set_as_default=False), True
    except (OSError, ValueError) as error:
        raise ParameterError(
            f"no Dask scheduler answers at {client!r}: {_last_line(error)}.",
            hint="Start it with `dask scheduler`, which prints its address, and start workers with `dask "
            "worker ADDRESS`.",
        ) from None


def cut_runs(table: SummedTable, wanted: int) -> list[Run]:
    """At least `wanted` runs of a table with enough leaves, nodes of one level."""
    extents, cuts = table.extents(), []
    for level, number in runs(table.leaf_count, wanted):
        lo, hi = number << level, min((number + 1) << level, table.leaf_count)
        rows = RootRows(extents[lo].first, extents[hi - 1].last + 1, table.sizes[0])
        cuts.append(Run((level, number), lo, hi, rows))
    return cuts


def assign(owners: Sequence[str], workers: Mapping[str, int]) -> list[str]:
    """A worker for each run: its present one, up to a fair share by threads; else the first with free capacity."""
    each = len(owners) / sum(workers.values())
    capacity = {worker: math.ceil(each * threads) for worker, threads in sorted(workers.items())}
    stays = []
    for owner in owners:
        stays.append(capacity.get(owner, 0) > 0)
        if stays[-1]:
            capacity[owner] -= 1
    workers_of_runs = []
    for owner, stay in zip(owners, stays):
        worker = owner if stay else next(worker for worker, left in capacity.items() if left > 0)
        capacity[worker] -= not stay
        workers_of_runs.append(worker)
    return workers_of_runs


def _links(table: SummedTable, run: Run) -> WorkerLinks | WorkerBlocks:
    if isinstance(table, CSFTensor):
        return WorkerLinks(table, run.lo, run.hi)
    return WorkerBlocks(table, run.lo, run.hi)


@lru_cache(64)
def pickled(job: SumJob) -> bytes:
    """A job as deterministic bytes: workers look up its kernel by them."""
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(job))
    except Exception as error:
        raise ParameterError(
            f"likelihood {job.step.likelihood} cannot be sent to a worker: {error}.",
            hint="Store only numbers and functions in it, no open files, locks or connections.",
        ) from error


def differences(here: Mapping[str, str], workers: Mapping[str, Mapping[str, str]]) -> str:
    """Differences between workers and this process, in words; "" without any."""
    changes = []
    for fact, own in here.items():
        others = sorted({there[fact] for there in workers.values() if there[fact] != own})
        if others:
            count = sum(there[fact] != own for there in workers.values())
            changes.append(f"{fact} is {own} here and {' or '.join(others)} on {count} Dask worker{'s' * (count > 1)}")
    return "; ".join(changes)


def _is_alive(task: "Future") -> bool:
    return task.status in ("pending", "finished")


def _failed(error: BaseException) -> BaseException:
    """Error to raise for a task that would fail on any worker."""
    if isinstance(error, PlaitError):
        return error
    if isinstance(error, ImportError):
        return FitError(
            f"a Dask worker cannot import a module: {error}.",
            hint="Install it on all workers. A custom likelihood can be defined in the script itself.",
        )
    if isinstance(error, MemoryError):
        return FitError("a Dask worker has too little memory.", hint="Use more workers, or larger ones.")
    return FitError(f"a sum failed on a Dask worker: {type(error).__name__}: {_last_line(error)}.")


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1].rstrip(".") if lines else type(error).__name__
