"""Everything the loop needs to go on from where it stands, so that an interrupted fit ends like one that was not.

Why a fit stopped: a reason that code may ask for, and a sentence with advice for people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plait._typing import Array
from plait.codegen.layout import Layout
from plait.inference.gamma import FactorState, Prior, point, resumed


class Reason(StrEnum):
    """Every way in which a fit can end."""

    CONVERGED = "converged"  # the bound stands still
    MAX_ITER = "max_iter"  # as many as were asked for
    NO_SWEEPS = "no sweeps"  # none were asked for
    NOTHING = "nothing to update"  # every factor is given
    INTERRUPTED = "interrupted"  # by Ctrl-C
    CALLBACK = "callback"  # the progress callable said so
    FAILED = "failed"  # another member of the ensemble did
    UNFINISHED = "unfinished"  # a checkpoint of a fit that goes on, or was cut off


@dataclass(frozen=True)
class Stop:
    """Why a fit stopped. ``str(stop)`` is the sentence, with advice for Python where there is any."""

    reason: Reason
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".rstrip()

    def to_words(self) -> dict[str, str]:
        """As a manifest holds it."""
        return {name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_words(cls, words: Any) -> "Stop":
        """From a manifest; those of earlier versions have the sentence only."""
        if isinstance(words, str):
            return cls(_reason_of(words), words)
        return cls(Reason(words["reason"]), words["sentence"], words["advice"])


def _reason_of(sentence: str) -> Reason:
    """What a sentence of an earlier version was said for."""
    beginnings = {
        "converged": Reason.CONVERGED,
        "stopped after": Reason.MAX_ITER,
        "not updated": Reason.NO_SWEEPS,
        "nothing to update": Reason.NOTHING,
        "interrupted": Reason.INTERRUPTED,
        "stopped by the progress": Reason.CALLBACK,
        "stopped by": Reason.FAILED,
    }
    return next((reason for begin, reason in beginnings.items() if sentence.startswith(begin)), Reason.UNFINISHED)


class Record(NamedTuple):
    """One sweep: the bound after it, its relative change, its seconds, and the ranks then.

    Sweep 0 is the start of the fit's own sweeps; those before it, numbered from below, are the warm-up, whose bound is
    the log-likelihood that EM has reached.
    """

    sweep: int
    objective: float
    change: float
    seconds: float
    rank: dict[str, int]

    @property
    def warm_up(self) -> bool:
        """Whether the sweep belongs to the warm-up."""
        return self.sweep < 0


class FactorSnapshot(NamedTuple):
    """What a factor can be made from again to the last bit; arrays as stored.

    VB: C, D and log L (which is not computed from them in the same way everywhere). A point: its mean.
    """

    layout: Layout
    mean: Array | None = None
    concentration: Array | None = None
    scale: Array | None = None
    log_geomean: Array | None = None

    @classmethod
    def of(cls, factor: FactorState) -> "FactorSnapshot":
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


class MomentumState(NamedTuple):
    """What an accelerated loop remembers (`acceleration`): leaps in a row, whether the state is that of a
    leap, and each free factor's parameters after the last sweep.
    """

    n_accepted: int = 1
    extrapolated: bool = False
    before: Mapping[str, Sequence[Array]] = {}


@dataclass(frozen=True)
class State:
    """A loop between two sweeps. The arrays are those of the fit itself: valid until its next update.

    rates: G of every relation; divergences: −KL of every free factor; exposed: rows that any observed cell depends on;
    pause: sweeps until components are tried for removal again; learnt: by relation its likelihood's own numbers;
    log_scales: the log-scales that a fit shows its factors with, once it is one.
    """

    factors: Mapping[str, FactorSnapshot]
    priors: Mapping[str, Prior]
    rates: Sequence[float]
    divergences: Mapping[str, float]
    exposed: Mapping[str, NDArray[np.bool_]]
    history: Sequence[Record]
    pause: int
    trail: MomentumState
    likelihood_params: Mapping[str, dict[str, float]] = field(default_factory=dict)
    log_scales: Mapping[str, float] | None = None

    def copy(self) -> "State":
        """The same in arrays of its own, which no update changes."""
        factors = {name: FactorSnapshot(kept.layout, *map(_copied, kept[1:])) for name, kept in self.factors.items()}
        before = {name: [array.copy() for array in arrays] for name, arrays in self.trail.before.items()}
        trail = self.trail._replace(before=before)
        return replace(self, factors=factors, history=list(self.history), trail=trail)


def _copied(array: Array | None) -> Array | None:
    return None if array is None else array.copy()
