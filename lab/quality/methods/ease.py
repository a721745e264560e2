"""EASE (Steck 2019): every column predicted from all others by ridge regression, in closed form."""

from typing import Any

import numpy as np

from lab.quality.data import Seen
from lab.quality.methods.method import TWO, Method, matrix
from lab.quality.scores import Dense, Scores


class Ease(Method):
    """Scores X B, B = I − P ÷ diag P, P = (XᵀX + λI)⁻¹; X P = (XXᵀ + λI)⁻¹ X needs a matrix of the rows only."""

    says = "ridge regression of every column on all others, in closed form (Steck 2019); tried: λ"
    kinds = TWO
    settings = ({"ridge": 3.0}, {"ridge": 30.0}, {"ridge": 100.0}, {"ridge": 300.0})

    def fit(self, seen: Seen, setting: dict[str, Any], seed: int, quick: bool) -> Scores:
        X, ridge = matrix(seen).toarray().astype(float), setting["ridge"]
        XP = np.linalg.solve(X @ X.T + ridge * np.eye(len(X)), X)
        diagonal = (1 - np.einsum("ij,ij->j", X, XP)) / ridge
        return Dense(X - XP / diagonal)
