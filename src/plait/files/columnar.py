"""Parquet and Arrow files."""

import re
from typing import TYPE_CHECKING

from plait.errors import DataError, FileLocation

if TYPE_CHECKING:
    import polars as pl


def read_parquet(path: str) -> "pl.DataFrame":
    """The table of a Parquet file."""
    import polars as pl

    try:
        return pl.read_parquet(path, glob=False, hive_partitioning=False)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise damaged(path, "Parquet", error) from None


def read_arrow(path: str) -> "pl.DataFrame":
    """The table of an Arrow file: the file format (Feather 2) or the stream format, by its first bytes."""
    import polars as pl

    with open(path, "rb") as file:
        magic = file.read(6)
    if magic.startswith(b"FEA1"):
        raise DataError(
            "the file is Feather 1, which is no longer in use.",
            location=FileLocation(path),
            hint="Write it as Feather 2 or Parquet.",
        )
    try:
        if magic != b"ARROW1":
            return pl.read_ipc_stream(path)
        return pl.read_ipc(path)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise damaged(path, "Arrow", error) from None


def stripped(table: "pl.DataFrame", where: str) -> "pl.DataFrame":
    """The table without blanks at the ends of its texts and of the names of its columns."""
    import polars as pl

    names = [name.strip() for name in table.columns]
    for name in names:
        if names.count(name) > 1:
            raise DataError(
                f"two columns are called {name!r} but for blanks.",
                location=FileLocation(where),
                hint="Rename one of the two.",
            )
    texts = [name for name, kind in table.schema.items() if isinstance(kind, (pl.String, pl.Categorical, pl.Enum))]
    table = table.with_columns(pl.col(texts).cast(pl.String).str.strip_chars())
    return table.rename(dict(zip(table.columns, names)))


def damaged(path: str, kind: str, error: BaseException) -> DataError:
    """A file that polars cannot read, in its words."""
    reason = re.split(r"\n|: Error \{", str(error).strip())[0].rstrip(".")
    return DataError(
        f"this is no {kind} file, or a damaged one: {reason}.",
        location=FileLocation(path),
        hint="Fetch or write it again.",
    )
