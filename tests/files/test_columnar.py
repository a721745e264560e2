from datetime import date
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pytest
from polars.testing import assert_frame_equal

import plait
from tests.support.data_errors import assert_mentions, error_text

TABLE = pl.DataFrame(
    {"user": ["a", "é\n", None], "day": [date(2020, 1, k) for k in (1, 2, 3)], "value": [1.5, 0.0, 2.0]}
)
ENDINGS = ["parquet", "pq", "arrow", "ipc", "feather"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_table_survives_writing_and_reading(ending):
    plait.write(TABLE, f"t.{ending}")
    assert_frame_equal(plait.read(f"t.{ending}"), TABLE)


def test_files_of_pyarrow_are_read_in_both_layouts():
    table = pa.table({"user": ["a", "b"], "value": [1, 2]})
    pyarrow.feather.write_feather(table, "compressed.feather", compression="lz4")
    with pa.ipc.new_stream("stream.arrow", table.schema) as stream:
        stream.write_table(table)
    for name in ("compressed.feather", "stream.arrow"):
        assert plait.read(name).rows() == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("damage", ["cut", "garbage", "empty"])
def test_a_damaged_file_is_named(ending, damage):
    plait.write(TABLE, "whole." + ending)
    whole = Path("whole." + ending).read_bytes()
    Path("t." + ending).write_bytes({"cut": whole[:-20], "garbage": b"user,value\n" * 20, "empty": b""}[damage])
    kind = "Parquet" if ending.startswith("p") else "Arrow"
    assert_mentions(error_text(plait.read, f"t.{ending}"), f"t.{ending}: ", f"not a valid {kind} file")


def test_feather_1_is_refused():
    Path("old.feather").write_bytes(b"FEA1" + bytes(100))
    assert_mentions(error_text(plait.read, "old.feather"), "old.feather: ", "Feather 1", "Parquet")


def test_lastfm_has_186479_tags(shared):
    table = plait.read(shared / "lastfm" / "user_tag_artist_rels.parquet")
    assert len(table) == 186_479
    assert {"sourceNodeId", "targetNodeId", "tagID"} <= set(table.columns)
