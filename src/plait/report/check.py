"""What was understood of data and options before a fit, as a document."""

from collections.abc import Mapping, Sequence
from typing import Any

from plait.data.bound import Data
from plait.fitting.begin import Task
from plait.report.cost import Cost
from plait.report.run import rank_words, weight_words
from plait.report.understood import Values, alone, as_document, diagonals, relations_table
from plait.show.document import Block, Code, Document, Facts, Note, Table
from plait.show.words import write_bytes, write_seconds


def describe_check(
    task: Task, cost: Cost, warnings: Sequence[str], *, plan: bool, cluster: str = "", more: Mapping[str, Any] = {}
) -> Document:
    """What was understood, and what a sweep will cost. cluster: the same on a cluster; more: that as data."""
    data, settings = task.data, task.origin.settings
    blocks: list[Block] = [Code(str(data.model)), relations_table(data), *_diagonals(data), *_values(data), _axes(data)]
    blocks.append(Facts.of(_lines(task, cost) | ({"cluster": cluster} if cluster else {})))
    if plan:
        blocks.append(Code(task.problem.plan))
    chosen = {"weights": settings["weights"]} if "weights" in settings else {}
    found = {"model": str(data.model), "rank": settings["rank"], **chosen, **as_document(data, warnings),
             **cost.as_document(), **more, "plan": task.problem.plan}  # fmt: skip
    return Document("", blocks, found)


def _diagonals(data: Data) -> list[Block]:
    lines = []
    for name, words in diagonals(data).items():
        lines.append(f"the diagonal of {name} is {words}")
        if dropped := data.relations[name].self_links:
            lines.append(f"self-links of {name}: {dropped:,} dropped")
    return [Note(line, quiet=False) for line in lines]


def _values(data: Data) -> list[Block]:
    found = {name: Values.of(relation) for name, relation in data.relations.items()}
    rows = [[name, v.least, v.median, v.mean, v.most, v.ones] for name, v in found.items() if v is not None]
    return [Table(["values of links", "least", "median", "mean", "most", "ones"], rows)] if rows else []


def _axes(data: Data) -> Table:
    rows = []
    for axis, counts in alone(data).items():
        only = ", ".join(f"{count:,} in {name}" for name, count in counts.items() if name and count)
        several = len(counts) > 1
        rows.append([axis, only or ("none" if several else "—"), len(data.labels[axis]), counts[""]])
    return Table(["axis", "linked in one relation only", "entities", "without links"], rows, left=2)


def _lines(task: Task, cost: Cost) -> dict[str, str]:
    parts = {"data": cost.data, "trees": cost.trees, "factors": cost.factors, "buffers": cost.buffers}
    listed = ", ".join(f"{name} {write_bytes(count)}" for name, count in parts.items())
    settings = task.origin.settings
    lines = {"rank": rank_words(settings["rank"], settings)} if "rank_by" in settings else {}
    lines |= weight_words(settings)
    lines |= {"memory": f"about {write_bytes(cost.total)} while fitting: {listed}"}
    if cost.peak is not None:
        lines["peak"] = f"about {write_bytes(cost.peak)} of memory for the whole of `plait fit`, with all that it loads"
    if cost.seconds is not None:
        lines["time"] = _time(task, cost.seconds)
    return lines


def _time(task: Task, seconds: float) -> str:
    sweeps, before = task.loop.sweeps, task.loop.warm_up
    return (
        f"about {write_seconds(seconds)} a sweep (the second one was measured), "
        f"at most {write_seconds((sweeps + before) * seconds)} for {sweeps:,} sweeps"
        f"{f' and {before} of warm-up' if before else ''}"
    )
