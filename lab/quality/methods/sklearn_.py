"""scikit-learn: non-negative matrix factorisation by the Kullback-Leibler divergence, the Poisson likelihood."""

import warnings
from typing import Any

from lab.quality.data import Seen
from lab.quality.methods.method import TWO, Method, matrix
from lab.quality.scores import Product, Scores


class Nmf(Method):
    """Multiplicative updates of both factors."""

    package = "scikit-learn"
    says = "scikit-learn: NMF by Kullback–Leibler; tried: components"
    kinds = TWO
    large = True
    lengths = tuple({"max_iter": n} for n in (2, 5, 10, 20, 50, 100, 200))
    settings = ({"n_components": 5}, {"n_components": 10}, {"n_components": 20}, {"n_components": 50})

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        from sklearn.decomposition import NMF

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has not converged
            length = {"max_iter": 200} | setting
            nmf = NMF(**length, init="random", solver="mu", beta_loss="kullback-leibler", random_state=seed)
            left = nmf.fit_transform(matrix(seen))
        return Product(left, nmf.components_.T)
