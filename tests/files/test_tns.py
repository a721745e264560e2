import gzip
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import plait
from plait.files import line_of


def written(text: str, name: str = "t.tns") -> str:
    data = text.encode()
    Path(name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return name


def message(text: str, **options) -> str:
    with pytest.raises((plait.DataError, plait.SettingError)) as caught:
        plait.read(written(text), **options)
    return str(caught.value)


@pytest.mark.parametrize("name", ["t.tns", "t.tns.gz"])
@pytest.mark.parametrize(
    "text",
    [
        "1 1 2 5\n2 3 1 1.5\n",
        "# a comment\n1 1 2 5.0\n# another 1 2\n2 3 1 1.5",
        "  1\t1   2 5e0 \r\n\r\n2 3 1 1.5\t\r\n\n",
    ],
)
def test_entries_are_read_whatever_the_blanks(text, name):
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
    assert message("# nothing\n") == (
        "t.tns: the file has no entries.\nName its columns with `columns` to read an empty table."
    )


def test_the_line_of_an_entry_counts_comments_and_blank_lines():
    source = written("# a\n1 1 1\n\n# b\n2 2 2\n")
    assert [line_of(source, row) for row in range(3)] == [2, 5, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# c\n1 1 2\n1 2\n",
            "t.tns, line 3: 2 fields, but the first entry has 3.\nEvery entry has the same coordinates.",
        ),
        (
            "1 1 2\n1 2 3 4\n",
            "t.tns, line 2: 4 fields, but the first entry has 3.\nEvery entry has the same coordinates.",
        ),
        (
            "1 1 2\n1 x 2\n",
            "t.tns, line 2, field 2: 'x' is not a coordinate.\nCoordinates are whole numbers, 1 or more.",
        ),
        ("1 1.5 2\n", "t.tns, line 1, field 2: '1.5' is not a coordinate.\nCoordinates are whole numbers, 1 or more."),
        (
            "1 1 2\n\n0 1 2\n",
            "t.tns, line 3, field 1: '0' is not a coordinate.\nCoordinates are whole numbers, 1 or more.",
        ),
        ("-1 1 2\n", "t.tns, line 1, field 1: '-1' is not a coordinate.\nCoordinates are whole numbers, 1 or more."),
        ("1 1 2\n1  1  abc\n", "t.tns, line 2, field 3: 'abc' is not a number.\nWrite one such as 3 or 0.25."),
        ("1 1 nan\n", "t.tns, line 1, field 3: 'nan' is not a number.\nWrite one such as 3 or 0.25."),
        (
            "3\n4 4 4\n1 1 1 1\n",
            "t.tns, line 1: 1 field, but an entry has its coordinates and a value.\n"
            "Remove the line if it gives the order of the tensor.",
        ),
    ],
)
def test_a_wrong_entry_is_named_with_line_and_field(text, expected):
    assert message(text) == expected


def test_columns_must_name_every_coordinate():
    wrong = "t.tns: `columns` has 'a', but an entry has 2 coordinates and a value.\nName each coordinate once."
    assert message("1 1 1\n", columns=["a"]) == wrong
    assert message("1 1 1\n", columns="ab") == "`columns` is 'ab'.\nGive a list of names: ['ab']."


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
