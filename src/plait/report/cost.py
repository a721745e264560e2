"""What a fit will cost: bytes at its peak by adding up, seconds of a sweep by measuring."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait.data.bound import Data
from plait.data.cells.sorting import is_uniform
from plait.execute.cost import Watched
from plait.fitting.begin import Task
from plait.fitting.sizes import ARRAYS, arrays_held
from plait.infer.problem import Problem
from plait.infer.start import begin_vb
from plait.infer.steps import sweep_once
from plait.machine import resident


@dataclass(frozen=True)
class Cost:
    """Bytes that a fit holds at its peak, by what for; seconds of the second sweep, None if it was not measured.

    peak: of the whole process that fits, Python and libraries and the reading of files included; None where the system
    does not say.
    """

    data: int
    trees: int
    factors: int
    buffers: int
    peak: int | None
    seconds: float | None

    @classmethod
    def of(cls, task: "Task", *, measure: bool) -> "Cost":
        """Memory by adding up, time by measuring: the first sweep compiles, the second one counts."""
        problem, data = _warmed_up(task), task.data
        plans = [relation.plan for relation in problem.relations if relation.plan is not None]
        buffers = [plan.buffer_bytes(number) for plan in plans for number in range(len(plan.passes))]
        held, factors = _held(data), _sizes(problem, problem.factors)
        trees = _trees(problem, data)
        seconds = _seconds(problem) if measure else None
        work = 0 if seconds is not None else max(buffers, default=0)
        more = arrays_held(problem.method, task.loop.accelerate) - ARRAYS
        again = more * _sizes(problem, problem.free)
        peak = _peak(work + again)
        return cls(held, trees, ARRAYS * factors + again, max(buffers, default=0), peak, seconds)

    @property
    def total(self) -> int:
        """All bytes but those of Python, libraries and files being read."""
        return self.data + self.trees + self.factors + self.buffers

    def as_document(self) -> dict[str, Any]:
        """The cost as data."""
        return {
            "memory_bytes": {
                "data": self.data, "trees": self.trees, "factors": self.factors, "buffers": self.buffers,
                "total": self.total,
            },
            "peak_bytes": self.peak,
            "seconds_per_sweep": self.seconds,
        }  # fmt: skip


def _warmed_up(task: "Task") -> "Problem":
    """The problem of the fit's own sweeps, which cost more than those of a warm-up."""
    return begin_vb(task.problem, np.dtype(task.loop.dtype)) if task.loop.warm_up else task.problem


def _sizes(problem: "Problem", names: Iterable[str]) -> int:
    """Bytes of one array of each of some factors."""
    return sum(problem.factors[name].mean.nbytes for name in names)


def _held(data: "Data") -> int:
    """Bytes of bound data at rest; what several hold is counted once."""
    return _bytes(_arrays(data))


def _trees(problem: "Problem", data: "Data") -> int:
    """Bytes that the trees hold besides what they share with the data."""
    relations = problem.relations
    trees = [tree for r in relations for tree in (*(r.counts.trees if r.counts else ()), *r.tables)]
    arrays = [array for tree in trees for array in tree.arrays]
    return _bytes([*_arrays(data), *arrays]) - _held(data)


def _arrays(data: "Data") -> list[Any]:
    arrays: list[Any] = []
    for relation in data.relations.values():
        tables = [term.table for term in relation.weights.terms if term.table is not None]
        arrays += relation.links.arrays
        arrays += [array for table in tables for array in table.arrays]
    return arrays


def _bytes(arrays: list[Any]) -> int:
    """Bytes of some arrays, each counted once; one number seen many times is one."""
    return sum({id(a): a.itemsize if is_uniform(a) else a.nbytes for a in arrays}.values())


def _peak(more: int) -> int | None:
    """The most that a fit will hold: what reading took, or what is held now and more."""
    found = resident()
    return None if found is None else max(found[1], found[0] + more)


def _seconds(problem: "Problem") -> float:
    problem.measure()
    began = 0.0
    for _ in range(2):
        if isinstance(problem.executor, Watched):
            problem.executor.forget()
        began = time.perf_counter()
        sweep_once(problem, problem.count())
    return time.perf_counter() - began
