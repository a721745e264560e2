"""The part of the front end: tables."""

from collections.abc import Iterator
from typing import Any

from lab.bench.report import words
from lab.harness.results import Found
from lab.harness.table import text_table
from plait.rendering.document import Table


def tables(found: Found) -> Iterator[Table]:
    """From rows to trees, memory, starting up, and what comes after a fit."""
    for make in (_trees, _rest, _estimates, _rest_of_it):
        table = make(found)
        if table.rows:
            yield table


def _trees(found: Found) -> Table:
    made = []
    for about, f in found.part("front", what="trees"):
        rate = f["rows"] / f["seconds"] / 1e6
        made.append([about["size"], f"{about['source']}, {about['labels']}", words.seconds(f["seconds"], f["spread"]),
                     f"{words.significant(rate)} million", words.significant(f["seconds"] / f["sweep"]),
                     words.significant(f["over"] / f["raw"])])  # fmt: skip
    headings = ["rows", "from", "seconds to trees", "rows a second", "÷ sweep", "peak ÷ raw"]
    note = (
        "All steps before the first sweep: reading, labels, sorting, trees. ÷ sweep: in sweeps of R = 5, listed. "
        "Peak ÷ raw: peak memory minus the memory before, trees included, divided by the size of the table."
    )
    return text_table("From rows to fibre trees", headings, made, note, left=2)


def _rest(found: Found) -> Table:
    made = [
        [about["size"], words.significant(f["bytes"] / f["nonzeros"]), words.size(f["factors"])]
        for about, f in found.part("front", what="rest")
    ]
    headings = ["data", "bytes a nonzero", "and factors"]
    return text_table("Memory between sweeps: arrays, R = 5, listed or links", headings, made)


def _estimates(found: Found) -> Table:
    made = []
    for about, f in found.part("front", what="estimate"):
        ratio = words.significant(words.ratio(f.get("estimate"), f.get("peak")))
        estimated = f.get("cannot") or words.size(f["estimate"])
        made.append([about["shape"], estimated, words.size(f.get("peak")), ratio])
    return text_table(
        "Memory estimated by plait check, and measured", ["data", "estimate", "peak of plait fit", "ratio"], made
    )


def _rest_of_it(found: Found) -> Table:
    made: list[list[str]] = []
    start = found.get({"part": "front", "what": "start"}) or {}
    made += [[name, words.seconds(f["seconds"], f["spread"])] for name, f in start.items()]
    for about, f in found.part("front", what="encode"):
        rate = f"{f['rows'] / f['seconds'] / 1e6:.0f} million rows a second"
        made.append(
            [
                f"labels of a column of {about['labels']}, {words.number(f['rows'])} rows, "
                f"{about['distinct']:,} distinct: {rate}",
                words.seconds(f["seconds"]),
            ]
        )
    if compiled := found.get({"part": "front", "what": "compile"}):
        made += [[f"first fit, kernels {word}", words.seconds(compiled[word])] for word in ("cold", "cached")]
    if after := found.get({"part": "front", "what": "after"}):
        made += _after(after)
    return text_table("Other times", ["step", "seconds"], made)


def _after(after: dict[str, Any]) -> list[list[str]]:
    made = []
    for name, f in after.items():
        if isinstance(f, dict):
            more = (
                f" ({words.number(after['cells'])} cells, all columns: {after['cells'] / f['seconds']:,.0f} a second)"
            )
            made.append([f"{name}{more if name == 'predict' else ''}", words.seconds(f["seconds"], f["spread"])])
    return made
