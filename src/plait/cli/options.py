"""Arguments that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file: model, relations, settings.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `plait fit` made.")]
RelationName = Annotated[str, typer.Argument(metavar="RELATION", help="A relation of the model.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout instead of tables.")]
OutputFile = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write the table to a file: .csv, .csv.gz, .parquet, …"),
]
Score = Annotated[str, typer.Option("--score", help="What to rank by: mean, probability or rate.")]
