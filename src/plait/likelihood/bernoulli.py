"""Bernoulli likelihood: x = 1 if n ≥ 1 (docs/math.md, section 7).

E[n] = λ/(1 − e^−λ); term = log(e^λ − 1). Kernels read M only.
"""

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array, Floats
from plait.jit import bernoulli_link
from plait.likelihood.interface import Entry, KernelNames, Likelihood, State

MIN_LOG_RATE = -37.0  # log λ below which 1 − e^−λ is λ
MAX_LOG_RATE = 700.0  # log λ at which e^λ is clipped


class Bernoulli(Likelihood):
    """Bernoulli likelihood of links, ``likelihood="bernoulli"``.

    Values are 0 or 1. The probability of a link is 1 − e^−λ.

    Examples
    --------
    >>> links = visits.select("user", "place")
    >>> relation = plait.Relation(links, likelihood=plait.likelihood.Bernoulli())
    >>> str(relation.likelihood)
    'bernoulli'
    """

    name = "bernoulli"
    wanted = "Links are 0 or 1"
    hint = 'Use `likelihood="poisson"` for counts.'
    reads_values = False
    packs = False
    binary = True
    link = bernoulli_link

    def bad(self, values: Floats) -> NDArray[np.bool_]:
        """All but 0 and 1."""
        return np.asarray((values != 0) & (values != 1))

    def expect(self, values: Floats, log_rate: Array, state: State) -> tuple[Array, Array]:
        """λ/(1 − e^−λ) and λ + log(1 − e^−λ)."""
        rate = np.exp(np.clip(log_rate, MIN_LOG_RATE, MAX_LOG_RATE))
        miss, low = -np.expm1(-rate), log_rate < MIN_LOG_RATE
        return np.where(low, 1.0, rate / miss), np.where(low, log_rate, rate + np.log(miss))

    def variance(self, values: Floats, log_rate: Array, state: State) -> Array:
        """E[n] (1 − λ/(e^λ − 1)); λ → 0: λ/2."""
        rate = np.exp(np.clip(log_rate, MIN_LOG_RATE, MAX_LOG_RATE))
        with np.errstate(over="ignore"):
            exact = 1.0 - rate / np.expm1(rate)
        # The difference loses its digits: λ/2 − λ²/12 there.
        return np.where(rate < 1e-4, rate / 2 - rate * rate / 12, exact) * self.expect(values, log_rate, state)[0]

    def bursts(self, state: State) -> tuple[float, float]:
        """Of λ itself: E[x] is no multiple of it, see `plait.analysis.predict`."""
        return 1.0, 1.0

    def moments(self, mean: Array, variance: Array, state: State) -> tuple[Array, Array]:
        """P and P (1 − P), with P = 1 − (1 + v/m)^(−m²/v)."""
        log_miss = self.log_probability_by_moments(np.zeros(len(mean)), mean, variance, state)
        chance = -np.expm1(log_miss)
        return chance, chance * np.exp(log_miss)

    def log_chance(self, values: Floats, rates: Array, state: State) -> Array:
        """log(1 − e^−λ) or −λ, whatever the size of λ."""
        with np.errstate(divide="ignore"):
            return np.where(values > 0, np.log(-np.expm1(-rates)), -rates)

    def below(self, values: Array, rates: Array, state: State) -> Array:
        """E[e^−λ] from 0 on, 1 from 1 on."""
        return np.where(values >= 1.0, 1.0, np.exp(-rates).mean(axis=1))

    def log_probability_by_moments(self, values: Floats, mean: Array, variance: Array, state: State) -> Array:
        """log P or log(1 − P) of the closed form, as in `moments`."""
        log_miss = -mean.copy()
        spread = (variance > 1e-12 * mean * mean) & (variance > 0)
        m, v = mean[spread], variance[spread]
        log_miss[spread] = -m * (m / v) * np.log1p(v / m)
        with np.errstate(divide="ignore"):
            return np.where(values > 0, np.log(-np.expm1(log_miss)), log_miss)

    def entry(self, names: KernelNames) -> Entry:
        """A link needs no x: `bernoulli_link(Xhat, 0)`."""
        lines = (
            f"expected, term, miss = bernoulli_link({names.xhat}, 0.0)",
            f"q = {names.entry} * expected / {names.xhat}",
        )
        return Entry(lines, f"score += {names.entry} * term", "miss")

    def preamble(self) -> str:
        """Nothing: the link is one of `plait.jit`, which every kernel imports."""
        return ""
