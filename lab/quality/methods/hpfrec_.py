"""hpfrec: hierarchical Poisson factorisation of matrices by VB."""

from typing import Any

import numpy as np

from lab.quality.data import Seen
from lab.quality.methods.method import TWO, Method
from lab.quality.scores import Product, Scores


class Hpf(Method):
    """Hierarchical Gamma priors for rows and columns."""

    package = "hpfrec"
    says = "hpfrec: hierarchical Poisson factorisation, VB; tried: factors"
    kinds = TWO
    large = True
    settings = ({"k": 10}, {"k": 20}, {"k": 50}, {"k": 100})

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        import hpfrec
        import pandas as pd

        table = pd.DataFrame({"UserId": seen.links[:, 0], "ItemId": seen.links[:, 1], "Count": 1.0})
        model = hpfrec.HPF(
            **setting, ncores=1, maxiter=200, stop_crit="train-llk", reindex=True, verbose=False, random_seed=1 + seed,
            keep_data=False, produce_dicts=True,
        )  # fmt: skip
        model.fit(table)
        users, items = (model.Theta, model.user_mapping_), (model.Beta, model.item_mapping_)
        return Product(*(_rows(*own, size) for own, size in zip((users, items), seen.shape)))


def _rows(factor: np.ndarray, names: np.ndarray, size: int) -> np.ndarray:
    """A factor with rows for all; who has no link is like the average."""
    every = np.tile(factor.mean(axis=0), (size, 1))
    every[np.asarray(names, int)] = factor
    return every
