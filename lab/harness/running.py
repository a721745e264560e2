"""Running: cells that are not finished yet, one after the other."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from lab.harness.apart import why
from lab.harness.machine import commit, versions
from lab.harness.results import MACHINE, Cell, Figures, Results, title

EVERY = 60.0  # seconds between two lines where there is no bar
Done = Callable[[Cell], Figures | None]  # what an earlier cell found, if it is finished


@dataclass(frozen=True)
class Row:
    """about: JSON that names a cell. measure: from earlier results to its figures."""

    about: Cell
    measure: Callable[[Done], Figures]


@dataclass(frozen=True)
class Study:
    """Header of a file of results. source: of the data; packages: those that Plait is compared with."""

    name: str
    source: str
    packages: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Step:
    """How far a run is: the cell that comes next (None at the end), finished cells of all, seconds so far."""

    cell: Cell | None
    finished: int
    cells: int
    seconds: float

    def __str__(self) -> str:
        return "" if self.cell is None else title(self.cell)


def run(
    study: Study, rows: Sequence[Row], path: Path, quick: bool, command: str,
    watch: Callable[[Step], object] = lambda step: None,
) -> Results:  # fmt: skip
    """Measure every cell that has no result yet; each is kept when it is finished, or failed."""
    results = Results(path, study.name, study.source, quick, command)
    todo = [row for row in rows if row.about not in results]
    if todo or MACHINE not in results:
        _note_run(results, study)
    begin, before = time.perf_counter(), len(rows) - len(todo)
    for count, row in enumerate(todo):
        watch(Step(row.about, before + count, len(rows), time.perf_counter() - begin))
        try:
            figures = row.measure(results.get)
        except Exception as error:  # one cell less is better than none; the page says so, and a rerun tries again
            figures = {"failed": why(error)}
        results.add(row.about, figures)
    watch(Step(None, len(rows), len(rows), time.perf_counter() - begin))
    return results


def _note_run(results: Results, study: Study) -> None:
    """Keep the days of the first and the last run, the last version of each package that was there, and the commits."""
    before = results.get(MACHINE) or {"date": "", "versions": {}}
    first, today = before["date"].split(" to ")[0], date.today().isoformat()
    days = f"{first} to {today}" if first not in ("", today) else today
    commits = dict.fromkeys([*before.get("commits", ()), *filter(None, [commit()])])
    found = {"date": days, "versions": before["versions"] | versions(study.packages), "commits": list(commits)}
    if found != results.get(MACHINE):
        results.add(MACHINE, found)


def say_failures(results: Results) -> int:
    """Name what failed on stderr. -> how many cells that are."""
    for line in results.failures:
        print(f"failed: {title(line['cell'])}: {line['figures']['failed']}", file=sys.stderr)
    return len(results.failures)


@contextmanager
def watching(name: str) -> Iterator[Callable[[Step], object]]:
    """A bar on a terminal; elsewhere a line every minute, and one at the end."""
    from plait.rendering.text import console

    there = console(stderr=True)
    if not sys.stderr.isatty() or there.is_dumb_terminal:
        yield _lines(name)
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn(name),
        MofNCompleteColumn(),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, TextColumn("{task.description}", markup=False), console=there, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda step: bar.update(task, total=step.cells, completed=step.finished, description=str(step))


def _lines(name: str) -> Callable[[Step], None]:
    said = 0.0

    def say(step: Step) -> None:
        nonlocal said
        if step.cell is None or step.seconds - said >= EVERY:
            said = step.seconds
            words = f"{name}: {step.finished} of {step.cells} cells, {step.seconds:.0f} s"
            print(f"{words}; now {step}" if step.cell else words, file=sys.stderr, flush=True)

    return say
