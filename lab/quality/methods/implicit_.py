"""implicit: weighted least squares (ALS) and Bayesian personalised ranking (BPR) of 0/1 matrices."""

from typing import Any

import numpy as np

from lab.quality.data import Seen
from lab.quality.methods.method import TWO, Method, matrix
from lab.quality.scores import Product, Scores


class Als(Method):
    """Alternating least squares, links weighing alpha times as much as zeros."""

    package = "implicit"
    says = "implicit: weighted least squares; tried: factors, regularisation"
    kinds = TWO
    large = True
    lengths = tuple({"iterations": n} for n in (1, 2, 5, 10, 20))
    settings = tuple({"factors": factors, "regularization": weight} for factors in (20, 100) for weight in (1.0, 10.0))

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        from implicit.cpu.als import AlternatingLeastSquares

        length = {"iterations": 20} | setting
        return _scores(AlternatingLeastSquares, seen, **length, alpha=10.0, num_threads=1, random_state=seed)


class Bpr(Method):
    """A link shall score above a zero of the same row."""

    package = "implicit"
    says = "implicit: pairwise ranking loss by stochastic gradients; tried: factors, learning rate"
    kinds = TWO
    large = True
    lengths = tuple({"iterations": n} for n in (5, 20, 50, 100, 200))
    settings = tuple({"factors": factors, "learning_rate": rate} for factors in (20, 100) for rate in (0.01, 0.05))

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        from implicit.cpu.bpr import BayesianPersonalizedRanking

        length = {"iterations": 20 if quick else 200} | setting
        return _scores(BayesianPersonalizedRanking, seen, **length, num_threads=1, random_state=seed)


def _scores(kind: Any, seen: Seen, **options: Any) -> Scores:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # it warns of more
        model = kind(**options)
        model.fit(matrix(seen), show_progress=False)
    return Product(np.asarray(model.user_factors), np.asarray(model.item_factors))
