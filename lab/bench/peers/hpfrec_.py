"""hpfrec: hierarchical Poisson factorisation of matrices by VB (Cython)."""

from lab.bench.data import Case
from lab.bench.peers.peer import Restarting, matrix_only


class Hpf(Restarting):
    """A sweep of VB with a Gamma prior a row."""

    package = "hpfrec"
    solves = "Poisson, hierarchical VB"

    @classmethod
    def refuses(cls, case: Case) -> str:
        return matrix_only(case)

    def __init__(self, case: Case, threads: int) -> None:
        import pandas as pd

        cells = next(iter(case.relations.values()))
        self.table = pd.DataFrame({"UserId": cells.index[:, 0], "ItemId": cells.index[:, 1], "Count": cells.x})
        self.rank, self.threads = case.sizes["r"], threads

    def run(self, iterations: int) -> None:
        import hpfrec

        hpfrec.HPF(
            k=self.rank, maxiter=iterations, check_every=iterations, stop_crit="maxiter", ncores=self.threads,
            reindex=False, verbose=False, random_seed=1, use_float=False, keep_data=False, produce_dicts=False,
            keep_all_objs=False,
        ).fit(self.table.copy())  # fmt: skip
