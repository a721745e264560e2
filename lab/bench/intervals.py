"""Probabilities and 90 % intervals by the mean: random CP cells compared with 20,000 draws of each; decision 13."""

from dataclasses import replace

import numpy as np

import plait
from lab.harness.table import show
from plait.analysis.predict.prediction import columns
from plait.storage.fitted import Posterior

EQUATION = ("X[i] =", "A[i,r]", "B[i,r]", "C[i,r]", "D[i,r]", "F[i,r]")
DECADES = [(-6, -3), (-3, 0), (0, 2), (2, 4), (4, 6)]
DRAWS = 20_000


def compare(cells: int = 60) -> None:
    """Mass within the interval of the count and of the probability, and what P(x > 0) and its sd are off by."""
    rows = []
    for low, high in DECADES:
        rng = np.random.default_rng(low + 100)
        found = np.array([_cell(rng, 10 ** rng.uniform(low, high)) for _ in range(cells)])
        worst = [f"{value:.3f}" for value in found.max(axis=0)]
        rows.append([f"1e{low} to 1e{high}", *worst[:4], f"{found[:, :2].mean():.4f}", *worst[4:]])
    shown = ["means", "lower", "upper", "low of p", "high of p", "ends of counts, mean", "P(x > 0)", "sd of p"]
    title = f"Largest error of a quantile, as mass: {cells} random CP cells each, 1–5 factors, R = 1–50, C = 0.01–1000"
    show(title, shown, rows)


def _cell(rng: np.random.Generator, mean: float) -> list[float]:
    factors, rank = int(rng.integers(1, 6)), int(rng.choice([1, 2, 3, 5, 10, 50]))
    least = 10 ** rng.uniform(-2, 1)
    most = 1e3 if rng.random() < 0.5 else 3 * least
    C = np.exp(rng.uniform(np.log(least), np.log(most), (1, factors, rank)))
    E = np.ones((1, factors, rank))
    E[0, 0] = mean * (rng.dirichlet(np.full(rank, rng.choice([0.1, 1.0, 10.0]))) + 1e-12)
    fit = _fit(C, E)
    count = columns(fit, "X", np.zeros((1, 1), np.int64))
    link = columns(replace(fit, likelihood={"X": "bernoulli"}), "X", np.zeros((1, 1), np.int64))
    rate = rng.gamma(C[0], E[0] / C[0], (DRAWS, factors, rank)).prod(axis=1).sum(axis=1)
    x, p = rng.poisson(rate), -np.expm1(-rate)
    return [
        *(_off(count[end][0], level, x, 0.0) for end, level in (("lower", 0.05), ("upper", 0.95))),
        *(_off(link[end][0], level, p, 1e-4 * p.mean()) for end, level in (("lower", 0.05), ("upper", 0.95))),
        abs(count["probability"][0] - p.mean()),
        abs(link["sd"][0] - p.std()),
    ]


def _fit(C: np.ndarray, E: np.ndarray) -> plait.Fit:
    factors, rank = C.shape[1:]
    text = " ".join(EQUATION[: 1 + factors])
    tiny = plait.fit(text, {"X": np.ones(1)}, rank=1, max_iter=1, seed=0, progress=False)
    posteriors = {
        name: Posterior(old.indices, C[:, k], E[:, k] / C[:, k], E[:, k], E[:, k])
        for k, (name, old) in enumerate(tiny.factors.items())
    }
    return replace(tiny, rank={"r": rank}, factors=posteriors)


def _off(end: float, level: float, draws: np.ndarray, near: float) -> float:
    """By how much mass an end misses being a quantile of the draws."""
    return max(0.0, (draws < end - near).mean() - level, level - (draws <= end + near).mean())
