"""The command evaluate."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

import plait
from plait.cli.cells import locating, read_cells, with_values
from plait.cli.options import (
    Columns,
    Delimiter,
    Header,
    Json,
    Kind,
    RelationName,
    RunFolder,
    Score,
    Strip,
    Unquoted,
    Value,
    reading,
)
from plait.cli.output import put


def evaluate(
    run: RunFolder,
    relation: RelationName,
    test: Annotated[Path, typer.Argument(metavar="TEST", help="A table with a column for each index, and values.")],
    rank: Annotated[
        list[str] | None, typer.Option("--rank", metavar="INDEX", help="Rank links on this index; repeatable.")
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option("-k", min=1, help="Recall, NDCG, … of the first so many; needs --rank; repeatable."),
    ] = None,
    known: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Further links that are no candidates; repeatable.")
    ] = None,
    score: Score = "mean",
    value: Value = None,
    nonlinks: Annotated[int | None, typer.Option(min=0, help="Non-links to draw for each link.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which non-links are drawn.")] = 0,
    kind: Kind = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    strip: Strip = False,
    json: Json = False,
) -> None:
    """Measure how well a run predicts links that it has not seen.

    \b
    Examples:
      plait evaluate run visits test.csv
      plait evaluate run visits test.csv --rank place -k 10 --known valid.csv
      plait evaluate run visits test.csv --rank place --rank user --json
    """
    fit = plait.load(run)
    options = reading(kind, columns, delimiter, header, unquoted, strip)
    cells = read_cells(fit, run, relation, str(test), options)
    others = [read_cells(fit, run, relation, str(path), options) for path in known or ()]
    with locating({"test": cells, "known": others}), warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.LeakWarning)  # the notes among the figures say it
        found = plait.evaluate(
            fit, relation, with_values(fit, relation, cells, value), score=score, rank=rank or None, k=k or None,
            nonlinks=nonlinks, known=[with_values(fit, relation, own, value) for own in others], seed=seed,
        )  # fmt: skip
    put(found.describe(), as_json=json)
