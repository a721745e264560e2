"""Commands about links: predict, top, explain."""

from pathlib import Path
from typing import Annotated

import typer

from plait.cli.options import (
    Columns,
    Delimiter,
    Force,
    Header,
    Json,
    OutputFile,
    RelationName,
    RunFolder,
    Score,
    Unquoted,
    reading,
)


def predict(
    run: RunFolder,
    relation: RelationName,
    cells: Annotated[Path, typer.Argument(metavar="CELLS", help="A table with a column for each index.")],
    output: OutputFile = None,
    force: Force = False,
    unknown: Annotated[str, typer.Option(help="What an unknown name means: error, or prior.")] = "error",
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    json: Json = False,
) -> None:
    """Score the cells of a table.

    Adds the expected count (mean), its uncertainty (sd), the probability of a link, and a 90 % interval (low, high).

    \b
    Examples:
      plait predict run visits cells.csv
      plait predict run visits cells.parquet -o scores.parquet
      plait predict run visits newcomers.csv --unknown prior
    """
    from plait.cli.cells import read_cells
    from plait.cli.output import check_free, deliver
    from plait.cli.wording import of_cells
    from plait.result import load

    check_free(output, force)
    fit = load(run)
    found = read_cells(fit, run, relation, str(cells), reading(columns, delimiter, header, unquoted))
    with of_cells(found):
        scored = fit.predict(relation, found.table, unknown=unknown)
    deliver(scored, len(found.table.columns), path=output, as_json=json)


def top(
    run: RunFolder,
    relation: RelationName,
    k: Annotated[int, typer.Option("-k", min=0, metavar="K", help="How many links.")] = 10,
    given: Annotated[
        list[str] | None, typer.Option("--given", metavar="INDEX=NAME", help="Only links of this entity; repeatable.")
    ] = None,
    known: Annotated[bool, typer.Option("--known", help="Let links of the data be among them.")] = False,
    score: Score = "mean",
    output: OutputFile = None,
    force: Force = False,
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
    """
    import warnings

    from plait.cli.cells import named_cell
    from plait.cli.output import check_free, deliver, to_stderr
    from plait.result import load

    check_free(output, force)
    fit = load(run)
    indices = fit.model.equation(relation).indices
    chosen = named_cell(fit, relation, given or [])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        links = fit.top(relation, k, given=chosen, known=known, score=score)
    deliver(links, len(indices), path=output, as_json=json)
    if caught and not json:
        to_stderr("note", str(caught[0].message).replace("hidden= of its plait.Relation", "hidden in the config"))
    elif links.is_empty() and k and not known and not json:
        to_stderr("note", "every link that was asked for is known already; --known lists known ones, too.")


def explain(
    run: RunFolder,
    relation: RelationName,
    cell: Annotated[list[str], typer.Argument(metavar="INDEX=NAME...", help="The cell: a name for each index.")],
    most: Annotated[int, typer.Option("--top", min=1, help="How many entities and links to show of each kind.")] = 5,
    json: Json = False,
) -> None:
    """Say why a link is predicted.

    Which components make it, which entities characterise them, and which known links are most responsible.

    \b
    Examples:
      plait explain run visits user=u17 place=p3 activity=eat
      plait explain run visits "user=ann lee" place=p3 activity=eat --json
    """
    from plait.cli.cells import named_cell
    from plait.cli.output import emit, out
    from plait.result import load

    fit = load(run)
    explanation = fit.explain(relation, named_cell(fit, relation, cell), top=most)
    if json:
        emit(explanation.to_dict())
    else:
        out(str(explanation))
