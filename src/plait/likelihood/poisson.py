"""Poisson likelihood: x = n.

E[n] = x; term = x log λ, fixed −log Γ(x + 1). Kernels read M·x and need λ up to a factor only: row scales enter the
ELBO by marginals.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from plait import special
from plait._typing import Array, Floats
from plait.likelihood.interface import COLUMNS, Entry, KernelNames, Likelihood, State

TABLE_SIZE = 1024  # most counts are small integers


@cache
def _log_factorial_table() -> Array:
    return np.asarray(special.gammaln(np.arange(TABLE_SIZE) + 1.0))


def log_factorials(values: Floats) -> Array:
    """log Γ(x + 1), (n,)."""
    whole = np.clip(values, 0, TABLE_SIZE - 1).astype(np.int64)
    if np.array_equal(whole, values):
        return _log_factorial_table()[whole]
    return np.asarray(special.gammaln(np.asarray(values, np.float64) + 1.0))


class Poisson(Likelihood):
    """Poisson likelihood of counts, ``likelihood="poisson"``.

    Values are 0 or more and need not be whole.

    Examples
    --------
    >>> relation = plait.Relation(visits, likelihood=plait.likelihood.Poisson())
    >>> str(relation.likelihood)
    'poisson'
    """

    name = "poisson"
    wanted = "Counts are finite numbers of at least 0"
    hint = "Remove such rows, or put the cells into `missing`."
    true_scale = False
    reads_values = False
    packs = False
    plain = True
    columns = COLUMNS

    def bad(self, values: Floats) -> NDArray[np.bool_]:
        """None of those that are 0 or more."""
        return ~(values >= 0)

    def doubt(self, values: Floats) -> str:
        """Links are not counts."""
        if (values == 1).all():
            return 'only the values 0 and 1. Use likelihood = "bernoulli".'
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
        return np.asarray(special.gammaincc(np.floor(values)[:, None] + 1.0, rates).mean(axis=1))

    def log_probability_by_moments(self, values: Floats, mean: Array, variance: Array, state: State) -> Array:
        """A negative binomial's, exactly: log Γ(x + a)/(Γ(a) x!) + x log q + a log(1 − q), q = b/(1 + b)."""
        x = np.asarray(values, np.float64)
        spread = (np.sqrt(variance) > 3e-8 * mean) & (mean > 0)  # the mean of an EM fit may have no finite square
        m, v = np.where(spread, mean, 1.0), np.where(spread, variance, 1.0)
        a = m * m / v
        # log Γ(x + a) / Γ(a) by the beta function: a difference of two log Γ would cancel for large a.
        count = np.where(x > 0, x, 1.0)
        rising = np.where(x > 0, special.gammaln(count) - special.betaln(count, a), 0.0)
        wide = rising - a * np.log1p(v / m) - x * np.log1p(a / m)
        return np.asarray(np.where(spread, wide, special.xlogy(x, mean) - mean) + self.fixed(x))

    def entry(self, names: KernelNames) -> Entry:
        """q = M x / Xhat; the logarithm is that of Xhat itself."""
        return Entry((f"q = {names.entry} / {names.xhat}",), None, names.xhat)

    def preamble(self) -> str:
        """Nothing: there is no link to call."""
        return ""
