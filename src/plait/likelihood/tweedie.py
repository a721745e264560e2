"""Tweedie: x is the sum of n Gamma(κ, θ) amounts, such as money or durations (Tweedie's family, powers from 1 to 2).

With z = λ (x/θ)^κ and w_n = zⁿ/(n! Γ(nκ)), both of these are functions of z alone (`series`):

    E[n] = Σ n w_n / Σ w_n,        term = log Σ_{n≥1} w_n,        tilt −1/θ,  fixed −log x

State: "shape" κ and "scale" θ. At fixed q(n) the bound depends on θ by −ΣM (κ E[n] log θ + x/θ), so
θ = ΣMx / (κ ΣM E[n]): it has the unit of x, and nothing else does. κ, unless given, is one of `SHAPES`. The start takes
the one under which the values are most probable were each a single amount; `choose` takes at fixed λ the one, with the
θ that goes with it, under which the bound is largest, and keeps the present one unless another is better: a step of
coordinate ascent.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainc, gammaln

from plait._typing import Array, Floats
from plait.errors import ParameterError
from plait.jit import inlined, item, log1
from plait.likelihood import series
from plait.likelihood.interface import Likelihood, State, Sums

SHAPES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
LEAST, MOST = 0.01, 100.0  # κ that there are tables for
TURNS = 20  # updates of θ for each κ that is tried
SAMPLE = 1 << 14  # entries on which every κ is tried; the best one must then be better on all
MANY = 60.0  # rate from which on a value is nearly a shifted Gamma
PIECE = 256  # cells worked on at a time


class _Seen(NamedTuple):
    """Entries at which κ is chosen, (n,) each, and their sums."""

    values: Array
    weights: Array
    log_rate: Array
    sums: Sums


class Tweedie(Likelihood):
    """Tweedie that add up: money, durations, weights. Their unit changes no prediction but by itself.

    shape: κ of one amount, 1/κ is its relative variance; chosen by the bound if it is not given.
    """

    name = "tweedie"
    wanted = "Tweedie are finite numbers, 0 or more"
    hint = "Leave such rows out, or put the cells into `missing`."
    whole = False
    takes_logs = False

    def __init__(self, shape: float | None = None) -> None:
        self.shape = shape
        if shape is not None and not LEAST <= shape <= MOST:
            words = f"a number from {LEAST:g} to {MOST:g}"
            raise ParameterError.must_be("shape", words, shape, hint="Leave it out to choose it by the bound.")

    def settings(self) -> dict[str, float]:
        """What was given."""
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
        shapes = np.array(SHAPES if self.shape is None else (self.shape,))
        fit = shapes * (np.log(shapes) + log_mean - math.log(mean) - 1.0) - gammaln(shapes)
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
        seen = self._seen(values, weights, log_rate)
        step = len(values) // SAMPLE + 1
        some = self._seen(values[::step], weights[::step], log_rate[::step])
        mean = self.bursts(state)[0]
        tried = [self._settle({"shape": shape, "scale": mean / shape}, some) for shape in SHAPES]
        best = max(tried, key=lambda other: self._worth(other, some))
        if best["shape"] == state["shape"]:
            return dict(state)
        best = self._settle(best, seen)
        return best if self._worth(best, seen) > self._worth(state, seen) else dict(state)

    def _seen(self, values: Floats, weights: Floats, log_rate: Array) -> _Seen:
        M = np.asarray(weights, np.float64)
        return _Seen(np.asarray(values, np.float64), M, log_rate, self.sums(values, M))

    def _worth(self, state: State, seen: _Seen) -> float:
        """The bound of these entries but for what no state changes."""
        term = self.expect(seen.values, seen.log_rate, state)[1]
        return float(seen.weights @ term) + self.constant(seen.sums, state)

    def _settle(self, state: dict[str, float], seen: _Seen) -> dict[str, float]:
        """The θ of a κ at fixed λ."""
        for _ in range(TURNS):
            scale = state["scale"]
            expected = self.expect(seen.values, seen.log_rate, state)[0]
            state = self.update(state, seen.sums, float(seen.weights @ expected))
            if abs(state["scale"] - scale) <= 1e-6 * scale:
                break
        return state

    def packed(self, state: State) -> Array:
        """The table of κ, with κ log θ beside it."""
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
        found, large = np.empty(len(values)), rates.max(axis=1) > MANY
        small = np.flatnonzero(~large)
        small = small[np.argsort(rates[small].max(axis=1))]  # few events are summed over where rates are small
        for at in range(0, len(small), PIECE):
            rows = small[at : at + PIECE]
            found[rows] = _summed(x[rows], rates[rows], shape)
        found[large] = _shifted(x[large], rates[large], shape)
        return found

    @staticmethod
    @inlined
    def link(x: float, xhat: float, log_scale: float, parameters: Any) -> tuple[float, float, float]:
        """x is the logarithm of the value, see `stored`."""
        log_z = log1(xhat) + log_scale + item(parameters, series.SHAPE) * x - item(parameters, series.OFFSET)
        expected, term = series.events(log_z, parameters)
        return expected, term, 1.0


def _summed(x: Array, rates: Array, shape: float) -> Array:
    """P(value ≤ x θ), (n,), of rates (n, points) up to MANY."""
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
    below[needed] = gammainc(column, row)
    return np.asarray(np.minimum(total + (probabilities * below).sum(axis=1), 1.0))


def _shifted(x: Array, rates: Array, shape: float) -> Array:
    """The same by Pearson's third type: a Gamma of concentration 4/skewness², moved and stretched."""
    rate = np.maximum(rates, 1e-3)
    a = 4.0 * rate * shape * (shape + 1.0) / (shape + 2.0) ** 2
    unit = (shape + 2.0) / 2.0  # sd/√a
    moved = (x[:, None] - rate * shape) / unit + a
    chance = gammainc(a, np.maximum(moved, 0.0))
    return np.asarray(np.maximum(chance, np.where(x[:, None] >= 0, np.exp(-rates), 0.0)).mean(axis=1))
