"""State of the loop between two sweeps, and the reasons why a fit stopped.

A state holds all that the loop needs, so a resumed fit ends bitwise identical to one that was not interrupted.
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

    CONVERGED = "converged"  # the objective changes by less than `tol`
    MAX_ITER = "max_iter"  # `max_iter` sweeps
    NO_SWEEPS = "no sweeps"  # `max_iter=0`
    NOTHING = "nothing to update"  # every factor is given
    INTERRUPTED = "interrupted"  # by Ctrl-C
    CALLBACK = "callback"  # `progress` returned False
    FAILED = "failed"  # another member of the ensemble failed
    UNFINISHED = "unfinished"  # a checkpoint of a fit that runs or was killed


@dataclass(frozen=True)
class Stop:
    """Why a fit stopped; ``str(fit.stop)`` is a sentence.

    Attributes
    ----------
    reason : Reason
        ``"converged"``, ``"max_iter"``, ``"no sweeps"``, ``"nothing to update"``,
        ``"interrupted"``, ``"callback"``, ``"failed"`` or ``"unfinished"``.
    sentence : str
        The reason in words.
    advice : str
        What to do about it; empty if there is nothing to do.

    Examples
    --------
    >>> fit.stop.reason == "converged"
    True
    """

    reason: Reason
    sentence: str
    advice: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.advice}".rstrip()

    def to_words(self) -> dict[str, str]:
        """Fields of a manifest."""
        return {name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_words(cls, words: Any) -> "Stop":
        """Read from a manifest; earlier versions have the sentence only."""
        if isinstance(words, str):
            return cls(_reason_of(words), words)
        return cls(Reason(words["reason"]), words["sentence"], words["advice"])


def _reason_of(sentence: str) -> Reason:
    """Reason of a sentence of an earlier version."""
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
    """One sweep: the objective after it, its relative change, its seconds, and the ranks.

    Sweep 0 is the state after the warm-up. Sweeps of the warm-up have negative numbers, and their objective is the
    log-likelihood of EM.
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
    """Arrays as stored, from which a factor is restored bitwise.

    VB: C, D and log L (recomputing log L may change its last bits). A point: its mean.
    """

    layout: Layout
    mean: Array | None = None
    concentration: Array | None = None
    scale: Array | None = None
    log_geomean: Array | None = None

    @classmethod
    def of(cls, factor: FactorState) -> "FactorSnapshot":
        """Arrays of a factor, not copied."""
        if factor.is_point:
            return cls(factor.layout, factor.mean)
        C, D = factor.parameters
        return cls(factor.layout, None, C, D, factor.log_geomean)

    @property
    def parameters(self) -> tuple[Array | None, ...]:
        """Mean of a point, C and D of a posterior."""
        return (self.mean,) if self.concentration is None else (self.concentration, self.scale)

    def factor(self) -> FactorState:
        """A copy of the factor."""
        if self.mean is not None:
            return point(self.layout, self.mean.copy())
        assert self.concentration is not None
        assert self.scale is not None
        assert self.log_geomean is not None
        return resumed(self.layout, self.concentration.copy(), self.scale.copy(), self.log_geomean.copy())


class MomentumState(NamedTuple):
    """Momentum of an accelerated loop: extrapolations accepted in a row, whether the state is extrapolated, and each
    free factor's parameters after the last sweep.
    """

    n_accepted: int = 1
    extrapolated: bool = False
    before: Mapping[str, Sequence[Array]] = {}


@dataclass(frozen=True)
class State:
    """Loop between two sweeps. The arrays are those of the fit: valid until its next update.

    `rates`: G of every term; `divergences`: −KL of every free factor; `exposed`: rows with observed cells; `pause`:
    sweeps until pruning is tried again; `likelihood_params`: by relation; `log_scales`: with which a finished fit shows
    its factors.
    """

    factors: Mapping[str, FactorSnapshot]
    priors: Mapping[str, Prior]
    rates: Sequence[float]
    divergences: Mapping[str, float]
    exposed: Mapping[str, NDArray[np.bool_]]
    history: Sequence[Record]
    pause: int
    momentum: MomentumState
    likelihood_params: Mapping[str, dict[str, float]] = field(default_factory=dict)
    log_scales: Mapping[str, float] | None = None

    def copy(self) -> "State":
        """A copy with copied arrays."""
        factors = {name: FactorSnapshot(kept.layout, *map(_copied, kept[1:])) for name, kept in self.factors.items()}
        before = {name: [array.copy() for array in arrays] for name, arrays in self.momentum.before.items()}
        momentum = self.momentum._replace(before=before)
        return replace(self, factors=factors, history=list(self.history), momentum=momentum)


def _copied(array: Array | None) -> Array | None:
    return None if array is None else array.copy()
