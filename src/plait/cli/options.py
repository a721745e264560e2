"""Arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer


def named_path(text: str) -> Path:
    """A path to write to; an empty one, as an unset variable of a shell gives, is not the current folder."""
    if not text:
        raise typer.BadParameter("the name is empty.")
    return Path(text)


def reading(columns: str | None, delimiter: str | None, header: bool | None, unquoted: bool) -> dict[str, Any]:
    """The options of `plait.read` that were given on the command line."""
    given = {
        "columns": None if columns is None else [column.strip() for column in columns.split(",")],
        "delimiter": delimiter,
        "header": header,
        "quoted": False if unquoted else None,
    }
    return {option: setting for option, setting in given.items() if setting is not None}


ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file: model, relations, settings.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `plait fit` made.")]
RelationName = Annotated[str, typer.Argument(metavar="RELATION", help="A relation of the model.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout instead of tables.")]
OutputFile = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        parser=named_path,
        help="Write the table to a file: .csv, .csv.gz, .parquet, …",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")]
Columns = Annotated[str | None, typer.Option(metavar="A,B,…", help="Names of the columns of a file without a header.")]
Delimiter = Annotated[str | None, typer.Option(help="One character (text); found by itself otherwise.")]
Header = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first line names the columns (text).")
]
Unquoted = Annotated[bool, typer.Option("--unquoted", help="Quotation marks are ordinary characters (text).")]
Score = Annotated[str, typer.Option("--score", help="What to rank by: mean, probability or rate.")]
