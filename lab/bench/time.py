"""Ordered axes: forecasts of simulated chains and of dated links, for the terminal (decision 51)."""

import numpy as np
from scipy.optimize import brentq
from scipy.special import psi
from scipy.stats import gamma, nbinom

from lab.harness.table import show

HORIZONS = (1, 3, 6)
DRAWS = 200_000
LAST = 20.0  # concentration of the last period's posterior
SCALE = 5.0  # expected count of the last period


def compare() -> None:
    shapes()


def shapes() -> None:
    """Two Gamma distributions for a chain run on: of its mean and variance, and of its mean and E[log θ]."""
    rng, shown = np.random.default_rng(0), []
    for a in (2.5, 4.0, 8.0, 16.0, 40.0):
        theta = rng.gamma(LAST, 1 / LAST, DRAWS)
        for step in range(1, max(HORIZONS) + 1):
            theta = rng.gamma(a, 1 / (a * rng.gamma(a + 1, 1 / (a * theta))))
            if step in HORIZONS:
                counts, truth = rng.poisson(SCALE * theta), (1 - np.exp(-theta)).mean()
                for moment, of in (("variance", by_variance), ("E log", by_log)):
                    C = of(a, step)
                    low, high = gamma.ppf([0.05, 0.95], C, scale=1 / C)
                    inside = ((theta >= low) & (theta <= high)).mean()
                    score = nbinom.logpmf(counts, C, C / (C + SCALE)).mean()
                    shown.append([f"{a:g}", f"{step}", moment, inside, pit(counts, C, rng), score, truth,
                                  1 - (1 + 1 / C) ** -C])  # fmt: skip
    head = ["a", "horizon", "matched", "rates inside", "PIT inside", "log-likelihood", "P(x>0)", "of the Gamma"]
    show("Gamma distributions of forecasts, 90 % intervals", head, shown)


def by_variance(a: float, step: int) -> float:
    return 1 / ((1 + 1 / LAST) * ((a + 1) / (a - 1)) ** step - 1)


def by_log(a: float, step: int) -> float:
    gap = np.log(LAST) - psi(LAST) + step / a
    return float(brentq(lambda C: np.log(C) - psi(C) - gap, 1e-3, 1e4))


def pit(counts: np.ndarray, C: float, rng: np.random.Generator) -> float:
    """Share of randomised probability integral transforms within .05 and .95."""
    p = C / (C + SCALE)
    u = nbinom.cdf(counts - 1, C, p) + rng.random(len(counts)) * nbinom.pmf(counts, C, p)
    return float(((u > 0.05) & (u < 0.95)).mean())
