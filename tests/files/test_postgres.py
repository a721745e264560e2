"""SQL against a real server of PostgreSQL: by URL through ADBC, and through open connections."""

from datetime import UTC, date, datetime
from pathlib import Path

import adbc_driver_postgresql.dbapi
import polars as pl
import psycopg
import pytest
from polars.testing import assert_frame_equal

import plait
from tests.files.postgres import PASSWORD, Server

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
    with pytest.raises((plait.DataError, plait.SettingError)) as caught:
        plait.read(source, **options)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


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
    assert list(bound.labels["user"]) == ["ann", "bøb"]


def test_a_wrong_table_names_the_one_that_was_meant(shop):
    assert message(shop.url(), table="visit") == (
        f'postgresql://plait:***@127.0.0.1:{shop.port}/postgres: the database says: relation "visit" does not exist\n'
        f"  LINE 1: select * from \"visit\"\n                        ^\nDid you mean 'visits'?"
    )


def test_a_wrong_query_is_answered_with_the_words_of_the_server(shop):
    where = "  LINE 1: select * frm t\n                   ^"
    words = f'the database says: syntax error at or near "frm"\n{where}\nCheck the query.'
    assert message(shop.url(), query="select * frm t") == (
        f"postgresql://plait:***@127.0.0.1:{shop.port}/postgres: {words}"
    )
    with psycopg.connect(shop.url()) as connection:
        assert message(connection, query="select * frm t") == f"the psycopg connection: {words}"


@pytest.mark.parametrize("to", ["'{}'", "program 'cat > {}'"])
def test_a_query_writes_no_file_of_the_server(shop, to):
    path = Path(shop.folder, "data", "copy.txt")
    assert "the statement gives no rows." in message(shop.url(), query=f"copy (select 1) to {to.format(path)}")
    assert not path.exists()


def test_a_query_is_a_read_only_transaction(shop):
    with psycopg.connect(shop.url()) as connection:
        connection.execute("create sequence counter")
    for query in ("insert into visits (place) values (9) returning place", "select nextval('counter')"):
        assert "read-only transaction" in message(shop.url(), query=query)


CONNECT = "Check user, password, host, port and database of the URL."


def test_a_wrong_password_host_port_or_database_is_named_without_the_password(shop):
    at = f'connection to server at "127.0.0.1", port {shop.port} failed: FATAL:  '
    place = f"127.0.0.1:{shop.port}"
    assert message(shop.url("wr0ng-pass"), query="select 1") == (
        f"postgresql://plait:***@{place}/postgres: the database says: {at}"
        f'password authentication failed for user "plait".\n{CONNECT}'
    )
    assert message(shop.url(database="nowhere"), query="select 1") == (
        f'postgresql://plait:***@{place}/nowhere: the database says: {at}database "nowhere" does not exist.\n{CONNECT}'
    )
    absent = message(shop.url(host="nohost.invalid"), query="select 1")
    assert absent.startswith(f"postgresql://plait:***@nohost.invalid:{shop.port}/postgres: the database says: ")
    assert absent.endswith(CONNECT)
    assert "Connection refused" in message(shop.url().replace(str(shop.port), "1"), query="select 1")


def test_a_password_that_was_not_escaped_is_not_shown_in_pieces(shop):
    found = message(shop.url(PASSWORD), query="select 1")
    assert found.startswith(f"postgresql://plait:***@127.0.0.1:{shop.port}/postgres: the database says: ")
    assert "s3cret" not in found


@pytest.mark.parametrize(
    ("expression", "kind"), [("3::money", "money"), ("interval '1 day'", "interval"), ("'10.0.0.1'::inet", "inet")]
)
def test_a_type_that_would_be_misread_is_refused(shop, expression, kind):
    assert message(shop.url(), query=f"select {expression} as x").partition(": ")[2] == (
        f"column 'x' is of type {kind}, which cannot be read.\n"
        "Cast it in the query: cast(x as text), or as double precision."
    )


def test_objects_of_an_open_connection_that_are_no_values_are_refused(shop):
    with psycopg.connect(shop.url()) as connection:
        assert message(connection, query="select '{}'::jsonb as j").startswith(
            "the psycopg connection: column 'j' holds dict.\n"
        )
