"""Sweeps and seconds of every way to the best end of all: behind docs/decisions/0030-blocks.md.

`python -m lab.bench blocks` has those to each way's own end.
"""

from math import inf
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import plait
from lab.bench.rows.blocks import NEAR, SEEDS, WAYS, cases, cut_finely, follow
from lab.harness.table import show

SWEEPS = 300


class Course(NamedTuple):
    """The bound after every own sweep; sweeps and processor seconds until then, the warm-up included."""

    bounds: np.ndarray
    sweeps: np.ndarray
    seconds: np.ndarray

    @property
    def end(self) -> float:
        return float(self.bounds[-1])

    def near(self, bound: float) -> tuple[float, float]:
        """Sweeps and seconds until within 1e-4 of a bound; infinitely many where it never came there."""
        there = self.bounds >= bound - NEAR * abs(bound)
        at = int(np.argmax(there))
        return (float(self.sweeps[at]), float(self.seconds[at])) if there.any() else (inf, inf)


def compare() -> None:
    """Sweeps and processor seconds until within 1e-4 of the best end of all ways, medians over seeds; and the ends."""
    lines: list[list[str]] = []
    gains: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}  # by the best end, and by the own
    for case in cases():
        found: dict[str, list[Course]] = {way: [] for way in WAYS}
        with cut_finely(case.forced):
            model = plait.Model(case.text)
            data = model.bind(case.data())
            _course(model, data, case.rank, 0, 45, {"accelerate": True})  # so that all is compiled
            for seed in SEEDS:
                for way, how in WAYS.items():
                    found[way].append(_course(model, data, case.rank, seed, SWEEPS, how))
        best = [max(course.end for course in courses) for courses in zip(*found.values())]
        lines.append([case.name, *(_cell(found[way], best) for way in WAYS)])
        for way, courses in found.items():
            for plain, course, goal in zip(found["one-pass"], courses, best):
                own = plain.near(plain.end)[1] / course.near(course.end)[1]
                gains[way].append((_gain(plain.near(goal)[1], course.near(goal)[1]), own))
    notes = [
        f"{way} {median(g for g, _ in found):.2f} ({median(g for _, g in found):.2f})" for way, found in gains.items()
    ]
    show(
        "Sweeps and processor seconds, warm-up included, to 1e-4 of the best end; own end below it, in 1e-4",
        ["data", *WAYS], lines,
        "one-pass ÷ each, seconds, median, to the best end (to the own end): " + ", ".join(notes),
    )  # fmt: skip


def _cell(courses: list[Course], best: list[float]) -> str:
    sweeps, seconds = (median(each) for each in zip(*(c.near(b) for c, b in zip(courses, best))))
    gap = median((b - c.end) / abs(b) for b, c in zip(best, courses)) / NEAR
    return f"{'never' if sweeps == inf else f'{sweeps:.0f}, {seconds:.2f} s'}, −{gap:.1f}"


def _gain(plain: float, other: float) -> float:
    """plain ÷ other; 0 where the other never came near, else infinitely much where plain never did."""
    return 0.0 if other == inf else plain / other


def _course(model: plait.Model, data: Any, rank: Any, seed: int, sweeps: int, how: dict[str, Any]) -> Course:
    _, own = follow(model, data, rank, seed, sweeps, how)
    return Course(own[:, 0], own[:, 1], own[:, 2])
