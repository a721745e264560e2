"""Which worker owns which run of leaves: some runs for every thread, moved as rarely as can be."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plait.data.cells.trees import Table
from plait.execute.joining import runs
from plait.execute.parts import Span, span_of

EACH = 2  # runs a thread: a task costs some milliseconds, and of a lost worker's runs others take their share


@dataclass
class Run:
    """Leaves lo … hi, a node of the fixed tree; the root rows that they have, who owns them, and their data there."""

    number: int
    lo: int
    hi: int
    span: Span | None
    worker: str | None = None
    data: Any = None  # a future of distributed's


@dataclass(frozen=True)
class Placement:
    """A table's runs, nodes of one level."""

    level: int
    runs: tuple[Run, ...]

    @classmethod
    def of(cls, table: Table, threads: int) -> "Placement":
        """Runs for so many threads, as far as there are leaves."""
        count = table.leaf_count
        cuts = [(level, n, n << level, min((n + 1) << level, count)) for level, n in runs(count, EACH * threads)]
        return cls(cuts[0][0], tuple(Run(n, lo, hi, span_of(table, lo, hi)) for _, n, lo, hi in cuts))

    def is_fine(self, threads: int) -> bool:
        """Whether there are runs enough for so many threads, as far as there are leaves."""
        return len(self.runs) >= EACH * threads or self.level == 0

    def assign(self, workers: Mapping[str, int]) -> None:
        """An owner for every run."""
        for run, worker in zip(self.runs, assign([run.worker for run in self.runs], workers)):
            run.worker = worker


def assign(owners: Sequence[str | None], workers: Mapping[str, int]) -> list[str]:
    """Owners of runs, of workers by their threads: those they have, up to a fair share; others to who has room."""
    each = len(owners) / sum(workers.values())
    room = {worker: math.ceil(each * threads) for worker, threads in sorted(workers.items())}
    found: list[str | None] = []
    for owner in owners:
        stays = owner is not None and room.get(owner, 0) > 0
        found.append(owner if stays else None)
        if stays and owner is not None:
            room[owner] -= 1
    return [owner or _taken(room) for owner in found]


def _taken(room: dict[str, int]) -> str:
    """The first worker that has room, which then has less: neighbours are joined without a journey."""
    worker = next(worker for worker, left in room.items() if left > 0)
    room[worker] -= 1
    return worker
