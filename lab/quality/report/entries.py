"""What was found, by data, method and measure: means over splits, with standard errors."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from lab.harness.results import Found
from lab.quality.data import SOURCES
from lab.quality.methods import METHODS, OURS

NO_PEERS = (*OURS, "popularity", "popularity of pairs")


@dataclass(frozen=True)
class Entry:
    """A figure by split. errors: the standard error of each, None where it cannot be had."""

    values: Mapping[int, float]
    errors: Mapping[int, float | None]

    @property
    def value(self) -> float:
        """The mean over splits."""
        return mean(self.values.values())

    @property
    def error(self) -> float | None:
        """The standard error of the mean: over splits where there are several."""
        if len(self.values) > 1:
            return _error(list(self.values.values()))
        return next(iter(self.errors.values()))

    def on(self, other: "Entry") -> "Entry":
        """The figure on the splits of which another is known too; as it is where no split is common."""
        common = [split for split in self.values if split in other.values] or list(self.values)
        return Entry(*({split: part[split] for split in common} for part in (self.values, self.errors)))

    def ahead(self, other: "Entry") -> float:
        """By how many standard errors of the difference a figure is larger, on the splits that both have.

        Two figures of one split are taken as independent, though the tested links are the same: that makes the error
        too large.
        """
        mine, theirs = self.on(other), other.on(self)
        if len(mine.values) > 1 and mine.values.keys() == theirs.values.keys():
            error = _error([mine.values[split] - theirs.values[split] for split in mine.values])
        else:
            error = math.hypot(mine.error or 0.0, theirs.error or 0.0)
        difference = mine.value - theirs.value
        return difference / error if error else math.copysign(math.inf, difference) if difference else 0.0

    def __str__(self) -> str:
        return f"{self.value:.3f}" if self.error is None else f"{self.value:.3f} ± {self.error:.3f}"


@dataclass(frozen=True)
class Line:
    """A method on a data set. measures: in their order; settings: those taken, by split; seconds of a fit, of choosing.

    Published figures have no seconds.
    """

    measures: dict[str, Entry]
    settings: list[dict[str, Any]]
    fit: float | None = None
    choice: float | None = None

    @property
    def splits(self) -> int:
        """How many splits were measured."""
        return len(next(iter(self.measures.values())).values)


Lines = dict[str, Line]  # by method


def lines(found: Found, data: str) -> Lines:
    """All methods that were measured on a data set, in their order, and what others published."""
    made: dict[str, dict[int, Any]] = {}
    for cell, figures in sorted(found.part(data), key=lambda row: row[0]["split"]):
        if "figures" in figures:
            made.setdefault(cell["method"], {})[cell["split"]] = figures
    own = {method: _line(made[method]) for method in METHODS if method in made}
    return own | (_published(data) if own and not found.head.get("quick") else {})


def _published(data: str) -> Lines:
    return {
        f"{method} (published)": Line({name: Entry({0: value}, {0: None}) for name, value in figures.items()}, [])
        for method, figures in SOURCES[data].published.items()
    }


def measures(own: Lines) -> list[str]:
    """All measures of a data set, in their order; those of which no method has a figure are left out."""
    widest = max(own.values(), key=lambda line: len(line.measures))
    return list(dict.fromkeys(name for line in (widest, *own.values()) for name in line.measures))


def measured(found: Found) -> dict[str, Lines]:
    """The data sets of which anything was measured."""
    every = {data: lines(found, data) for data in SOURCES}
    return {data: own for data, own in every.items() if own}


def best(own: Lines, measure: str, among: tuple[str, ...] | None = None) -> str | None:
    """The best of some methods by a measure, of all if none are named."""
    there = [method for method, line in own.items() if measure in line.measures and (among is None or method in among)]
    return max(there, key=lambda method: own[method].measures[measure].value, default=None)


def peers(own: Lines) -> tuple[str, ...]:
    """The methods that are neither Plait nor popularity, published ones too."""
    return tuple(method for method in own if method not in NO_PEERS)


def main_measure(own: Lines) -> str:
    """The one that settings are chosen by."""
    return next(iter(next(iter(own.values())).measures))


def _line(runs: Mapping[int, dict[str, Any]]) -> Line:
    entries = {
        name: Entry(
            *({split: run["figures"][name][part] for split, run in runs.items()} for part in ("value", "error"))
        )
        for name in next(iter(runs.values()))["figures"]
    }
    fit, choice = (mean(_seconds(runs.values(), part)) for part in ("fit", "choice"))
    return Line(entries, [run["setting"] for run in runs.values()], fit, choice)


def _seconds(runs: Iterable[dict[str, Any]], part: str) -> list[float]:
    return [run["seconds"][part] for run in runs]


def _error(values: Sequence[float]) -> float:
    """The standard error of a mean."""
    return stdev(values) / math.sqrt(len(values))
