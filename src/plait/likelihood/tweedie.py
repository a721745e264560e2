"""Tweedie likelihood (compound Poisson–Gamma, powers from 1 to 2): x is the sum of n Gamma(κ, θ) amounts, such as money
or durations.

With z = λ (x/θ)^κ and w_n = zⁿ/(n! Γ(nκ)), both of these are functions of z (`series`):

    E[n] = Σ n w_n / Σ w_n,        term = log Σ_{n≥1} w_n,        tilt −1/θ,  fixed −log x

Parameters are "shape" κ and "scale" θ. At fixed q(n) the ELBO depends on θ by −ΣM (κ E[n] log θ + x/θ), so θ = ΣMx / (κ
ΣM E[n]); only θ has the unit of x. κ, unless given, is one of `SHAPE_GRID`. The first κ has the largest likelihood if
each value were a single amount. `choose` maximises the ELBO over κ and θ at fixed λ and keeps the present κ unless
another is better: a step of coordinate ascent.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from plait import special
from plait._typing import Array, Floats
from plait.errors import ParameterError
from plait.jit import inlined, item, log1
from plait.likelihood import series
from plait.likelihood.interface import Likelihood, State, Sums

SHAPE_GRID = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
MIN_SHAPE, MAX_SHAPE = 0.01, 100.0  # range of κ for which `series.table` is accurate
SCALE_UPDATES = 20  # of θ, for each κ tried
SAMPLE_ENTRIES = 1 << 14  # on which every κ is tried; the best must then be better on all entries
MAX_SUMMED_RATE = 60.0  # at larger rates a value is nearly a shifted Gamma
CHUNK_CELLS = 256  # bounds the memory of sums over events


class _ShapeSample(NamedTuple):
    """Entries on which κ is chosen, (n_entries,) each, and their sums."""

    values: Array
    weights: Array
    log_rate: Array
    sums: Sums


class Tweedie(Likelihood):
    """Tweedie likelihood of amounts, ``likelihood="tweedie"``.

    For money, durations or weights: each event adds a Gamma-distributed amount. The unit of the
    values does not change predictions.

    Parameters
    ----------
    shape : float, default None
        Shape κ of one amount; its relative variance is 1/κ. From 0.01 to 100; by default the
        one with the largest ELBO.

    Raises
    ------
    plait.errors.ParameterError
        If ``shape`` is out of range.

    Examples
    --------
    >>> relation = plait.Relation(visits, likelihood=plait.likelihood.Tweedie(shape=2))
    >>> relation.likelihood
    Tweedie(shape=2)
    """

    name = "tweedie"
    wanted = "Amounts are finite numbers of at least 0"
    hint = "Remove such rows, or put the cells into `missing`."
    whole = False
    takes_logs = False

    def __init__(self, shape: float | None = None) -> None:
        self.shape = shape
        if shape is not None and not MIN_SHAPE <= shape <= MAX_SHAPE:
            words = f"a number from {MIN_SHAPE:g} to {MAX_SHAPE:g}"
            raise ParameterError.must_be("shape", words, shape, hint="Remove it to choose it by the ELBO.")

    def settings(self) -> dict[str, float]:
        """The given parameters."""
        return {} if self.shape is None else {"shape": float(self.shape)}

    def describe(self, state: State) -> str:
        """The name, the shape and the mean of one amount."""
        return f"tweedie, shape {state['shape']:.4g}, mean {self.bursts(state)[0]:.4g}"

    def stored(self, values: Floats) -> Floats:
        """log x."""
        return np.log(np.asarray(values, np.float64))

    def restored(self, stored: Floats) -> Floats:
        """e^stored."""
        return np.exp(np.asarray(stored, np.float64))

    def start(self, sums: Sums) -> dict[str, float]:
        """As if each nonzero were a single amount: κ by the likelihood of a Gamma, θ from the mean."""
        if not sums.weight > 0:
            return {"shape": self.shape or 1.0, "scale": 1.0}
        mean, log_mean = sums.value / sums.weight, sums.log_value / sums.weight
        shapes = np.array(SHAPE_GRID if self.shape is None else (self.shape,))
        fit = shapes * (np.log(shapes) + log_mean - math.log(mean) - 1.0) - special.gammaln(shapes)
        shape = float(shapes[np.argmax(fit)])
        return {"shape": shape, "scale": mean / shape}

    def update(self, state: State, sums: Sums, expected: float) -> dict[str, float]:
        """θ = ΣMx / (κ ΣM E[n])."""
        if not (expected > 0 and sums.value > 0):
            return dict(state)
        return {"shape": state["shape"], "scale": sums.value / (state["shape"] * expected)}

    @property
    def chooses(self) -> bool:
        """Unless κ was given."""
        return self.shape is None

    def choose(self, state: State, values: Floats, weights: Floats, log_rate: Array) -> dict[str, float]:
        """κ and θ with the largest bound at these λ, unless κ was given."""
        if self.shape is not None or len(values) == 0:
            return dict(state)
        seen = self._sample_of(values, weights, log_rate)
        step = len(values) // SAMPLE_ENTRIES + 1
        some = self._sample_of(values[::step], weights[::step], log_rate[::step])
        mean = self.bursts(state)[0]
        tried = [self._settle({"shape": shape, "scale": mean / shape}, some) for shape in SHAPE_GRID]
        best = max(tried, key=lambda other: self._worth(other, some))
        if best["shape"] == state["shape"]:
            return dict(state)
        best = self._settle(best, seen)
        return best if self._worth(best, seen) > self._worth(state, seen) else dict(state)

    def _sample_of(self, values: Floats, weights: Floats, log_rate: Array) -> _ShapeSample:
        M = np.asarray(weights, np.float64)
        return _ShapeSample(np.asarray(values, np.float64), M, log_rate, self.sums(values, M))

    def _worth(self, state: State, seen: _ShapeSample) -> float:
        """ELBO of these entries, up to a constant."""
        term = self.expect(seen.values, seen.log_rate, state)[1]
        return float(seen.weights @ term) + self.constant(seen.sums, state)

    def _settle(self, state: dict[str, float], seen: _ShapeSample) -> dict[str, float]:
        """θ for a κ at fixed λ."""
        for _ in range(SCALE_UPDATES):
            scale = state["scale"]
            expected = self.expect(seen.values, seen.log_rate, state)[0]
            state = self.update(state, seen.sums, float(seen.weights @ expected))
            if abs(state["scale"] - scale) <= 1e-6 * scale:
                break
        return state

    def packed(self, state: State) -> Array:
        """The table of κ, and κ log θ."""
        numbers = series.table(state["shape"]).copy()
        numbers[series.OFFSET] = state["shape"] * math.log(state["scale"])
        numbers.flags.writeable = False
        return numbers

    def expect(self, values: Floats, log_rate: Array, state: State) -> tuple[Array, Array]:
        """From the table of κ at log z."""
        return series.expected(self._log_z(values, log_rate, state), series.table(state["shape"]))[:2]

    def variance(self, values: Floats, log_rate: Array, state: State) -> Array:
        """d E[n] / d log z."""
        return np.maximum(series.expected(self._log_z(values, log_rate, state), series.table(state["shape"]))[2], 0.0)

    def _log_z(self, values: Floats, log_rate: Array, state: State) -> Array:
        return np.asarray(log_rate + state["shape"] * (self.stored(values) - math.log(state["scale"])))

    def fixed(self, values: Floats) -> Array:
        """−log x."""
        return -np.log(np.asarray(values, np.float64))

    def by_unit(self, sums: Sums) -> float:
        """−ΣM log x: the rest of the bound is that of log x, whose unit moves it and stretches nothing."""
        return sums.fixed

    def tilt(self, state: State) -> float:
        """−1/θ."""
        return -1.0 / state["scale"]

    def bursts(self, state: State) -> tuple[float, float]:
        """κθ and κ(κ + 1)θ²."""
        shape, scale = state["shape"], state["scale"]
        return shape * scale, shape * (shape + 1.0) * scale * scale

    def below(self, values: Array, rates: Array, state: State) -> Array:
        """Σ_n P(n) P(nκ, x/θ), P(n) the mean over the rates; for large rates by a Gamma with the same three moments."""
        shape, x = state["shape"], values / state["scale"]
        probabilities, large = np.empty(len(values)), rates.max(axis=1) > MAX_SUMMED_RATE
        small = np.flatnonzero(~large)
        small = small[np.argsort(rates[small].max(axis=1))]  # few events are summed over where rates are small
        for at in range(0, len(small), CHUNK_CELLS):
            rows = small[at : at + CHUNK_CELLS]
            probabilities[rows] = _summed(x[rows], rates[rows], shape)
        probabilities[large] = _shifted(x[large], rates[large], shape)
        return probabilities

    @staticmethod
    @inlined
    def link(x: float, xhat: float, log_scale: float, parameters: Any) -> tuple[float, float, float]:
        """x is the logarithm of the value, see `stored`."""
        log_z = log1(xhat) + log_scale + item(parameters, series.SHAPE) * x - item(parameters, series.OFFSET)
        expected, term = series.events(log_z, parameters)
        return expected, term, 1.0


def _summed(x: Array, rates: Array, shape: float) -> Array:
    """P(value ≤ x θ), (n,), for rates (n, n_points) up to MAX_SUMMED_RATE."""
    chance = np.exp(-rates)
    total = chance.mean(axis=1)
    most = float(rates.max(initial=0.0))
    n = np.arange(1, int(most + 9.0 * math.sqrt(most)) + 12)
    probabilities = np.empty((len(x), len(n)))
    for count in n:
        chance = chance * rates / count
        probabilities[:, count - 1] = chance.mean(axis=1)
    needed = probabilities > 1e-14
    column, row = np.broadcast_to(n * shape, needed.shape)[needed], np.broadcast_to(x[:, None], needed.shape)[needed]
    below = np.zeros(needed.shape)
    below[needed] = special.gammainc(column, row)
    return np.asarray(np.minimum(total + (probabilities * below).sum(axis=1), 1.0))


def _shifted(x: Array, rates: Array, shape: float) -> Array:
    """P(value ≤ x θ) by a shifted Gamma (Pearson type III) with the same three moments."""
    rate = np.maximum(rates, 1e-3)
    a = 4.0 * rate * shape * (shape + 1.0) / (shape + 2.0) ** 2
    unit = (shape + 2.0) / 2.0  # sd/√a
    moved = (x[:, None] - rate * shape) / unit + a
    chance = special.gammainc(a, np.maximum(moved, 0.0))
    return np.asarray(np.maximum(chance, np.where(x[:, None] >= 0, np.exp(-rates), 0.0)).mean(axis=1))
