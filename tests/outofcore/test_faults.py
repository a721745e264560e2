"""Packing reports faults of tables as binding in memory does, with file and row."""

import sqlite3
from contextlib import closing

import numpy as np
import polars as pl
import pytest

import plait

MODEL = "v[i, j] = A[i, r] B[j, r]"
ONE_AXIS = "v[i, j] = A[i, r] A[j, r]\nj: i"


def rows():
    rng = np.random.default_rng(0)
    table = {"i": np.arange(6000) // 3, "j": np.arange(6000) % 3 + 3000, "value": rng.integers(1, 4, 6000)}
    return pl.DataFrame(table)


def spoilt(column, row, value, table=None):
    table = rows() if table is None else table
    return table.with_columns(pl.Series(column, [*table[column][:row], value, *table[column][row + 1 :]]))


REPEATED = pl.concat([rows(), rows()[[5, 7, 5000]]])
FAULTS = {
    "negative": (MODEL, {}, spoilt("value", 4321, -1)),
    "missing value": (MODEL, {}, spoilt("value", 4321, None)),
    "infinite": (MODEL, {}, spoilt("value", 5999, float("inf"), rows().cast({"value": pl.Float64}))),
    "missing label": (MODEL, {}, spoilt("i", 4999, None)),
    "repeated": (MODEL, {}, REPEATED),
    "repeated once": (MODEL, {}, pl.concat([rows(), rows()[[5]]])),
    "repeated fractions": (MODEL, {}, REPEATED.with_columns(pl.col("value") + 0.5)),
    "no likelihood": (MODEL, {"likelihood": "bernoulli"}, rows().with_columns(value=pl.lit(1.0)).pipe(
        lambda table: spoilt("value", 1234, 2.0, table))),
    "sum is no link": (MODEL, {"likelihood": "bernoulli", "duplicates": "sum"}, REPEATED.with_columns(value=pl.lit(1))),
    "two directions": (ONE_AXIS, {}, pl.concat([rows(), pl.DataFrame({"i": [3000], "j": [0], "value": [17]})])),
    "twice in one direction": (ONE_AXIS, {}, pl.concat([rows(), rows()[[3]]])),
    "weights": (MODEL, {"weight": "w"}, spoilt("w", 77, -3.0, rows().with_columns(w=pl.lit(1.0)))),
    "surplus column": (MODEL, {}, rows().with_columns(w=pl.lit(1.0))),
    "no column": (MODEL, {"columns": {"i": "who"}}, rows()),
    "no number": (MODEL, {"value": "value"}, rows().cast({"value": pl.String})),
}  # fmt: skip


@pytest.mark.parametrize("memory", ["1MB", "1GB"])
@pytest.mark.parametrize("fault", FAULTS)
def test_errors_are_those_of_data_in_memory(tmp_path, fault, memory):
    model, options, table = FAULTS[fault]
    relation = plait.Relation(table, **options)
    with pytest.raises(plait.errors.DataError) as wanted:
        plait.Model(model).bind({"v": relation})
    with pytest.raises(plait.errors.DataError) as got:
        plait.pack(model, {"v": relation}, tmp_path / "x", memory=memory)
    assert str(got.value) == str(wanted.value)
    assert list((tmp_path / "x").iterdir() if (tmp_path / "x").exists() else []) == []


@pytest.mark.parametrize("fault", ["negative", "missing value", "missing label", "repeated"])
def test_a_row_of_a_file_is_named_by_its_line(tmp_path, fault):
    model, _, table = FAULTS[fault]
    table.write_csv(tmp_path / "t.csv")
    table.write_parquet(tmp_path / "t.parquet")
    said = {}
    for name in ("t.csv", "t.parquet"):
        with pytest.raises(plait.errors.DataError) as got:
            plait.pack(model, {"v": plait.scan(tmp_path / name)}, tmp_path / "x", memory="1MB")
        said[name] = got.value.location.to_dict()
    row = {"negative": [4321], "missing value": [4321], "missing label": [4999], "repeated": [5, 6000]}[fault]
    assert said["t.parquet"]["rows"] == row
    assert said["t.csv"]["lines"] == [one + 2 for one in row]
    assert said["t.csv"]["file"] == str(tmp_path / "t.csv")


def test_both_files_of_a_repeated_cell_are_named(tmp_path):
    rows()[:2500].write_parquet(tmp_path / "a.parquet")
    pl.concat([rows()[2500:], rows()[[5]]]).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(
        plait.errors.DataError, match=r"a\.parquet, row 5 .* and .*b\.parquet, row 3500 .*: both rows contain"
    ):
        plait.pack(MODEL, {"v": plait.scan(tmp_path / "*.parquet")}, tmp_path / "x", memory="1MB")


def test_files_that_are_no_table_are_named(tmp_path):
    rows().write_parquet(tmp_path / "a.parquet")
    rows().rename({"j": "k"}).write_parquet(tmp_path / "b.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    rows().write_csv(tmp_path / "t.csv")
    with (tmp_path / "t.csv").open("a") as file:
        file.write("3,4\n")
    for name, words in (
        ("?.parquet", r"b\.parquet: the columns are 'i', 'k', 'value', but 'i', 'j', 'value'"),
        ("bad.parquet", r"bad\.parquet.*damaged, or not a valid Parquet file"),
        ("t.csv", r"t\.csv, line 6002: 2 fields, but the file has 3 columns"),
        ("*.txt", "no file matches this name"),
    ):
        with pytest.raises(plait.errors.DataError, match=words):
            plait.pack(MODEL, {"v": plait.scan(tmp_path / name)}, tmp_path / "x", memory="1MB")


@pytest.mark.parametrize("memory", ["4 gigs", 0, -1, None, "GB", True])
def test_memory_is_a_number_of_bytes(tmp_path, memory):
    with pytest.raises(plait.errors.ParameterError, match="must be a number of bytes"):
        plait.pack(MODEL, {"v": rows()}, tmp_path / "x", memory=memory)


def test_arrays_and_other_objects_are_not_packed(tmp_path):
    with pytest.raises(plait.errors.DataError, match="an array cannot be packed"):
        plait.pack(MODEL, {"v": np.ones((3, 4))}, tmp_path / "x")
    (tmp_path / "t.npy").write_bytes(b"x")
    for source, error, words in (
        ("sqlite:///x.db", plait.errors.ParameterError, r"the query for sqlite:///x\.db is missing"),
        (3, plait.errors.DataError, r"`source` cannot be int"),
        (tmp_path / "t.npy", plait.errors.DataError, "NumPy array cannot be scanned"),
    ):
        with pytest.raises(error, match=words):
            plait.scan(source)


def test_a_query_is_scanned_in_batches(tmp_path):
    url = f"sqlite:///{tmp_path / 't.db'}"
    with closing(sqlite3.connect(tmp_path / "t.db")) as base, base:
        base.execute("create table v (i integer, j integer, value integer)")
        base.executemany("insert into v values (?, ?, ?)", rows().rows())
    query = plait.scan("select i, j, value from v order by rowid", connection=url)
    prints = {plait.pack(MODEL, {"v": one}, tmp_path / "x", memory="1MB").fingerprint for one in (query, rows())}
    assert len(prints) == 1
    with pytest.raises(plait.errors.DataError, match="error of the database"):
        plait.pack(MODEL, {"v": plait.scan("select nothing from nowhere", connection=url)}, tmp_path / "x")
