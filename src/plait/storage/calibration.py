"""Recalibration of probabilities: complementary log-log regression on held-out cells (docs/math.md, section 12).

With Λ = −log P(x = 0) of the fit, log Λ' = b + β log Λ + Σ γ_k log(f_k + ε_k). Without features f the map is
increasing, so no order of probabilities changes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from plait._typing import AnyArray, Array, Rows
from plait.data.binding.known import Known
from plait.data.observation.symmetry import orders
from plait.data.sparse.keys import columns_of, find, pack, pack_pair
from plait.rendering.formatting import plural

CHUNK_LINKS = 1 << 22  # counted at a time


@dataclass(frozen=True)
class Curve:
    """Λ' = exp(``intercept``) Λ^``slope``; the intercept is one number, or one per cell."""

    intercept: float | Array
    slope: float

    @property
    def is_identity(self) -> bool:
        """Whether probabilities stay as they are."""
        return isinstance(self.intercept, float | int) and self.intercept == 0 and self.slope == 1

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


@dataclass(frozen=True, eq=False)
class CalibrationFeature:
    """One feature f of a calibration, which adds ``coefficient`` · log(f + ``offset``) to log Λ'.

    ``fit.calibration["visits"].features`` is a tuple of them.

    Attributes
    ----------
    name : str
        ``"links of user"``: number of known links of the user of the cell, without the cell
        itself; or the name of a table of `Fit.calibrate`.
    places : tuple of int
        Positions of the indices on which the feature depends.
    coefficient, offset : float
        γ and ε.
    cells, values : array or None
        Row numbers and values of a table, which is 0 elsewhere; ``None`` for numbers of links.

    Examples
    --------
    >>> trained = plait.fit(model, train, **quick)
    >>> calibrated = trained.calibrate("visits", test, zeros="all", features="counts")
    >>> [feature.name for feature in calibrated.calibration["visits"].features]
    ['links of user', 'links of place']
    """

    name: str
    places: tuple[int, ...]
    coefficient: float
    offset: float
    cells: AnyArray | None = None
    values: Array | None = None

    def log_values(self, known: Known, rows: Rows) -> Array:
        """log(f + ε) at cells (n, order), (n,); its mean over the orientations of a cell."""
        cells, values = self.table(known)
        sizes = [known.shape[place] for place in self.places]
        is_there = np.all(rows >= 0, axis=1)  # unknown entities have neither links nor values
        rows = np.where(is_there[:, None], rows, 0)
        own = known.contain(rows) if self.cells is None else np.zeros(len(rows), bool)
        total, ways = np.zeros(len(rows)), list(orders(known.groups, len(known.shape)))
        for way in ways:
            asked = rows[:, way][:, list(self.places)]
            keys, needles = pack_pair(columns_of(cells), columns_of(asked), sizes, (len(cells), len(rows)))
            at, there = find(needles, keys)
            logs = np.where(there & is_there, values[at], 0.0) if len(values) else np.zeros(len(rows))
            total += np.log(np.maximum(logs - own, 0.0) + self.offset)
        return total / len(ways)

    def table(self, known: Known) -> tuple[AnyArray, Array]:
        """Distinct row numbers (n, k) in lexicographic order, and values (n,)."""
        if self.cells is None or self.values is None:
            return link_counts(known, self.places)
        return self.cells, self.values

    def largest_term(self, known: Known) -> float:
        """An upper bound of γ log(f + ε) at any cell."""
        largest = float(self.table(known)[1].max(initial=0.0))
        return self.coefficient * math.log((largest if self.coefficient > 0 else 0.0) + self.offset)


_COUNTS: WeakKeyDictionary[Known, dict[tuple[int, ...], tuple[AnyArray, Array]]] = WeakKeyDictionary()


def link_counts(known: Known, places: tuple[int, ...]) -> tuple[AnyArray, Array]:
    """Row numbers (n, k) at some places of known links, in all their orientations, and the number of links of each."""
    counted = _COUNTS.setdefault(known, {})
    if places not in counted:
        sizes = [known.shape[place] for place in places]
        cells, counts = np.zeros((0, len(places)), np.int64), np.zeros(0)
        for piece in known.pieces(CHUNK_LINKS):
            own = known.written_in(piece.cells)[:, list(places)]
            both = np.concatenate([cells, own])
            keys = pack(columns_of(both), sizes, len(both))
            _, first, which = np.unique(keys, return_index=True, return_inverse=True)
            summed = np.bincount(which.reshape(-1), np.concatenate([counts, np.ones(len(own))]))
            cells, counts = both[first], np.asarray(summed, np.float64)
        counted[places] = cells, counts
    return counted[places]


@dataclass(frozen=True)
class Calibration(Curve):
    """Recalibration of the probabilities of one relation.

    ``fit.calibration["visits"]`` is one, after `Fit.calibrate`. With Λ = −log(1 − p), where p
    is the probability of the fit, the calibrated probability is 1 − exp(−Λ') with
    Λ' = exp(``intercept``) Λ^``slope`` Π (f + ``offset``)^``coefficient`` over the features f.

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
    features : tuple of CalibrationFeature
        Features that cross-validation prefers to the regression without them; else empty.
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
    features: tuple[CalibrationFeature, ...] = ()

    @property
    def is_identity(self) -> bool:
        """Whether probabilities stay as they are."""
        return self.intercept == 0 and self.slope == 1 and not self.features

    def at(self, known: Known, rows: Rows) -> Curve:
        """The curve of cells (n, order), given by row numbers."""
        if not self.features:
            return self
        shifts = [own.coefficient * own.log_values(known, rows) for own in self.features]
        return Curve(self.intercept + np.sum(shifts, axis=0), self.slope)

    def min_rate(self, known: Known, shown: float) -> float:
        """Λ below which no cell has more than Λ' = `shown`."""
        log = self.intercept + math.fsum(own.largest_term(known) for own in self.features)
        return math.exp(min((math.log(shown) - log) / self.slope, 700.0)) if 0 < shown < math.inf else shown

    def to_dict(self) -> dict[str, Any]:
        """Return the calibration in types that JSON can hold.

        Returns
        -------
        dict
            The fields by name; of a feature those that are numbers or text.

        Examples
        --------
        >>> trained = plait.fit(model, train, **quick)
        >>> calibrated = trained.calibrate("visits", test, zeros="all")
        >>> calibrated.calibration["visits"].to_dict()["slope"]
        1.0
        """
        features = [
            {"name": own.name, "places": list(own.places), "coefficient": own.coefficient, "offset": own.offset}
            for own in self.features
        ]
        names = ("intercept", "slope", "links", "zeros", "gain", "gain_error")
        return {name: getattr(self, name) for name in names} | {"features": features}

    @classmethod
    def of_dict(
        cls, content: Mapping[str, Any], tables: Mapping[int, tuple[AnyArray, Array]] | None = None
    ) -> "Calibration":
        """`tables`: row numbers and values of the features that have them, by number."""
        numbers = {name: float(content[name]) for name in ("intercept", "slope", "gain", "gain_error")}
        features = tuple(
            CalibrationFeature(
                own["name"], tuple(own["places"]), float(own["coefficient"]), float(own["offset"]),
                *(tables or {}).get(n, (None, None)),
            )
            for n, own in enumerate(content.get("features", ()))
        )  # fmt: skip
        return cls(links=content["links"], zeros=content["zeros"], features=features, **numbers)

    def __str__(self) -> str:
        of = f"by {plural(self.links, 'held-out link')} and {plural(self.zeros, 'zero')}"
        if self.is_identity:
            return f"probabilities need no calibration, {of}"
        factors = "".join(f" ({own.name} + {own.offset:.3g})^{own.coefficient:.2g}" for own in self.features)
        return f"probabilities calibrated, Λ' = {np.exp(self.intercept):.3g} Λ^{self.slope:.3g}{factors}, {of}"


NO_CALIBRATION = Calibration(0.0, 1.0, 0, 0, 0.0, 0.0)
