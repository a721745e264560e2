"""Labels of entities: kinds of columns, the order of rows, and row numbers against a dictionary."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from plait.data.encoding import hash_lookup
from plait.data.encoding.columns import kind, label_series, number_array, widened
from plait.data.encoding.names import AxisLabels, Labels, Tallied, build
from plait.errors import TableLocation
from tests.support.data_errors import assert_mentions, error_text

DAY = dt.date(2024, 2, 29)
HOUR = dt.datetime(2024, 2, 29, 12)


def seen(where, values):
    return AxisLabels(TableLocation(where), label_series(values, where))


def array_of(count):
    return Tallied(TableLocation("X", "x", noun="index"), count)


STRINGS, INTEGERS = ["b", "a", "b"], [7, 5, 7]
SAME_STRINGS = {
    "list": STRINGS,
    "tuple": tuple(STRINGS),
    "numpy": np.array(STRINGS),
    "numpy objects": np.array(STRINGS, object),
    "pandas": pd.Series(STRINGS),
    "pandas objects": pd.Series(STRINGS, dtype=object),
    "pandas category": pd.Series(STRINGS, dtype="category"),
    "polars categorical": pl.Series(STRINGS, dtype=pl.Categorical),
    "polars enum": pl.Series(STRINGS, dtype=pl.Enum(["b", "a"])),
    "pyarrow": pa.array(STRINGS),
    "pyarrow chunks": pa.chunked_array([["b"], ["a", "b"]]),
    "pyarrow dictionary": pa.array(STRINGS).dictionary_encode(),
}
SAME_INTEGERS = {
    "list": INTEGERS,
    "int8": np.array(INTEGERS, np.int8),
    "uint64": np.array(INTEGERS, np.uint64),
    "whole floats": np.array(INTEGERS, float),
    "pandas": pd.Series(INTEGERS),
    "pandas nullable": pd.Series(INTEGERS, dtype="Int64"),
    "pandas category": pd.Series(INTEGERS, dtype="category"),
    "pandas objects": pd.Series(INTEGERS, dtype=object),
    "pandas on arrow": pd.Series(INTEGERS, dtype="int64[pyarrow]"),
    "polars int16": pl.Series(INTEGERS, dtype=pl.Int16),
    "polars int128": pl.Series(INTEGERS, dtype=pl.Int128),
    "pyarrow": pa.array(INTEGERS),
    "numpy scalars": [np.int64(7), 5, 7],
}


@pytest.mark.parametrize("name", SAME_STRINGS)
def test_strings_of_every_kind_of_column_are_equal(name):
    assert label_series(SAME_STRINGS[name], "t").to_list() == STRINGS
    assert Labels.of("x", ["a", "b"]).encode(SAME_STRINGS[name]).tolist() == [1, 0, 1]


@pytest.mark.parametrize("name", SAME_INTEGERS)
def test_integers_of_every_kind_of_column_are_equal(name):
    series = label_series(SAME_INTEGERS[name], "t")
    assert kind(series) == "integers"
    assert widened(series).dtype == pl.Int64
    assert series.to_list() == INTEGERS


def test_integers_are_read_by_a_polars_without_128_bits(monkeypatch):
    for name in ("Int128", "UInt128"):
        monkeypatch.delattr(pl, name, raising=False)
    assert label_series(pl.Series(INTEGERS, dtype=pl.Int16), "t").dtype == pl.Int16


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([True, False, True], [1, 0, 1]),
        ([DAY, dt.date(2020, 1, 1)], [1, 0]),
        ([HOUR, dt.datetime(2020, 1, 1)], [1, 0]),
        ([dt.time(12), dt.time(1)], [1, 0]),
        ([2**64 - 1, 0], [1, 0]),
        ([-5, 3, 0], [0, 2, 1]),
        (["ä", "z", "Z"], [2, 1, 0]),
    ],
)
def test_labels_of_every_kind_are_sorted(values, rows):
    labels = build("x", [seen("t", values)])
    assert labels.encode(values).tolist() == rows
    assert [labels[row] for row in rows] == values
    assert [labels.row(value) for value in values] == rows


def test_times_are_equal_in_every_unit_and_library():
    labels = build("x", [seen("t", [HOUR])])
    for column in (
        pd.Series([HOUR]),
        np.array([HOUR], "datetime64[s]"),
        np.array([HOUR], "datetime64[ns]"),
        pl.Series([HOUR], dtype=pl.Datetime("ms")),
        pa.array([HOUR], pa.timestamp("ns")),
    ):
        assert labels.encode(column).tolist() == [0]


def test_zoned_times_keep_their_zone():
    column = pd.Series(pd.DatetimeIndex([HOUR]).tz_localize("Europe/Paris"))
    assert label_series(column, "t")[0] == column[0].to_pydatetime()
    assert label_series(column, "t").equals(label_series(pl.from_pandas(column), "t"))


def test_the_order_of_tables_and_rows_does_not_matter():
    one = build("x", [seen("s", ["c", "a"]), seen("t", ["b", "a"])])
    two = build("x", [seen("t", ["a", "b"]), seen("s", ["a", "c"])])
    assert list(one) == list(two) == ["a", "b", "c"]
    assert one == two


def test_declared_labels_follow_the_others_unless_all_are_declared():
    assert list(build("x", [seen("t", [3, 1, 2])], declared=[9, 2, 8])) == [1, 2, 3, 9, 8]
    assert list(build("x", [seen("t", [3, 1, 2])], declared=[9, 2, 3, 1])) == [9, 2, 3, 1]
    assert list(build("x", [seen("t", [])], declared=["b", "a"])) == ["b", "a"]


def test_integers_of_different_widths_are_one_axis():
    labels = build("x", [seen("s", np.array([1, 2], np.int8)), seen("t", np.array([2, 2**63], np.uint64))])
    assert list(labels) == [1, 2, 2**63]
    assert labels.encode([1, 2]).tolist() == [0, 1]
    assert labels.encode([-1], unknown="mark").tolist() == [-1]


def test_an_array_has_the_entities_0_to_n_or_the_declared_ones():
    labels = build("x", [array_of(3), seen("t", [2, 0])])
    assert list(labels) == [0, 1, 2]
    assert labels.encode([2, 0]).tolist() == [2, 0]
    assert labels.encode([3, -1], unknown="mark").tolist() == [-1, -1]
    assert labels.encode([2**64 - 1], unknown="mark").tolist() == [-1]
    labels = build("x", [array_of(2), seen("t", ["a"])], declared=["b", "a"])
    assert labels.encode(["a", "b"]).tolist() == [1, 0]


def test_unknown_labels_can_be_marked():
    labels = Labels.of("x", ["a", "b"])
    assert labels.encode(["b", "q"], unknown="mark").tolist() == [1, -1]
    assert ["a" in labels, "q" in labels, labels[1], len(labels)] == [True, False, "b", 2]
    assert repr(labels) == "Labels('x', 2 strings: 'a', 'b')"


def test_an_empty_column_of_any_type_fits_any_axis():
    labels = Labels.of("x", ["a", "b"])
    for empty in ([], pd.Series([], dtype=object), pl.Series([], dtype=pl.Int32), np.zeros(0)):
        assert labels.encode(empty).tolist() == []


# many labels ----------------------------------------------------------------------------------------------------------

MANY_LABELS = {
    "0 to n": np.arange(900),
    "a range": np.arange(-400, 500),
    "with gaps": 3 * np.arange(900) - 1000,
    "far apart": np.random.default_rng(0).integers(-(2**62), 2**62, 900),
    "at both ends": np.array([-(2**63), -1, 0, 1, 2**63 - 1]),
    "a few bytes": np.arange(-128, 128).astype(np.int8),
    "beyond int64": np.array([2**63 - 1, 2**63, 2**64 - 1], np.uint64),
    "close together beyond int64": np.arange(2**64 - 900, 2**64, dtype=np.uint64),
    "across the end of int64": np.arange(2**63 - 400, 2**63 + 400, dtype=np.uint64),
    "strings": np.array([f"name {k * k % 1009}" for k in range(900)]),
    "long and short strings": np.array(["", "ä", "a" * 40, *("ab" * k for k in range(1, 300))]),
}


@pytest.mark.quick(count=[5, 400])
@pytest.mark.parametrize("count", [5, 400, 160_000])
@pytest.mark.parametrize("name", MANY_LABELS)
def test_row_numbers_equal_a_dictionary(name, count):
    labels = np.random.default_rng(1).choice(MANY_LABELS[name], count).tolist()
    column = pl.Series(labels, dtype=pl.Series(MANY_LABELS[name]).dtype)
    names = sorted(set(labels))
    axis = build("x", [seen("t, column 'x'", column)])
    assert list(axis) == names
    number = {label: row for row, label in enumerate(names)}
    wanted = [number[label] for label in labels]
    assert axis.encode(column).tolist() == wanted
    rows = np.empty((count, 2), np.uint32)
    axis.write(label_series(column, "t"), rows[:, 1], where="t")
    assert rows[:, 1].tolist() == wanted


@pytest.mark.parametrize("name", MANY_LABELS)
def test_rows_keep_the_order_of_declared_names(name):
    labels = list(dict.fromkeys(MANY_LABELS[name].tolist()))
    column, declared = MANY_LABELS[name], [*labels[-2:], *reversed(labels[:-2])]
    axis = build("x", [seen("t, column 'x'", column)], declared=pl.Series(declared, dtype=pl.Series(labels).dtype))
    assert list(axis) == declared
    np.testing.assert_array_equal(axis.encode(pl.Series(list(axis))), np.arange(len(axis)))
    axis = build("x", [seen("t, column 'x'", column)], declared=pl.Series(declared[:2]))
    assert list(axis) == sorted(labels)


@pytest.mark.parametrize("names", [[5, 6, 7], [7, 5, 6], [5, 7], [0, 10**12], [2**64 - 2, 2**64 - 1]])
def test_integers_that_are_no_name_are_marked(names):
    axis = Labels.of("x", pl.Series(names))
    for column in (
        np.array([-(2**63), -1, 0, 5, 6, 7, 8, 2**40, 2**63 - 1]),
        np.array([0, 6, 7, 2**63, 2**64 - 3, 2**64 - 2, 2**64 - 1], np.uint64),
        np.arange(-128, 128).astype(np.int8),
    ):
        wanted = [names.index(label) if label in names else -1 for label in column.tolist()]
        assert axis.encode(column, unknown="mark").tolist() == wanted


@pytest.mark.parametrize(
    ("names", "known", "unknown"),
    [([2, 3, 5], 3, 4), ([2, 3, 5], 3, -7), ([2, 3, 5], 3, 10**15),
     (["ann", "bob", "a name longer than twelve bytes"], "bob", "a name longer than any of them")],
)  # fmt: skip
def test_an_unknown_label_in_a_large_column_is_named_with_its_row(names, known, unknown):
    axis, column = Labels.of("x", names), [known] * 150_000
    column[140_000] = unknown
    text = error_text(axis.encode, column, where="t, column 'x'")
    assert text.startswith(f"t, column 'x', row 140000 (counting from 0): {unknown!r} is not an entity of axis x")
    marked = axis.encode(column, unknown="mark")
    assert np.flatnonzero(marked != 1).tolist() == [140_000]
    assert marked[140_000] == -1


@pytest.mark.parametrize("names", [1, 7, 300_000])
def test_encoding_of_one_few_and_many_names(names):
    labels = [f"a rather long name {k % names}" for k in range(300_000)]
    axis = build("x", [seen("t, column 'x'", labels)])
    assert list(axis) == sorted(set(labels))
    assert [axis[int(row)] for row in axis.encode(labels)[::1000]] == labels[::1000]


@pytest.mark.parametrize("names_per_hash", [1, 2])
def test_names_with_equal_hashes_stay_different(names_per_hash, monkeypatch):
    labels = [f"name {k % 5}" for k in range(60_000)]
    monkeypatch.setattr(
        hash_lookup, "hash_of", lambda some: (some.str.tail(1).cast(pl.UInt64) // names_per_hash).to_numpy()
    )
    axis = build("x", [seen("t", labels)])
    assert list(axis) == [f"name {k}" for k in range(5)]
    assert axis.encode(labels).tolist() == [k % 5 for k in range(60_000)]
    assert axis.encode([*labels, "other 4"], unknown="mark")[-1] == -1


X = "t, column 'x'"

COLUMN_ERRORS = {
    "null among integers": (pd.Series([1, np.nan]), ["row 1", "missing"]),
    "null category": (pd.Series([1, None], dtype="category"), ["row 1", "missing"]),
    "fraction": ([1.0, 1.5], ["row 1", "1.5"]),
    "mixed types": (pd.Series([1, "a"]), ["row 1", "'a' is str", "int"]),
    "lists": (pl.Series([[1]]), ["List(Int64)"]),
    "too large": ([1, 2**70], ["1180591620717411303424", "64 bits"]),
    "too fine": (np.array(["2020-01-01T00:00:00.000000001"], "datetime64[ns]"), ["microsecond"]),
    "one string": ("abc", ["'abc'", "list"]),
}


@pytest.mark.parametrize("name", COLUMN_ERRORS)
def test_a_column_that_holds_no_labels_is_refused(name):
    values, words = COLUMN_ERRORS[name]
    assert_mentions(error_text(label_series, values, X), X, *words)


def test_text_is_no_number():
    assert_mentions(error_text(number_array, pl.Series([None, "a"]), "t, column 'value'"), "row 1", "'a'", "String")


# sources of an axis, declared names, words of the error
AXIS_ERRORS = {
    "two kinds": ([seen("s, column 'x'", ["1"]), seen(X, [1])], None, [X, "integers", "strings in s, column 'x'"]),
    "arrays of two sizes": ([array_of(3), array_of(4)], None, ["X, index 'x'", "3 entities", "4"]),
    "table beyond the array": (
        [array_of(3), seen(X, [0, 3])],
        None,
        [X, "row 1", "3 is not a row number", "X, index 'x'"],
    ),
    "names next to an array": (
        [array_of(3), seen(X, ["a"])],
        None,
        [X, "row 0", "'a' is not a row number", "`entities={'x': …}`"],
    ),
    "declared for another size": ([array_of(3)], ["a"], ["1 names are declared", "3 entities"]),
    "declared twice": ([array_of(3)], ["a", "b", "a"], ["'a'", "twice"]),
    "no entity": ([seen(X, [])], None, ["axis x", X, "`entities={'x': …}`"]),
    "no common integer type": ([seen(X, [-1]), seen("s, column 'x'", [2**63])], None, [X, "-1", "2^63"]),
}


@pytest.mark.parametrize("name", AXIS_ERRORS)
def test_an_axis_without_a_common_meaning_is_refused(name):
    sources, declared, words = AXIS_ERRORS[name]
    assert_mentions(error_text(build, "x", sources, declared=declared), *words)


@pytest.mark.parametrize(
    ("labels", "column", "words"),
    [
        (Labels.of("x", ["anna", "bert"]), ["bert", "ana"], ["row 1", "'ana' is", "Did you mean 'anna'?"]),
        (Labels.count("x", 9), [1, 9, 12, 9], ["row 1", "9, 12 are", "0, 1, 2, 3, 4, …"]),
        (Labels.of("x", ["a", "b"]), [1], ["integers", "strings: 'a', 'b'"]),
    ],
    ids=["unknown", "several unknown", "other kind"],
)
def test_labels_that_are_no_entities_are_refused(labels, column, words):
    assert_mentions(error_text(labels.encode, column, where=X), X, "axis x", *words)
