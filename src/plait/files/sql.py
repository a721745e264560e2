"""SQL: a query or a table of a database, by URL or an open connection, as a polars table, from Arrow batches or DB-API
rows.
"""

import datetime
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote
from uuid import UUID

from plait.errors import DataError, FileLocation, ParameterError, suggestion
from plait.files.source_kinds import existing_file, scrubbed, source_name

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
    """A table of rows of a DB-API cursor, batch by batch; `names`: of the columns."""
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
                f"two columns have the name {name!r}.",
                location=FileLocation(where),
                hint="Rename one in the query: select … as ….",
            )


def _storage(kind: Any) -> Any:
    return getattr(kind, "storage_type", kind)


def _kind(field: Any, where: str) -> str:
    """Kind of an Arrow field: numeric, uuid or plain; fields that would be misread are refused."""
    import pyarrow as pa

    metadata = field.metadata or {}
    name = getattr(field.type, "type_name", None) or (metadata.get(b"POSTGRESQL:type") or b"").decode()
    if name == "numeric":
        return "numeric"
    if name == "uuid" and pa.types.is_fixed_size_binary(_storage(field.type)):
        return "uuid"
    opaque = isinstance(field.type, pa.BaseExtensionType) and pa.types.is_binary(_storage(field.type))
    # Money arrives as a number of cents, and polars has no intervals.
    if opaque or name == "money" or pa.types.is_interval(field.type):
        raise DataError(
            f"column {field.name!r} is of type {name or field.type}, which is not supported.",
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
                f"column {name!r} contains values of type {kind.__name__}.",
                location=FileLocation(where),
                hint=CAST.format(name=name),
            )
    if kinds == {int, float}:
        values = [None if value is None else float(value) for value in values]
    elif len(kinds) > 1:
        raise _mixed(name, [kind.__name__ for kind in kinds], where)
    try:
        # Wider integers would get a type specific to polars.
        return pl.Series(name, values, dtype=pl.Int64 if kinds == {int} else None if kinds else pl.Null)
    except (pl.exceptions.PolarsError, OverflowError, TypeError):
        raise DataError(
            f"column {name!r} contains integers that do not fit into 64 bits.",
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
    """Batches of a column as one; integers and floats together are floats."""
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
        f"column {name!r} contains both {' and '.join(sorted(kinds))}.",
        location=FileLocation(where),
        hint=CAST.format(name=name),
    )


TABLES = {
    "sqlite": "select name from sqlite_master where type in ('table', 'view')",
    "postgresql": "select table_name from information_schema.tables "
    "where table_schema not in ('pg_catalog', 'information_schema')",
}

# Settings of SQLite that apply to the whole process.
PROCESS_PRAGMAS = {"temp_store_directory", "data_store_directory", "soft_heap_limit", "hard_heap_limit"}
READING_ONLY = "A query can only read: select … from …."

# INVALID_ARGUMENT: [libpq] Failed to prepare query: ERROR:  …
DRIVER_CODES = re.compile(r"^(?:[A-Z_]+: )?(?:\[\w+\] )?(?:Failed to [a-z ]+: )?(?:(?:ERROR|FATAL): +)?")


def read_sql(source: Any, query: str | None = None, table: str | None = None) -> "pl.DataFrame":
    """Rows of a query or of a whole table; `source`: a URL, or an ADBC or DB-API connection, which stays open."""
    statement = _statement(source, query, table)
    scheme = _scheme(source)
    if scheme is None:
        return _ask(source, statement, source, lambda: "Check the query.")
    with closing(_sqlite(source) if scheme == "sqlite" else _postgresql(source)) as connection:
        return _ask(connection, statement, source, lambda: _near(connection, table, TABLES[scheme]))


def sql_batches(source: Any, size: int, query: str | None = None, table: str | None = None) -> "Iterator[pl.DataFrame]":
    """The same rows in batches, never in memory as a whole."""
    statement = _statement(source, query, table)
    scheme = _scheme(source)
    opened: Any = source if scheme is None else _sqlite(source) if scheme == "sqlite" else _postgresql(source)
    with nullcontext(opened) if scheme is None else closing(opened) as connection:

        def hint() -> str:
            return "Check the query." if scheme is None else _near(connection, table, TABLES[scheme])

        with _server_errors(source, hint), closing(connection.cursor()) as cursor:
            _execute(cursor, statement, source)
            if callable(getattr(cursor, "fetch_record_batch", None)):
                reader = cursor.fetch_record_batch()
                for batch in reader:
                    yield table_of_batches(_Batches(reader.schema, [batch]), source_name(source))
                return
            names = [str(column[0]) for column in cursor.description]
            for rows in _batches(cursor, size):
                yield table_of_rows(names, [rows], source_name(source))


class _Batches(NamedTuple):
    """Some of the batches of a reader."""

    schema: Any
    own: list[Any]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.own)


def _scheme(source: Any) -> str | None:
    """Kind of database of a URL; None for an open connection."""
    if not isinstance(source, str):
        return None
    return "sqlite" if source.casefold().startswith("sqlite:") else "postgresql"


def _execute(cursor: Any, statement: str, source: Any) -> None:
    """Run a statement that returns rows."""
    if _scheme(source) == "postgresql":
        # COPY … TO writes files and runs programs even in a read-only transaction: it has no columns, and is not run.
        _check_rows(cursor.adbc_execute_schema(statement).names, source)
    cursor.execute(statement)
    _check_rows(cursor.description, source)


def _check_rows(columns: Any, source: Any) -> None:
    if not columns:
        raise DataError(
            "the statement returns no table.",
            location=FileLocation(source_name(source)),
            hint="Use a query: select … from ….",
        )


def _statement(source: Any, query: str | None, table: str | None) -> str:
    if (query is None) == (table is None):
        one, other = "`query`", "`table`"
        both = f"{one} and {other} are both given" if query is not None else f"neither {one} nor {other} is given"
        raise ParameterError(
            f"{both} for {source_name(source)}.",
            hint='Give either `query="select …"` or `table="visits"`.',
        )
    if table is None:
        return str(query)
    # Names are quoted, so a table may be called order, and names are never taken for SQL.
    parts = (part.replace('"', '""') for part in table.split("."))
    return "select * from " + ".".join(f'"{part}"' for part in parts)


def _ask(connection: Any, statement: str, source: Any, hint: Callable[[], str]) -> "pl.DataFrame":
    """Execute; results as Arrow where the cursor supports it, else row by row."""
    with _server_errors(source, hint), closing(connection.cursor()) as cursor:
        _execute(cursor, statement, source)
        if callable(getattr(cursor, "fetch_record_batch", None)):
            return table_of_batches(cursor.fetch_record_batch(), source_name(source))
        return table_of_rows([str(column[0]) for column in cursor.description], _batches(cursor), source_name(source))


def _batches(cursor: Any, size: int = 50_000) -> Iterator[list[Any]]:
    while rows := cursor.fetchmany(size):
        yield rows


@contextmanager
def _server_errors(source: Any, hint: Callable[[], str]) -> Iterator[None]:
    """Turn errors of a driver into DataErrors; unchained, since they could show a password."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # drivers have different exceptions
        words = _words(str(error).strip() or type(error).__name__)
        if isinstance(source, str):
            words = scrubbed(words, source)
        refused = isinstance(source, str) and getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_AUTH
        advice = READING_ONLY if refused else hint()
        raise DataError(
            f"error of the database: {words}", location=FileLocation(source_name(source)), hint=advice
        ) from None


def _words(message: str) -> str:
    """A driver's message without codes and a copy of the query."""
    message = DRIVER_CODES.sub("", message.partition("\n\n")[0])
    first, *more = [line for line in message.splitlines() if line.strip()]
    if more:
        return "\n  ".join([first, *(line.expandtabs(2) for line in more)])
    return first.rstrip(".") + "."


def _sqlite(url: str) -> sqlite3.Connection:
    path = url.partition("://")[2]
    if not path.startswith("/") or path == "/":
        raise DataError(
            "the path is missing.",
            location=FileLocation(url),
            hint="Write it after three slashes: sqlite:///file.db, sqlite:////folder/file.db.",
        )
    file = existing_file(path[1:])
    with _server_errors(url, lambda: "Check that this is a SQLite file."):
        # Read-only: a query changes neither this file (mode=ro) nor another one (authorizer).
        connection = sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True)
        try:
            connection.set_authorizer(_authorize)
            connection.execute("select 1 from sqlite_master").close()
        except BaseException:
            connection.close()
            raise
        return connection


def _authorize(action: int, name: str | None, *_: str | None) -> int:
    """SQLite's authorizer. VACUUM and VACUUM INTO attach a file, too; virtual tables need all other actions."""
    setting = action == sqlite3.SQLITE_PRAGMA and (name or "").lower() in PROCESS_PRAGMAS
    return sqlite3.SQLITE_DENY if setting or action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK


def _postgresql(url: str) -> Any:
    try:
        import adbc_driver_postgresql.dbapi as driver
    except ImportError:
        raise DataError(
            "the driver of PostgreSQL is not installed.",
            location=FileLocation(source_name(url)),
            hint="Install it: pip install 'tensorplait[sql]'.",
        ) from None
    with _server_errors(url, lambda: "Check user, password, host, port and database of the URL."):
        connection = driver.connect(url)
        try:
            with closing(connection.cursor()) as cursor:
                cursor.execute("set transaction read only")
        except BaseException:
            connection.close()
            raise
        return connection


def _near(connection: Any, table: str | None, query: str) -> str:
    """Hint of a refused statement: the table that was meant, if the database lists it."""
    if table is None:
        return "Check the query."
    try:
        connection.rollback()
        with closing(connection.cursor()) as cursor:
            cursor.execute(query)
            known = [str(row[0]) for row in cursor.fetchall()]
    except Exception:  # show the original error
        known = []
    return suggestion(table.rpartition(".")[2], known).strip() or "Check the name of the table."
