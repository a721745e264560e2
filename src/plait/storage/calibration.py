"""Recalibration of probabilities: complementary log-log regression on held-out cells (docs/math.md, section 12).

With Λ = −log P(x = 0) of the fit, Λ' = exp(b + β log Λ). The map is increasing, so no order of probabilities changes.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from plait._typing import Array


@dataclass(frozen=True)
class Calibration:
    """Recalibration of the probabilities of one relation.

    ``fit.calibration["visits"]`` is one, after `Fit.calibrate`. With Λ = −log(1 − p), where p
    is the probability of the fit, the calibrated probability is 1 − exp(−Λ') with
    Λ' = exp(``intercept``) Λ^``slope``.

    Attributes
    ----------
    intercept, slope : float
        Parameters of the regression. 0 and 1 change nothing.
    links, zeros : int
        Number of held-out links and zeros that it was estimated from.
    gain : float
        Gain of log-likelihood per held-out link by cross-validation.
    gain_error : float
        Standard error of ``gain``.
    is_identity : bool
        Whether probabilities stay as they are, because cross-validation did not prefer the
        regression.

    Examples
    --------
    >>> trained = plait.fit(model, train, **quick)
    >>> calibrated = trained.calibrate("visits", test, zeros="all")
    >>> calibrated.calibration["visits"].is_identity
    True
    """

    intercept: float
    slope: float
    links: int
    zeros: int
    gain: float
    gain_error: float

    @property
    def is_identity(self) -> bool:
        """Whether probabilities stay as they are."""
        return self.intercept == 0 and self.slope == 1

    def apply(self, miss: Array) -> Array:
        """Λ' of Λ = −log P(x = 0), (n,); 0 and infinity stay."""
        if self.is_identity:
            return miss
        with np.errstate(divide="ignore", over="ignore"):
            return np.asarray(np.exp(self.intercept + self.slope * np.log(miss)))

    def probability_slope(self, miss: Array) -> Array:
        """Derivative of the calibrated probability with respect to that of the fit, (n,), at Λ = `miss`."""
        shown = self.apply(miss)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            slope = self.slope * np.exp(miss - shown) * shown / miss
        return np.where(np.isfinite(slope), slope, 0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration in types that JSON can hold.

        Returns
        -------
        dict
            The fields by name.

        Examples
        --------
        >>> trained = plait.fit(model, train, **quick)
        >>> calibrated = trained.calibrate("visits", test, zeros="all")
        >>> calibrated.calibration["visits"].to_dict()["slope"]
        1.0
        """
        return asdict(self)

    @classmethod
    def of_dict(cls, found: Mapping[str, Any]) -> "Calibration":
        numbers = {name: float(found[name]) for name in ("intercept", "slope", "gain", "gain_error")}
        return cls(links=found["links"], zeros=found["zeros"], **numbers)

    def __str__(self) -> str:
        of = f"by {self.links:,} held-out links and {self.zeros:,} zeros"
        if self.is_identity:
            return f"probabilities need no calibration, {of}"
        return f"probabilities calibrated, Λ' = {np.exp(self.intercept):.3g} Λ^{self.slope:.3g}, {of}"


NO_CALIBRATION = Calibration(0.0, 1.0, 0, 0, 0.0, 0.0)
