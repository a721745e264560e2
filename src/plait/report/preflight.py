"""Cost estimate of a fit: peak memory by summation, time of a sweep by measurement; and the document of
`plait check`.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait.data.bound import Data
from plait.data.sparse.sorting import is_uniform
from plait.evidence.link_evidence import LinkEvidence
from plait.executors.dask_cost import Watched
from plait.fitting.prepare import PEAK_ARRAYS, Task, arrays_held
from plait.inference.initialisation import begin_vb
from plait.inference.problem import Problem
from plait.inference.steps import sweep_once
from plait.machine import resident
from plait.rendering.document import Block, Code, Document, Facts, Note, Table
from plait.rendering.formatting import plural, write_bytes, write_seconds
from plait.report.data_summary import ValueSummary, alone, as_document, diagonals, relations_table
from plait.report.run_summary import found_words, rank_words


@dataclass(frozen=True)
class Cost:
    """Bytes of a fit at its peak, by purpose; seconds of the second sweep, None if not measured.

    `peak`: of the whole process, with Python, libraries and the reading of files; None where the system does not say.
    """

    data: int
    trees: int
    factors: int
    buffers: int
    peak: int | None
    seconds: float | None
    evidence: Mapping[str, tuple[int, float]]  # cells and seconds of each computed factor

    @classmethod
    def of(cls, task: "Task", fixed: Mapping[str, Any] | None, *, measure: bool) -> "Cost":
        """Sum up memory; measure the second sweep, since the first one compiles. `fixed`: given factors."""
        problem, data = _warmed_up(task), task.data
        plans = [relation.plan for relation in problem.relations if relation.plan is not None]
        buffers = [plan.buffer_bytes(number) for plan in plans for number in range(len(plan.passes))]
        held, factors = _data_bytes(data), _sizes(problem, problem.factors)
        trees = _trees(problem, data)
        seconds = _seconds(problem) if measure else None
        work = 0 if seconds is not None else max(buffers, default=0)
        more = arrays_held(problem.method, task.loop.accelerate) - PEAK_ARRAYS
        again = more * _sizes(problem, problem.free)
        peak = _peak(work + again)
        evidence = {name: one.cost(data) for name, one in (fixed or {}).items() if isinstance(one, LinkEvidence)}
        return cls(held, trees, PEAK_ARRAYS * factors + again, max(buffers, default=0), peak, seconds, evidence)

    @property
    def total(self) -> int:
        """All bytes without Python, libraries and files being read."""
        return self.data + self.trees + self.factors + self.buffers

    def as_document(self) -> dict[str, Any]:
        return {
            "memory_bytes": {
                "data": self.data, "trees": self.trees, "factors": self.factors, "buffers": self.buffers,
                "total": self.total,
            },
            "peak_bytes": self.peak,
            "seconds_per_sweep": self.seconds,
            "evidence": {name: {"cells": cells, "seconds": taken} for name, (cells, taken) in self.evidence.items()},
        }  # fmt: skip


def _warmed_up(task: "Task") -> "Problem":
    """Problem after the warm-up, whose sweeps cost more."""
    return begin_vb(task.problem, np.dtype(task.loop.dtype)) if task.loop.warm_up else task.problem


def _sizes(problem: "Problem", names: Iterable[str]) -> int:
    """Bytes of one array of each of some factors."""
    return sum(problem.factors[name].mean.nbytes for name in names)


def _data_bytes(data: "Data") -> int:
    """Bytes of bound data; shared arrays count once."""
    return _bytes(_arrays(data))


def _trees(problem: "Problem", data: "Data") -> int:
    """Bytes of trees that are not shared with the data."""
    relations = problem.relations
    trees = [tree for r in relations for tree in (*(r.counts.trees if r.counts else ()), *r.tables)]
    arrays = [array for tree in trees for array in tree.arrays]
    return _bytes([*_arrays(data), *arrays]) - _data_bytes(data)


def _arrays(data: "Data") -> list[Any]:
    arrays: list[Any] = []
    for relation in data.relations.values():
        tables = [term.table for term in relation.weights.terms if term.table is not None]
        arrays += relation.links.arrays
        arrays += [array for table in tables for array in table.arrays]
    return arrays


def _bytes(arrays: list[Any]) -> int:
    """Bytes of arrays, each counted once; broadcast numbers count once."""
    return sum({id(a): a.itemsize if is_uniform(a) else a.nbytes for a in arrays}.values())


def _peak(more: int) -> int | None:
    """Larger of the memory used for reading and of present memory plus `more`."""
    peak = resident()
    return None if peak is None else max(peak[1], peak[0] + more)


def _seconds(problem: "Problem") -> float:
    problem.recompute_elbo_terms()
    began = 0.0
    for _ in range(2):
        if isinstance(problem.executor, Watched):
            problem.executor.forget()
        began = time.perf_counter()
        sweep_once(problem, problem.expected_counts())
    return time.perf_counter() - began


def describe_check(
    task: Task, cost: Cost, warnings: Sequence[str], *, plan: bool, cluster: str = "", more: Mapping[str, Any] = {}
) -> Document:
    """Data summary and cost of a sweep. `cluster`: cost on a cluster; `more`: that as data."""
    data, settings = task.data, task.origin.settings
    blocks: list[Block] = [Code(str(data.model)), relations_table(data), *_diagonals(data), *_values(data), _axes(data)]
    blocks.append(Facts.of(_lines(task, cost) | ({"cluster": cluster} if cluster else {})))
    if plan:
        blocks.append(Code(task.problem.plan))
    chosen = {"weights": settings["weights"]} if "weights" in settings else {}
    document = {"model": str(data.model), "rank": settings["rank"], **chosen, **as_document(data, warnings),
             **cost.as_document(), **more, "plan": task.problem.plan}  # fmt: skip
    return Document("", blocks, document)


def _diagonals(data: Data) -> list[Block]:
    lines = []
    for name, words in diagonals(data).items():
        lines.append(f"self-links of {name}: {words}")
        if dropped := data.relations[name].dropped_self_links:
            lines.append(f"self-links of {name}: {dropped:,} dropped")
    return [Note(line, quiet=False) for line in lines]


def _values(data: Data) -> list[Block]:
    values = {name: ValueSummary.of(relation) for name, relation in data.relations.items()}
    rows = [[name, v.least, v.median, v.mean, v.most, v.ones] for name, v in values.items() if v is not None]
    return [Table(["values of links", "min", "median", "mean", "max", "ones"], rows)] if rows else []


def _axes(data: Data) -> Table:
    rows = []
    for axis, counts in alone(data).items():
        only = ", ".join(f"{count:,} in {name}" for name, count in counts.items() if name and count)
        several = len(counts) > 1
        rows.append([axis, only or ("none" if several else "—"), len(data.entities[axis]), counts[""]])
    return Table(["axis", "only in one relation", "entities", "without links"], rows, left=2)


def _lines(task: Task, cost: Cost) -> dict[str, str]:
    parts = {"data": cost.data, "trees": cost.trees, "factors": cost.factors, "buffers": cost.buffers}
    listed = ", ".join(f"{name} {write_bytes(count)}" for name, count in parts.items())
    settings = task.origin.settings
    lines = {"rank": rank_words(settings["rank"], settings)} if "rank_by" in settings else {}
    lines |= found_words(settings, task.origin.likelihood)
    lines |= {"memory": f"about {write_bytes(cost.total)} while fitting: {listed}"}
    if cost.peak is not None:
        lines["peak"] = f"about {write_bytes(cost.peak)} of memory for `plait fit` in total"
    for name, (cells, seconds) in cost.evidence.items():
        lines[f"evidence {name}"] = f"{plural(cells, 'cell')}, computed in {write_seconds(seconds)}"
    if cost.seconds is not None:
        lines["time"] = _time(task, cost.seconds)
    return lines


def _time(task: Task, seconds: float) -> str:
    sweeps, before = task.loop.max_iter, task.loop.warm_up
    return (
        f"about {write_seconds(seconds)} per sweep (measured), at most "
        f"{write_seconds((sweeps + before) * seconds)} for {sweeps:,} "
        f"sweeps{f' and {before} of warm-up' if before else ''}"
    )
