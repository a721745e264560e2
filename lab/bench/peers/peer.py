"""What a contender is."""

import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.bench.data import Case

LONG_SECONDS = 1.5  # seconds of a run that is not made longer
MAX_ITERATIONS = 64  # iterations of the longest run
BURST = 0.15  # seconds of short iterations in a row: the first ones find cold caches and threads asleep


class Cannot(Exception):
    """A contender cannot do a case; the text is the reason."""


@dataclass(frozen=True)
class Lap:
    """Seconds of a run; those of a shorter one, to be subtracted; and the iterations that lie between."""

    long: float
    short: float = 0.0
    between: int = 1


class Peer(ABC):
    """A case loaded into some package. One `iterate` updates every factor once, or as nearly as the package can.

    package: as pip knows it. solves: likelihood and algorithm, in a few words. timed: how an iteration is timed.
    """

    package = ""
    solves = "Poisson, VB"
    timed = "short iterations in bursts of 0.15 s (medians), longer ones each"
    actions: tuple[str, ...] = ("sweep",)

    @classmethod
    def refuses(cls, case: Case) -> str:
        """Why this cannot do a case; nothing if it can."""
        return ""

    @abstractmethod
    def __init__(self, case: Case, threads: int) -> None:
        """Load the case; what happens here is not timed."""

    def laps(self) -> dict[str, Lap]:
        """One measurement of every action: an iteration of each, or the medians of a burst of short ones in turn.

        In turn, because machines change their speed from one second to the next.
        """
        first = {action: self.seconds(action) for action in self.actions}
        more = min(MAX_ITERATIONS, int(BURST * len(first) / max(sum(first.values()), 1e-6)))
        rounds = [{action: self.seconds(action) for action in self.actions} for _ in range(more)] or [first]
        return {action: Lap(statistics.median(times[action] for times in rounds)) for action in self.actions}

    def seconds(self, action: str) -> float:
        """Of one iteration."""
        return timed(self.iterate)

    def iterate(self) -> None:
        """One iteration."""
        raise NotImplementedError


class Restarting(Peer):
    """A package that starts again with every call: the difference of a long and a short run leaves out its setup."""

    timed = (
        "runs of several iterations less runs of one (medians), the longer twice as long where that takes no seconds"
    )
    more = 0  # iterations of the long run beyond the one of the short run; the first lap finds out how many

    def laps(self) -> dict[str, Lap]:
        return {"sweep": self._lap()}

    def _lap(self) -> Lap:
        short = timed(lambda: self.run(1))
        if self.more:
            return Lap(timed(lambda: self.run(1 + self.more)), short, self.more)
        self.more = 2 if short < 1 else 1
        long = timed(lambda: self.run(1 + self.more))
        while long < 2 * short and long < LONG_SECONDS and self.more < MAX_ITERATIONS:
            self.more *= 2
            long = timed(lambda: self.run(1 + self.more))
        return Lap(long, short, self.more)

    @abstractmethod
    def run(self, iterations: int) -> None:
        """Run a number of iterations from a new start."""


def timed(run: Callable[[], object]) -> float:
    """Seconds of a call."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def one_relation(case: Case) -> str:
    """Most packages factorise one array by CP."""
    if len(case.relations) > 1:
        return "no coupled relations"
    return "no Tucker with a likelihood for counts" if "G[" in case.model else ""


def all_observed(case: Case, likelihood: str = "poisson") -> str:
    """Most packages take every cell that is not listed for an observed 0."""
    if reason := one_relation(case):
        return reason
    if case.likelihood != likelihood:
        return f"no {case.likelihood.capitalize()} likelihood of links by rates"
    if case.observed == "listed":
        return "no unobserved cells for sparse data"
    return "no missing cells for sparse data" if case.observed == "missing" else ""


def matrix_only(case: Case) -> str:
    """Some packages take matrices only."""
    if len(case.relations) == 1 and len(next(iter(case.relations.values())).axes) > 2:
        return "matrices only"
    return all_observed(case)


def sparse_matrix(case: Case) -> Any:
    """The only relation as a SciPy matrix of coordinates."""
    import scipy.sparse

    cells = next(iter(case.relations.values()))
    shape = [case.sizes[axis] for axis in cells.axes]
    return scipy.sparse.coo_matrix((cells.x, tuple(cells.index.T)), shape=shape)
