"""SQL against a real server of PostgreSQL: by URL through ADBC, and through open connections."""

from datetime import UTC, date, datetime
from pathlib import Path

import adbc_driver_postgresql.dbapi
import polars as pl
import psycopg
import pytest
from polars.testing import assert_frame_equal

import plait
from tests.support.data_errors import assert_mentions, error_text
from tests.support.postgres import PASSWORD, Server

pytestmark = pytest.mark.thorough

SCRIPT = """
    create table visits (
        "user" text, place int, plays bigint, share numeric(10, 2), heard double precision, liked boolean, day date,
        at timestamptz, id uuid);
    insert into visits values
        ('ann', 1, 3, 0.25, 1.5, true, '2020-01-02', '2020-01-02 03:04+02', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'),
        ('bøb', 2, null, null, null, null, null, null, null);
    create table "Odd ""name" ("Col" int);
    insert into "Odd ""name" values (7);
    create schema other;
    create table other.visits (n int);
    insert into other.visits values (9);
"""
VISITS = pl.DataFrame(
    {
        "user": ["ann", "bøb"],
        "place": [1, 2],
        "plays": [3, None],
        "share": [0.25, None],
        "heard": [1.5, None],
        "liked": [True, None],
        "day": [date(2020, 1, 2), None],
        "at": [datetime(2020, 1, 2, 1, 4, tzinfo=UTC), None],
        "id": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None],
    }
)


@pytest.fixture(scope="module")
def shop(postgres: Server) -> Server:
    with psycopg.connect(postgres.url()) as connection:
        for schema in ("public", "other"):
            connection.execute(f"drop schema if exists {schema} cascade")
        connection.execute("create schema public")
        connection.execute(SCRIPT)
    return postgres


def message(source, **options):
    text = error_text(plait.read, source, **options)
    assert PASSWORD not in text
    return text


def same(table: pl.DataFrame) -> None:
    assert_frame_equal(table.with_columns(pl.col("at").dt.convert_time_zone("UTC")), VISITS, check_dtypes=False)
    assert table["share"].dtype == pl.Float64


def test_a_url_reads_a_table_with_all_its_types(shop):
    same(plait.read(shop.url(), table="visits"))
    same(plait.read(shop.url().replace("postgresql", "postgres"), query="select * from visits"))


def test_an_open_connection_reads_a_table_and_stays_open(shop):
    with psycopg.connect(shop.url()) as connection:
        same(plait.read(connection, table="visits"))
        same(plait.read(connection, query="select * from visits order by place"))
    with adbc_driver_postgresql.dbapi.connect(shop.url()) as connection:
        same(plait.read(connection, table="visits"))
        same(plait.read(connection, query="select * from visits order by place"))


def test_a_server_is_reached_through_its_socket_too(shop):
    url = f"{shop.url(host='').replace(f'@:{shop.port}', '@')}?host={shop.folder}&port={shop.port}"
    same(plait.read(url, table="visits"))


def test_names_are_quoted_and_may_have_a_schema(shop):
    assert plait.read(shop.url(), table='Odd "name').rows() == [(7,)]
    assert plait.read(shop.url(), table="other.visits").rows() == [(9,)]


def test_an_empty_result_keeps_its_types(shop):
    table = plait.read(shop.url(), query='select "user", plays, share from visits where false')
    assert table.schema == {"user": pl.String, "plays": pl.Int64, "share": pl.Float64}


def test_a_read_table_goes_into_a_model(shop):
    visits = plait.read(shop.url(), query='select "user", place, 1 as value from visits')
    bound = plait.Model("visits[user, place] = U[user, r] P[place, r]").bind({"visits": visits})
    assert list(bound.entities["user"]) == ["ann", "bøb"]


def test_a_bad_table_or_query_is_refused_in_the_words_of_the_server(shop):
    shown = f"postgresql://plait:***@127.0.0.1:{shop.port}/postgres: "
    assert_mentions(message(shop.url(), table="visit"), shown, '"visit"', " ^\n", "Did you mean 'visits'?")
    words = ['"frm"', "  LINE 1: select * frm t\n                   ^\n", "Check the query."]
    assert_mentions(message(shop.url(), query="select * frm t"), shown, *words)
    with psycopg.connect(shop.url()) as connection:
        assert_mentions(message(connection, query="select * frm t"), "the psycopg connection: ", *words)


@pytest.mark.parametrize("to", ["'{}'", "program 'cat > {}'"])
def test_a_query_writes_no_file_of_the_server(shop, to):
    path = Path(shop.folder, "data", "copy.txt")
    assert "the statement returns no table." in message(shop.url(), query=f"copy (select 1) to {to.format(path)}")
    assert not path.exists()


def test_a_query_is_a_read_only_transaction(shop):
    with psycopg.connect(shop.url()) as connection:
        connection.execute("create sequence counter")
    for query in ("insert into visits (place) values (9) returning place", "select nextval('counter')"):
        assert "read-only transaction" in message(shop.url(), query=query)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"password": "wr0ng-pass"}, ["127.0.0.1", "password authentication failed"]),
        ({"database": "nowhere"}, ["/nowhere: ", 'database "nowhere" does not exist']),
        ({"host": "nohost.invalid"}, ["nohost.invalid"]),
    ],
)
def test_a_bad_password_database_or_host_is_named_without_the_password(shop, change, words):
    text = message(shop.url(**change), query="select 1")
    assert_mentions(text, "postgresql://plait:***@", *words, "Check user, password, host, port and database")


def test_a_bad_port_is_named(shop):
    assert "Connection refused" in message(shop.url().replace(str(shop.port), "1"), query="select 1")


def test_a_password_that_was_not_escaped_is_not_shown_in_pieces(shop):
    found = message(shop.url(PASSWORD), query="select 1")
    assert found.startswith(f"postgresql://plait:***@127.0.0.1:{shop.port}/postgres: error of the database: ")
    assert "s3cret" not in found


@pytest.mark.parametrize(
    ("expression", "kind"), [("3::money", "money"), ("interval '1 day'", "interval"), ("'10.0.0.1'::inet", "inet")]
)
def test_a_type_that_would_be_misread_is_refused(shop, expression, kind):
    text = message(shop.url(), query=f"select {expression} as x")
    assert_mentions(text, f"column 'x' is of type {kind}", "cast(x as text)")


def test_objects_of_an_open_connection_that_are_no_values_are_refused(shop):
    with psycopg.connect(shop.url()) as connection:
        assert message(connection, query="select '{}'::jsonb as j").startswith(
            "the psycopg connection: column 'j' contains values of type dict.\n"
        )
