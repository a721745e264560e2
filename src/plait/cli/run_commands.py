"""The command info.

The command title: what people call entities, put beside a run that is there.

Commands by which a run learns after it was made: fold-in and update.

The command report.

The command explore.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from plait.cli.command_options import (
    Force,
    Json,
    RunFolder,
    Value,
    named_path,
    read_options,
)
from plait.cli.fit_commands import refuse_other_run
from plait.cli.link_commands import CellTable, locating, read_cells, with_values
from plait.cli.output import check_free, emit, out, put, working
from plait.config.config_file import read_titles
from plait.data.encoding.names import Labels
from plait.data.titles import bind_titles
from plait.errors import ParameterError
from plait.explore.guard import is_loopback
from plait.explore.serve import serve
from plait.rendering.formatting import write_bytes
from plait.report.report_data import ReportData
from plait.report.report_file import check_needed, check_place, measure, tested_relation, write_report
from plait.report.run_summary import describe_run
from plait.result import Fit, load
from plait.storage.load import read_run
from plait.storage.run_folder import holds_run, manifest
from plait.storage.save import save


def info(run: RunFolder, json: Json = False) -> None:
    """Say what a run is: model, sizes, bound, and how it ended.

    \b
    Examples:
      plait info run
      plait info run --json
    """
    put(describe_run(load(run), manifest(run), run), as_json=json)


@read_options
def set_titles(
    run: RunFolder,
    tables: Annotated[
        list[str], typer.Argument(metavar="AXIS=FILE...", help="A table of ids and titles for each of some axes.")
    ],
    id: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="The column of ids, if it is not called as the axis.")
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--title", metavar="COLUMN", help="The column of titles, if it is not called title or name."),
    ] = None,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Give the entities of a run titles, which all commands show beside their names.

    Nothing else of the run changes. Titles that it has stay where the tables have none.

    \b
    Examples:
      plait set-titles run film=films.csv
      plait set-titles run film=movies.csv --id movieId --title name
      plait set-titles run film=films.csv user=users.parquet
    """
    origin, members, stop = read_run(run)
    found = {axis: _read(path, options, axis, origin.entities, id, column) for axis, path in _named(tables).items()}
    with locating({f"titles of {axis}": cells for axis, cells in found.items()}):
        titles = bind_titles(
            origin.model, origin.entities, {axis: cells.table for axis, cells in found.items()}, origin.titles
        )
    save(run, replace(origin, titles=titles), members, stop)
    told = {axis: titles[axis] for axis in origin.model.axes if axis in titles}
    if json:
        emit({"run": str(run), "titles": {axis: len(own) for axis, own in told.items()}})
    else:
        counts = ", ".join(f"{axis} {len(own):,} of {len(own.column):,}" for axis, own in told.items())
        out(f"titles in {run}: {counts}.")


def _named(pairs: list[str]) -> dict[str, str]:
    """``["film=films.csv"]`` by axis."""
    found: dict[str, str] = {}
    for pair in pairs:
        axis, equals, path = pair.partition("=")
        if not equals or not path:
            raise ParameterError(
                f"{pair!r} does not say whose titles are where.", hint="Write AXIS=FILE: film=films.csv."
            )
        if axis in found:
            raise ParameterError(f"{axis} is given twice: {found[axis]!r} and {path!r}.", hint="Give it once.")
        found[axis] = path
    return found


def _read(
    path: str, options: Mapping[str, Any], axis: str, labels: Mapping[str, Labels], id: str | None, title: str | None
) -> CellTable:
    with locating({f"titles of {axis}": CellTable(pl.DataFrame(), path, dict(options), None)}):
        table, options = read_titles(path, options, axis, labels.get(axis), id, title)
    return CellTable(table, path, dict(options), None)


RowFiles = Annotated[list[Path], typer.Argument(metavar="ROWS...", help="Tables of new rows, as those of the fit.")]
Relations = Annotated[
    list[str] | None,
    typer.Option("-r", "--relation", metavar="NAME", help="Whose rows a table has; once a table, in their order."),
]
NewRun = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="RUN", parser=named_path, help="A folder for the new run, or a file, ….plait."
    ),
]
Again = Annotated[bool, typer.Option("--force", help="Replace a run that is already there.")]


@read_options
def fold_in(
    run: RunFolder,
    rows: RowFiles,
    output: NewRun,
    relation: Relations = None,
    iterations: Annotated[int, typer.Option(min=1, help="How often the new rows are updated.")] = 10,
    force: Again = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Add new entities to a run; everything else of it stays as it is.

    Every row names at least one entity that the run does not know. For links of known ones, see `plait update`.

    \b
    Examples:
      plait fold-in run newcomers.csv --relation visits -o larger
      plait fold-in run visits.csv tags.csv -r visits -r tags -o larger
    """
    _learn("folded in", Fit.fold_in, run, rows, output, relation, iterations, force, options, json)


@read_options
def update(
    run: RunFolder,
    rows: RowFiles,
    output: NewRun,
    relation: Relations = None,
    iterations: Annotated[int, typer.Option(min=1, help="How often all factors are updated.")] = 5,
    force: Again = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Let a run learn new links, without the data that it was made from.

    Counts of a cell that is known already are added up; under other likelihoods than poisson such a row is refused.

    \b
    Examples:
      plait update run today.csv --relation visits -o run-today
      plait update run today.csv -r visits -o run --force
    """
    _learn("learnt", Fit.update, run, rows, output, relation, iterations, force, options, json)


def _learn(
    word: str, learn: Callable[..., Fit], run: Path, rows: Sequence[Path], output: Path, relation: list[str] | None,
    iterations: int, force: bool, options: dict[str, Any], as_json: bool,
) -> None:  # fmt: skip
    if not (force and output == run):
        refuse_other_run(output, force)
    fit = load(run)
    tables = _tables(fit, run, rows, relation or [], options)
    with locating(tables), working("learning"):
        found = learn(fit, {name: cells.table for name, cells in tables.items()}, iterations=iterations)
    found.save(output, replace=holds_run(output))
    new = {axis: len(found.entities[axis]) - len(fit.entities[axis]) for axis in fit.model.axes}
    links = {name: len(cells.table) for name, cells in tables.items()}
    if as_json:
        emit({"run": str(output), "new": new, "rows": links, "objective": found.objective, "iterations": iterations})
        return
    entities = ", ".join(f"{count:,} of {axis}" for axis, count in new.items() if count) or "none"
    count = sum(links.values())
    out(f"{count:,} row{'' if count == 1 else 's'} {word}; new entities: {entities}.")
    out(f"Saved in {output}; bound {found.objective:,.6g}.")


def _tables(
    fit: Fit, run: Path, rows: Sequence[Path], names: list[str], options: dict[str, Any]
) -> dict[str, CellTable]:
    """The tables of rows by relation."""
    if not names and len(fit.model.relations) == 1:
        names = [fit.model.relations[0]]
    if len(names) != len(rows) or len(set(names)) < len(names):
        have = ", ".join(fit.model.relations)
        raise ParameterError(
            f"there are {len(rows)} tables of rows, and {len(names)} different relations.",
            hint=f"Say whose rows each table has: --relation {fit.model.relations[0]}. The relations are {have}.",
        )
    return {name: read_cells(fit, run, name, str(path), options) for name, path in zip(names, rows)}


@read_options
def report(
    run: RunFolder,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", parser=named_path, help="The page to write.")
    ] = Path("report.html"),
    test: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="A table with a column for each index, and values, that the run has not seen."
        ),
    ] = None,
    relation: Annotated[
        str | None, typer.Option(metavar="RELATION", help="What the test is of; needed where there are several.")
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", help="Tables that sort and charts that answer to the pointer; a larger file."),
    ] = False,
    value: Value = None,
    force: Force = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Write all that is known of a run as one page, for a browser or a printer.

    Warnings, predicted links with reasons, components, how relations share them, a test where one is given, surprises,
    how the fit went, and how to make it again. The page is one file that asks for nothing else; without --interactive
    it has no scripts.

    \b
    Examples:
      plait report run
      plait report run -o report.html --test test.csv --relation visits
      plait report run --interactive --force
    """
    check_needed()
    check_free(output, force)
    check_place(output, replace=True)
    fit = load(run)
    named = tested_relation(fit, relation, given=test is not None)
    cells = None if test is None or named is None else read_cells(fit, run, named, str(test), options)
    with working("reporting"):
        with locating({} if cells is None else {"test": cells}):
            found = None if cells is None or named is None else with_values(fit, named, cells, value)
            metrics, leaks = measure(fit, found, named)
        subject = ReportData(fit, str(run), manifest(run), metrics, test.name if test else "", leaks)
        write_report(subject, output, interactive=interactive)
    size = output.stat().st_size
    if json:
        emit({"written": str(output), "bytes": size})
    else:
        out(f"wrote {output}, {write_bytes(size)}")


def explore(
    run: RunFolder,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Where to listen; 0 takes a port that is free.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen at; any but 127.0.0.1 is open to others.")] = (
        "127.0.0.1"
    ),
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Where the files of the run's config are, for what-ifs."),
    ] = None,
    limit: Annotated[
        float, typer.Option("--time-limit", min=1.0, metavar="SECONDS", help="How long a what-if may take.")
    ] = 300.0,
    json: Json = False,
) -> None:
    """Look at a run in the browser, and ask what if.

    Entities, components, known and predicted links with their reasons, surprises; and what would be predicted, were a
    link not there. The server is for this computer only, tells nobody anything, and saves nothing; Ctrl-C ends it. With
    --json the document says where it is.

    \b
    Examples:
      plait explore run
      plait explore run --port 8000
      plait explore run --data ~/tables
    """

    def say(address: str) -> None:
        closed = is_loopback(host)
        if json:
            emit({"run": str(run), "address": address, "this_computer_only": closed})
        else:
            out(f"Exploring {run} at {address}  (Ctrl-C ends it)")
            if not closed:
                out(f"Everybody who can reach {host} can read this run and start what-ifs: there is no password.")
        sys.stdout.flush()

    serve(run, host=host, port=port, folder=data, limit=limit, say=say)
