"""Counts: x = n.

E[n] = x; term = x log λ, fixed −log Γ(x + 1). Kernels read M·x, and only proportions of λ matter to them: scales
of rows reach the bound by their marginals.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, gammaincc, gammaln, xlogy

from plait._typing import Array, Floats
from plait.likelihood.interface import COLUMNS, Entry, KernelNames, Likelihood, State

LARGE = 1000.0  # a value from which on a few cells may outweigh all others
SMALL = 1024
TABLE = gammaln(np.arange(SMALL) + 1.0)  # most counts are small whole numbers


def log_factorials(values: Floats) -> Array:
    """log Γ(x + 1), (n,)."""
    whole = np.clip(values, 0, SMALL - 1).astype(np.int64)
    known = np.array_equal(whole, values)
    return np.asarray(TABLE[whole] if known else gammaln(np.asarray(values, np.float64) + 1.0))


class Poisson(Likelihood):
    """Counts, 0 or more; they need not be whole."""

    name = "poisson"
    wanted = "Counts are finite numbers, 0 or more"
    hint = "Leave such rows out, or put the cells into `missing`."
    true_scale = False
    beside = False
    packs = False
    plain = True
    columns = COLUMNS

    def bad(self, values: Floats) -> NDArray[np.bool_]:
        """None of those that are 0 or more."""
        return ~(values >= 0)

    def doubt(self, values: Floats) -> str:
        """A few large counts outweigh all others; links are not counts."""
        most, median = float(values.max()), float(np.median(values))
        if most >= LARGE and most >= 100 * median:
            return (
                f"values up to {most:,.6g}, the median is {median:,.6g}: a few large counts dominate. "
                f'likelihood = "negbin" is made for them.'
            )
        if (values == 1).all():
            return 'only the values 0 and 1: likelihood = "bernoulli" fits links better.'
        return ""

    def entries(self, values: Floats, weights: Floats) -> Floats:
        """M·x; x itself where every M is 1, which needs no memory."""
        plain = weights.strides == (0,) and len(weights) > 0 and weights[0] == 1
        return values if plain else weights * values

    def expect(self, values: Floats, log_rate: Array, state: State) -> tuple[Array, Array]:
        """x and x log λ."""
        x = np.asarray(values, np.float64)
        return x, x * log_rate

    def variance(self, values: Floats, log_rate: Array, state: State) -> Array:
        """0: n is known."""
        return np.zeros(len(values))

    def fixed(self, values: Floats) -> Array:
        """−log Γ(x + 1)."""
        return -log_factorials(values)

    def bursts(self, state: State) -> tuple[float, float]:
        """An event is a count."""
        return 1.0, 1.0

    def below(self, values: Array, rates: Array, state: State) -> Array:
        """Q(x + 1, λ)."""
        return np.asarray(gammaincc(np.floor(values)[:, None] + 1.0, rates).mean(axis=1))

    def log_probability_by_moments(self, values: Floats, mean: Array, variance: Array, state: State) -> Array:
        """A negative binomial's, exactly: log Γ(x + a)/(Γ(a) x!) + x log q + a log(1 − q), q = b/(1 + b)."""
        x = np.asarray(values, np.float64)
        spread = (np.sqrt(variance) > 3e-8 * mean) & (mean > 0)  # the mean of an EM fit may have no finite square
        m, v = np.where(spread, mean, 1.0), np.where(spread, variance, 1.0)
        a = m * m / v
        # log Γ(x + a) / Γ(a) by the beta function: a difference of two log Γ would cancel for large a.
        count = np.where(x > 0, x, 1.0)
        rising = np.where(x > 0, gammaln(count) - betaln(count, a), 0.0)
        wide = rising - a * np.log1p(v / m) - x * np.log1p(a / m)
        return np.asarray(np.where(spread, wide, xlogy(x, mean) - mean) + self.fixed(x))

    def entry(self, names: KernelNames) -> Entry:
        """q = M x / Xhat; the logarithm is that of Xhat itself."""
        return Entry((f"q = {names.entry} / {names.xhat}",), None, names.xhat)

    def preamble(self) -> str:
        """Nothing: there is no link to call."""
        return ""
