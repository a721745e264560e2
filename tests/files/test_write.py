import csv
import errno
import gc
import gzip
import os
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import plait
from tests.support.data_errors import assert_mentions, error_text

TABLE = pl.DataFrame({"user": ["a", "b"], "value": [1, 2]})


def message(table, name, **options):
    return error_text(plait.write, table, name, **options)


# Any character but half a surrogate pair, which no encoding has.
NASTY = st.text(
    st.one_of(st.sampled_from(" ,;\t\n\r\"'=+-@|#\\\x0b\x0c\x85\u2028é\U0001f600"), st.characters(codec="utf-8")),
    max_size=8,
)


@given(data=st.data(), ending=st.sampled_from(["csv", "csv.gz", "tsv", "txt"]), width=st.integers(2, 4))
def test_any_names_survive_writing_and_reading_text(data, ending, width):
    # A byte order mark at the very beginning is one; a line of nothing is no row.
    name = NASTY.filter(lambda text: text and not text.startswith("\ufeff"))
    names = data.draw(st.lists(name, min_size=width, max_size=width, unique=True))
    row = st.tuples(*[st.one_of(st.none(), NASTY)] * width).filter(lambda fields: any(fields))
    rows = data.draw(st.lists(row, max_size=6))
    table = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    plait.write(table, f"t.{ending}")
    delimiter = "," if ending.startswith("csv") else "\t"
    found = plait.read(f"t.{ending}", header=True, delimiter=delimiter, text=names)
    assert_frame_equal(found, table)


NAMES = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'=1", "''@x", "'tis", "a=1", None]
WRITTEN = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\t=1", "'\r=1", "'\n=1", "'＝1", "''=1", "'''@x", "'tis", "a=1", ""]


def test_formulas_are_escaped_in_text_and_come_back():
    table = pl.DataFrame({"=user": NAMES, "n": range(-7, 6), "value": [k / 4 - 2 for k in range(13)]})
    table = table.with_columns(kind=pl.col("=user").cast(pl.Categorical))
    plait.write(table, "t.csv")
    with open("t.csv", encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["'=user", "n", "value", "kind"]
    assert [row[0] for row in rows] == [row[3] for row in rows] == WRITTEN
    assert [row[1] for row in rows] == [str(n) for n in range(-7, 6)]
    assert rows[0][2] == "-2.0"
    expected = table.cast({"kind": pl.String})
    assert_frame_equal(plait.read("t.csv"), expected)
    assert_frame_equal(pl.concat(plait.scan("t.csv").batches(table.columns, 3)), expected)
    assert plait.read("t.csv", escape_formulas=False)["'=user"].to_list() == [*WRITTEN[:-1], None]


def test_escaping_of_formulas_can_be_switched_off():
    plait.write(pl.DataFrame({"-a": ["=1", "'=1"]}), "t.tsv", escape_formulas=False)
    assert Path("t.tsv").read_text() == "-a\n=1\n'=1\n"
    assert plait.read("t.tsv", escape_formulas=False)["-a"].to_list() == ["=1", "'=1"]
    assert_mentions(message(TABLE, "t.parquet", escape_formulas=False), "`escape_formulas=False`", ".csv")


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv"])
@pytest.mark.parametrize("rows", [[("\ufeff", None)], [("\ufeff", "")], [("\ufeffx", "a"), ("\ufeffy", "b")]])
def test_a_byte_order_mark_of_the_first_row_is_its_own(rows, ending):
    table = pl.DataFrame(rows, schema=dict.fromkeys(["a name,\nof two lines", "b"], pl.String), orient="row")
    plait.write(table, f"t.{ending}")
    assert_frame_equal(plait.read(f"t.{ending}", header=True, text=table.columns), table)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)), min_size=1)
)
def test_numbers_survive_writing_and_reading_text(rows):
    table = pl.DataFrame(rows, schema={"id": pl.Int64, "value": pl.Float64}, orient="row")
    plait.write(table, "t.csv")
    found = plait.read("t.csv")
    assert found["id"].to_list() == table["id"].to_list()
    assert found["value"].cast(pl.Float64).to_list() == table["value"].to_list()


@pytest.mark.parametrize("kind", [pd.DataFrame, pa.table, pl.DataFrame, lambda data: pl.DataFrame(data).lazy()])
def test_every_kind_of_table_is_written(kind):
    plait.write(kind({"user": ["a", "b"], "value": [1, 2]}), Path("t.csv"))
    assert Path("t.csv").read_text() == "user,value\na,1\nb,2\n"


def test_equal_tables_give_equal_compressed_files():
    plait.write(TABLE, "a.csv.gz")
    first = Path("a.csv.gz").read_bytes()
    plait.write(TABLE, "b.csv.gz")
    assert Path("b.csv.gz").read_bytes() == first
    assert gzip.decompress(first) == b"user,value\na,1\nb,2\n"


def test_a_written_file_has_the_usual_permissions():
    Path("usual").touch()
    plait.write(TABLE, "t.csv")
    assert stat.S_IMODE(os.stat("t.csv").st_mode) == stat.S_IMODE(os.stat("usual").st_mode)


ENDINGS = ["csv", "csv.gz", "parquet", "arrow", "tns", "npz"]
NUMBERS = pl.DataFrame({"i": np.random.default_rng(0).permutation(40_000) + 1, "value": np.arange(40_000) * 1.25})


@pytest.mark.filterwarnings("ignore:Exception ignored in. <function ZipFile.__del__")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failed_write_leaves_the_old_file(ending):
    name = f"t.{ending}"
    Path(name).write_text("old")
    # A file may not become longer than this; Python ignores the signal, so that writing fails.
    resource = pytest.importorskip("resource", reason="limits of a process are not Windows'")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        found = message(NUMBERS, name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_mentions(found, f"{name}: ", "File too large")
    assert os.listdir() == [name]
    assert Path(name).read_text() == "old"
    gc.collect()  # NumPy before 2.2 leaves its archive open, whose end complains: here, not in a later test


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_full_disk_is_named(ending):
    Path(f"t.{ending}").symlink_to("/dev/full")
    assert_mentions(message(NUMBERS, f"t.{ending}"), f"t.{ending}: ", "disk is full")


def test_a_folder_without_permission_is_named(monkeypatch):
    def denied(*arguments):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", denied)
    assert_mentions(message(TABLE, "t.csv"), "t.csv: ", "Permission denied")
    assert os.listdir() == []


ZERO = pl.DataFrame({"i": [0, 1]})


@pytest.mark.parametrize(
    ("data", "name", "options", "words"),
    [
        (TABLE, "folder.csv", {}, ["folder.csv: ", "got a folder"]),
        (TABLE, "no/t.csv", {}, ["no/t.csv: ", "the folder 'no' does not exist"]),
        (TABLE, "file.csv/t.csv", {}, ["file.csv/t.csv: ", "'file.csv' is a file"]),
        (TABLE, "t.mat", {}, ["t.mat: ", "'.mat'", ".csv, .tsv"]),
        (TABLE, "t.cvs", {}, ["t.cvs: ", "'.cvs'", "Did you mean '.csv'?"]),
        (TABLE, "t", {}, ["t: ", "no ending", ".csv, .tsv"]),
        (3, "t.csv", {}, ["t.csv: ", "int"]),
        (TABLE, "t.tns", {}, ["t.tns: ", "'user'", "String", ".csv or .parquet"]),
        (ZERO, "t.tns", {}, ["t.tns: ", "'i'", "coordinate 0"]),
        (pl.DataFrame({"i": [1], "value": ["x"]}), "t.tns", {}, ["t.tns: ", "'value'", "that are not numbers"]),
        (ZERO, "t.tns", {"value": "plays"}, ["t.tns: ", "no column 'plays'", "`value`", "'i'"]),
        (TABLE, "t.npy", {}, ["t.npy: ", ".npz, .parquet or .csv"]),
        (pl.DataFrame({"a": [[1]]}), "t.csv", {}, ["t.csv: ", "nested", ".parquet"]),
        (TABLE, "t.csv", {"columns": ["a", "b"]}, ["`columns`"]),
        (TABLE, "t.csv", {"value": "value"}, ["`value`", ".tns or .npz"]),
    ],
)
def test_a_file_that_cannot_be_written_is_named_and_nothing_is_left(data, name, options, words):
    Path("folder.csv").mkdir()
    Path("file.csv").touch()
    assert_mentions(message(data, name, **options), *words)
    assert sorted(os.listdir()) == ["file.csv", "folder.csv"]


def test_a_table_without_rows_becomes_an_array_without_entries():
    Path("head.csv").write_text("i,j,value\n")
    for name in ("empty.tns", "empty.npz"):
        plait.write(plait.read("head.csv"), name)
    table = plait.read("empty.tns", columns=["i", "j"])
    assert (table.shape, table.columns) == ((0, 3), ["i", "j", "value"])
    assert plait.read("empty.npz").nnz == 0
