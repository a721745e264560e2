import gzip
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import plait
from plait.files import formats, options_for
from tests.support.data_errors import assert_mentions, error_text


def message(source, **options):
    return error_text(plait.read, source, **options)


TEXT = (
    "kind", "columns", "delimiter", "header", "value", "text", "quoted", "strip", "escape_formulas", "null_values",
    "on_bad_rows",
)  # fmt: skip


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("a.csv", TEXT),
        (Path("a.TSV.gz"), TEXT),
        ("a.tns.gz", ("kind", "columns")),
        ("a.parquet", ("kind", "strip")),
        ("a.mat", ("kind", "name")),
        ("a.npz", ("kind", "name")),
        ("sqlite:///a.db", ("query", "table", "strip")),
        ("postgres://host/db", ("query", "table", "strip")),
    ],
)
def test_the_name_of_a_source_says_which_options_it_takes(source, options):
    assert options_for(source) == options


def test_a_connection_takes_a_query_or_a_table():
    with closing(sqlite3.connect(":memory:")) as connection:
        assert options_for(connection) == ("query", "table", "strip")


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("a.csv", {"name": "x"}, ["`name`", "a.csv", "delimiter, header"]),
        ("a.parquet", {"columns": ["a"]}, ["`columns`", "a.parquet", "kind, strip"]),
        ("postgresql://me:pw@host/db", {"text": ["a"]}, ["`text`", "postgresql://me:***@host/db", "query, table"]),
        ("sqlite:///a.db", {"kind": "csv", "table": "t"}, ["`kind`", "sqlite:///a.db"]),
        ("a.xlsx", {"kind": "cvs"}, ["`kind` must be a known ending, got 'cvs'", "Did you mean 'csv'?"]),
        ("a.xlsx", {"kind": 3}, ["got 3"]),
    ],
)
def test_an_option_that_does_not_fit_the_source_is_refused(source, options, words):
    Path("a.xlsx").touch()
    assert_mentions(message(source, **options), *words)


ALL = ".csv, .tsv, .tab, .txt, .tns (also with .gz), .parquet, .pq, .arrow, .ipc, .feather, .mat, .npz, .npy"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.xlsx", ["'.xlsx'", ALL, '`kind="csv"`']),
        ("a.cvs", ["'.cvs'", "Did you mean '.csv'?"]),
        ("a.parquet.gz", ["'.parquet.gz'"]),
        ("README", ["no ending", ALL]),
        ("a.db", ["'.db'", "'sqlite:///a.db'"]),
    ],
)
def test_an_unknown_ending_is_refused_with_the_known_ones(name, words):
    Path(name).touch()
    assert_mentions(message(name), f"{name}: ", *words)


def test_a_folder_is_no_file():
    Path("data.csv").mkdir()
    assert_mentions(message("data.csv"), "data.csv", "folder")
    for name in "dcba":
        Path("data.csv", f"{name}.csv").touch()
    assert_mentions(message("data.csv"), "'a.csv', 'b.csv', 'c.csv', …")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (3, ["int", "path"]),
        ("https://host/a.csv", ["https://host/a.csv", "Download"]),
        ("mysql://me:secret@host/db", ["mysql://me:***@host/db", "sqlite:// or postgresql://"]),
        ("postgre://host/db", ["Did you mean 'postgres'?"]),
    ],
)
def test_other_sources_are_refused(source, words):
    assert_mentions(message(source), *words)


def test_formats_lists_every_ending_once():
    endings = [ending for kind in formats() for ending in kind.endings]
    assert len(endings) == len(set(endings)) == 18
    assert {kind.name for kind in formats() if not kind.written} == {"mat", "sql"}


@pytest.mark.parametrize(
    ("name", "files", "words"),
    [
        ("a.csv", ["b.csv"], ["current folder", "Check the path."]),
        ("new.csv", ["men.csv", "test.csv"], ["Check the path."]),
        ("vists.csv", ["visits.csv", "tests.csv"], ["Did you mean 'visits.csv'?"]),
        ("Visits.csv", ["visits.csv", "visits.parquet"], ["Did you mean 'visits.csv'?"]),
        ("visits.tsv", ["visits.parquet"], ["Did you mean 'visits.parquet'?"]),
        ("data/visits.csv", ["visits.csv"], ["nor does the folder 'data'", "Check the path."]),
        ("data/visits.csv", ["data/a.txt"], ["in 'data'", "Check the path."]),
    ],
)
def test_a_missing_file_is_refused_with_a_file_of_a_close_name(name, files, words):
    for there in files:
        Path(there).parent.mkdir(exist_ok=True)
        Path(there).touch()
    assert_mentions(message(name), f"{name}: the file does not exist", *words)


# --- the option `kind`


def test_kind_wins_over_the_name():
    Path("visits").write_text("user,place\n\nann,cafe\n")
    assert plait.read("visits", kind="csv").rows() == [("ann", "cafe")]
    assert plait.files.line_of("visits", 0, kind="csv") == 3
    plait.read("visits", kind="CSV").write_parquet("visits.2024")
    assert plait.read("visits.2024", kind="parquet").rows() == [("ann", "cafe")]
    Path("visits.bin").write_bytes(gzip.compress(Path("visits").read_bytes()))
    for kind in ("csv", "csv.gz"):
        assert plait.read("visits.bin", kind=kind).rows() == [("ann", "cafe")]
    Path("tensor").write_text("1 2 5\n")
    assert plait.read("tensor", kind="tns", columns=["i", "j", "value"]).rows() == [(1, 2, 5.0)]


def test_kind_gives_a_txt_a_header_and_a_delimiter():
    Path("a.txt").write_text("user,place\nann,cafe au lait\n")
    assert message("a.txt").startswith("a.txt, line 1: the first line of a .txt file can be a header or data")
    assert plait.read("a.txt", kind="csv").columns == ["user", "place"]
    assert plait.read("a.txt", kind="tsv").columns == ["user,place"]
