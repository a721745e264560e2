import gzip
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import plait
from plait.files import line_of
from tests.support.data_errors import assert_mentions, error_text


def written(text: str, name: str = "t.tns") -> str:
    data = text.encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return name


def message(text: str, **options) -> str:
    return error_text(plait.read, written(text), **options)


@pytest.mark.parametrize("name", ["t.tns", "t.tns.gz"])
@pytest.mark.parametrize(
    "text",
    [
        "1 1 2 5\n2 3 1 1.5\n",
        "# a comment\n1 1 2 5.0\n# another 1 2\n2 3 1 1.5",
        "  1\t1   2 5e0 \r\n\r\n2 3 1 1.5\t\r\n\n",
    ],
)
def test_blanks_and_comments_do_not_matter(text, name):
    expected = pl.DataFrame({"i1": [1, 2], "i2": [1, 3], "i3": [2, 1], "value": [5.0, 1.5]})
    assert_frame_equal(plait.read(written(text, name)), expected)


def test_columns_name_the_coordinates_with_or_without_the_value():
    source = written("1 2 3\n")
    assert plait.read(source, columns=["user", "place"]).columns == ["user", "place", "value"]
    assert plait.read(source, columns=["user", "place", "value"]).columns == ["user", "place", "value"]
    assert plait.read(source, columns=["user", "place", "plays"]).columns == ["user", "place", "plays"]


def test_an_empty_tensor_is_an_empty_table_once_its_columns_are_named():
    table = plait.read(written("# nothing\n\n"), columns=["user", "place"])
    assert table.schema == {"user": pl.Int64, "place": pl.Int64, "value": pl.Float64}
    assert_mentions(message("# nothing\n"), "t.tns", "no entries", "`columns`")


def test_the_line_of_an_entry_counts_comments_and_blank_lines():
    source = written("# a\n1 1 1\n\n# b\n2 2 2\n")
    assert [line_of(source, row) for row in range(3)] == [2, 5, None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# c\n1 1 2\n1 2\n", ["line 3", "2 fields", "has 3"]),
        ("1 1 2\n1 2 3 4\n", ["line 2", "4 fields", "has 3"]),
        ("3\n4 4 4\n1 1 1 1\n", ["line 1", "1 field", "order of the tensor"]),
        ("1 1 2\n1 x 2\n", ["line 2, field 2", "'x' is not a coordinate"]),
        ("1 1.5 2\n", ["line 1, field 2", "'1.5' is not a coordinate"]),
        ("1 1 2\n\n0 1 2\n", ["line 3, field 1", "'0' is not a coordinate"]),
        ("-1 1 2\n", ["line 1, field 1", "'-1' is not a coordinate"]),
        ("1 1 2\n1  1  abc\n", ["line 2, field 3", "'abc' is not a number"]),
        ("1 1 nan\n", ["line 1, field 3", "'nan' is not a number"]),
    ],
)
def test_a_bad_entry_is_named_with_line_and_field(text, words):
    assert_mentions(message(text), "t.tns", *words)


def test_columns_must_name_every_coordinate():
    assert_mentions(message("1 1 1\n", columns=["a"]), "t.tns", "`columns` has 'a'", "2 coordinates")
    assert_mentions(message("1 1 1\n", columns="ab"), "`columns`", "['ab']")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 10**12), st.integers(1, 5), st.floats(allow_nan=False, allow_infinity=False, width=64)
        ),
        min_size=1,
    )
)
def test_a_tensor_survives_writing_and_reading(entries):
    table = pl.DataFrame(entries, schema={"i1": pl.Int64, "i2": pl.Int64, "value": pl.Float64}, orient="row")
    plait.write(table, "round.tns")
    assert_frame_equal(plait.read("round.tns"), table, check_exact=True)
