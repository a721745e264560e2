"""Commands about links: predict, top, explain."""

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import polars as pl
import typer

from plait.answer.search.top import propose
from plait.answer.titles import title_columns
from plait.cli.cells import Cells, locating, named_cell, read_cells, read_guests
from plait.cli.options import (
    Columns,
    Delimiter,
    Force,
    Guests,
    Header,
    Json,
    Kind,
    OutputFile,
    RawNames,
    RelationName,
    RunFolder,
    Score,
    Strip,
    Unquoted,
    reading,
)
from plait.cli.output import check_free, deliver, put, to_stderr, working
from plait.config.again import data_of
from plait.data.bound import Data
from plait.errors import SettingError
from plait.result import Fit, load


def predict(
    run: RunFolder,
    relation: RelationName,
    cells: Annotated[Path, typer.Argument(metavar="CELLS", help="A table with a column for each index.")],
    output: OutputFile = None,
    force: Force = False,
    unknown: Annotated[str, typer.Option(help="What an unknown name means: error, or prior.")] = "error",
    new: Guests = None,
    kind: Kind = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    strip: Strip = False,
    raw_names: RawNames = False,
    json: Json = False,
) -> None:
    """Score the cells of a table.

    Adds the expected count (mean), the uncertainty of its rate (sd), the probability of a link, and a 90 % interval of
    the count (low, high). Of 0/1 links (Bernoulli) mean is the probability, sd its uncertainty, low and high its 90 %
    interval, and the rate comes last.

    \b
    Examples:
      plait predict run visits cells.csv
      plait predict run visits cells.parquet -o scores.parquet
      plait predict run visits newcomers.csv --unknown prior
      plait predict run visits cells.csv --new what_the_guest_did.csv
    """
    check_free(output, force)
    fit = load(run)
    found = read_cells(fit, run, relation, str(cells), reading(kind, columns, delimiter, header, unquoted, strip))
    guests = read_guests(fit, run, relation, new or [])
    with locating({"cells": found, **guests}):
        scored = fit.predict(relation, found.table, unknown=unknown, new=_rows(guests))
    titles = title_columns(fit, fit.model.equation(relation).indices, found.table.columns)
    deliver(scored, len(found.table.columns) + len(titles), path=output, as_json=json, gaps=titles,
            raw_names=raw_names)  # fmt: skip


def top(
    context: typer.Context,
    run: RunFolder,
    relation: RelationName,
    k: Annotated[int, typer.Option("-k", min=0, metavar="K", help="How many links.")] = 10,
    each: Annotated[
        list[str] | None, typer.Option("--each", metavar="INDEX", help="K links for each of its entities; repeatable.")
    ] = None,
    given: Annotated[
        list[str] | None, typer.Option("--given", metavar="INDEX=NAME", help="Only links of this entity; repeatable.")
    ] = None,
    known: Annotated[bool, typer.Option("--known", help="Let links of the data be among them.")] = False,
    exclude: Annotated[
        list[Path] | None,
        typer.Option("--exclude", metavar="FILE", help="A table of what not to list, by some indices; repeatable."),
    ] = None,
    score: Score = "mean",
    new: Guests = None,
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
      plait top run visits -k 5 --each user --exclude sold_out.csv -o links.parquet
      plait top run visits --given user=zoe --new what_zoe_did.csv
    """
    check_free(output, force)
    fit = load(run)
    indices = fit.model.equation(relation).indices
    chosen = named_cell(fit, relation, given or [])
    excluded = [read_cells(fit, run, relation, str(path), {}) for path in exclude or []]
    guests = read_guests(fit, run, relation, new or [])
    with locating({"exclude": excluded, **guests}):
        tables, rows = [one.table for one in excluded], _rows(guests)
        links, closed = propose(
            fit, relation, k, given=chosen, each=each or None, known=known, exclude=tables, score=score, new=rows
        )
    titles = title_columns(fit, indices, indices)
    deliver(links, len(indices) + len(titles), path=output, as_json=json, gaps=titles, raw_names=raw_names)
    if closed is not None and not json:
        to_stderr("note", str(closed))
    elif links.is_empty() and k and not known and not json:
        to_stderr("note", "every link that was asked for is known already; --known lists known ones, too.")


def _rows(guests: Mapping[str, Cells]) -> dict[str, pl.DataFrame] | None:
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
        raise SettingError("--exact and --missing ask two different things.", hint="Give one of them.")
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
