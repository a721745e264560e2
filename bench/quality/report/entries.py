"""What was found, by data, method and measure: means over splits, with standard errors."""

import math
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from bench.quality.data import SOURCES
from bench.quality.methods import METHODS, OURS
from bench.results import Found

NO_PEERS = (*OURS, "popularity", "popularity of pairs")


@dataclass(frozen=True)
class Entry:
    """A figure; error: its standard error, None where it cannot be had."""

    value: float
    error: float | None

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
    """The best of some methods by a measure, of all if none are named."""
    there = [method for method in own if among is None or method in among]
    return max(there, key=lambda method: own[method].measures[measure].value, default=None)


def peers(own: Lines) -> tuple[str, ...]:
    """The methods that are neither Plait nor popularity."""
    return tuple(method for method in own if method not in NO_PEERS)


def main_measure(own: Lines) -> str:
    """The one that settings are chosen by."""
    return next(iter(next(iter(own.values())).measures))


def _line(runs: list[dict[str, Any]]) -> Line:
    names = runs[0]["figures"]
    measures = {name: _entry([run["figures"][name] for run in runs]) for name in names}
    seconds = [run["seconds"] for run in runs]
    return Line(
        measures, [run["setting"] for run in runs], mean(s["fit"] for s in seconds),
        mean(s["choice"] for s in seconds), len(runs),
    )  # fmt: skip


def _entry(figures: list[dict[str, Any]]) -> Entry:
    """One split: its own error; several: that of their mean."""
    if len(figures) == 1:
        return Entry(figures[0]["value"], figures[0]["error"])
    values = [figure["value"] for figure in figures]
    return Entry(mean(values), stdev(values) / math.sqrt(len(values)))
