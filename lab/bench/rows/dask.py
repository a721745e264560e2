"""Dask workers compared with threads: speed-up by two, bytes sent, cost of a lost worker, 100 lost ones; an estimate.

The figures of docs/decisions/0029-dask.md and docs/large-data.md. Scheduler and workers are processes of their own.
"""

import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import plait
from lab.harness.results import Figures
from lab.harness.running import Done, Row
from plait.codegen.step import padded
from plait.data.sparse.leaves import leaf_size
from plait.executors import Dask, Executor, Threads
from plait.executors.dask_cost import Sum, forecast
from plait.fitting.options import Options
from plait.fitting.prepare import prepare
from plait.inference.problem import Problem
from plait.inference.steps import sweep_once

if TYPE_CHECKING:
    from distributed import Client

MODEL = plait.Model("X[i,j,k] = A[i,r] B[j,r] C[k,r]")
RANK = 20
REPEATS = 9
KILLS = 100
SWEEPS = 10  # of which bytes are counted
ENTRY = 0.45e-9  # seconds that a thread takes for an entry and a column of a pass (R = 20: 10 ns an entry)
ROW = 6e-9  # … and for a number of a row update
MACHINE = 16  # threads of a machine in the forecast
SPEEDS = {
    "5,000 nonzeros a worker and shared row, few roots": (40_000_000, (4_000, 2_000, 2_000)),
    "the same, 200,000 roots of 100 nonzeros": (20_000_000, (200_000, 1_000, 1_000)),
    "500 nonzeros a worker and shared row": (2_000_000, (4_000, 1_000, 1_000)),
}
FORECASTS = {
    "10⁹, 10⁷ × 10⁴ × 10³": (1e9, (1e7, 1e4, 1e3)),
    "10¹⁰, 10⁷ × 10⁵ × 10³": (1e10, (1e7, 1e5, 1e3)),
    "10¹¹, 10⁸ × 10⁵ × 10³": (1e11, (1e8, 1e5, 1e3)),
}


def rows(quick: bool) -> Iterator[Row]:
    """What two workers give over one, what travels, a lost one, many lost ones."""
    for name, (nonzeros, sizes) in list(SPEEDS.items())[-1 if quick else 0 :]:
        yield _row("speed", _speed, nonzeros // (10 if quick else 1), sizes, data=name)
    yield _row("bytes", _bytes, 400_000 if quick else 4_000_000)
    yield _row("lost", _lost, 200_000 if quick else 20_000_000)
    yield _row("kills", _kills, 4 if quick else KILLS)
    for name, (links, axes) in FORECASTS.items():
        yield Row({"part": "dask", "what": "forecast", "data": name}, partial(_forecast, links, axes))


def _row(what: str, measure: Callable[..., Figures], *arguments: Any, **about: Any) -> Row:
    def measured(done: Done) -> Figures:
        with _machines() as machines:
            return measure(machines, *arguments)

    return Row({"part": "dask", "what": what, **about}, measured)


class Machines:
    """A scheduler and workers of one thread, each a process."""

    def __init__(self, folder: Path) -> None:
        from distributed import Client

        self.file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard", "--no-show")
        while not self.file.exists():
            time.sleep(0.05)
        self.workers: list[subprocess.Popen[bytes]] = []
        self.client = Client(scheduler_file=str(self.file), set_as_default=False)

    def _start(self, what: str, *more: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-W", "ignore", "-m", f"distributed.cli.dask_{what}", "--scheduler-file"]
        return subprocess.Popen([*command, str(self.file), *more], stderr=subprocess.DEVNULL)

    def scale(self, count: int) -> None:
        """Scale the cluster to a number of workers."""
        while len(self.workers) > count:
            self.kill(len(self.workers) - 1)
        while len(self.workers) < count:
            self.add()
        while len(self.client.nthreads()) != count:
            time.sleep(0.05)

    def add(self) -> None:
        self.workers.append(self._start("worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"))

    def kill(self, number: int) -> None:
        worker = self.workers.pop(number)
        worker.kill()
        worker.wait()

    def close(self) -> None:
        self.client.close()
        while self.workers:
            self.kill(0)
        self.scheduler.kill()
        self.scheduler.wait()


@contextmanager
def _machines() -> Iterator[Machines]:
    with tempfile.TemporaryDirectory() as folder:
        machines = Machines(Path(folder))
        try:
            yield machines
        finally:
            machines.close()


def _data(nonzeros: int, sizes: Sequence[int]) -> plait.data.bound.Data:
    rng = np.random.default_rng(0)
    cells = np.unravel_index(np.unique(rng.integers(0, np.prod(sizes), nonzeros)), sizes)
    table = pl.DataFrame({**dict(zip("ijk", cells)), "value": rng.poisson(1.0, len(cells[0])) + 1})
    with warnings.catch_warnings():  # the values are arbitrary: the time does not depend on them
        warnings.simplefilter("ignore", plait.errors.OverdispersionWarning)
        return MODEL.bind({"X": table})


def _problem(data: plait.data.bound.Data, executor: Executor) -> Problem:
    problem = prepare(MODEL, data, Options(rank=RANK, seed=0, executor=executor, warmup=0)).problem
    problem.recompute_elbo_terms()
    for _ in range(2):  # compiles, and sends the data
        _sweep(problem)
    return problem


def _sweep(problem: Problem) -> None:
    sweep_once(problem, problem.expected_counts())


# --- two workers against one


def _speed(machines: Machines, nonzeros: int, sizes: Sequence[int]) -> Figures:
    """Seconds of a sweep by the clock, and of the processors of driver and busiest worker, one after the other."""
    data = _data(nonzeros, sizes)
    found = {"threads=1": _times(_problem(data, Threads(1)), None)}
    for count in (1, 2):
        machines.scale(count)
        dask = Dask(machines.client, threads=1, here=0)
        found[f"workers={count}"] = _times(_problem(data, dask), machines.client)
    return {name: {"seconds": wall, "processors": path} for name, (wall, path) in found.items()}


def _times(problem: Problem, client: "Client | None") -> tuple[float, float]:
    """The fastest sweep in seconds, and the median of what driver and busiest worker compute for one."""
    wall, path = [], []
    for _ in range(REPEATS):
        before, here, began = _processors(client), time.process_time(), time.perf_counter()
        _sweep(problem)
        wall.append(time.perf_counter() - began)
        here = time.process_time() - here
        after = _processors(client)
        path.append(here + max((after[worker] - before[worker] for worker in before), default=0.0))
    return min(wall), float(np.median(path))


def _processors(client: "Client | None") -> dict[str, float]:
    return {} if client is None else client.run(time.process_time)


# --- what travels


def _bytes(machines: Machines, nonzeros: int) -> Figures:
    """Bytes of a sweep: sent from here, fetched, and from peer to peer."""
    data = _data(nonzeros, (nonzeros // 10, 1_000, 1_000))
    machines.scale(2)
    problem = _problem(data, Dask(machines.client, threads=1, here=0))
    before, here = _incoming(machines.client), {"out": 0, "back": 0}
    with _counted(here):
        for _ in range(SWEEPS):
            _sweep(problem)
    peers = _incoming(machines.client) - before
    found = {kind: count / SWEEPS for kind, count in (here | {"peers": peers}).items()}
    return found | {"rows": nonzeros // 10}


def _incoming(client: "Client") -> int:
    """Bytes that workers have had from each other."""
    logs = client.run(lambda dask_worker: sum(each["total"] for each in dask_worker.transfer_incoming_log))
    return sum(logs.values())


@contextmanager
def _counted(here: dict[str, int]) -> Iterator[None]:
    """Add up the bytes that this process sends to workers, and those that it has from them."""
    scatter, gather = Dask._scatter, Dask._gather

    def sent(self, things):
        here["out"] += sum(len(pickle.dumps(thing, protocol=5)) for _, thing in things)
        return scatter(self, things)

    def fetched(self, tasks):
        found = gather(self, tasks)
        here["back"] += sum(len(pickle.dumps(thing, protocol=5)) for thing in found)
        return found

    Dask._scatter, Dask._gather = sent, fetched
    try:
        yield
    finally:
        Dask._scatter, Dask._gather = scatter, gather


# --- a worker lost in the middle of a sweep


def _lost(machines: Machines, nonzeros: int) -> Figures:
    """Seconds of a normal sweep of two workers, and of one in which a worker is killed."""
    data = _data(nonzeros, (4_000, 1_000, 1_000))
    machines.scale(2)
    problem = _problem(data, Dask(machines.client, threads=1, here=0))
    normal = [_timed(lambda: _sweep(problem)) for _ in range(REPEATS)]
    killed = []
    for number in range(6):
        machines.scale(2)
        for _ in range(2):
            _sweep(problem)
        with _after_sending(lambda number=number: machines.kill(number % 2)):
            killed.append(_timed(lambda: _sweep(problem)))
    return {"normal": float(np.median(normal)), "killed": float(np.median(killed))}


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


@contextmanager
def _after_sending(event: Callable[[], object]) -> Iterator[None]:
    """Let something happen once tasks were sent."""
    gather, left = Dask._gather, [event]

    def interrupted(self, tasks):
        if left:
            left.pop()()
        return gather(self, tasks)

    Dask._gather = interrupted
    try:
        yield
    finally:
        Dask._gather = gather


# --- many lost in one fit


def _kills(machines: Machines, kills: int) -> Figures:
    """A fit in which workers are killed and added at random: whether its bits are those of one thread."""
    data = _data(1_000_000, (4_000, 100, 100))
    settings = {"rank": RANK, "seed": 0, "max_iter": 2 * kills, "tol": 0.0, "warmup": 0}
    one = plait.fit(MODEL, data, threads=1, progress=False, **settings)
    machines.scale(2)
    draw, killed = random.Random(0), [0]
    timers: list[threading.Timer] = []

    one_at_a_time = threading.Lock()

    def kill() -> None:
        with one_at_a_time:
            machines.kill(draw.randrange(len(machines.workers)))
            machines.add()

    def watch(record) -> None:
        if record.sweep % 2 and killed[0] < kills:
            while len(machines.client.nthreads()) < 2:  # the last one that was added has joined
                time.sleep(0.02)
            killed[0] += 1
            timers.append(threading.Timer(draw.uniform(0.0, 0.2), kill))
            timers[-1].start()

    began = time.perf_counter()
    with Dask(machines.client, threads=1, here=0) as dask:
        two = plait.fit(MODEL, data, executor=dask, progress=watch, **settings)
    seconds = time.perf_counter() - began
    for timer in timers:
        timer.join()
    same = all(np.array_equal(one.factors[f].mean, two.factors[f].mean) for f in MODEL.factors)
    same &= one.objective == two.objective and all(a.objective == b.objective for a, b in zip(one.history, two.history))
    return {"killed": killed[0], "sweeps": len(two.history), "seconds": seconds, "same": bool(same)}


# --- a forecast


def _forecast(links: float, sizes: Sequence[float], done: Done) -> Figures:
    """Seconds of a sweep on other machines, by the cost model of `plait.executors.dask_cost`."""
    one, updates = _large(int(links), [int(size) for size in sizes])
    found: Figures = {"one": forecast([one], updates, 1, MACHINE, MACHINE).here}
    for count in (8, 64, 512):
        found[str(count)] = forecast([one], updates, count, MACHINE, MACHINE).seconds
    return found


def _large(links: int, sizes: list[int]) -> tuple[Sum, float]:
    """The only sum of a sweep, and the seconds of its row updates on one machine."""
    width = padded(RANK)
    root, shared = (8 * width * rows for rows in (sizes[0], sum(sizes[1:])))
    leaves = -(-links // leaf_size(links, sizes))
    one = Sum(links, width, leaves, ENTRY * links * width, root, root, shared, shared)
    return one, ROW * width * sum(sizes) / MACHINE
