"""The executor for a cluster: Dask workers own runs of leaves, sum them, and send one node of the fixed tree each.

Tasks are pure, and what they need is either on another worker or here, so the work of a lost worker is done again. The
tree is that of `Threads`, and so are the bits, whoever comes and goes.
"""

import math
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from plait.compile.step import Step
from plait.data.cells.trees import Table
from plait.errors import SettingError
from plait.execute.cluster import Cluster
from plait.execute.executor import Operand, Rows, Stats, here
from plait.execute.mail import Mail
from plait.execute.owned import Owned, least_bytes
from plait.execute.passing import Asked, Passing, is_sliced
from plait.execute.placing import Placement
from plait.execute.remote import Order
from plait.execute.threads import LIGHT, Threads
from plait.likelihood import State
from plait.saying import Argument

if TYPE_CHECKING:
    from distributed import Client

OWN = 1 << 28  # bytes, for as many as 64 runs: less is sent and fetched before the tasks of a change are
HERE = 1 << 23  # entries times columns, below which a sum is done before its tasks would be sent: some 50 ms


class Dask:
    """Sums on the workers of a Dask cluster; sums too small to travel, and rows of small factors, stay in this process.

    client: a `distributed.Client`, or the address of a scheduler. threads: of this process. here: entries times columns
    of a sum that is not worth sending. own: bytes of a factor's operand from which on workers own its rows, if it has
    the index by which the links are cut; more of them, where that is into more than 64 runs. patience: seconds to wait
    for a worker where none is left.
    """

    def __init__(
        self,
        client: "Client | Cluster | str",
        *,
        threads: int | None = None,
        here: int = HERE,
        own: int = OWN,
        patience: float = 60.0,
    ) -> None:
        self.cluster = client if isinstance(client, Cluster) else Cluster(client, patience)
        self.here, self.own = here, own
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

    def sum(self, step: Step, table: Table, arrays: Sequence[Operand], state: State | None = None) -> Stats:
        """The sum of a step over all entries of a table, which workers keep for the next one."""
        columns = max((array.shape[1] for array in arrays), default=1)
        if not len(table) or len(table) * columns < self.here:
            return self._threads.sum(step, table, arrays, state)
        with self._lock:
            self._mail.begin()
            placement = self._placement(table)
            owned = self._owned(step, placement, arrays)
            own = [a if n in owned else np.ascontiguousarray(here(a)) for n, a in enumerate(arrays)]
            asked = Asked(step, table, own, state, owned)
            return Passing(self.cluster, self._mail, placement, asked, self._order(asked)).stats()

    def _owned(self, step: Step, placement: Placement, arrays: Sequence[Operand]) -> dict[int, Owned]:
        """By position the operands whose rows workers own, or will from now on."""
        if not is_sliced(step, placement):
            return {}
        rooted = (n for n, operand in enumerate(step.operands) if step.order[0] in operand.visible)
        found = {n: self._own(array, placement) for n in rooted if not isinstance(array := arrays[n], np.ndarray)}
        return {n: owned for n, owned in found.items() if owned is not None}

    def _own(self, rows: Rows, placement: Placement) -> Owned | None:
        """The rows of one operand, as blocks of a placement."""
        size = math.prod(rows.shape)
        if not rows.movable or size < LIGHT or size * rows.dtype.itemsize < least_bytes(self.own, len(placement.runs)):
            return None
        if rows.away is None or rows.away.placement is not placement:
            placement.assign(self.cluster.workers())
            rows.away = Owned(self.cluster, placement, rows.kept(), rows.recipe, rows.dtype)
        return rows.away

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
