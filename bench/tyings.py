"""Which priors the bound prefers, and which predict: the figures of docs/models.md, "What the bound compares"."""

import numpy as np
from scipy.special import gammaln

import plait
from bench import measure

TYINGS = (None, "factor", "component", "entity", "rank-one")
SHAPE, RANK, SETS, SEEDS = (40, 30, 8), 3, range(6), range(3)
TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"


def compare() -> None:
    """Mean bound and held-out log-likelihood of the best of three seeds, over six data sets of rank 3."""
    rows = []
    for adapt in TYINGS:
        found = [_best(_data(n), adapt) for n in SETS]
        bound, held_out = np.mean(found, axis=0)
        rows.append([str(adapt), f"{bound:.0f}", f"{held_out:.0f}"])
    title = f"Tyings: mean of {len(SETS)} data sets of rank {RANK}, best bound of {len(SEEDS)} seeds"
    measure.show(title, ["adapt", "bound", "held-out log-likelihood"], rows, measure.machine())


def _data(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts from the model, and which fifth of the cells is hidden."""
    rng = np.random.default_rng(number)
    factors = [rng.gamma(0.5, 1.0, (size, RANK)) for size in SHAPE]
    X = rng.poisson(0.25 * np.einsum("ir,jr,kr->ijk", *factors)).astype(float)
    return X, rng.random(X.shape) < 0.2


def _best(data: tuple[np.ndarray, np.ndarray], adapt: str | None) -> tuple[float, float]:
    X, hidden = data
    seen = np.where(hidden, np.nan, X)
    fits = [plait.fit(TEXT, {"X": seen}, rank=RANK, adapt=adapt, seed=seed, progress=False) for seed in SEEDS]
    fit = max(fits, key=lambda fit: fit.bound)
    rate = np.einsum("ir,jr,kr->ijk", *(fit.factors[name].mean for name in "ABC"))[hidden]
    return fit.bound, float(np.sum(X[hidden] * np.log(rate) - rate - gammaln(X[hidden] + 1.0)))
