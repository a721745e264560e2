"""The command check: what was understood of a config and its data, and what a sweep will cost."""

import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from plait.cli.clusters import as_cluster, cluster_words, foretell_on, watch
from plait.cli.dialect import as_told, of_config
from plait.cli.options import Blocks, ConfigFile, Json
from plait.cli.output import duration_words, emit, grid, out, pairs, size_words, to_stderr, working
from plait.cli.runs import rank_words, weight_words
from plait.cli.understood import Values, alone, as_document, diagonals, relations_table, warnings_about
from plait.config import read_config
from plait.config.dialect import Toml
from plait.data.bound import Data
from plait.data.cells.fibres import Fibres
from plait.data.cells.sorting import is_uniform
from plait.errors import PlaitWarning
from plait.execute.cost import Watched
from plait.fitting.begin import Task, prepare
from plait.fitting.options import Options
from plait.fitting.ranks.settle import settle
from plait.fitting.sizes import ARRAYS, arrays_held
from plait.infer.blocks import Blocks as Visited
from plait.infer.cutting import cut_relation
from plait.infer.problem import Problem
from plait.infer.start import begin_vb
from plait.infer.steps import sweep_once
from plait.machine import resident


def check(
    config: ConfigFile,
    plan: Annotated[bool, typer.Option("--plan", help="Print how the sums are computed, too.")] = False,
    measure: Annotated[
        bool, typer.Option("--time/--no-time", help="Run two sweeps to measure the time that one takes.")
    ] = True,
    blocks: Blocks = None,
    dask: Annotated[
        str | None,
        typer.Option("--dask", metavar="ADDRESS or N", help="Foretell a sweep on a Dask cluster, or on N like this."),
    ] = None,
    json: Json = False,
) -> None:
    """Say what was understood of the data, without fitting.

    Sizes, links, zeros, missing cells, duplicates that were summed, entities with links in one relation only, the
    memory of a fit and the time of a sweep; and all that a fit would warn of, but for its outcome.

    \b
    Examples:
      plait check model.toml
      plait check model.toml --plan --no-time
      plait check model.toml --json
      plait check model.toml --dask 8
    """
    found = read_config(config, blocks)
    with of_config(found), warnings.catch_warnings(record=True) as traps:
        warnings.simplefilter("always", PlaitWarning)
        settings = dict(found.settings)
        watched = watch(settings.pop("threads", None), measure=measure) if dask else None
        with working("reading"):
            data = found.model.bind(found.data(), labels=found.labels())
            fixed = found.fixed()
        with working("choosing rank and weights"):
            given = Options(fixed=fixed or None, executor=watched, **settings)
            data, arguments = settle(found.model, data, given, _unsaid)
        task = prepare(found.model, data, arguments)
    for trap in traps:
        as_told(trap.message).spoken(Toml(found))
    with working("measuring"):
        cost = Cost.of(task, measure=measure)
        foretold = foretell_on(dask, watched) if dask and watched else None
    if json:
        chosen = task.origin.settings
        weights = {"weights": chosen["weights"]} if "weights" in chosen else {}
        emit(
            {
                "model": str(found.model),
                "rank": chosen["rank"],
                **weights,
                **as_document(data, traps),
                **cost.as_document(),
                **({"cluster": as_cluster(foretold)} if foretold else {}),
                "plan": task.problem.plan,
            }
        )
    else:
        _print(task, cost, plan)
        if foretold:
            pairs({"cluster": cluster_words(foretold)})
        for text in warnings_about(data, traps):
            to_stderr("warning", text)


def _unsaid(text: str) -> None:
    """What a fit would say of its search is not said here."""


WORK = 1  # arrays of all factors' size that a sweep makes and drops again
LATER = {"vb": 4, "map": 2, "em": 2}  # … that checkpoints and the result take in a plain fit (measured)


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
        seconds = _seconds(problem, task.loop.order) if measure else None
        work = 0 if seconds is not None else max(buffers, default=0) + WORK * factors
        more = arrays_held(problem.method, task.loop.accelerate, order=task.loop.order) - ARRAYS
        again = more * _sizes(problem, problem.free)
        peak = _peak(work + LATER[problem.method] * factors + again)
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
        arrays += [relation.stored, relation.cell_weights]
        tables = [term.table for term in relation.weights.terms if term.table is not None]
        arrays += [table.values for table in tables]
        for cells in (relation.links, *(table.cells for table in tables)):
            arrays += [*cells.rows, *cells.starts] if isinstance(cells, Fibres) else [cells]
    return arrays


def _bytes(arrays: list[Any]) -> int:
    """Bytes of some arrays, each counted once; one number seen many times is one."""
    return sum({id(a): a.itemsize if is_uniform(a) else a.nbytes for a in arrays}.values())


def _peak(more: int) -> int | None:
    """The most that a fit will hold: what reading took, or what is held now and more."""
    found = resident()
    return None if found is None else max(found[1], found[0] + more)


def _seconds(problem: "Problem", order: Any) -> float:
    problem.measure()
    blocks, began = Visited.of(problem) if order == "blocks" else None, 0.0
    if blocks is not None:
        blocks.fill()
    for _ in range(2):
        if isinstance(problem.executor, Watched):
            problem.executor.forget()
        began = time.perf_counter()
        if blocks is None:
            sweep_once(problem, problem.count(), order)
        else:
            blocks.sweep()
            blocks.counted()
    return time.perf_counter() - began


def _blocks(problem: "Problem") -> str:
    """How the links of every relation are cut into blocks, or why they are not."""
    cuts = {r.part.name: cut_relation(r, problem) for r in problem.relations if r.counts is not None}
    whole = {name: f"one, for {cut.why}" for name, cut in cuts.items() if cut.why}
    several = {name: f"{len(cut.blocks)} of about {cut.blocks[0].entries:,} links" for name, cut in cuts.items()}
    words = "; ".join(f"{name}: {words}" for name, words in (several | whole).items())
    return words if len(whole) < len(cuts) else f"none, links are passed once a sweep ({words})"


def _print(task: "Task", cost: Cost, plan: bool) -> None:
    data = task.data
    out(f"{data.model}\n", style="cyan")
    relations_table(data)
    for name, words in diagonals(data).items():
        out(f"the diagonal of {name} is {words}")
        if dropped := data.relations[name].self_links:
            out(f"self-links of {name}: {dropped:,} dropped")
    out()
    _print_values(data)
    _print_axes(data)
    out()
    parts = {"data": cost.data, "trees": cost.trees, "factors": cost.factors, "buffers": cost.buffers}
    listed = ", ".join(f"{name} {size_words(count)}" for name, count in parts.items())
    settings = task.origin.settings
    lines = {"rank": rank_words(settings["rank"], settings)} if "rank_by" in settings else {}
    lines |= weight_words(settings)
    lines |= {"memory": f"about {size_words(cost.total)} while fitting: {listed}"}
    if cost.peak is not None:
        lines["peak"] = f"about {size_words(cost.peak)} of memory for the whole of `plait fit`, with all that it loads"
    if cost.seconds is not None:
        sweeps, before = task.loop.sweeps, task.loop.warm_up
        lines["time"] = (
            f"about {duration_words(cost.seconds)} a sweep (the second one was measured), "
            f"at most {duration_words((sweeps + before) * cost.seconds)} for {sweeps:,} sweeps"
            f"{f' and {before} of warm-up' if before else ''}"
        )
    if task.loop.order == "blocks":
        lines["blocks"] = _blocks(task.problem)
    pairs(lines)
    if plan:
        out()
        out(task.problem.plan)


def _print_values(data: "Data") -> None:
    rows = []
    for name, relation in data.relations.items():
        values = Values.of(relation)
        if values is not None:
            rows.append([name, values.least, values.median, values.mean, values.most, values.ones])
    if rows:
        grid(["values of links", "least", "median", "mean", "most", "ones"], rows)
        out()


def _print_axes(data: "Data") -> None:
    rows = []
    for axis, counts in alone(data).items():
        only = ", ".join(f"{count:,} in {name}" for name, count in counts.items() if name and count)
        several = len(counts) > 1
        rows.append([axis, only or ("none" if several else "—"), len(data.labels[axis]), counts[""]])
    grid(["axis", "linked in one relation only", "entities", "without links"], rows, left=2)
