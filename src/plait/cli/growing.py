"""Commands by which a run learns after it was made: fold-in and update."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from plait.cli.cells import Cells, locating, read_cells
from plait.cli.fitting import refuse_other_run
from plait.cli.options import Columns, Delimiter, Header, Json, Kind, RunFolder, Strip, Unquoted, named_path, reading
from plait.cli.output import emit, out, working
from plait.errors import SettingError
from plait.result import Fit, load
from plait.run.folder import holds_run

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


def fold_in(
    run: RunFolder,
    rows: RowFiles,
    output: NewRun,
    relation: Relations = None,
    iterations: Annotated[int, typer.Option(min=1, help="How often the new rows are updated.")] = 10,
    force: Again = False,
    kind: Kind = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    strip: Strip = False,
    json: Json = False,
) -> None:
    """Add new entities to a run; everything else of it stays as it is.

    Every row names at least one entity that the run does not know. For links of known ones, see `plait update`.

    \b
    Examples:
      plait fold-in run newcomers.csv --relation visits -o larger
      plait fold-in run visits.csv tags.csv -r visits -r tags -o larger
    """
    options = reading(kind, columns, delimiter, header, unquoted, strip)
    _learn("folded in", Fit.fold_in, run, rows, output, relation, iterations, force, options, json)


def update(
    run: RunFolder,
    rows: RowFiles,
    output: NewRun,
    relation: Relations = None,
    iterations: Annotated[int, typer.Option(min=1, help="How often all factors are updated.")] = 5,
    force: Again = False,
    kind: Kind = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    strip: Strip = False,
    json: Json = False,
) -> None:
    """Let a run learn new links, without the data that it was made from.

    Counts of a cell that is known already are added up; under other likelihoods than poisson such a row is refused.

    \b
    Examples:
      plait update run today.csv --relation visits -o run-today
      plait update run today.csv -r visits -o run --force
    """
    options = reading(kind, columns, delimiter, header, unquoted, strip)
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
    new = {axis: len(found.labels[axis]) - len(fit.labels[axis]) for axis in fit.model.axes}
    links = {name: len(cells.table) for name, cells in tables.items()}
    if as_json:
        emit({"run": str(output), "new": new, "rows": links, "bound": found.bound, "iterations": iterations})
        return
    entities = ", ".join(f"{count:,} of {axis}" for axis, count in new.items() if count) or "none"
    count = sum(links.values())
    out(f"{count:,} row{'' if count == 1 else 's'} {word}; new entities: {entities}.")
    out(f"Saved in {output}; bound {found.bound:,.6g}.")


def _tables(fit: Fit, run: Path, rows: Sequence[Path], names: list[str], options: dict[str, Any]) -> dict[str, Cells]:
    """The tables of rows by relation."""
    if not names and len(fit.model.relations) == 1:
        names = [fit.model.relations[0]]
    if len(names) != len(rows) or len(set(names)) < len(names):
        have = ", ".join(fit.model.relations)
        raise SettingError(
            f"there are {len(rows)} tables of rows, and {len(names)} different relations.",
            hint=f"Say whose rows each table has: --relation {fit.model.relations[0]}. The relations are {have}.",
        )
    return {name: read_cells(fit, run, name, str(path), options) for name, path in zip(names, rows)}
