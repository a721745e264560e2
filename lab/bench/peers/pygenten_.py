"""pygenten, the Python face of GenTen (C++, Kokkos)."""

from lab.bench.data import Case
from lab.bench.peers.peer import Restarting, all_observed
from lab.bench.peers.pyttb_ import sparse_tensor


class CpAls(Restarting):
    """Alternating least squares: another likelihood, but the same pattern of work."""

    package = "pygenten"
    solves = "least squares, alternating"

    @classmethod
    def refuses(cls, case: Case) -> str:
        return all_observed(case)

    def __init__(self, case: Case, threads: int) -> None:
        import pygenten

        self.tensor, self.rank, self.count = sparse_tensor(case), case.sizes["r"], case.nonzeros
        self.X = pygenten.make_gt_sptensor(self.tensor)

    def run(self, iterations: int) -> None:
        import pygenten

        pygenten.cp_als(self.X, rank=self.rank, maxiters=iterations, tol=0.0, printitn=0)


class GcpSgd(CpAls):
    """A step of Adam on as many sampled zeros as there are nonzeros, and as many sampled nonzeros."""

    solves = "Poisson, a stochastic gradient of as many samples"

    def run(self, iterations: int) -> None:
        import pygenten

        pygenten.gcp_sgd(
            self.X, rank=self.rank, type="poisson", sampling="stratified", maxiters=iterations, epoch_iters=1,
            num_samples_nonzeros_grad=self.count, num_samples_zeros_grad=self.count, num_samples_nonzeros_value=100,
            num_samples_zeros_value=100, gcp_tol=0.0, printitn=0,
        )  # fmt: skip
