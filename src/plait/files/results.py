"""Results of a database -> a polars table: Arrow batches without copies, or rows of Python objects by the column."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from uuid import UUID

from plait.errors import DataError, FileLocation

if TYPE_CHECKING:
    import polars as pl

PLAIN = (bool, int, float, str, bytes, datetime.date, datetime.datetime, datetime.time, datetime.timedelta)
CAST = "Cast it in the query: cast({name} as text), or as double precision."


def table_of_batches(reader: Any, where: str) -> "pl.DataFrame":
    """A table of Arrow record batches; numerics of PostgreSQL become floats, UUIDs strings."""
    import polars as pl
    import pyarrow as pa

    schema = reader.schema
    _check_names(schema.names, where)
    kinds = [_kind(field, where) for field in schema]
    plain = pa.schema([pa.field(field.name, _storage(field.type)) for field in schema])
    batches = [
        pa.RecordBatch.from_arrays([getattr(column, "storage", column) for column in batch.columns], schema=plain)
        for batch in reader
    ]
    table = pl.DataFrame(pa.Table.from_batches(batches, schema=plain))
    return table.with_columns(_plain(column, kind) for column, kind in zip(table, kinds))


def table_of_rows(names: Sequence[str], batches: Iterable[Sequence[Any]], where: str) -> "pl.DataFrame":
    """A table of rows as a DB-API cursor fetches them, batch by batch; names of the columns."""
    import polars as pl

    _check_names(names, where)
    parts: list[list[pl.Series]] = [[] for _ in names]
    for rows in batches:
        plain = [tuple(row.values()) if isinstance(row, Mapping) else tuple(row) for row in rows]
        for k, values in enumerate(zip(*plain)):
            parts[k].append(_series(names[k], values, where))
    return pl.DataFrame([_joined(name, part, where) for name, part in zip(names, parts)])


def _check_names(names: Sequence[str], where: str) -> None:
    for name in names:
        if list(names).count(name) > 1:
            raise DataError(
                f"two columns are called {name!r}.",
                location=FileLocation(where),
                hint="Rename one in the query: select … as ….",
            )


def _storage(kind: Any) -> Any:
    return getattr(kind, "storage_type", kind)


def _kind(field: Any, where: str) -> str:
    """What an Arrow field is beyond its storage: numeric, uuid or plain; refused is what would be misread."""
    import pyarrow as pa

    metadata = field.metadata or {}
    name = getattr(field.type, "type_name", None) or (metadata.get(b"POSTGRESQL:type") or b"").decode()
    if name == "numeric":
        return "numeric"
    if name == "uuid" and pa.types.is_fixed_size_binary(_storage(field.type)):
        return "uuid"
    opaque = isinstance(field.type, pa.BaseExtensionType) and pa.types.is_binary(_storage(field.type))
    # Money comes as a number of cents, and intervals are none of polars' types.
    if opaque or name == "money" or pa.types.is_interval(field.type):
        raise DataError(
            f"column {field.name!r} is of type {name or field.type}, which cannot be read.",
            location=FileLocation(where),
            hint=CAST.format(name=field.name),
        )
    return "plain"


def _plain(column: "pl.Series", kind: str) -> "pl.Series":
    import polars as pl

    if kind == "numeric" or isinstance(column.dtype, pl.Decimal):
        return column.cast(pl.Float64)
    if kind == "uuid":
        digits = column.cast(pl.Binary).bin.encode("hex")
        parts = [digits.str.slice(start, length) for start, length in ((0, 8), (8, 4), (12, 4), (16, 4), (20, 12))]
        dashed = pl.select(pl.concat_str([pl.lit(part) for part in parts], separator="-")).to_series()
        return dashed.alias(column.name)
    return column


def _series(name: str, values: Sequence[Any], where: str) -> "pl.Series":
    """A batch of a column; None is null, Decimal a float, a UUID a string."""
    import polars as pl

    kinds = {type(value) for value in values} - {type(None)}
    if kinds & {Decimal, UUID, memoryview, bytearray}:
        values = [_simple(value) for value in values]
        kinds = {type(value) for value in values} - {type(None)}
    for kind in kinds:
        if not issubclass(kind, PLAIN):
            raise DataError(
                f"column {name!r} holds {kind.__name__}.",
                location=FileLocation(where),
                hint=CAST.format(name=name),
            )
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        raise _mixed(name, [kind.__name__ for kind in kinds], where)
    try:
        # Wider integers would get a type that only polars has.
        return pl.Series(name, values, dtype=pl.Int64 if kinds == {int} else None if kinds else pl.Null)
    except (pl.exceptions.PolarsError, OverflowError, TypeError):
        raise DataError(
            f"column {name!r} holds integers that do not fit into 64 bits.",
            location=FileLocation(where),
            hint=CAST.format(name=name),
        ) from None


def _simple(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, UUID):
        return str(value)
    return bytes(value) if isinstance(value, (memoryview, bytearray)) else value


def _joined(name: str, parts: Sequence["pl.Series"], where: str) -> "pl.Series":
    """The batches of a column as one; integers and floats together are floats."""
    import polars as pl

    kinds = {part.dtype for part in parts} - {pl.Null()}
    if kinds == {pl.Int64(), pl.Float64()}:
        kinds = {pl.Float64()}
    if len(kinds) > 1:
        raise _mixed(name, list(map(str, kinds)), where)
    kind = next(iter(kinds), pl.Null())
    empty = pl.Series(name, [], dtype=kind)
    return pl.concat([empty, *(part.cast(kind) for part in parts)], rechunk=False)


def _mixed(name: str, kinds: Sequence[str], where: str) -> DataError:
    return DataError(
        f"column {name!r} mixes {' and '.join(sorted(kinds))}.",
        location=FileLocation(where),
        hint=CAST.format(name=name),
    )
