"""scikit-learn: non-negative matrix factorisation by the Kullback-Leibler divergence, the Poisson likelihood."""

import warnings

import numpy as np

from lab.bench.data import Case
from lab.bench.peers.peer import Restarting, matrix_only, sparse_matrix


class KlNmf(Restarting):
    """Multiplicative updates of both factors."""

    package = "scikit-learn"
    solves = "Poisson, EM (multiplicative updates)"

    @classmethod
    def refuses(cls, case: Case) -> str:
        return matrix_only(case)

    def __init__(self, case: Case, threads: int) -> None:
        self.X, self.rank = sparse_matrix(case).tocsr(), case.sizes["r"]

    def run(self, iterations: int) -> None:
        self.fit(iterations)

    def fit(self, iterations: int) -> list[np.ndarray]:
        """Both factors (rows, rank) after a number of iterations."""
        from sklearn.decomposition import NMF

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            nmf = NMF(
                self.rank, init="random", solver="mu", beta_loss="kullback-leibler", max_iter=iterations, tol=0,
                random_state=0,
            )  # fmt: skip
            left = nmf.fit_transform(self.X)
        return [left, nmf.components_.T]
