"""The command title: what people call entities, put beside a run that is there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

import polars as pl
import typer

from plait.cli.cells import Cells, locating
from plait.cli.options import Columns, Delimiter, Header, Json, Kind, RunFolder, Strip, Unquoted, reading
from plait.cli.output import emit, out
from plait.config.titles import read_titles
from plait.data.labels.names import Labels
from plait.data.reading.titles import bind_titles
from plait.errors import SettingError
from plait.run.load import load
from plait.run.save import save


def title(
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
    kind: Kind = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    strip: Strip = False,
    json: Json = False,
) -> None:
    """Give the entities of a run titles, which all commands show beside their names.

    Nothing else of the run changes. Titles that it has stay where the tables have none.

    \b
    Examples:
      plait title run film=films.csv
      plait title run film=movies.csv --id movieId --title name
      plait title run film=films.csv user=users.parquet
    """
    origin, members, stop = load(run)
    options = reading(kind, columns, delimiter, header, unquoted, strip)
    found = {axis: _read(path, options, axis, origin.labels, id, column) for axis, path in _named(tables).items()}
    with locating({f"titles of {axis}": cells for axis, cells in found.items()}):
        titles = bind_titles(
            origin.model, origin.labels, {axis: cells.table for axis, cells in found.items()}, origin.titles
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
            raise SettingError(
                f"{pair!r} does not say whose titles are where.", hint="Write AXIS=FILE: film=films.csv."
            )
        if axis in found:
            raise SettingError(f"{axis} is given twice: {found[axis]!r} and {path!r}.", hint="Give it once.")
        found[axis] = path
    return found


def _read(
    path: str, options: Mapping[str, Any], axis: str, labels: Mapping[str, Labels], id: str | None, title: str | None
) -> Cells:
    with locating({f"titles of {axis}": Cells(pl.DataFrame(), path, dict(options), None)}):
        table, options = read_titles(path, options, axis, labels.get(axis), id, title)
    return Cells(table, path, dict(options), None)
