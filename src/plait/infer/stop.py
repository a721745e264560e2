"""Why a fit stopped: a reason that code may ask for, and a sentence with advice for people."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Reason(StrEnum):
    """Every way in which a fit can end."""

    CONVERGED = "converged"  # the bound stands still
    SWEEPS = "sweeps"  # as many as were asked for
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
        "stopped after": Reason.SWEEPS,
        "not updated": Reason.NO_SWEEPS,
        "nothing to update": Reason.NOTHING,
        "interrupted": Reason.INTERRUPTED,
        "stopped by the progress": Reason.CALLBACK,
        "stopped by": Reason.FAILED,
    }
    return next((reason for begin, reason in beginnings.items() if sentence.startswith(begin)), Reason.UNFINISHED)
