"""SMURFF: Gibbs sampling of Bayesian factorisations (C++)."""

import numpy as np

from lab.bench.data import Case
from lab.bench.peers.peer import Peer, one_relation, sparse_matrix


class Gibbs(Peer):
    """One Gibbs sample of all factors under Gaussian noise."""

    package = "smurff"
    solves = "Gaussian, a Gibbs sample"
    timed = "each sample"

    @classmethod
    def refuses(cls, case: Case) -> str:
        if reason := one_relation(case):
            return reason
        if case.observed == "missing":
            return "no missing cells among observed zeros"
        return "no zeros of a sparse tensor" if case.observed == "all" and len(case.sizes) > 3 else ""

    def __init__(self, case: Case, threads: int) -> None:
        import smurff

        cells = next(iter(case.relations.values()))
        shape = [case.sizes[axis] for axis in cells.axes]
        if len(shape) == 2:
            X = sparse_matrix(case)
        else:
            columns = [np.ascontiguousarray(column, np.int32) for column in cells.index.T]
            X = smurff.SparseTensor((cells.x, columns), shape)
        session = smurff.TrainSession(
            priors=["normal"] * len(shape), num_latent=case.sizes["r"], num_threads=threads, burnin=0, nsamples=1000,
            verbose=0, seed=1,
        )  # fmt: skip
        session.addTrainAndTest(X, is_scarce=case.observed == "listed")
        session.init()
        self.session = session

    def iterate(self) -> None:
        self.session.step()
