"""Priors that are paid for (docs/math.md, section 6), a study on `inference.empirical_bayes`.

The rate of an entry's prior is A β_i γ_r with β_i ~ Gamma(a, a/s), q(β_i) = Gamma(a + n A, a/s + A Σ γ E), and γ_r
alike. E[β] E[γ] take the place of 1/B. The price is KL(q ‖ p) of both, and what A E[log β γ] is below A log(E[β] E[γ]);
the factors' posteriors do not depend on it, so it is taken off the bound afterwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import gammaln, psi

from plait.inference import empirical_bayes, gamma
from plait.inference.gamma import Prior

CERTAIN = 1e4  # concentration of a hyperprior whose groups do not differ


@dataclass
class Levels:
    """One side: q of the rates of rows or of components; without it all rates are 1."""

    size: int
    a: float = 1.0
    scale: float = 1.0  # the mean of the hyperprior
    shape: np.ndarray = field(default_factory=lambda: np.ones(1))
    rate: np.ndarray = field(default_factory=lambda: np.ones(1))

    @property
    def mean(self) -> np.ndarray:
        return np.broadcast_to(self.shape / self.rate, (self.size,))

    @property
    def log(self) -> np.ndarray:
        return np.broadcast_to(psi(self.shape) - np.log(self.rate), (self.size,))

    def update(self, counts: float, sums: np.ndarray, fixed: float | None) -> None:
        """q from the entries of each group and their sums; the hyperprior by maximum likelihood, or its a as given."""
        for _ in range(2):
            self.shape, self.rate = np.full(self.size, self.a + counts), self.a / self.scale + sums
            self.scale = float(self.mean.mean())
            gap = np.log(self.scale) - self.log.mean()
            self.a = fixed or float(gamma.solve_concentration(np.array([max(gap, 1e-6)]), np.array([self.a]))[0])

    def price(self, weight: float) -> float:
        """−KL(q ‖ p), and what E[log] costs the entries, which weigh so much a group."""
        a, b = self.a, self.a / self.scale
        kl = (self.shape - a) * psi(self.shape) - gammaln(self.shape) + gammaln(a)
        kl = kl + a * np.log(self.rate / b) + self.shape * (b / self.rate - 1.0)
        return float(weight * np.sum(self.log - np.log(self.mean)) - kl.sum())


class Paid:
    """Stands in for rank-one adaptation; sides: "rows", "components" or both. prices: by factor, of the last sweep."""

    def __init__(self, sides: tuple[str, ...], a: float | None) -> None:
        self.sides, self.a = sides, a
        self.levels: dict[str, tuple[Levels, Levels]] = {}
        self.prices: dict[str, float] = {}

    def __call__(self, factor: Any, old: Prior, exposed: np.ndarray, few: np.ndarray, *, hold: bool) -> Prior:
        layout = factor.layout
        E, log_L = (
            np.asarray(layout.unpack(array), np.float64).reshape(layout.rows, -1)[exposed]
            for array in (factor.mean, factor.log_geomean)
        )
        A, name = float(old.concentration.flat[0]), layout.name
        rows, columns = self.levels.setdefault(name, (Levels(len(E)), Levels(E.shape[1])))
        if "rows" in self.sides:
            rows.update(E.shape[1] * A, A * E @ columns.mean, self.a)
        else:
            rows.shape = np.array([1.0 / np.mean(E @ columns.mean / E.shape[1])])
            rows.rate = np.ones(1)
        if "components" in self.sides:
            columns.update(len(E) * A, A * rows.mean @ E, self.a)
        rates = rows.mean[:, None] * columns.mean
        logs = (rows.log if "rows" in self.sides else np.log(rows.mean))[:, None] + (
            columns.log if "components" in self.sides else 0.0
        )
        gap = np.mean(E * rates) - 1.0 - logs.mean() - log_L.mean()
        if not hold:
            A = float(gamma.solve_concentration(np.array([max(gap, 1e-5)]), np.array([A]))[0])
        self.prices[name] = sum(
            side.price(A * E.size / side.size)
            for side, word in ((rows, "rows"), (columns, "components"))
            if word in self.sides
        )
        B = np.full((layout.rows, E.shape[1]), 1.0 / rates.mean())
        B[exposed] = 1.0 / rates
        return Prior(np.full((1,) * len(layout.sizes), A), B.reshape(layout.sizes))


@contextmanager
def paying(*sides: str, a: float | None = None) -> Iterator[Paid]:
    """While this lasts, adapt_prior="rank-one" means paid priors; a: of the hyperpriors, learnt unless given."""
    usual, paid = empirical_bayes._rank_one, Paid(sides, a)
    empirical_bayes._rank_one = paid  # type: ignore[assignment]
    try:
        yield paid
    finally:
        empirical_bayes._rank_one = usual
