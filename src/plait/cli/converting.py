"""The command convert: one kind of file into another."""

from pathlib import Path
from typing import Annotated

import typer

from plait.cli.options import Json


def convert(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, or the URL of a database.")],
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="A file; its ending says the kind.")],
    columns: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Names of the columns of a file without a header.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="One character (text); found by itself otherwise.")] = None,
    name: Annotated[str | None, typer.Option(help="Which array (.mat, .npz).")] = None,
    query: Annotated[str | None, typer.Option(help="What to ask a database.")] = None,
    table: Annotated[str | None, typer.Option(help="Which table of a database.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")] = False,
    json: Json = False,
) -> None:
    """Read a table or an array, and write it as another kind of file.

    \b
    Examples:
      plait convert visits.csv visits.parquet
      plait convert tensor.tns.gz tensor.parquet --columns user,place,time,value
      plait convert sqlite:///shop.db orders.csv --query "SELECT user, item FROM orders"
    """
    from plait.cli.output import emit, out, working
    from plait.errors import SettingError
    from plait.files.read import read
    from plait.files.write import write

    if target.exists() and not force:
        raise SettingError(f"{target}: this file is there already.\nName another one, or replace it: --force.")
    names = None if columns is None else [column.strip() for column in columns.split(",")]
    with working(f"reading {source}"):
        found = read(source, columns=names, delimiter=delimiter, name=name, query=query, table=table)
    with working(f"writing {target}"):
        write(found, target)
    tabular = hasattr(found, "columns")
    if json:
        shape = {"rows": len(found), "columns": found.columns} if tabular else {"shape": found.shape}
        emit({"written": str(target), **shape})
    else:
        what = f"{len(found):,} rows" if tabular else f"an array of {' × '.join(map(str, found.shape))}"
        out(f"wrote {what} to {target}")
