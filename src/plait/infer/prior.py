"""The Gamma prior that a user writes, and a factor's prior while a fit adapts it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from plait.errors import SettingError
from plait.types import Array


@dataclass(frozen=True, eq=False)
class Gamma:
    """Gamma distribution by concentration A and mean B (scale B/A, rate A/B, sd B/√A).

    Both may be numbers or arrays that broadcast to the factor as written.
    """

    concentration: ArrayLike = 0.5
    mean: ArrayLike = 10.0

    def __post_init__(self) -> None:
        for word in ("concentration", "mean"):
            given = getattr(self, word)
            try:
                value = np.asarray(given, np.float64)
            except (TypeError, ValueError):
                raise SettingError.must_be(word, "a number or an array of numbers", given) from None
            if not (np.isfinite(value).all() and (value > 0).all()):
                raise SettingError.must_be(word, "positive and finite", given)
            object.__setattr__(self, word, value)

    def __repr__(self) -> str:
        def show(value: Array) -> str:
            return f"{value.item():g}" if value.size == 1 else f"array of shape {value.shape}"

        return f"Gamma(concentration={show(self.concentration)}, mean={show(self.mean)})"  # type: ignore[arg-type]


@dataclass
class Prior:
    """A factor's prior as it stands: A and B inside, broadcastable (axes of length 1 where tied)."""

    concentration: Array
    mean: Array
