"""Which priors the bound prefers, and which predict: the figures of docs/models.md, "What the bound compares"."""

from contextlib import nullcontext

import numpy as np
from scipy.special import gammaln

import plait
from lab.bench.paid import paying
from lab.harness.table import show

TYINGS = (None, "factor", "component", "entity", "rank-one")
SHAPE, RANK, SETS, SEEDS = (40, 30, 8), 3, range(6), range(3)
TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"


PAID = {"paid, component": ("components",), "paid, entity": ("rows",), "paid, rank-one": ("rows", "components")}


def compare() -> None:
    """Mean bound and held-out log-likelihood of the best of three seeds, over six data sets of rank 3."""
    rows = [_row(str(adapt), [_best(_data(n), adapt) for n in SETS]) for adapt in TYINGS]
    for name, sides in PAID.items():
        for a in (None, 1.0, 5.0):
            title = f"{name}, hyperprior {'learnt' if a is None else f'{a:g}'}"
            rows.append(_row(title, [_best(_data(n), "rank-one", sides, a) for n in SETS]))
    title = f"Tyings: mean of {len(SETS)} data sets of rank {RANK}, best bound of {len(SEEDS)} seeds"
    show(title, ["adapt", "bound", "held-out log-likelihood"], rows)


def _row(name: str, found: list[tuple[float, float]]) -> list[str]:
    bound, held_out = np.mean(found, axis=0)
    return [name, f"{bound:.0f}", f"{held_out:.1f}"]


def _data(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts from the model, and which fifth of the cells is hidden."""
    rng = np.random.default_rng(number)
    factors = [rng.gamma(0.5, 1.0, (size, RANK)) for size in SHAPE]
    X = rng.poisson(0.25 * np.einsum("ir,jr,kr->ijk", *factors)).astype(float)
    return X, rng.random(X.shape) < 0.2


def _best(
    data: tuple[np.ndarray, np.ndarray], adapt_prior: str | None, sides: tuple[str, ...] = (), a: float | None = None
) -> tuple[float, float]:
    """ELBO (less its price, where priors have one) and held-out score of the seed with the best ELBO."""
    X, hidden = data
    seen, found = np.where(hidden, np.nan, X), []
    for seed in SEEDS:
        with paying(*sides, a=a) if sides else nullcontext() as paid:
            fit = plait.fit(TEXT, {"X": seen}, rank=RANK, adapt_prior=adapt_prior, seed=seed, progress=False)
        rate = np.einsum("ir,jr,kr->ijk", *(fit.factors[name].mean for name in "ABC"))[hidden]
        held_out = float(np.sum(X[hidden] * np.log(rate) - rate - gammaln(X[hidden] + 1.0)))
        found.append((fit.objective + (sum(paid.prices.values()) if paid else 0.0), held_out))
    return max(found)
