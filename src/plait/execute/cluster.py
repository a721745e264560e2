"""A cluster of Dask workers: who is there, things sent to them, tasks, and what came of these.

All that is asked of `distributed` is asked here. A worker may be lost at any time, and with it what the client sent
there: whoever asks for a result gets it, or is told that it is missing and asks again.
"""

import queue
import time
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from plait.errors import FitError, PlaitError, SettingError, UnlikeWorkersWarning
from plait.execute.remote import describe_machine
from plait.saying import Argument, Call, Subject

if TYPE_CHECKING:
    from distributed import Client, Future

K = TypeVar("K", bound=Hashable)
Things = Sequence[tuple[Any, str]]

CONNECT = 10.0  # seconds in which a scheduler must answer
LOOK = 1.0  # seconds without a result, after which one looks whether there is still a worker
SENDING = 5.0  # seconds in which a worker must begin to take what it is sent
CURE = "Install it: pip install 'tensorplait[dask]'."


def connect(client: "Client | str") -> "tuple[Client, bool]":
    """A client, and whether it was made here, from an address."""
    try:
        from distributed import Client
    except ImportError:
        raise SettingError("Dask needs distributed, which is not installed.", cure=CURE) from None
    if isinstance(client, Client):
        if client.asynchronous:
            raise SettingError("the client is asynchronous.", where=Call("Dask"), cure="Use a plain one: Client(…).")
        return client, False
    if not isinstance(client, str):
        wanted = 'a distributed.Client, or the address of a scheduler such as "tcp://10.0.0.1:8786"'
        raise SettingError(where=Argument("client", of="Dask"), wanted=wanted, got=client)
    try:
        return Client(client, timeout=CONNECT, set_as_default=False), True
    except (OSError, ValueError) as error:
        raise SettingError(
            f"there is no Dask scheduler at {client!r}: {_last_line(error)}.",
            where=Argument("client", of="Dask"),
            cure="Start one, `dask scheduler`, and workers, `dask worker ADDRESS`; it prints its address.",
        ) from None


class Cluster:
    """Workers, by a client of theirs; patience: seconds that one waits for a worker where none is left."""

    def __init__(self, client: "Client | str", patience: float) -> None:
        self.client, self.owned = connect(client)
        self.patience = patience
        self.lost: BaseException | None = None  # why the latest result is missing
        self._known: set[str] = set()
        self._name, self._tasks = uuid4().hex[:12], count(1)
        self._senders = ThreadPoolExecutor(8, thread_name_prefix="plait-send")
        self.direct = self._reaches()

    def close(self) -> None:
        """Let go of the cluster; a client that somebody else made stays open."""
        self._senders.shutdown()
        if self.owned:
            self.client.close()

    # --- who is there

    def workers(self) -> dict[str, int]:
        """Threads by worker, of one worker at least."""
        end = time.monotonic() + self.patience
        while not (found := self._ask(self.client.nthreads)):
            if time.monotonic() > end:
                raise FitError(
                    f"there has been no Dask worker for {self.patience:g} seconds.",
                    cure="Start some, `dask worker ADDRESS`, and go on from the checkpoint, if there is one.",
                )
            time.sleep(0.1)
        self._compare([worker for worker in found if worker not in self._known])
        return dict(found)

    def _ask(self, question: Callable[[], Any]) -> Any:
        """An answer of the scheduler's."""
        try:
            return question()
        except (OSError, RuntimeError, ValueError) as error:
            raise FitError(
                f"the Dask scheduler does not answer: {_last_line(error)}.",
                cure="Start it again, and go on from the checkpoint, if there is one.",
            ) from error

    def _compare(self, new: Sequence[str]) -> None:
        """Say where workers differ from this process in what decides the last digits."""
        if not new:
            return
        self._known |= set(new)
        here = describe_machine()
        answers = self._ask(lambda: self.client.run(describe_machine, workers=list(new), on_error="return"))
        for worker, there in answers.items():
            if isinstance(there, ImportError):
                raise FitError(
                    f"the Dask worker {worker} cannot import Plait: {there}.",
                    cure=f"Install the same there, pip install 'tensorplait[dask]=={here['Plait']}', and restart it.",
                )
        told = {w: there for w, there in answers.items() if isinstance(there, dict)}
        if words := differences(here, told):
            warnings.warn(
                UnlikeWorkersWarning(
                    f"{words}, so that the last digits may depend on who computes what.",
                    where=Subject("Dask"),
                    cure="Use the same versions and processors for the same bits in every run.",
                ),
                stacklevel=2,
            )

    def _reaches(self) -> bool:
        """Whether this process can talk to workers itself; else what it sends goes through the scheduler."""
        try:
            self.client.scatter([0], hash=False, direct=True, timeout=2)
            return True
        except (OSError, TimeoutError):
            return False

    # --- sending

    def send(self, things: Things) -> "list[Future]":
        """Futures of things, each sent to a worker, or to another one where that is lost."""
        by_worker: dict[str, list[int]] = {}
        for number, (_, worker) in enumerate(things):
            by_worker.setdefault(worker, []).append(number)
        found: dict[int, Future] = {}

        def deliver(worker: str, numbers: list[int]) -> None:
            found.update(zip(numbers, self._scatter([things[number][0] for number in numbers], worker)))

        for done in [self._senders.submit(deliver, *one) for one in by_worker.items()]:
            done.result()
        return [found[number] for number in range(len(things))]

    def _scatter(self, things: list[Any], worker: str) -> "list[Future]":
        for chosen in ([worker], None, None):
            try:
                return list(self.client.scatter(things, chosen, hash=False, direct=self.direct, timeout=SENDING))
            except (OSError, TimeoutError) as error:
                self.lost = error
                self.workers()  # waits for one
        raise FitError(
            f"no Dask worker takes what it is sent: {_last_line(self.lost)}.",
            cure="Look at the workers' logs: memory, above all.",
        )

    def has(self, future: Any) -> bool:
        """Whether what a future stands for is on some worker."""
        return future is not None and future.status == "finished"

    # --- computing

    def submit(
        self, function: Callable[..., Any], given: Sequence[tuple[Any, ...]], workers: Sequence[str | None]
    ) -> "list[Future]":
        """Tasks, each on a worker if it is there; sent together, if they have as many arguments: a call costs most."""
        from dask.base import annotate

        alike: dict[tuple[int, bool], list[int]] = {}
        for number, (arguments, worker) in enumerate(zip(given, workers)):
            alike.setdefault((len(arguments), worker is None), []).append(number)
        found: dict[int, Future] = {}
        for (_, anywhere), numbers in alike.items():
            keys = [self._key(function) for _ in numbers]
            where = {key: [workers[number]] for key, number in zip(keys, numbers)}
            with nullcontext() if anywhere else annotate(workers=where.__getitem__, allow_other_workers=True):
                tasks = self.client.map(function, *zip(*(given[n] for n in numbers)), key=keys)
            found |= dict(zip(numbers, tasks))
        return [found[n] for n in range(len(given))]

    def _key(self, function: Callable[..., Any]) -> str:
        """A name that no task of any client had: Dask would answer with what that one found."""
        return f"plait-{function.__name__}-{self._name}-{next(self._tasks)}"

    def collect(self, goals: "Mapping[K, Future]") -> Iterator[tuple[K, Any]]:
        """Results as they come; those that were lost with a worker are left out."""
        for names in self._done(goals):
            yield from self._results({name: goals[name] for name in names})

    def _done(self, goals: "Mapping[K, Future]") -> Iterator[list[K]]:
        """Names of tasks that are done, as they come."""
        done: queue.SimpleQueue[K] = queue.SimpleQueue()
        for name, future in goals.items():
            future.add_done_callback(lambda _, name=name: done.put(name))
        left = set(goals)
        while left:
            try:
                names = _all_of(done)
            except queue.Empty:
                self.workers()  # there is one, or it is said that there is none
                continue
            left.difference_update(names)
            yield names

    def _results(self, goals: "Mapping[K, Future]") -> Iterator[tuple[K, Any]]:
        """The results of tasks that are done."""
        from distributed import KilledWorker

        for future in goals.values():
            if future.status == "error" and not isinstance(error := future.exception(), (KilledWorker, OSError)):
                raise _failed(error) from error
        try:
            yield from zip(goals, self.client.gather(list(goals.values()), direct=self.direct))
        except (CancelledError, KilledWorker, OSError, TimeoutError) as error:
            self.lost = error
            if len(goals) > 1:
                for name, future in goals.items():
                    yield from self._results({name: future})


def is_alive(task: "Future") -> bool:
    """Whether a task is done, or under way."""
    return task.status in ("pending", "finished")


def _all_of(done: "queue.SimpleQueue[K]") -> list[K]:
    """What is in a queue, once there is something."""
    found = [done.get(timeout=LOOK)]
    with suppress(queue.Empty):
        while True:
            found.append(done.get_nowait())
    return found


def _failed(error: BaseException) -> BaseException:
    """What a task raised, which it would raise anywhere."""
    if isinstance(error, PlaitError):
        return error
    if isinstance(error, ImportError):
        return FitError(
            f"a Dask worker lacks what a sum needs: {error}.",
            cure="Install it on all workers; a likelihood of your own can be defined in the script itself.",
        )
    if isinstance(error, MemoryError):
        return FitError("a Dask worker has too little memory.", cure="Use more workers, or larger ones.")
    return FitError(f"a sum failed on a Dask worker: {type(error).__name__}: {_last_line(error)}.")


def differences(here: Mapping[str, str], workers: Mapping[str, Mapping[str, str]]) -> str:
    """Where workers differ from this process, in words; nothing where they do not."""
    found = []
    for fact, own in here.items():
        others = sorted({there[fact] for there in workers.values() if there[fact] != own})
        if others:
            count = sum(there[fact] != own for there in workers.values())
            found.append(f"{fact} is {own} here and {' or '.join(others)} on {count} Dask worker{'s' * (count > 1)}")
    return "; ".join(found)


def _last_line(error: BaseException | None) -> str:
    """What an error says, without its history."""
    lines = str(error).strip().splitlines()
    return lines[-1].rstrip(".") if lines else type(error).__name__
