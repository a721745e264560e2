"""What was found, by data, method and measure: means over splits, with standard errors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from lab.harness.results import Found
from lab.quality.data import SOURCES
from lab.quality.methods import EASIER, METHODS, OURS

NO_PEERS = (*OURS, "popularity", "popularity of pairs")


@dataclass(frozen=True)
class Entry:
    """A figure by split. errors: the standard error of each, None where it cannot be had."""

    values: tuple[float, ...]
    errors: tuple[float | None, ...]

    @property
    def value(self) -> float:
        """The mean over splits."""
        return mean(self.values)

    @property
    def error(self) -> float | None:
        """The standard error of the mean: over splits where there are several."""
        return _error(self.values) if len(self.values) > 1 else self.errors[0]

    def near(self, other: "Entry") -> bool:
        """Whether two are equal within two standard errors of their difference: of the same splits, if there are some.

        Those of one split are taken as independent, though the tested links are the same: ties are called too often.
        """
        if len(self.values) > 1:
            error = _error([one - two for one, two in zip(self.values, other.values)])
        else:
            error = math.hypot(self.error or 0.0, other.error or 0.0)
        return abs(self.value - other.value) <= 2 * error

    def __str__(self) -> str:
        return f"{self.value:.3f}" if self.error is None else f"{self.value:.3f} ± {self.error:.3f}"


@dataclass(frozen=True)
class Line:
    """A method on a data set. measures: in their order; settings: those taken, by split; seconds of a fit, of all."""

    measures: dict[str, Entry]
    settings: list[dict[str, Any]]
    fit: float
    choice: float
    splits: int


Lines = dict[str, Line]  # by method


def lines(found: Found, data: str) -> Lines:
    """All methods that were measured on a data set, in their order."""
    made = {cell["method"]: figures["splits"] for cell, figures in found.part(data) if "splits" in figures}
    return {method: _line(made[method]) for method in METHODS if method in made}


def measured(found: Found) -> dict[str, Lines]:
    """The data sets of which anything was measured."""
    every = {data: lines(found, data) for data in SOURCES}
    return {data: own for data, own in every.items() if own}


def best(own: Lines, measure: str, among: tuple[str, ...] | None = None) -> str | None:
    """The best of some methods by a measure, of all that have the same rivals if none are named."""
    there = [method for method in compared(own) if among is None or method in among]
    return max(there, key=lambda method: own[method].measures[measure].value, default=None)


def compared(own: Lines) -> Lines:
    """The methods that have the same rivals."""
    return {method: line for method, line in own.items() if method not in EASIER}


def peers(own: Lines) -> tuple[str, ...]:
    """The methods that are neither Plait nor popularity."""
    return tuple(method for method in own if method not in NO_PEERS)


def main_measure(own: Lines) -> str:
    """The one that settings are chosen by."""
    return next(iter(next(iter(own.values())).measures))


def _line(runs: list[dict[str, Any]]) -> Line:
    names = runs[0]["figures"]
    measures = {
        name: Entry(*(tuple(run["figures"][name][part] for run in runs) for part in ("value", "error")))
        for name in names
    }
    seconds = [run["seconds"] for run in runs]
    return Line(
        measures, [run["setting"] for run in runs], mean(s["fit"] for s in seconds),
        mean(s["choice"] for s in seconds), len(runs),
    )  # fmt: skip


def _error(values: Sequence[float]) -> float:
    """The standard error of a mean."""
    return stdev(values) / math.sqrt(len(values))
