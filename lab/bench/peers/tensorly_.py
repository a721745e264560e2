"""TensorLy."""

import warnings

import numpy as np

from lab.bench.data import Case
from lab.bench.peers.peer import Restarting, all_observed

MAX_CELLS = 2e8  # cells of a dense array: 1.6 GB, and as much again while it works


class Parafac(Restarting):
    """Multiplicative updates for least squares, on a dense array: for counts it has no likelihood."""

    package = "tensorly"
    solves = "least squares, dense"

    @classmethod
    def refuses(cls, case: Case) -> str:
        if reason := all_observed(case):
            return reason
        cells = float(np.prod([float(case.sizes[axis]) for axis in next(iter(case.relations.values())).axes]))
        return f"dense arrays only: {8 * cells / 1e9:,.0f} GB" if cells > MAX_CELLS else ""

    def __init__(self, case: Case, threads: int) -> None:
        cells = next(iter(case.relations.values()))
        self.X, self.rank = np.zeros([case.sizes[axis] for axis in cells.axes]), case.sizes["r"]
        self.X[tuple(cells.index.T)] = cells.x

    def run(self, iterations: int) -> None:
        from tensorly.decomposition import non_negative_parafac

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            non_negative_parafac(self.X, self.rank, n_iter_max=iterations, init="random", tol=0, random_state=0)
