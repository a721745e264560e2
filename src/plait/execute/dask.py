"""The executor for a cluster: Dask workers own runs of leaves, sum them, and send one node of the fixed tree each.

Tasks are pure, and what they need is either on another worker or here, so the work of a lost worker is done again. The
tree is that of `Threads`, and so are the bits, whoever comes and goes.
"""

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.compile.step import Step
from plait.data.cells.trees import Table
from plait.errors import SettingError
from plait.execute.cluster import Cluster
from plait.execute.executor import Stats
from plait.execute.mail import Mail
from plait.execute.passing import Asked, Passing
from plait.execute.placing import Placement
from plait.execute.remote import Order
from plait.execute.threads import Threads
from plait.likelihood import State
from plait.saying import Argument
from plait.types import Array

if TYPE_CHECKING:
    from distributed import Client

HERE = 1 << 23  # entries times columns, below which a sum is done before its tasks would be sent: some 50 ms


class Dask:
    """Sums on the workers of a Dask cluster; sums too small to travel, and row updates, stay in this process.

    client: a `distributed.Client`, or the address of a scheduler. threads: of this process. here: entries times columns
    of a sum that is not worth sending. patience: seconds to wait for a worker where none is left.
    """

    def __init__(
        self,
        client: "Client | Cluster | str",
        *,
        threads: int | None = None,
        here: int = HERE,
        patience: float = 60.0,
    ) -> None:
        self.cluster = client if isinstance(client, Cluster) else Cluster(client, patience)
        self.here = here
        self._threads, self._mail = Threads(threads), Mail(self.cluster)
        self._placed: dict[int, tuple[Callable[[], Table | None], Placement]] = {}
        self._orders: dict[Any, bytes] = {}
        self._lock = threading.RLock()
        self.cluster.workers()  # which compares them, before anything is sent

    @property
    def threads(self) -> int:
        """Threads of this process, which update rows."""
        return self._threads.threads

    def close(self) -> None:
        """Let go of the data on the workers, and of the client if it was made here."""
        with self._lock:
            self._placed.clear()
            self._mail.forget()
        self.cluster.close()

    def __enter__(self) -> "Dask":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def rows(self, work: Callable[[int, int], float], count: int, columns: int = 1) -> float:
        """Run the work over ranges of rows, here."""
        return self._threads.rows(work, count, columns)

    def sum(self, step: Step, table: Table, arrays: Sequence[Array], state: State | None = None) -> Stats:
        """The sum of a step over all entries of a table, which workers keep for the next one."""
        columns = max((array.shape[1] for array in arrays), default=1)
        if not len(table) or len(table) * columns < self.here:
            return self._threads.sum(step, table, arrays, state)
        with self._lock:
            self._mail.begin()
            placement = self._placement(table)
            asked = Asked(step, table, [np.ascontiguousarray(array) for array in arrays], state)
            return Passing(self.cluster, self._mail, placement, asked, self._order(asked)).stats()

    def _placement(self, table: Table) -> Placement:
        """The runs of a table; more of them once there are more threads than they were made for."""
        threads = sum(self.cluster.workers().values())
        number = id(table)
        of, known = self._placed.get(number, (None, None))
        if of is not None and of() is table and known is not None and known.is_fine(threads):
            return known
        found = Placement.of(table, threads)
        self._placed[number] = weakref.ref(table, lambda _: self._placed.pop(number, None)), found
        return found

    def _order(self, asked: Asked) -> bytes:
        """What all runs of a sum have in common, as bytes: the same ones each time, for workers know them by these."""
        types = (*asked.table.types, *(array.dtype for array in asked.arrays))
        key = asked.step, types, asked.table.leaf_count == 1
        if key not in self._orders:
            self._orders[key] = _pickled(Order(*key))
        return self._orders[key]


def _pickled(order: Order) -> bytes:
    import cloudpickle

    try:
        return bytes(cloudpickle.dumps(order))
    except Exception as error:
        raise SettingError(
            f"likelihood {order.step.likelihood} cannot be sent to a worker: {error}.",
            where=Argument("executor"),
            cure="Let it hold numbers and functions only: no open files, locks or connections.",
        ) from error
