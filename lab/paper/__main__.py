"""Rerun the experiments of Ermis & Cemgil 2013, our figures next to theirs; docs/paper.md has our full run.

Finished cells are kept: after Ctrl-C the same command goes on. The folder gets results/*.jsonl and plots.

  python -m lab.paper --quick
  python -m lab.paper uclaf slices --data data
"""

import argparse
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from lab.harness import command
from lab.harness.page import QUICK, fill
from lab.harness.plots import save
from lab.harness.results import Cell, Figures
from lab.harness.running import Done, Row, Study, run, say_failures, watching
from lab.harness.table import print_table
from lab.paper import NAMES, experiment, with_needs
from lab.paper.experiment import Experiment, Lab
from lab.paper.report import block, report_of, tables_of
from lab.paper.sources import check
from plait.cli.output import emit, out
from plait.errors import BelowBaselineWarning, ParameterError

HOME = "paper"
FIRST = "# The paper, reproduced\n"


def main(arguments: list[str] | None = None) -> int:
    """Run the named experiments, by default all. -> the exit code."""
    parser = command.parser("lab.paper", __doc__, HOME)
    parser.add_argument("names", nargs="*", metavar="experiment", help=f"some of {', '.join(NAMES)}; all if none")
    parser.add_argument("--data", type=Path, help="the folder with the real data; else stand-ins are drawn")
    parser.add_argument("--plots", action=argparse.BooleanOptionalAction, default=True, help="draw plots")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout instead of tables")
    given = command.understood(parser, arguments)
    folder, page = command.places(given, HOME)
    lab, chosen = Lab(given.quick, given.data, folder / "results"), with_needs(tuple(given.names))
    check_places(lab, page, given.plots, chosen)
    for name in to_repeat(given.names or NAMES) if given.fresh else ():
        put_aside(lab.file(name))
    documents = [carry_out(one, lab, given, page) for one in chosen]
    if given.json:
        emit(documents)
    return 1 if any(document["failed"] for document in documents) else 0


def check_places(lab: Lab, page: Path, plots: bool, chosen: Sequence[Experiment]) -> None:
    """Check before computing that data can be read and results can be written."""
    if lab.data is not None:
        check(lab.data)
    if plots and importlib.util.find_spec("matplotlib") is None:
        raise ParameterError(
            "plots need matplotlib, which is not installed.\nInstall it, or leave them out: --no-plots."
        )
    if page.is_dir():
        raise ParameterError(f"--page: {str(page)!r} is a folder.\nName a file, such as paper.md.")
    for one in chosen:
        one.source(lab)
    for needed in (lab.results, page.parent):
        needed.mkdir(parents=True, exist_ok=True)


def to_repeat(names: Sequence[str]) -> list[str]:
    """The named experiments, and those whose results rest on theirs."""
    return [name for name in NAMES if name in names or set(experiment(name).needs) & set(names)]


def put_aside(path: Path) -> None:
    """Start again; the old results stay in a file next to it."""
    if path.exists():
        path.replace(path.with_suffix(".old"))


def carry_out(own: Experiment, lab: Lab, given: argparse.Namespace, page: Path) -> dict[str, Any]:
    """Run one experiment, write its plots and its part of the page, show its tables."""
    if not given.json:
        out(f"{own.title}  ({own.source(lab)}{f'; {QUICK}' if lab.quick else ''})", style="bold")
    cells, folder = own.cells(lab), lab.results.parent
    rows = [Row(cell, partial(measured, own, lab, cell)) for cell in cells]
    with watching(own.name) as watch:
        results = run(Study(own.name, own.source(lab)), rows, lab.file(own.name), lab.quick, given.command, watch)
    records = results.records(cells)
    tables = tables_of(own.name, records)
    if given.plots:
        draw(own.name, records, folder, lab.quick)
    plots = sorted(folder.glob(f"{own.name}-*.svg"))
    fill(page, own.name, block(results, (len(records), len(cells)), tables, plots, page), FIRST, own.title)
    if not given.json:
        for table in tables:
            print_table(table)
        out(f"\nwritten to {page}" + (f", plots to {folder}" if given.plots else "") + "\n")
    failed = say_failures(results)
    return {"experiment": own.name, **results.head, "failed": failed, "records": records.to_dicts()}


def measured(own: Experiment, lab: Lab, cell: Cell, done: Done) -> Figures:
    """The figures of a cell; poor settings are measured, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BelowBaselineWarning)
        return own.measure(lab, cell)


def draw(name: str, records: pl.DataFrame, folder: Path, quick: bool) -> None:
    """The plots of an experiment."""
    for plot, figure in report_of(name).figures(records).items():
        if quick:
            figure.suptitle("a quick run: only to see that it works", color="#777777", fontsize=8)
        save(figure, folder, plot)


if __name__ == "__main__":
    sys.exit(command.ended(main))
