"""Commands on links: predict, top, explain; and cells from ``index=name`` pairs and tables in files."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import polars as pl
import typer

from plait.analysis.forecast import forecast as make_forecast
from plait.analysis.titled_tables import title_columns
from plait.analysis.topk.top import propose, propose_to_file
from plait.cli.command_options import (
    Force,
    Json,
    NewEntities,
    OutputFile,
    RawNames,
    RelationName,
    RunFolder,
    Score,
    read_options,
)
from plait.cli.output import check_free, deliver, put, say_written, to_stderr, working
from plait.config import Config
from plait.config.config_file import data_of, located_in
from plait.data.bound import Data
from plait.data.encoding.names import read_label
from plait.data.sources.relation import Relation
from plait.errors import (
    DataError,
    FileLocation,
    Location,
    ParameterError,
    TableLocation,
    quoted,
    relocating,
    suggestion,
)
from plait.files import options_for
from plait.files.read import read
from plait.result import Fit, load
from plait.storage.run_folder import manifest


def named_cell(fit: "Fit", relation: str, pairs: Sequence[str]) -> dict[str, Any]:
    """``["user=ann lee", "day=3"]`` → ``{"user": "ann lee", "day": 3}``, in the type of each axis."""
    indices, cell = fit.model.equation(relation).indices, dict[str, Any]()
    for pair in pairs:
        index, equals, name = pair.partition("=")
        if not equals:
            words = f"{pair}=NAME" if pair in indices else f"{indices[0]}={pair}" if indices else "index=name"
            example = shlex.quote(words)
            raise ParameterError(f"expected index=name, got {pair!r}.", hint=f"Example: {example}.")
        if index not in indices:
            raise ParameterError(
                f"{index!r} is not an index of {relation}.",
                hint=f"{suggestion(index, indices)}The indices are {', '.join(indices)}.",
            )
        if index in cell:
            raise ParameterError(f"{index} is given twice: {cell[index]!r} and {name!r}.", hint="Give it only once.")
        cell[index] = read_label(fit.entities[index], name, index)
    return cell


@dataclass(frozen=True)
class CellTable:
    """A table of cells, how it was read, and the name of the column of values in the run's source."""

    table: "pl.DataFrame"
    path: str
    options: dict[str, Any]
    value: str | None


def locating(tables: "Mapping[str, CellTable | Sequence[CellTable]]") -> AbstractContextManager[None]:
    """Context in which errors about tables name their files; several under one name are numbered."""
    named: dict[str, CellTable] = {}
    for name, cells in tables.items():
        several = [cells] if isinstance(cells, CellTable) else cells
        named |= {f"{name}[{n}]": one for n, one in enumerate(several)}
        if len(several) == 1:
            named[name] = several[0]

    def locate(location: Location | str | None) -> Location | str | None:
        if not isinstance(location, TableLocation):
            return location
        cells = named.get(location.table if location.number is None else f"{location.table}[{location.number}]")
        return location if cells is None else located_in(cells.path, location, cells.options)

    return relocating(locate)


def read_cells(fit: "Fit", run: Path, relation: str, path: str, given: Mapping[str, Any]) -> CellTable:
    """Cells from a file: columns by the names of the indices, or of the run's own source. `given`: options of
    `plait.read`.
    """
    indices = fit.model.equation(relation).indices
    named, value = _source_columns(fit, run, relation)
    table, options = _read(fit, indices, named, path, dict(given))
    if not hasattr(table, "columns"):
        raise DataError(
            "expected a table of cells, got an array.",
            location=FileLocation(path),
            hint="Give a table with one column per index.",
        )
    have = set(table.columns)
    table = table.rename({c: i for i, c in named.items() if i not in have and c in have})
    return CellTable(table, path, options, value)


def read_new_entities(fit: "Fit", run: Path, relation: str, given: Sequence[str]) -> dict[str, CellTable]:
    """Rows of new entities by relation, from ``file`` (rows of the queried relation) or ``name=file``."""
    tables: dict[str, CellTable] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals and name not in fit.model.relations and not Path(text).exists():
            have = ", ".join(fit.model.relations)
            raise ParameterError(
                f"`new-entities`: {name!r} is not a relation of the model.",
                hint=f"{suggestion(name, fit.model.relations)}The relations are {have}.",
            )
        if not equals or name not in fit.model.relations:
            name, path = relation, text
        if name in tables:
            raise ParameterError(f"`new-entities` is given twice for {name}.", hint="Put them into one file.")
        tables[name] = read_new_rows(fit, run, name, path, {})
    return tables


def read_new_rows(fit: "Fit", run: Path, relation: str, path: str, given: Mapping[str, Any]) -> CellTable:
    """Rows of a relation from a file: a column for each index, and perhaps one of values."""
    cells = read_cells(fit, run, relation, path, given)
    indices, columns = fit.model.equation(relation).indices, cells.table.columns
    have = ", ".join(map(quoted, columns))
    if absent := [index for index in indices if index not in columns]:
        raise DataError(
            f"there is no column {quoted(absent[0])}; the table has {have}.",
            location=FileLocation(path),
            hint=f"{suggestion(absent[0], columns)}A table of {relation} needs the columns {', '.join(indices)}.",
        )
    value = cells.value if cells.value in columns else "value"
    if surplus := [column for column in columns if column not in (*indices, value)]:
        raise DataError(
            f"column {quoted(surplus[0])} is not used; the table has {have}.",
            location=FileLocation(path),
            hint=f"Remove it from the file: a table of {relation} has the columns {', '.join((*indices, value))}.",
        )
    return cells


def with_values(fit: "Fit", relation: str, cells: CellTable, value: str | None) -> Any:
    """A test table, and its column of values if known."""
    if value is None and fit.known[relation].value is None and cells.value in cells.table.columns:
        value = cells.value  # known from the config of a run of an earlier version
    return cells.table if value is None else Relation(cells.table, value=value)


def _read(
    fit: "Fit", indices: Sequence[str], named: Mapping[str, str], path: str, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Content of a file, and the options it was read with: ids that are text in the run stay text."""
    table = read(path, **options)
    texts = {column for index in indices if _is_text(fit, index) for column in (index, named.get(index, index))}
    columns = getattr(table, "columns", ())
    numeric = [column for column in columns if column in texts and table[column].dtype.is_numeric()]
    if numeric and "text" in options_for(path, options.get("kind")):
        options["text"] = numeric
        table = read(path, **options)
    return table, options


def _source_columns(fit: "Fit", run: Path, relation: str) -> tuple[Mapping[str, str], str | None]:
    """Index → column of the relation's source and its column of values, if known."""
    known = fit.known[relation]
    remembered = manifest(run)["extra"].get("config")
    if known.columns or known.value is not None or remembered is None:
        return known.columns, known.value
    table = Config.from_dict(remembered).tables["relations"].get(relation, {})  # a run of an earlier version
    columns = table.get("columns")
    return (columns if isinstance(columns, dict) else {}), table.get("value")


def _is_text(fit: "Fit", index: str) -> bool:
    return bool(fit.entities[index].names.dtype == pl.String)


@read_options
def predict(
    run: RunFolder,
    relation: RelationName,
    cells: Annotated[Path, typer.Argument(metavar="CELLS", help="Cells: a table with one column per index.")],
    output: OutputFile = None,
    force: Force = False,
    handle_unknown: Annotated[
        str, typer.Option(metavar="error|prior", help="Unknown names: raise an error, or predict from the prior.")
    ] = "error",
    new_entities: NewEntities = None,
    raw_names: RawNames = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Score the cells of a table.

    Adds the expected count (mean), the standard deviation of its rate (sd), the probability of a link, and a 90 %
    interval of the count (lower, upper). For 0/1 links (Bernoulli), mean, sd, lower and upper are those of the
    probability, and the rate is the last column.

    \b
    Examples:
      plait predict run visits cells.csv
      plait predict run visits cells.parquet -o scores.parquet
      plait predict run visits newcomers.csv --handle-unknown prior
      plait predict run visits cells.csv --new-entities new_user.csv
    """
    check_free(output, force)
    fit = load(run)
    cell_table = read_cells(fit, run, relation, str(cells), options)
    new_rows = read_new_entities(fit, run, relation, new_entities or [])
    with locating({"cells": cell_table, **new_rows}):
        scored = fit.predict(
            relation, cell_table.table, handle_unknown=cast(Any, handle_unknown), new_entities=_rows(new_rows)
        )
    titles = title_columns(fit, fit.model.equation(relation).indices, cell_table.table.columns)
    deliver(scored, len(cell_table.table.columns) + len(titles), path=output, as_json=json, gaps=titles,
            raw_names=raw_names)  # fmt: skip


def top(
    context: typer.Context,
    run: RunFolder,
    relation: RelationName,
    k: Annotated[int, typer.Option("-k", metavar="N", min=0, help="Number of links.")] = 10,
    per: Annotated[
        list[str] | None,
        typer.Option("--per", metavar="INDEX", help="Return k links for each entity of this index; repeatable."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", metavar="INDEX=NAME", help="Only links of this entity, as index=name; repeatable."),
    ] = None,
    include_known: Annotated[
        bool, typer.Option("--include-known", help="Include the links of the training data.")
    ] = False,
    exclude: Annotated[
        list[Path] | None,
        typer.Option(
            "--exclude", metavar="FILE", help="Table of cells to exclude, by one or more indices; repeatable."
        ),
    ] = None,
    score: Score = "mean",
    new_entities: NewEntities = None,
    output: OutputFile = None,
    force: Force = False,
    raw_names: RawNames = False,
    json: Json = False,
) -> None:
    """List the most probable links that are not in the data.

    Skips structural zeros: cells of `missing`, self-links if they are not observed, and cells with exposure 0. Cells of
    `hidden` are candidates.

    \b
    Examples:
      plait top run visits
      plait top run visits -k 5 --given user=u17
      plait top run visits --given "user=ann lee" --given day=3 -o links.csv
      plait top run visits -k 5 --per user --exclude sold_out.csv -o links.parquet
      plait top run visits --given user=zoe --new-entities links_of_zoe.csv
    """
    check_free(output, force)
    fit = load(run)
    indices = fit.model.equation(relation).indices
    chosen = named_cell(fit, relation, given or [])
    excluded = [read_cells(fit, run, relation, str(path), {}) for path in exclude or []]
    new_rows = read_new_entities(fit, run, relation, new_entities or [])
    with locating({"exclude": excluded, **new_rows}):
        options: dict[str, Any] = {
            "given": chosen,
            "per": per or None,
            "include_known": include_known,
            "exclude": [one.table for one in excluded],
            "score": score,
            "new_entities": _rows(new_rows),
        }
        if per and output is not None:
            n_links, warning = propose_to_file(fit, relation, k, output, escape_formulas=not raw_names, **options)
            say_written(n_links, output, as_json=json)
        else:
            links, warning = propose(fit, relation, k, **options)
            n_links, titles = len(links), title_columns(fit, indices, indices)
            deliver(links, len(indices) + len(titles), path=output, as_json=json, gaps=titles, raw_names=raw_names)
    if warning is not None and not json:
        to_stderr("note", str(warning))
    elif not n_links and k and not include_known and not json:
        to_stderr("note", "all requested links are in the training data; use --include-known to list them.")


def forecast(
    run: RunFolder,
    relation: RelationName,
    steps: Annotated[int, typer.Option("--steps", metavar="N", min=1, help="Number of periods.")] = 1,
    cells: Annotated[
        Path | None,
        typer.Option("--cells", metavar="FILE", help="Cells to predict: a table with one column per other index."),
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=0, help="Without --cells: links in each period.")] = 10,
    per: Annotated[
        list[str] | None,
        typer.Option("--per", metavar="INDEX", help="Return k links for each entity of this index; repeatable."),
    ] = None,
    given: Annotated[
        list[str] | None,
        typer.Option("--given", metavar="INDEX=NAME", help="Only links of this entity, as index=name; repeatable."),
    ] = None,
    score: Score = "mean",
    output: OutputFile = None,
    force: Force = False,
    raw_names: RawNames = False,
    json: Json = False,
) -> None:
    """Predict the periods after the last one of an ordered axis.

    Predicts the cells of a table in each period, or lists the most probable links of each.

    \b
    Examples:
      plait forecast run visits --steps 3
      plait forecast run visits --steps 3 --cells cells.csv -o forecast.parquet
      plait forecast run visits -k 5 --given "user=ann lee"
    """
    check_free(output, force)
    fit = load(run)
    indices = fit.model.equation(relation).indices
    options: dict[str, Any] = {"given": named_cell(fit, relation, given or []) or None, "per": per or None}
    cell_table = None if cells is None else read_cells(fit, run, relation, str(cells), {})
    with locating({} if cell_table is None else {"cells": cell_table}):
        table, warning = make_forecast(
            fit, relation, steps, cells=None if cell_table is None else cell_table.table, k=k, score=score, **options
        )
    named = [
        column for column in table.columns if column in indices or (cell_table and column in cell_table.table.columns)
    ]
    titles = title_columns(fit, indices, named)
    deliver(table, len(named) + len(titles), path=output, as_json=json, gaps=titles, raw_names=raw_names)
    if warning is not None and not json:
        to_stderr("note", str(warning))


def _rows(new_rows: Mapping[str, CellTable]) -> dict[str, pl.DataFrame] | None:
    """Tables of new entities for the library."""
    return {name: cells.table for name, cells in new_rows.items()} or None


def explain(
    run: RunFolder,
    relation: RelationName,
    cell: Annotated[list[str], typer.Argument(metavar="INDEX=NAME", help="The cell, as index=name for each index.")],
    most: Annotated[int, typer.Option("--top", metavar="N", min=1, help="Number of entities and links per list.")] = 5,
    exact: Annotated[
        bool, typer.Option("--exact", help="Refit with each supporting link set to zero, one at a time.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Refit with each supporting link set to missing, one at a time.")
    ] = False,
    json: Json = False,
) -> None:
    """Explain the prediction of one link.

    Prints the components with their shares, and the supporting links with the estimated drop of the mean if the link
    were absent. --exact and --missing refit the model on the data of the run and print the exact drop.

    \b
    Examples:
      plait explain run visits user=u17 place=p3 activity=eat
      plait explain run visits "user=ann lee" place=p3 activity=eat --json
      plait explain run visits user=u17 place=p3 activity=eat --exact --top 3
    """
    if exact and missing:
        raise ParameterError("`exact` and `missing` exclude each other.", hint="Remove one of the two.")
    fit = load(run)
    named = named_cell(fit, relation, cell)
    how: bool | str = "missing" if missing else exact
    data = _again(fit, run) if how else None
    with working("fitting again") if how else nullcontext():
        explanation = fit.explain(relation, named, top=most, exact=how, data=data)
    put(explanation.describe(), as_json=json)


def _again(fit: "Fit", run: Path) -> "Data":
    with working("reading"):
        return data_of(fit, run)
