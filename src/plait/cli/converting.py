"""The command convert: one kind of file into another."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from plait.cli.options import (
    Columns,
    Delimiter,
    Force,
    Header,
    Json,
    Kind,
    RawNames,
    Strip,
    Unquoted,
    named_path,
    reading,
)
from plait.cli.output import check_free, emit, out, working
from plait.files import options_for
from plait.files.read import read
from plait.files.write import counts_from, write


def convert(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, or the URL of a database.")],
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", parser=named_path, help="A file; its ending says the kind.")
    ],
    kind: Kind = None,
    columns: Columns = None,
    delimiter: Delimiter = None,
    header: Header = None,
    unquoted: Unquoted = False,
    strip: Strip = False,
    raw_names: RawNames = False,
    name: Annotated[str | None, typer.Option(help="Which array (.mat, .npz).")] = None,
    query: Annotated[str | None, typer.Option(help="What to ask a database.")] = None,
    table: Annotated[str | None, typer.Option(help="Which table of a database.")] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Read a table or an array, and write it as another kind of file.

    \b
    Examples:
      plait convert visits.csv visits.parquet
      plait convert tensor.tns.gz tensor.parquet --columns user,place,time,value
      plait convert sqlite:///shop.db orders.csv --query "SELECT user, item FROM orders"
    """
    check_free(target, force)
    options = reading(kind, columns, delimiter, header, unquoted, strip)
    written_raw = raw_names and "escape_formulas" in options_for(target)
    if raw_names and (not written_raw or "escape_formulas" in options_for(source, kind)):
        options["escape_formulas"] = False
    with working(f"reading {source}"):
        found = read(source, name=name, query=query, table=table, **options)
    with working(f"writing {target}"):
        write(found, target, escape_formulas=not written_raw)
    tabular = hasattr(found, "columns")
    base = None if tabular else counts_from(target)
    if json:
        shape = {"rows": len(found), "columns": found.columns} if tabular else {"shape": found.shape}
        emit({"written": str(target), **shape, **({} if base is None else {"counts_from": base})})
        return
    if tabular:
        out(f"wrote {len(found):,} row{'' if len(found) == 1 else 's'} to {target}")
    else:
        out(f"wrote an array of {' × '.join(map(str, found.shape))} to {target}")
    if base is not None:
        left_out = "Missing cells" if _has_gaps(found) else "Zeros"
        out(f"Coordinates count from {base}. {left_out} are left out, so the shape is not kept.")


def _has_gaps(array: Any) -> bool:
    return isinstance(array, np.ndarray) and array.dtype.kind == "f" and bool(np.isnan(array).any())
