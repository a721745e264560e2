import sqlite3
from pathlib import Path

import pytest

import plait
from plait.files import formats, options_for


def message(call, *arguments, **options):
    with pytest.raises((plait.DataError, plait.SettingError)) as caught:
        call(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("source", "options"),
    [
        ("a.csv", ("kind", "columns", "delimiter", "header", "value", "text", "quoted", "strip", "escape_formulas")),
        (
            Path("a.TSV.gz"),
            ("kind", "columns", "delimiter", "header", "value", "text", "quoted", "strip", "escape_formulas"),
        ),
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
    connection = sqlite3.connect(":memory:")
    assert options_for(connection) == ("query", "table", "strip")
    connection.close()


def test_an_option_that_says_nothing_about_the_source_is_refused():
    assert message(plait.read, "a.csv", name="x") == (
        "`name` says nothing about a.csv.\n"
        "It takes kind, columns, delimiter, header, value, text, quoted, strip, escape_formulas."
    )
    assert message(plait.read, "a.parquet", columns=["a"]) == (
        "`columns` says nothing about a.parquet.\nIt takes kind, strip."
    )
    assert message(plait.read, "postgresql://me:pw@host/db", text=["a"]) == (
        "`text` says nothing about postgresql://me:***@host/db.\nIt takes query, table, strip."
    )


ALL = ".csv, .tsv, .tab, .txt, .tns (these also with .gz), .parquet, .pq, .arrow, .ipc, .feather, .mat, .npz, .npy"


def test_an_unknown_ending_lists_the_known_ones():
    for name in ("a.xlsx", "a.parquet.gz", "a.db", "README", "a.cvs"):
        Path(name).touch()
    assert message(plait.read, "a.xlsx") == (
        f"a.xlsx: '.xlsx' is no known ending, so the kind of the file is unknown.\nKnown are {ALL}. "
        'Give its kind: `kind="csv"`.'
    )
    assert message(plait.read, "a.cvs") == (
        f"a.cvs: '.cvs' is no known ending, so the kind of the file is unknown.\nDid you mean '.csv'? Known are {ALL}. "
        'Give its kind: `kind="csv"`.'
    )
    assert message(plait.read, "a.parquet.gz").startswith("a.parquet.gz: '.parquet.gz' is no known ending")
    assert message(plait.read, "README") == (
        f"README: the name has no ending, so the kind of the file is unknown.\nKnown are {ALL}. "
        'Give its kind: `kind="csv"`.'
    )
    assert message(plait.read, "a.db") == (
        "a.db: '.db' is no known ending, so the kind of the file is unknown.\n"
        "A SQLite file is read by its URL: 'sqlite:///a.db'."
    )


def test_a_missing_file_names_the_one_that_was_meant():
    Path("visits.csv").touch()
    assert message(plait.read, "visit.csv") == (
        "visit.csv: there is no such file in the current folder.\nDid you mean 'visits.csv'?"
    )
    assert message(plait.read, "visits.cvs") == (
        "visits.cvs: there is no such file in the current folder.\nDid you mean 'visits.csv'?"
    )
    assert (
        message(plait.read, "./other.tns")
        == "./other.tns: there is no such file in the current folder.\nCheck the path."
    )
    assert message(plait.read, "data/visits.csv") == (
        "data/visits.csv: there is no such file, nor a folder 'data'.\nCheck the path."
    )
    Path("data").mkdir()
    assert message(plait.read, "data/visits.csv") == (
        "data/visits.csv: there is no such file in 'data'.\nCheck the path."
    )


def test_a_folder_is_no_file():
    Path("data.csv").mkdir()
    assert message(plait.read, "data.csv") == "data.csv: this is a folder.\nName a file in it."
    for name in "dcba":
        Path("data.csv", f"{name}.csv").touch()
    assert message(plait.read, "data.csv") == (
        "data.csv: this is a folder.\nName a file in it: 'a.csv', 'b.csv', 'c.csv', …."
    )


def test_what_is_no_source_is_refused_with_what_is():
    assert message(plait.read, 3) == (
        "plait.read cannot read from int.\nGive a path, a URL of a database, or an open ADBC or DB-API connection; "
        "a table or an array goes straight into plait.fit."
    )
    assert message(plait.read, "https://host/a.csv") == (
        "https://host/a.csv: https:// cannot be read.\nDownload the file, and read it by its path."
    )
    assert message(plait.read, "mysql://me:secret@host/db", query="select 1") == (
        "mysql://me:***@host/db: mysql:// cannot be read.\n"
        "Databases are sqlite:// and postgresql://; in Python, `plait.read` takes a connection to any other."
    )
    assert message(plait.read, "postgre://host/db").splitlines()[1].startswith("Did you mean 'postgres'? ")


def test_formats_lists_every_ending_once():
    endings = [ending for kind in formats() for ending in kind.endings]
    assert len(endings) == len(set(endings)) == 18
    assert {kind.name for kind in formats() if not kind.written} == {"mat", "sql"}


@pytest.mark.parametrize(
    ("asked", "there", "meant"),
    [
        ("a.csv", ["b.csv"], None),
        ("new.csv", ["men.csv", "test.csv"], None),
        ("vists.csv", ["visits.csv", "tests.csv"], "visits.csv"),
        ("Visits.csv", ["visits.csv", "visits.parquet"], "visits.csv"),
        ("visits.tsv", ["visits.parquet"], "visits.parquet"),
    ],
)
def test_a_file_is_suggested_only_if_its_name_is_close_without_the_ending(tmp_path, monkeypatch, asked, there, meant):
    monkeypatch.chdir(tmp_path)
    for name in there:
        (tmp_path / name).touch()
    with pytest.raises(plait.DataError) as caught:
        plait.read(asked)
    assert str(caught.value).splitlines()[1] == ("Check the path." if meant is None else f"Did you mean {meant!r}?")


# --- what is said of a file wins over its name


def test_a_file_without_an_ending_is_read_as_what_it_is_said_to_be():
    Path("visits").write_text("user,place\nann,cafe\n")
    assert plait.read("visits", kind="csv").rows() == [("ann", "cafe")]
    plait.read("visits", kind="CSV").write_parquet("visits.2024")
    assert plait.read("visits.2024", kind="parquet").rows() == [("ann", "cafe")]
    Path("tensor").write_text("1 2 5\n")
    Path("tensor.tns").write_text("1 2 5\n")
    named = ["i", "j", "value"]
    assert plait.read("tensor", kind="tns", columns=named).equals(plait.read("tensor.tns", columns=named))


def test_a_txt_said_to_be_csv_has_a_header_and_commas():
    Path("a.txt").write_text("user,place\nann,cafe au lait\n")
    assert message(plait.read, "a.txt").startswith("a.txt, line 1: it is not certain")
    assert plait.read("a.txt", kind="csv").columns == ["user", "place"]
    assert plait.read("a.txt", kind="tsv").columns == ["user,place"]


def test_a_compressed_file_may_have_any_name():
    import gzip

    Path("visits.bin").write_bytes(gzip.compress(b"user,place\nann,cafe\n"))
    for kind in ("csv", "csv.gz"):
        assert plait.read("visits.bin", kind=kind).rows() == [("ann", "cafe")]


def test_a_kind_that_is_none_or_says_nothing_is_refused():
    Path("a").touch()
    assert message(plait.read, "a", kind="cvs") == (
        "`kind` is 'cvs'.\n"
        "Did you mean 'csv'? It is the usual ending: csv, tsv, tab, txt, parquet, pq, arrow, ipc, feather, tns, "
        "mat, npz, npy."
    )
    assert message(plait.read, "a", kind=3).startswith("`kind` is 3.")
    assert message(plait.read, "sqlite:///a.db", kind="csv", table="t") == (
        "`kind` says nothing about sqlite:///a.db.\nIt is for files whose names do not say their kind."
    )


def test_lines_are_those_of_a_file_whatever_its_name():
    Path("visits").write_text("user,place\n\nann,cafe\nbob,gym\n")
    assert plait.files.line_of("visits", 1, kind="csv") == 4
