"""CellTable from the command line: ``index=name`` pairs, and tables in files.

Commands about links: predict, top, explain.
"""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

import polars as pl
import typer

from plait.analysis.titled_tables import title_columns
from plait.analysis.topk.top import propose
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
from plait.cli.output import check_free, deliver, put, to_stderr, working
from plait.config import Config
from plait.config.config_file import data_of, located_in
from plait.data.bound import Data
from plait.data.encoding.names import read_label
from plait.data.sources.relation import Relation
from plait.errors import DataError, FileLocation, Location, ParameterError, TableLocation, relocating, suggestion
from plait.files import options_for
from plait.files.read import read
from plait.result import Fit, load
from plait.storage.run_folder import manifest


def named_cell(fit: "Fit", relation: str, pairs: Sequence[str]) -> dict[str, Any]:
    """``["user=ann lee", "day=3"]`` -> ``{"user": "ann lee", "day": 3}``, each name of its axis's kind."""
    indices, cell = fit.model.equation(relation).indices, dict[str, Any]()
    for pair in pairs:
        index, equals, name = pair.partition("=")
        if not equals:
            example = shlex.quote(f"{indices[0]}={pair}") if indices else "index=name"
            raise ParameterError(f"{pair!r} does not say which index it is.", hint=f"Write index=name: {example}.")
        if index not in indices:
            raise ParameterError(
                f"{index!r} is no index of {relation}.",
                hint=f"{suggestion(index, indices)}It has {', '.join(indices)}.",
            )
        if index in cell:
            raise ParameterError(f"{index} is given twice: {cell[index]!r} and {name!r}.", hint="Give it once.")
        cell[index] = read_label(fit.entities[index], name, index)
    return cell


@dataclass(frozen=True)
class CellTable:
    """A table of cells, how it was read, and how the run's own source calls the column of values."""

    table: "pl.DataFrame"
    path: str
    options: dict[str, Any]
    value: str | None


def locating(tables: "Mapping[str, CellTable | Sequence[CellTable]]") -> AbstractContextManager[None]:
    """Let errors about tables name the files they were read from; several under one name are numbered."""
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
    """CellTable from a file: columns by the names of the indices, or by those of the run's own source.

    given: options of `plait.read`.
    """
    indices = fit.model.equation(relation).indices
    named, value = _source_columns(fit, run, relation)
    table, options = _read(fit, indices, named, path, dict(given))
    if not hasattr(table, "columns"):
        raise DataError(
            "this is an array, but cells are a table.",
            location=FileLocation(path),
            hint="Give a column for each index.",
        )
    have = set(table.columns)
    table = table.rename({c: i for i, c in named.items() if i not in have and c in have})
    return CellTable(table, path, options, value)


def read_guests(fit: "Fit", run: Path, relation: str, given: Sequence[str]) -> dict[str, CellTable]:
    """Rows of guests by relation, from ``file`` (rows of the relation that is asked about) or ``name=file``."""
    found: dict[str, CellTable] = {}
    for text in given:
        name, equals, path = text.partition("=")
        if equals and name not in fit.model.relations and not Path(text).exists():
            have = ", ".join(fit.model.relations)
            raise ParameterError(
                f"--new-entities: {name!r} is no relation of the model.",
                hint=f"{suggestion(name, fit.model.relations)}It has {have}.",
            )
        if not equals or name not in fit.model.relations:
            name, path = relation, text
        if name in found:
            raise ParameterError(f"--new-entities gives rows of {name} twice.", hint="Put them into one file.")
        found[name] = read_cells(fit, run, name, path, {})
    return found


def with_values(fit: "Fit", relation: str, cells: CellTable, value: str | None) -> Any:
    """A table of cells to test by, and which column has the values, as far as anybody said."""
    if value is None and fit.known[relation].value is None and cells.value in cells.table.columns:
        value = cells.value  # the config of an earlier version's run knows it, the fit does not
    return cells.table if value is None else Relation(cells.table, value=value)


def _read(
    fit: "Fit", indices: Sequence[str], named: Mapping[str, str], path: str, options: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """What a file holds, and the options it was read with: ids that are text in the run stay text."""
    table = read(path, **options)
    texts = {column for index in indices if _is_text(fit, index) for column in (index, named.get(index, index))}
    columns = getattr(table, "columns", ())
    numeric = [column for column in columns if column in texts and table[column].dtype.is_numeric()]
    if numeric and "text" in options_for(path, options.get("kind")):
        options["text"] = numeric
        table = read(path, **options)
    return table, options


def _source_columns(fit: "Fit", run: Path, relation: str) -> tuple[Mapping[str, str], str | None]:
    """Index -> column of the relation's source and its column of values, as far as anybody said."""
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
    cells: Annotated[Path, typer.Argument(metavar="CELLS", help="A table with a column for each index.")],
    output: OutputFile = None,
    force: Force = False,
    handle_unknown: Annotated[str, typer.Option(help="What an unknown name means: error, or prior.")] = "error",
    new_entities: NewEntities = None,
    raw_names: RawNames = False,
    json: Json = False,
    *,
    options: dict[str, Any],
) -> None:
    """Score the cells of a table.

    Adds the expected count (mean), the uncertainty of its rate (sd), the probability of a link, and a 90 % interval of
    the count (lower, upper). Of 0/1 links (Bernoulli) mean is the probability, sd its uncertainty, lower and upper its
    90 % interval, and the rate comes last.

    \b
    Examples:
      plait predict run visits cells.csv
      plait predict run visits cells.parquet -o scores.parquet
      plait predict run visits newcomers.csv --handle-unknown prior
      plait predict run visits cells.csv --new-entities what_the_guest_did.csv
    """
    check_free(output, force)
    fit = load(run)
    found = read_cells(fit, run, relation, str(cells), options)
    guests = read_guests(fit, run, relation, new_entities or [])
    with locating({"cells": found, **guests}):
        scored = fit.predict(
            relation, found.table, handle_unknown=cast(Any, handle_unknown), new_entities=_rows(guests)
        )
    titles = title_columns(fit, fit.model.equation(relation).indices, found.table.columns)
    deliver(scored, len(found.table.columns) + len(titles), path=output, as_json=json, gaps=titles,
            raw_names=raw_names)  # fmt: skip


def top(
    context: typer.Context,
    run: RunFolder,
    relation: RelationName,
    k: Annotated[int, typer.Option("-k", min=0, metavar="K", help="How many links.")] = 10,
    per: Annotated[
        list[str] | None, typer.Option("--per", metavar="INDEX", help="K links for each of its entities; repeatable.")
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option("--given", metavar="INDEX=NAME", help="Only links of this entity; repeatable.")
    ] = None,
    include_known: Annotated[
        bool, typer.Option("--include-known", help="Let links of the data be among them.")
    ] = False,
    exclude: Annotated[
        list[Path] | None,
        typer.Option("--exclude", metavar="FILE", help="A table of what not to list, by some indices; repeatable."),
    ] = None,
    score: Score = "mean",
    new_entities: NewEntities = None,
    output: OutputFile = None,
    force: Force = False,
    raw_names: RawNames = False,
    json: Json = False,
) -> None:
    """List the most probable links that are not known yet.

    What a rule makes unobservable is not among them: pairs and slices of `missing`, self-links where hardly any is
    observed, and cells of exposure 0. What the config names as `hidden` may be.

    \b
    Examples:
      plait top run visits
      plait top run visits -k 5 --given user=u17
      plait top run visits --given "user=ann lee" --given day=3 -o links.csv
      plait top run visits -k 5 --per user --exclude sold_out.csv -o links.parquet
      plait top run visits --given user=zoe --new-entities what_zoe_did.csv
    """
    check_free(output, force)
    fit = load(run)
    indices = fit.model.equation(relation).indices
    chosen = named_cell(fit, relation, given or [])
    excluded = [read_cells(fit, run, relation, str(path), {}) for path in exclude or []]
    guests = read_guests(fit, run, relation, new_entities or [])
    with locating({"exclude": excluded, **guests}):
        tables, rows = [one.table for one in excluded], _rows(guests)
        links, closed = propose(
            fit,
            relation,
            k,
            given=chosen,
            per=per or None,
            include_known=include_known,
            exclude=tables,
            score=score,
            new_entities=rows,
        )
    titles = title_columns(fit, indices, indices)
    deliver(links, len(indices) + len(titles), path=output, as_json=json, gaps=titles, raw_names=raw_names)
    if closed is not None and not json:
        to_stderr("note", str(closed))
    elif links.is_empty() and k and not include_known and not json:
        to_stderr("note", "every link that was asked for is known already; --include-known lists known ones, too.")


def _rows(guests: Mapping[str, CellTable]) -> dict[str, pl.DataFrame] | None:
    """The tables of guests as the library takes them."""
    return {name: cells.table for name, cells in guests.items()} or None


def explain(
    run: RunFolder,
    relation: RelationName,
    cell: Annotated[list[str], typer.Argument(metavar="INDEX=NAME...", help="The cell: a name for each index.")],
    most: Annotated[int, typer.Option("--top", min=1, help="How many entities and links to show of each kind.")] = 5,
    exact: Annotated[
        bool, typer.Option("--exact", help="Fit again, with each link that is named an observed zero in turn.")
    ] = False,
    missing: Annotated[
        bool, typer.Option("--missing", help="Fit again, with each link that is named missing in turn.")
    ] = False,
    json: Json = False,
) -> None:
    """Say why a link is predicted.

    Which components make it, which entities characterise them, and which known links are most responsible: about how
    much smaller the mean would be, were the link an observed zero. --exact and --missing read the data of the run again
    and say how much smaller it is.

    \b
    Examples:
      plait explain run visits user=u17 place=p3 activity=eat
      plait explain run visits "user=ann lee" place=p3 activity=eat --json
      plait explain run visits user=u17 place=p3 activity=eat --exact --top 3
    """
    if exact and missing:
        raise ParameterError("--exact and --missing ask two different things.", hint="Give one of them.")
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
