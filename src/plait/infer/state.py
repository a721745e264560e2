"""Everything the loop needs to go on from where it stands, so that an interrupted fit ends like one that was not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait.compile.layout import Layout
from plait.infer.gamma import FactorState, point, resumed
from plait.infer.prior import Prior
from plait.types import Array


class Record(NamedTuple):
    """One sweep: the bound after it, its relative change, its seconds, and the ranks then.

    Sweep 0 is the start of the fit's own sweeps; those before it, numbered from below, are the warm-up, whose bound is
    the log-likelihood that EM has reached.
    """

    sweep: int
    bound: float
    change: float
    seconds: float
    rank: dict[str, int]

    @property
    def warm_up(self) -> bool:
        """Whether the sweep belongs to the warm-up."""
        return self.sweep < 0


class Kept(NamedTuple):
    """What a factor can be made from again to the last bit; arrays as stored.

    VB: C, D and log L (which is not computed from them in the same way everywhere). A point: its mean.
    """

    layout: Layout
    mean: Array | None = None
    concentration: Array | None = None
    scale: Array | None = None
    log_geomean: Array | None = None

    @classmethod
    def of(cls, factor: FactorState) -> "Kept":
        """The parts of a factor, not copied."""
        if factor.is_point:
            return cls(factor.layout, factor.mean)
        C, D = factor.parameters
        return cls(factor.layout, None, C, D, factor.log_geomean)

    @property
    def parameters(self) -> tuple[Array | None, ...]:
        """What it is made from: the mean of a point, C and D of a posterior."""
        return (self.mean,) if self.concentration is None else (self.concentration, self.scale)

    def factor(self) -> FactorState:
        """The factor again, in arrays of its own."""
        if self.mean is not None:
            return point(self.layout, self.mean.copy())
        assert self.concentration is not None
        assert self.scale is not None
        assert self.log_geomean is not None
        return resumed(self.layout, self.concentration.copy(), self.scale.copy(), self.log_geomean.copy())


class Trail(NamedTuple):
    """What an accelerated loop remembers (see `plait.infer.accelerate`): leaps in a row, whether the state is that of a
    leap, and each free factor's parameters after the last sweep.
    """

    streak: int = 1
    leapt: bool = False
    before: Mapping[str, Sequence[Array]] = {}


@dataclass(frozen=True)
class State:
    """A loop between two sweeps. The arrays are those of the fit itself: valid until its next update.

    rates: G of every relation; divergences: −KL of every free factor; exposed: rows that any observed cell depends on;
    pause: sweeps until components are tried for removal again; learnt: by relation its likelihood's own numbers; gauge:
    the log-scales that a fit shows its factors with, once it is one.
    """

    factors: Mapping[str, Kept]
    priors: Mapping[str, Prior]
    rates: Sequence[float]
    divergences: Mapping[str, float]
    exposed: Mapping[str, NDArray[np.bool_]]
    history: Sequence[Record]
    pause: int
    trail: Trail
    learnt: Mapping[str, dict[str, float]] = field(default_factory=dict)
    gauge: Mapping[str, float] | None = None

    def copy(self) -> "State":
        """The same in arrays of its own, which no update changes."""
        factors = {name: Kept(kept.layout, *map(_copied, kept[1:])) for name, kept in self.factors.items()}
        before = {name: [array.copy() for array in arrays] for name, arrays in self.trail.before.items()}
        trail = self.trail._replace(before=before)
        return replace(self, factors=factors, history=list(self.history), trail=trail)


def _copied(array: Array | None) -> Array | None:
    return None if array is None else array.copy()
