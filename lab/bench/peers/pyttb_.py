"""pyttb, the Tensor Toolbox for Python."""

from typing import Any

import numpy as np

from lab.bench.data import Case
from lab.bench.peers.peer import Peer, Restarting, all_observed


def sparse_tensor(case: Case) -> Any:
    """The nonzeros as pyttb takes them."""
    import pyttb

    cells = next(iter(case.relations.values()))
    shape = tuple(case.sizes[axis] for axis in cells.axes)
    return pyttb.sptensor(cells.index.astype(np.intp), cells.x[:, None].copy(), shape)


class CpApr(Peer):
    """Multiplicative updates, one inner iteration a factor: the same work as a sweep of EM."""

    package = "pyttb"
    solves = "Poisson, EM (multiplicative updates)"
    timed = "its own clock, the second of two iterations"

    @classmethod
    def refuses(cls, case: Case) -> str:
        return all_observed(case)

    def __init__(self, case: Case, threads: int) -> None:
        self.X, self.rank = sparse_tensor(case), case.sizes["r"]

    def seconds(self, action: str) -> float:
        times = self.fit(2, inner=1)[1]["times"]
        return float(times[1] - times[0])

    def fit(self, iterations: int, inner: int = 10) -> tuple[Any, dict[str, Any]]:
        """The factors after a number of iterations, and the log of pyttb."""
        import pyttb

        np.random.seed(0)  # noqa: NPY002  pyttb draws its start from here
        found, _, about = pyttb.cp_apr(
            self.X, self.rank, maxiters=iterations, maxinneriters=inner, stoptol=0.0, printitn=0
        )
        return found, about


class GcpOpt(Restarting):
    """A step of Adam on as many sampled zeros as there are nonzeros, and all nonzeros."""

    package = "pyttb"
    solves = "Poisson, a stochastic gradient of as many samples"

    @classmethod
    def refuses(cls, case: Case) -> str:
        return all_observed(case)

    def __init__(self, case: Case, threads: int) -> None:
        self.X, self.rank, self.count = sparse_tensor(case), case.sizes["r"], case.nonzeros

    def run(self, iterations: int) -> None:
        import pyttb
        from pyttb.gcp.handles import Objectives
        from pyttb.gcp.optimizers import Adam
        from pyttb.gcp.samplers import GCPSampler, Samplers, StratifiedCount

        sampler = GCPSampler(
            self.X, function_sampler=Samplers.STRATIFIED, function_samples=StratifiedCount(100, 100),
            gradient_sampler=Samplers.STRATIFIED, gradient_samples=StratifiedCount(self.count, self.count),
        )  # fmt: skip
        adam = Adam(max_iters=iterations, epoch_iters=1, max_fails=iterations, printitn=0)
        pyttb.gcp_opt(self.X, self.rank, Objectives.POISSON, adam, sampler=sampler, printitn=0)
