"""The command paper."""

import importlib.util
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plait.cli.options import Json, named_path
from plait.errors import FitError, SettingError

if TYPE_CHECKING:
    import polars as pl

    from plait.paper.experiment import Experiment, Lab
    from plait.paper.report.table import Table
    from plait.paper.running import Step

EVERY = 60.0  # seconds between two lines where there is no bar


def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[EXPERIMENT]...", help="Some of: choice uclaf slices lastfm digg scaling growth order rank hyper."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Everything small: minutes, to see that it works.")] = False,
    data: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The folder with the real data; else stand-ins are drawn.")
    ] = None,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", parser=named_path, help="Where results and plots are kept.")
    ] = Path("paper"),
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=named_path, help="The Markdown page to fill in.  [default: FOLDER/paper.md]"
        ),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Put earlier results of these experiments aside (*.old).")
    ] = False,
    plots: Annotated[bool, typer.Option("--plots/--no-plots", help="Draw plots (needs matplotlib).")] = True,
    json: Json = False,
) -> None:
    """Rerun the experiments of the paper, our figures beside theirs.

    The paper is Ermis & Cemgil 2013; docs/paper.md has our full run.
    Finished cells are kept: after Ctrl-C the same command goes on. The folder gets results/*.jsonl and plots.

    \b
    Examples:
      plait paper --quick
      plait paper uclaf slices --data data
      plait paper --data data --folder docs/paper --page docs/paper.md
    """
    from plait.paper import NAMES, with_needs
    from plait.paper.experiment import Lab

    lab = Lab(quick=quick, data=data, results=folder / "results")
    place = Place(folder, page or folder / "paper.md", plots)
    chosen = with_needs(tuple(names or ()))
    _check(lab, place, chosen)
    for name in anew(names or NAMES) if fresh else ():
        _put_aside(lab.file(name))
    documents = [_one(experiment, lab, place, json) for experiment in chosen]
    if json:
        from plait.cli.output import emit

        emit(documents)


@dataclass(frozen=True)
class Place:
    """Where things are written: the folder of plots, the page; and whether plots are drawn."""

    folder: Path
    page: Path
    plots: bool


def _check(lab: "Lab", place: Place, chosen: "Sequence[Experiment]") -> None:
    """Find what is wrong before anything is computed: data that cannot be read, places that cannot be written."""
    from plait.paper.sources import check

    if lab.data is not None:
        check(lab.data)
    if place.plots and importlib.util.find_spec("matplotlib") is None:
        raise SettingError(
            "plots need matplotlib, which is not installed.\npip install 'plait[paper]', or leave them out: --no-plots."
        )
    if place.page.is_dir():
        raise SettingError(f"--page: {str(place.page)!r} is a folder.\nName a file, such as paper.md.")
    for experiment in chosen:
        experiment.source(lab)
    for needed in (lab.results, place.page.parent):
        needed.mkdir(parents=True, exist_ok=True)


def anew(names: "Sequence[str]") -> list[str]:
    """The named experiments, and those whose results rest on theirs."""
    from plait.paper import NAMES, experiment

    return [name for name in NAMES if name in names or set(experiment(name).needs) & set(names)]


def _put_aside(path: Path) -> None:
    """Begin anew, but lose nothing: the old results are in a file beside it."""
    if path.exists():
        path.replace(path.with_suffix(".old"))


def _one(experiment: "Experiment", lab: "Lab", place: Place, as_json: bool) -> dict[str, Any]:
    """Run one experiment, write its plots and its part of the page, show its tables."""
    from plait.cli.output import out
    from plait.paper.report import tables_of
    from plait.paper.report.page import QUICK, block, fill
    from plait.paper.running import run

    if not as_json:
        out(f"{experiment.title}  ({experiment.source(lab)}{f'; {QUICK}' if lab.quick else ''})", style="bold")
    with _broken_off(experiment), _watching(experiment.name) as watch:
        results = run(experiment, lab, _command(sys.argv[1:]), watch)
    cells = experiment.cells(lab)
    records = results.records(cells)
    tables = tables_of(experiment.name, records)
    if place.plots:
        _draw(experiment.name, records, place.folder, lab.quick)
    plots = sorted(place.folder.glob(f"{experiment.name}-*.svg"))
    fill(place.page, {experiment.name: block(results.head, (len(records), len(cells)), tables, plots, place.page)},
         [experiment])  # fmt: skip
    if not as_json:
        _show(tables)
        out(f"\nwritten to {place.page}" + (f", plots to {place.folder}" if place.plots else "") + "\n")
    return {"experiment": experiment.name, **results.head, "records": records.to_dicts()}


def _show(tables: "Sequence[Table]") -> None:
    from plait.cli.output import grid, out

    for table in tables:
        out()
        grid(table.headings, table.rows, table.title, left=table.left)
        if table.note:
            out(table.note)


def _draw(name: str, records: "pl.DataFrame", folder: Path, quick: bool) -> None:
    from plait.paper.report import report_of
    from plait.paper.report.plots import save

    for plot, figure in report_of(name).figures(records).items():
        if quick:
            figure.suptitle("a quick run: only to see that it works", color="#777777", fontsize=8)
        save(figure, folder, plot)


def _command(arguments: "Sequence[str]") -> str:
    """The command as typed, without the folders of this machine."""
    kept: list[str] = []
    for word in arguments:
        option, equals, value = word.partition("=")
        if Path(value if equals else word).is_absolute():
            kept.append(f"{option}=…" if equals else "…")
        else:
            kept.append(shlex.quote(word))
    return " ".join(["plait", *kept])


@contextmanager
def _broken_off(experiment: "Experiment") -> Iterator[None]:
    """What is finished is kept, and how to go on is said."""
    try:
        yield
    except KeyboardInterrupt:
        raise FitError(
            f"interrupted in experiment {experiment.name}.\nFinished cells are kept: the same command goes on."
        ) from None


@contextmanager
def _watching(name: str) -> Iterator[Callable[["Step"], None]]:
    """A bar on a terminal; elsewhere a line every minute, and one at the end."""
    from plait.cli.output import console

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
        yield lambda step: bar.update(task, total=step.cells, completed=step.finished, description=_words(step))


def _lines(name: str) -> Callable[["Step"], None]:
    said = 0.0

    def say(step: "Step") -> None:
        nonlocal said
        if step.cell is None or step.seconds - said >= EVERY:
            said = step.seconds
            print(f"{name}: {step.finished} of {step.cells} cells, {step.seconds:.0f} s", file=sys.stderr, flush=True)

    return say


def _words(step: "Step") -> str:
    return " ".join(str(value) for value in (step.cell or {}).values())
