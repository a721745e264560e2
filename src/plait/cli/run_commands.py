"""Commands on runs: set-titles, fold-in, update, report, explore."""

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
from plait.cli.link_commands import CellTable, locating, read_cells, read_new_rows, with_values
from plait.cli.output import check_free, emit, out, working
from plait.config.config_file import read_titles
from plait.data.encoding.names import Labels
from plait.data.titles import bind_titles
from plait.errors import ParameterError
from plait.explore.guard import is_loopback
from plait.explore.serve import serve
from plait.rendering.formatting import plural, write_bytes
from plait.report.report_data import ReportData
from plait.report.report_file import check_needed, check_place, measure, tested_relation, write_report
from plait.result import Fit, load
from plait.storage.load import read_run
from plait.storage.run_folder import holds_run, manifest
from plait.storage.save import save


@read_options
def set_titles(
    run: RunFolder,
    tables: Annotated[list[str], typer.Argument(metavar="AXIS=FILE", help="Tables of ids and titles, as AXIS=FILE.")],
    id: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Column of ids, if it does not have the name of the axis."),
    ] = None,
    column: Annotated[
        str | None,
        typer.Option("--title", metavar="COLUMN", help="Column of titles, if its name is not title or name."),
    ] = None,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Set titles of entities, to show next to their names.

    Other parts of the run do not change. Entities without a new title keep their old one.

    \b
    Examples:
      plait set-titles run film=films.csv
      plait set-titles run film=movies.csv --id movieId --title name
      plait set-titles run film=films.csv user=users.parquet
    """
    origin, members, stop = read_run(run)
    title_tables = {
        axis: _read(path, options, axis, origin.entities, id, column) for axis, path in _named(tables).items()
    }
    with locating({f"titles of {axis}": cells for axis, cells in title_tables.items()}):
        titles = bind_titles(
            origin.model, origin.entities, {axis: cells.table for axis, cells in title_tables.items()}, origin.titles
        )
    save(run, replace(origin, titles=titles), members, stop)
    titled = {axis: titles[axis] for axis in origin.model.axes if axis in titles}
    if json:
        emit({"run": str(run), "titles": {axis: len(own) for axis, own in titled.items()}})
    else:
        counts = ", ".join(f"{axis} {len(own):,} of {len(own.column):,}" for axis, own in titled.items())
        out(f"titles in {run}: {counts}.")


def _named(pairs: list[str]) -> dict[str, str]:
    """``["film=films.csv"]`` by axis."""
    named: dict[str, str] = {}
    for pair in pairs:
        axis, equals, path = pair.partition("=")
        if not equals or not path:
            raise ParameterError(f"expected AXIS=FILE, got {pair!r}.", hint="Example: film=films.csv.")
        if axis in named:
            raise ParameterError(f"{axis} is given twice: {named[axis]!r} and {path!r}.", hint="Give it only once.")
        named[axis] = path
    return named


def _read(
    path: str, options: Mapping[str, Any], axis: str, labels: Mapping[str, Labels], id: str | None, title: str | None
) -> CellTable:
    with locating({f"titles of {axis}": CellTable(pl.DataFrame(), path, dict(options), None)}):
        table, options = read_titles(path, options, axis, labels.get(axis), id, title)
    return CellTable(table, path, dict(options), None)


RowFiles = Annotated[
    list[Path], typer.Argument(metavar="ROWS", help="Tables of new links, with the columns of the original data.")
]
Relations = Annotated[
    list[str] | None,
    typer.Option("-r", "--relation", metavar="NAME", help="Relation of each table, in the same order."),
]
NewRun = Annotated[
    Path,
    typer.Option(
        "-o", "--output", metavar="RUN", parser=named_path, help="Folder, or .plait file, to save the new run in."
    ),
]
Again = Annotated[bool, typer.Option("--force", help="Replace an existing run.")]


@read_options
def fold_in(
    run: RunFolder,
    rows: RowFiles,
    output: NewRun,
    relation: Relations = None,
    iterations: Annotated[int, typer.Option(metavar="N", min=1, help="Number of updates of the new factor rows.")] = 10,
    force: Again = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Add new entities to a run; all other factors stay fixed.

    Each row must contain at least one new entity. For links between known entities, use `plait update`.

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
    iterations: Annotated[int, typer.Option(metavar="N", min=1, help="Number of updates of all factors.")] = 5,
    force: Again = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Update a run with new links, without its original data.

    Values of known links are added to the old ones if the likelihood is poisson; otherwise such rows are an error.

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
        updated = learn(fit, {name: cells.table for name, cells in tables.items()}, iterations=iterations)
    updated.save(output, replace=holds_run(output))
    new = {axis: len(updated.entities[axis]) - len(fit.entities[axis]) for axis in fit.model.axes}
    links = {name: len(cells.table) for name, cells in tables.items()}
    if as_json:
        emit({"run": str(output), "new": new, "rows": links, "objective": updated.objective, "iterations": iterations})
        return
    entities = ", ".join(f"{count:,} of {axis}" for axis, count in new.items() if count) or "none"
    count = sum(links.values())
    out(f"{count:,} row{'' if count == 1 else 's'} {word}; new entities: {entities}.")
    out(f"Saved in {output}; objective {updated.objective:,.6g}.")


def _tables(
    fit: Fit, run: Path, rows: Sequence[Path], names: list[str], options: dict[str, Any]
) -> dict[str, CellTable]:
    """Tables of rows by relation."""
    if not names and len(fit.model.relations) == 1:
        names = [fit.model.relations[0]]
    if len(names) != len(rows) or len(set(names)) < len(names):
        have = ", ".join(fit.model.relations)
        raise ParameterError(
            f"{plural(len(rows), 'table')} and {plural(len(names), 'relation')} are given, but each table "
            "needs one relation.",
            hint=f"Give --relation once per table; the relations are {have}.",
        )
    return {name: read_new_rows(fit, run, name, str(path), options) for name, path in zip(names, rows)}


def _measured(
    fit: Fit, run: Path, test: Path | None, relation: str | None, value: str | None, options: dict[str, Any]
) -> dict[str, Any]:
    """Fields of `ReportData` by a test; none without one."""
    if test is None or relation is None:
        return {}
    cells = read_cells(fit, run, relation, str(test), options)
    with locating({"test": cells}):
        metrics, leaks = measure(fit, with_values(fit, relation, cells, value), relation)
    return {"metrics": metrics, "test": str(test), "leaks": leaks, "reading": {"value": value, **options}}


@read_options
def report(
    run: RunFolder,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", parser=named_path, help="File to write.")
    ] = Path("report.html"),
    test: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Held-out links: a table with one column per index, and values."),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option(metavar="RELATION", help="Relation of the test; required if there are several relations."),
    ] = None,
    interactive: Annotated[
        bool,
        typer.Option("--interactive", help="Add sortable tables and interactive charts; the file is larger."),
    ] = False,
    value: Value = None,
    force: Force = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Write a report on a run as one HTML page.

    Contains warnings, predicted links with supporting links, components, the coupling of relations, the results of a
    test if --test is given, surprising cells, convergence, and the commands to reproduce the run. The page is one file
    that loads no other files. Without --interactive it has no scripts.

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
    with working("reporting"):
        report_data = ReportData(fit, str(run), manifest(run), **_measured(fit, run, test, named, value, options))
        write_report(report_data, output, interactive=interactive)
    size = output.stat().st_size
    if json:
        emit({"written": str(output), "bytes": size})
    else:
        out(f"wrote {output}, {write_bytes(size)}")


@read_options
def explore(
    run: RunFolder,
    test: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Held-out links, to show how good the predictions are."),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option(metavar="RELATION", help="Relation of the test; required if there are several relations."),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="Port to listen on; 0: any free port.")] = 0,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on. All but 127.0.0.1 are open to other machines.")
    ] = ("127.0.0.1"),
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="Folder of the data files of the config, for what-ifs."),
    ] = None,
    limit: Annotated[
        float, typer.Option("--time-limit", min=1.0, metavar="SECONDS", help="Time limit of a what-if, in seconds.")
    ] = 300.0,
    value: Value = None,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Explore a run in the browser.

    Shows entities, components, known and predicted links with explanations, surprising cells, and what-ifs: the
    prediction after a link is removed or added. The server listens on this computer only, sends no data elsewhere and
    saves nothing. Stop it with Ctrl-C. --json prints its address.

    \b
    Examples:
      plait explore run
      plait explore run --port 8000
      plait explore run --test test.csv --relation visits
      plait explore run --data ~/tables
    """

    def measured(fit: Fit) -> dict[str, Any]:
        return _measured(fit, run, test, tested_relation(fit, relation, given=test is not None), value, options)

    def say(address: str) -> None:
        is_local = is_loopback(host)
        if json:
            emit({"run": str(run), "address": address, "this_computer_only": is_local})
        else:
            out(f"Exploring {run} at {address}  (stop with Ctrl-C)")
            if not is_local:
                out(f"no password is set: anyone who can reach {host} can read this run and start what-ifs.")
        sys.stdout.flush()

    serve(run, host=host, port=port, folder=data, limit=limit, say=say, measure=measured)
