"""The command evaluate."""

from pathlib import Path
from typing import Annotated

import typer

from plait.cli.options import Columns, Delimiter, Header, Json, RelationName, RunFolder, Score, Unquoted, reading


def evaluate(
    run: RunFolder,
    relation: RelationName,
    test: Annotated[Path, typer.Argument(metavar="TEST", help="A table with a column for each index, and values.")],
    rank: Annotated[
        list[str] | None, typer.Option("--rank", metavar="INDEX", help="Rank links on this index; repeatable.")
    ] = None,
    score: Score = "mean",
    value: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of values; without one every row is a link.")
    ] = None,
    nonlinks: Annotated[int | None, typer.Option(min=0, help="Non-links to draw for each link.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Which non-links are drawn.")] = 0,
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    json: Json = False,
) -> None:
    """Measure how well a run predicts links that it has not seen.

    \b
    Examples:
      plait evaluate run visits test.csv
      plait evaluate run visits test.csv --rank place --rank user --json
    """
    import warnings

    import plait
    from plait.cli.cells import read_cells
    from plait.cli.output import emit, out
    from plait.cli.wording import of_cells

    fit = plait.load(run)
    options = reading(columns, delimiter, header, unquoted)
    cells = read_cells(fit, run, relation, str(test), options)
    if value is None and fit.known[relation].value is None and cells.value in cells.table.columns:
        value = cells.value  # the config of an earlier version's run knows it, the fit does not
    tested = cells.table if value is None else plait.Relation(cells.table, value=value)
    with of_cells(cells, prior=False), warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.LeakWarning)  # the notes among the figures say it
        found = plait.evaluate(
            fit, relation, tested, score=score, rank=rank or None, nonlinks=nonlinks, seed=seed
        )  # fmt: skip
    if json:
        emit(found.to_dict())
    else:
        out(str(found))
