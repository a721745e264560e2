"""Negative binomial likelihood, for counts with a heavy tail: x is the sum of n bursts, each 1, 2, 3, … with
probability pᵇ/(b c), c = −log(1 − p).

The concentration is r = λ/c. In terms of c and λ both limits, p → 0 (Poisson) and p → 1, are exact:

    E[n] = Σ_{k<x} λ/(λ + c k) = r (ψ(r + x) − ψ(r))
    term = Σ_{k<x} log(λ + c k) = x log c + log Γ(r + x) − log Γ(r)          tilt log(p/c),  fixed −log Γ(x + 1)

The parameter "burst" is c. At fixed q(n) the ELBO depends on it by ΣM (x log p − E[n] log c), which is largest where
the mean burst is that of the data: (e^c − 1)/c = ΣMx / ΣM E[n]. If every x is 1 then c = 0, which is Poisson.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plait import special
from plait._typing import Array, Floats
from plait.errors import ParameterError
from plait.jit import inlined, item, outlined, rate_of
from plait.likelihood.interface import Likelihood, State, Sums
from plait.likelihood.poisson import log_factorials

MAX_LOOP_VALUE = 16  # larger values take Stirling's series
MAX_SERIES_RATIO = 1e-8  # c x/λ below which two terms of a series in c are exact
MIN_STIRLING = 12.0  # argument from which Stirling's series have full precision
MIN_BURST = 1e-15  # a smaller c is 0
MIN_UPDATE_RATIO = 0.01  # an update divides c by 100 at most
MAX_BURST = 600.0  # c at which e^c is still finite


class Negbin(Likelihood):
    """Negative binomial likelihood of counts with a heavy tail, ``likelihood="negbin"``.

    For plays, clicks or messages. Each event adds a burst of 1, 2, 3, … to the count.

    Parameters
    ----------
    p : float, default None
        Parameter of the bursts, 0 ≤ p < 1; learnt by default.
    mean_burst : float, default None
        Mean of the bursts, at least 1, instead of ``p``.

    Raises
    ------
    plait.errors.ParameterError
        If a parameter is out of range, or both are given.

    Examples
    --------
    >>> relation = plait.Relation(visits, likelihood=plait.likelihood.Negbin(mean_burst=2))
    >>> relation.likelihood
    Negbin(mean_burst=2)
    """

    name = "negbin"
    wanted = "Counts are integers of at least 0"
    hint = 'Use `likelihood="tweedie"` for amounts, or `likelihood="poisson"`, which allows fractions.'

    def __init__(self, p: float | None = None, mean_burst: float | None = None) -> None:
        self.p, self.mean_burst = p, mean_burst
        if p is not None and mean_burst is not None:
            raise ParameterError(
                "`p` and `mean_burst` exclude each other: each follows from the other.",
                hint="Remove one of the two.",
            )
        if p is not None and not 0.0 <= p < 1.0:
            raise ParameterError.must_be(
                "p", "a probability below 1", p, hint="Remove it to estimate it from the data."
            )
        if mean_burst is not None and not 1.0 <= mean_burst < math.inf:
            raise ParameterError.must_be(
                "mean_burst",
                "a finite number of at least 1",
                mean_burst,
                hint="Remove it to estimate it from the data.",
            )

    def settings(self) -> dict[str, float]:
        """The given parameters."""
        given = {"p": self.p, "mean_burst": self.mean_burst}
        return {name: float(value) for name, value in given.items() if value is not None}

    def describe(self, state: State) -> str:
        """The name and the mean burst."""
        return f"negbin, mean burst {self.bursts(state)[0]:.4g}"

    def bad(self, values: Floats) -> NDArray[np.bool_]:
        """All but whole numbers."""
        return np.asarray(~((values >= 0) & (values == np.floor(values))))

    def start(self, sums: Sums) -> dict[str, float]:
        """As given; else as if each nonzero were one burst."""
        if self.p is not None:
            return {"burst": -math.log1p(-self.p)}
        if self.mean_burst is not None:
            return {"burst": burst_of(self.mean_burst)}
        return {"burst": burst_of(sums.value / sums.weight) if sums.weight > 0 else 0.0}

    def update(self, state: State, sums: Sums, expected: float) -> dict[str, float]:
        """(e^c − 1)/c = ΣMx / ΣM E[n], unless it was given."""
        if self.settings() or not expected > 0:
            return dict(state)
        # Counts in float32 have errors of 1e-7, and c never leaves 0: it goes there in steps.
        c = max(burst_of(sums.value / expected), MIN_UPDATE_RATIO * state["burst"])
        return {"burst": c if c >= MIN_BURST else 0.0}

    def packed(self, state: State) -> Array:
        """c and log c."""
        c = state["burst"]
        numbers = np.array([c, math.log(c) if c > 0 else 0.0])
        numbers.flags.writeable = False
        return numbers

    def expect(self, values: Floats, log_rate: Array, state: State) -> tuple[Array, Array]:
        """Sums over k < 16, and Stirling's series for the rest."""
        x, c = np.asarray(values, np.float64), state["burst"]
        rate = np.exp(np.minimum(log_rate, 700.0))
        near = x * c <= MAX_SERIES_RATIO * rate
        s = np.divide(c, rate, out=np.zeros(x.shape), where=near & (rate > 0))
        expected = x * (1.0 - s * (x - 1.0) / 2.0 * (1.0 - s * (2.0 * x - 1.0) / 3.0))
        term = x * log_rate + s * x * (x - 1.0) / 2.0 * (1.0 - s * (2.0 * x - 1.0) / 6.0)
        far = np.flatnonzero(~near)
        if c > 0 and len(far):
            expected[far], logs = _rise(rate[far] / c, x[far], c)
            term[far] = log_rate[far] + logs
        return expected, term

    def variance(self, values: Floats, log_rate: Array, state: State) -> Array:
        """Σ_{k<x} r k/(r + k)² = E[n] − r² (ψ'(r) − ψ'(r + x))."""
        x, c = np.asarray(values, np.float64), state["burst"]
        rate = np.exp(np.minimum(log_rate, 700.0))
        near = x * c <= 1e-4 * rate  # the difference would lose digits
        s = np.divide(c, rate, out=np.zeros(x.shape), where=near & (rate > 0))
        variance = s * x * (x - 1.0) / 2.0 * (1.0 - 2.0 * s * (2.0 * x - 1.0) / 3.0 + 1.5 * s * s * x * (x - 1.0))
        r = rate[~near] / (c or 1.0)
        squares = r * r * (special.polygamma(1, r + 1.0) - special.polygamma(1, r + x[~near]))
        variance[~near] = self.expect(values, log_rate, state)[0][~near] - 1.0 - squares
        return np.maximum(variance, 0.0)

    def fixed(self, values: Floats) -> Array:
        """−log Γ(x + 1)."""
        return -log_factorials(values)

    def tilt(self, state: State) -> float:
        """log(p/c) = log((1 − e^−c)/c), from c = 0 on."""
        c = state["burst"]
        return -c / 2.0 + c * c / 24.0 if c < 1e-3 else math.log(-math.expm1(-c) / c)

    def bursts(self, state: State) -> tuple[float, float]:
        """μ₁ = (e^c − 1)/c, μ₂ = μ₁ e^c."""
        c = state["burst"]
        mean = math.expm1(c) / c if c > 0 else 1.0
        return mean, mean * math.exp(c)

    def below(self, values: Array, rates: Array, state: State) -> Array:
        """I_{1−p}(r, x + 1) of the regularised incomplete beta function."""
        c = max(state["burst"], 1e-9)  # a smaller c moves no quantile
        x = np.floor(values)[:, None]
        # SciPy's function is wrong at subnormal concentrations; there x is 0.
        chance = special.betainc(np.maximum(rates / c, 1e-290), x + 1.0, math.exp(-c))
        return np.asarray(np.where(rates > 0, chance, 1.0).mean(axis=1))

    @staticmethod
    @inlined
    def link(x: float, xhat: float, log_scale: float, parameters: Any) -> tuple[float, float, float]:
        """Small counts by one loop and one division: Π (λ + c k), and its slope, which is that times Σ 1/(λ + c k)."""
        rate = rate_of(xhat, log_scale)
        if x <= MAX_LOOP_VALUE and 1e-15 < rate < 1e15:  # products stay within 1e±280
            c, factor, product, slope = item(parameters, 0), rate, rate, 1.0
            for _ in range(1, int(x)):
                factor += c
                slope = slope * factor + product
                product *= factor
            return rate * slope / product, 0.0, product
        log_rate = 0.0 if 1e-250 < rate < 1e250 else math.log(xhat) + log_scale
        return negbin_far(x, rate, log_rate, parameters)


@outlined
def negbin_far(x: float, rate: float, log_rate: float, parameters: Any) -> tuple[float, float, float]:
    """Link of large counts and of rates far from 1; log λ is given where λ underflows or overflows, else 0."""
    c, log_c = item(parameters, 0), item(parameters, 1)
    if x * c <= MAX_SERIES_RATIO * rate or c == 0.0:
        s = c / rate if c > 0.0 else 0.0
        log_rate = math.log(rate) if log_rate == 0.0 else log_rate
        expected = x * (1.0 - s * (x - 1.0) / 2.0 * (1.0 - s * (2.0 * x - 1.0) / 3.0))
        return expected, x * log_rate + s * x * (x - 1.0) / 2.0 * (1.0 - s * (2.0 * x - 1.0) / 6.0), 1.0
    r, k, product, slope = rate / c, 1.0, 1.0, 0.0
    while k < x and r + k < MIN_STIRLING:
        slope = slope * (r + k) + product
        product *= r + k
        k += 1.0
    total, term = slope / product, log_rate + (k - 1.0) * log_c
    if k < x:
        y, more = r + k, x - k
        end = y + more
        log_end, z, u = math.log(end), 1.0 / (y * y), 1.0 / (end * end)
        grown = log_end - math.log(y) if more > y else math.log1p(more / y)
        total += grown + more / (2.0 * y * end) + (_psi_tail(z) - _psi_tail(u))
        term += more * (log_c + log_end) + (y - 0.5) * grown - more + (_lgamma_tail(u) / end - _lgamma_tail(z) / y)
    return 1.0 + r * total, term, product * rate if log_rate == 0.0 else product


@inlined
def _psi_tail(z: Any) -> Any:
    """log y − 1/(2y) − ψ(y), z = 1/y² ≤ 1/144."""
    return z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z / 132))))


@inlined
def _lgamma_tail(z: Any) -> Any:
    """y (log Γ(y) − (y − ½) log y + y − log √2π), z = 1/y² ≤ 1/144."""
    return 1 / 12 - z * (1 / 360 - z * (1 / 1260 - z * (1 / 1680 - z / 1188)))


def _rise(r: Array, x: Array, c: float) -> tuple[Array, Array]:
    """Σ_{k<x} r/(r + k) and Σ_{1≤k<x} log c (r + k), (n,) each."""
    total, logs = np.zeros(x.shape), np.zeros(x.shape)
    for k in range(1, MAX_LOOP_VALUE):
        more = k < x
        total += more / (r + k)
        logs += np.where(more, np.log(c * (r + k)), 0.0)
    y, more = r + MAX_LOOP_VALUE, np.maximum(x - MAX_LOOP_VALUE, 0.0)
    end, grown = y + more, np.log1p(more / y)
    z, u = 1.0 / (y * y), 1.0 / (end * end)
    psi, lgamma = _psi_tail.py_func, _lgamma_tail.py_func  # type: ignore[attr-defined]
    total += grown + more / (2.0 * y * end) + (psi(z) - psi(u))
    logs += more * np.log(c * end) + (y - 0.5) * grown - more + (lgamma(u) / end - lgamma(z) / y)
    return 1.0 + r * total, logs


def burst_of(mean: float) -> float:
    """c with (e^c − 1)/c = mean, for a mean of at least 1; 0 if rounding leaves no more.

    Newton's method on the logarithm of both sides, which is convex with slopes from ½ to 1: from the right it never
    overshoots.
    """
    d = mean - 1.0
    if d < 1e-5:
        c = 2.0 * d * (1.0 - d * (2.0 / 3.0 - d * 5.0 / 9.0))
        return c if c >= MIN_BURST else 0.0
    log_mean, c = math.log(mean), min(2.0 * math.log(mean), MAX_BURST)
    for _ in range(100):
        value = c + math.log(-math.expm1(-c) / c) - log_mean
        step = value / (-1.0 / math.expm1(-c) - 1.0 / c)
        c = min(c - step, MAX_BURST)
        if abs(step) <= 1e-15 * c:
            break
    return c
