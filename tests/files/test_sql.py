import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import adbc_driver_sqlite.dbapi
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import plait
from plait.files.sql import table_of_rows
from tests.support.data_errors import assert_mentions, error_text

SCRIPT = """
    create table visits (user text, place integer, plays real, raw blob);
    insert into visits values ('ann', 1, 2.5, x'00'), (null, 2, 3, null);
    create table "order ""by" (n integer);
    insert into "order ""by" values (7);
    create table mixed (a);
    insert into mixed values (1), ('x');
"""
VISITS = pl.DataFrame({"user": ["ann", None], "place": [1, 2], "plays": [2.5, 3.0], "raw": [b"\0", None]})


def message(source, **options):
    return error_text(plait.read, source, **options)


@pytest.fixture
def database() -> str:
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.executescript(SCRIPT)
    return "sqlite:///shop.db"


@pytest.fixture(params=["sqlite3", "adbc"])
def connection(request, database) -> Iterator:
    opened = sqlite3.connect if request.param == "sqlite3" else adbc_driver_sqlite.dbapi.connect
    with closing(opened("shop.db")) as found:
        yield found


def test_a_url_reads_a_query_and_a_table(database):
    assert_frame_equal(plait.read(database, table="visits"), VISITS)
    assert plait.read(database, query="select sum(plays) as value from visits").rows() == [(5.5,)]
    assert_frame_equal(plait.read(database, table="main.visits"), VISITS)
    assert_frame_equal(plait.read(f"sqlite:///{Path('shop.db').absolute()}", table="visits"), VISITS)


def test_a_connection_reads_a_query_and_a_table_and_stays_open(connection):
    assert_frame_equal(plait.read(connection, table="visits"), VISITS)
    assert plait.read(connection, query="select place from visits").rows() == [(1,), (2,)]


def test_names_of_tables_are_quoted(database):
    assert plait.read(database, table='order "by').rows() == [(7,)]
    assert "no such table" in message(database, table="visits; drop table visits")
    assert "no such table" in message(database, table='visits" where 1=0 --')


def test_rows_of_a_row_factory_are_read(database):
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.row_factory = sqlite3.Row
        assert_frame_equal(plait.read(connection, table="visits"), VISITS)
        connection.row_factory = lambda cursor, row: dict(zip((c[0] for c in cursor.description), row))
        assert_frame_equal(plait.read(connection, table="visits"), VISITS)


def test_a_query_that_finds_nothing_gives_an_empty_table(database):
    table = plait.read(database, query="select user, place from visits where 0")
    assert table.shape == (0, 2)
    assert table.columns == ["user", "place"]


def test_the_database_is_opened_for_reading_only(database):
    assert_mentions(message(database, query="delete from visits"), database, "readonly database")
    assert_mentions(message("sqlite:///shop2.db", table="visits"), "shop2.db", "Did you mean 'shop.db'?")
    assert not Path("shop2.db").exists()


@pytest.mark.parametrize(
    "query",
    ["vacuum", "vacuum into 'copy.db'", "attach database 'new.db' as e", "VACUUM main INTO 'copy.db'",
     "pragma temp_store_directory = '.'", "PRAGMA Soft_Heap_Limit = 1000000"],
)  # fmt: skip
@pytest.mark.parametrize("read", [plait.read, lambda url, query: plait.scan(query, connection=url).columns])
def test_a_query_writes_no_other_file(database, query, read):
    with pytest.raises(
        plait.errors.DataError, match=r"error of the database: (not authorized|authorization denied)\."
    ) as caught:
        read(database, query=query)
    assert caught.value.hint.startswith("A query can only read: select")
    assert [path.name for path in Path().iterdir()] == ["shop.db"]


def test_virtual_tables_and_descriptions_are_read():
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.executescript("create virtual table words using fts5(word); insert into words values ('tea');")
    for query in (
        "select word from words where words match 'tea'",
        "select value from json_each('[\"tea\"]')",
        "select 'tea' from pragma_table_info('words')",
    ):
        assert plait.read("sqlite:///shop.db", query=query).rows() == [("tea",)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "visit"}, ["no such table: visit", "Did you mean 'visits'?"]),
        ({"table": "xyz"}, ["no such table: xyz"]),
        ({"query": "select * frm visits"}, ['near "frm"', "Check the query."]),
        ({"table": "mixed"}, ["column 'a' contains both int and str", "cast(a as text)"]),
        ({"query": "select 1 as a, 2 as a"}, ["two columns", "'a'"]),
        ({}, ["neither `query` nor `table`"]),
        ({"query": "a", "table": "b"}, ["`query` and `table` are both given"]),
    ],
)
def test_a_bad_query_or_table_is_refused(database, options, words):
    assert_mentions(message(database, **options), database, *words)


def test_a_bad_query_on_a_connection_names_its_library(connection):
    library = type(connection).__module__.partition(".")[0]
    found = message(connection, query="select * from nowhere")
    assert found.startswith(f"the {library} connection: error of the database: no such table: nowhere")
    assert found.endswith("\nCheck the query.")


def test_a_statement_without_rows_is_refused(database):
    with closing(sqlite3.connect("shop.db")) as connection:
        text = message(connection, query="create table t (a)")
    assert_mentions(text, "sqlite3 connection", "no table", "select")


def test_a_file_that_is_no_database_is_named():
    Path("a.db").write_text("user,value\n" * 100)
    assert_mentions(message("sqlite:///a.db", table="t"), "sqlite:///a.db", "not a database")
    assert_mentions(message("sqlite://a.db", table="t"), "sqlite://a.db", "sqlite:///file.db")


def test_a_missing_driver_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql.dbapi", None)
    text = message("postgresql://me:pw@host/db", query="select 1")
    assert_mentions(text, "postgresql://me:***@host/db", "PostgreSQL", "pip install 'tensorplait[sql]'")


def test_batches_of_different_types_are_joined():
    batches = [[(1, None, Decimal("1.5"))], [(2.5, "x", 2)], [(None, None, None)]]
    table = table_of_rows(["a", "b", "c"], batches, "here")
    assert table.rows() == [(1.0, None, 1.5), (2.5, "x", 2.0), (None, None, None)]
    with pytest.raises(plait.errors.DataError, match="here: column 'a' contains both Int64 and String"):
        table_of_rows(["a"], [[(1,)], [("x",)]], "here")


def test_python_objects_become_plain_values():
    unique = UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
    row = (Decimal("3.25"), unique, memoryview(b"x"), True, date(2020, 1, 2))
    table = table_of_rows(list("abcde"), [[row, (None,) * 5]], "here")
    assert table.rows() == [(3.25, str(unique), b"x", True, date(2020, 1, 2)), (None,) * 5]
    with pytest.raises(plait.errors.DataError, match="here: column 'a' contains values of type dict"):
        table_of_rows(["a"], [[({},)]], "here")
    with pytest.raises(plait.errors.DataError, match="here: column 'a' contains integers that do not fit into 64 bits"):
        table_of_rows(["a"], [[(2**70,)]], "here")
