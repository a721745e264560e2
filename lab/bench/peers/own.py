"""The two that the bench brings along: the hand-written kernel, and plain NumPy."""

from lab.bench import plain, yardstick
from lab.bench.data import Case
from lab.bench.peers.peer import Peer, timed


class Yardstick(Peer):
    """One counts pass of CP-3, nothing else."""

    solves = "Poisson, the counts pass only"
    actions = ("counts",)

    @classmethod
    def refuses(cls, case: Case) -> str:
        if len(case.relations) > 1 or len(next(iter(case.relations.values())).axes) != 3 or "G[" in case.model:
            return "written for CP-3"
        return "written for Poisson" if case.likelihood != "poisson" else ""

    def __init__(self, case: Case, threads: int) -> None:
        cells = next(iter(case.relations.values()))
        self.run = yardstick.build(cells.index, cells.x, list(plain.start(case).values()), threads)

    def seconds(self, action: str) -> float:
        return timed(self.run)


class NumPy(Peer):
    """The same sweep as Plait's."""

    package = "numpy"
    solves = "VB"

    def __init__(self, case: Case, threads: int) -> None:
        self.iterate = plain.Plain(case, plain.start(case)).sweep
