"""Plait itself."""

from lab.bench.data import Case
from lab.bench.engine import Engine
from lab.bench.peers.peer import Cannot, Peer, timed
from plait.errors import ParameterError


class Plait(Peer):
    """A VB sweep: counts, exposures, all updates, bound; and the counts pass alone, with and without the bound."""

    solves = "VB"
    actions = ("sweep", "counts", "counts and bound")
    dtype = "float64"

    def __init__(self, case: Case, threads: int) -> None:
        try:
            engine = Engine(case, threads, self.dtype)
        except ParameterError as error:
            raise Cannot(f"not available: {str(error).splitlines()[0]}") from None
        self.run = {"sweep": engine.sweep, "counts": engine.counts_only, "counts and bound": engine.counts}
        for action in self.actions:
            self.run[action]()  # compiles

    def seconds(self, action: str) -> float:
        return timed(self.run[action])


class PlaitSingle(Plait):
    """The same in single precision."""

    actions = ("sweep",)
    solves = "VB, single precision"
    dtype = "float32"
