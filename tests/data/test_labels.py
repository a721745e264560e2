"""Labels: every kind of column gives the same rows, in an order that does not depend on the data's order."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from plait.data.labels import hashed
from plait.data.labels.columns import kind, label_series, number_array, widened
from plait.data.labels.names import Labels, Seen, Tallied, build
from plait.errors import DataError, TableLocation

DAY = dt.date(2024, 2, 29)
HOUR = dt.datetime(2024, 2, 29, 12)


def seen(where, values):
    return Seen(TableLocation(where), label_series(values, where))


def message(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


SAME_STRINGS = {
    "list": ["b", "a", "b"],
    "tuple": ("b", "a", "b"),
    "numpy": np.array(["b", "a", "b"]),
    "numpy objects": np.array(["b", "a", "b"], object),
    "pandas": pd.Series(["b", "a", "b"]),
    "pandas objects": pd.Series(["b", "a", "b"], dtype=object),
    "pandas category": pd.Series(["b", "a", "b"], dtype="category"),
    "polars": pl.Series(["b", "a", "b"]),
    "polars categorical": pl.Series(["b", "a", "b"], dtype=pl.Categorical),
    "polars enum": pl.Series(["b", "a", "b"], dtype=pl.Enum(["b", "a"])),
    "pyarrow": pa.array(["b", "a", "b"]),
    "pyarrow chunks": pa.chunked_array([["b"], ["a", "b"]]),
    "pyarrow dictionary": pa.array(["b", "a", "b"]).dictionary_encode(),
}

SAME_INTEGERS = {
    "list": [7, 5, 7],
    "int8": np.array([7, 5, 7], np.int8),
    "uint64": np.array([7, 5, 7], np.uint64),
    "whole floats": np.array([7.0, 5.0, 7.0]),
    "pandas": pd.Series([7, 5, 7]),
    "pandas nullable": pd.Series([7, 5, 7], dtype="Int64"),
    "pandas category of integers": pd.Series([7, 5, 7], dtype="category"),
    "pandas objects": pd.Series([7, 5, 7], dtype=object),
    "pandas on arrow": pd.Series([7, 5, 7], dtype="int64[pyarrow]"),
    "polars": pl.Series([7, 5, 7], dtype=pl.Int16),
    "pyarrow": pa.array([7, 5, 7]),
    "numpy scalars": [np.int64(7), 5, 7],
}


@pytest.mark.parametrize("name", SAME_STRINGS)
def test_a_column_of_strings_is_the_same_however_it_is_kept(name):
    assert label_series(SAME_STRINGS[name], "t").to_list() == ["b", "a", "b"]
    assert Labels.of("x", ["a", "b"]).encode(SAME_STRINGS[name]).tolist() == [1, 0, 1]


def test_integers_are_read_by_a_polars_that_has_no_wider_ones(monkeypatch):
    assert label_series(pl.Series([7, 5, 7], dtype=pl.Int128), "t").dtype == pl.Int64
    for name in ("Int128", "UInt128"):
        monkeypatch.delattr(pl, name, raising=False)
    assert label_series(pl.Series([7, 5, 7], dtype=pl.Int16), "t").dtype == pl.Int16


@pytest.mark.parametrize("name", SAME_INTEGERS)
def test_a_column_of_integers_is_the_same_however_it_is_kept(name):
    series = label_series(SAME_INTEGERS[name], "t")
    assert kind(series) == "integers"
    assert widened(series).dtype == pl.Int64
    assert series.to_list() == [7, 5, 7]


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
def test_labels_of_every_kind_are_rows_in_ascending_order(values, rows):
    labels = build("x", [seen("t", values)])
    assert labels.encode(values).tolist() == rows
    assert [labels[row] for row in rows] == values
    assert [labels.row(value) for value in values] == rows


def test_times_are_the_same_in_every_unit_and_library():
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


def test_rows_do_not_depend_on_the_order_of_tables_or_rows():
    one = build("x", [seen("s", ["c", "a"]), seen("t", ["b", "a"])])
    two = build("x", [seen("t", ["a", "b"]), seen("s", ["a", "c"])])
    assert list(one) == list(two) == ["a", "b", "c"]
    assert one == two


def test_declared_labels_come_after_those_seen_unless_all_are_declared():
    assert list(build("x", [seen("t", [3, 1, 2])], declared=[9, 2, 8])) == [1, 2, 3, 9, 8]
    assert list(build("x", [seen("t", [3, 1, 2])], declared=[9, 2, 3, 1])) == [9, 2, 3, 1]
    assert list(build("x", [seen("t", [])], declared=["b", "a"])) == ["b", "a"]


def test_integers_of_different_widths_are_one_axis():
    labels = build("x", [seen("s", np.array([1, 2], np.int8)), seen("t", np.array([2, 2**63], np.uint64))])
    assert list(labels) == [1, 2, 2**63]
    assert labels.encode([1, 2]).tolist() == [0, 1]
    assert labels.encode([-1], unknown="mark").tolist() == [-1]


def test_an_array_has_the_entities_0_to_n():
    labels = build("x", [Tallied(TableLocation("X", "x", noun="index"), 3), seen("t", [2, 0])])
    assert list(labels) == [0, 1, 2]
    assert labels.encode([2, 0]).tolist() == [2, 0]
    assert labels.encode([3, -1], unknown="mark").tolist() == [-1, -1]
    assert labels.encode([2**64 - 1], unknown="mark").tolist() == [-1]


def test_declared_names_name_the_rows_of_an_array():
    labels = build("x", [Tallied(TableLocation("X", "x", noun="index"), 2), seen("t", ["a"])], declared=["b", "a"])
    assert labels.encode(["a", "b"]).tolist() == [1, 0]


def test_unknown_labels_can_be_marked():
    labels = Labels.of("x", ["a", "b"])
    assert labels.encode(["b", "q"], unknown="mark").tolist() == [1, -1]
    assert "a" in labels
    assert "q" not in labels
    assert labels[1] == "b"
    assert len(labels) == 2
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


@pytest.mark.sampled(15)
@pytest.mark.parametrize("count", [5, 400, 160_000])
@pytest.mark.parametrize("name", MANY_LABELS)
def test_rows_are_those_of_a_dictionary(name, count):
    """The oracle: sorted distinct names, numbered by a dict; small tables, and such as threads share."""
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
def test_rows_have_the_order_of_names_that_are_all_declared(name):
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


def test_an_unknown_label_among_many_is_named_with_its_row():
    axis, column, rows = Labels.of("x", [2, 3, 5]), np.full(150_000, 3), np.empty(150_000, np.uint32)
    for strange in (4, -7, 10**15):
        column[140_000] = strange
        text = message(lambda: axis.write(label_series(column, "t"), rows, where="t, column 'x'"))
        assert text.startswith(f"t, column 'x', row 140000 (counting from 0): {strange} is no entity of axis x")


def test_an_unknown_name_among_many_is_named_with_its_row():
    axis, column = Labels.of("x", ["ann", "bob", "a name longer than twelve bytes"]), ["bob"] * 150_000
    column[70_000] = "a name longer than any of them"
    text = message(lambda: axis.encode(column, where="t, column 'x'"))
    assert text.startswith("t, column 'x', row 70000 (counting from 0): 'a name longer than any of them' is no entity")
    marked = axis.encode(column, unknown="mark")
    assert np.flatnonzero(marked != 1).tolist() == [70_000]
    assert marked[70_000] == -1


def test_labels_of_one_hash_are_not_taken_for_each_other():
    names, labels = pl.Series(["ann", "bob"]), pl.Series(["stranger", "bob"])
    table, rows = np.full(256, -1), np.empty(2, np.int64)
    hashes = labels.hash().to_numpy()  # as if ann had the stranger's hash
    table[hashes[:1] & np.uint64(255)], table[hashes[1:] & np.uint64(255)] = 0, 1
    assert not hashed.Hashed(names, hashes, table).write(labels, rows)
    assert rows.tolist() == [-1, 1]


@pytest.mark.parametrize("names", [1, 7, 300_000])
def test_as_many_names_as_there_are_rows_and_a_single_one(names):
    labels = [f"a rather long name {k % names}" for k in range(300_000)]
    axis = build("x", [seen("t, column 'x'", labels)])
    assert list(axis) == sorted(set(labels))
    assert [axis[int(row)] for row in axis.encode(labels)[::1000]] == labels[::1000]


def test_names_of_one_hash_are_still_told_apart(monkeypatch):
    labels = [f"name {k % 5}" for k in range(60_000)]
    column = label_series(labels, "t")
    monkeypatch.setattr(hashed, "hash_of", lambda some: (some.str.tail(1).cast(pl.UInt64) // 2).to_numpy())
    axis = build("x", [Seen(TableLocation("t", "x"), column)])
    assert list(axis) == [f"name {k}" for k in range(5)]
    assert axis.encode(column).tolist() == [k % 5 for k in range(60_000)]


ERRORS = {
    "null": (
        lambda: label_series(pd.Series(["a", None]), "t, column 'x'"),
        "t, column 'x', row 1 (counting from 0): the label is missing.\nEvery row names its entities; remove the row.",
    ),
    "null among integers": (
        lambda: label_series(pd.Series([1, np.nan]), "t, column 'x'"),
        "t, column 'x', row 1 (counting from 0): the label is missing.\nEvery row names its entities; remove the row.",
    ),
    "null category": (
        lambda: label_series(pd.Series([1, None], dtype="category"), "t, column 'x'"),
        "t, column 'x', row 1 (counting from 0): the label is missing.\nEvery row names its entities; remove the row.",
    ),
    "fraction": (
        lambda: label_series([1.0, 1.5], "t, column 'x'"),
        "t, column 'x', row 1 (counting from 0): 1.5 is not a whole number.\n"
        "Labels are integers, strings, booleans, dates or times; round the column, or convert it to strings.",
    ),
    "mixed types": (
        lambda: label_series(pd.Series([1, "a"]), "t, column 'x'"),
        "t, column 'x', row 1 (counting from 0): 'a' is str, but the column begins with int.\n"
        "Convert the column to one type.",
    ),
    "lists": (
        lambda: label_series(pl.Series([[1]]), "t, column 'x'"),
        "t, column 'x': the labels are of type List(Int64).\n"
        "Labels are integers, strings, booleans, dates or times; convert the column to strings.",
    ),
    "too large": (
        lambda: label_series([1, 2**70], "t, column 'x'"),
        "t, column 'x': integers from 1 to 1180591620717411303424 do not fit into 64 bits.\n"
        "Convert the column to strings.",
    ),
    "too fine": (
        lambda: label_series(np.array(["2020-01-01T00:00:00.000000001"], "datetime64[ns]"), "t, column 'x'"),
        "t, column 'x': times are finer than a microsecond.\nRound the column, or convert it to strings.",
    ),
    "one string": (
        lambda: label_series("abc", "labels of x"),
        "labels of x: wanted a column or list of values, got 'abc'.\nPut it into a list.",
    ),
    "no number": (
        lambda: number_array(pl.Series([None, "a"]), "t, column 'value'"),
        "t, column 'value', row 1 (counting from 0): 'a' is not a number; the column is of type String.\n"
        "Convert the column to numbers.",
    ),
    "declared twice": (
        lambda: Labels.of("x", ["a", "b", "a"]),
        "labels of x: 'a' is there twice.\nAn entity has one name; remove one.",
    ),
    "unknown": (
        lambda: Labels.of("user", ["anna", "bert"]).encode(["bert", "ana"], where="t, column 'user'"),
        "t, column 'user', row 1 (counting from 0): 'ana' is no entity of axis user, which has 'anna', 'bert'.\n"
        "Did you mean 'anna'? Declare further entities with `labels={'user': …}`, or remove the rows.",
    ),
    "several unknown": (
        lambda: Labels.count("x", 9).encode([1, 9, 12, 9], where="t, column 'x'"),
        "t, column 'x', row 1 (counting from 0): 9, 12 are no entities of axis x, which has 0, 1, 2, 3, 4, ….\n"
        "Declare further entities with `labels={'x': …}`, or remove the rows.",
    ),
    "other kind": (
        lambda: Labels.of("x", ["a", "b"]).encode([1], where="t, column 'x'"),
        "t, column 'x': the labels are integers, but axis x has strings: 'a', 'b'.\nConvert the column to strings.",
    ),
    "two kinds on one axis": (
        lambda: build("x", [seen("s, column 'x'", ["1"]), seen("t, column 'y'", [1])]),
        "t, column 'y': the labels are integers, but strings in s, column 'x'.\n"
        "Both are axis x: convert one of the two, or read the integers as text (`text`).",
    ),
    "arrays of two sizes": (
        lambda: build(
            "x", [Tallied(TableLocation("X", "x", noun="index"), 3), Tallied(TableLocation("Y", "x", noun="index"), 4)]
        ),
        "X, index 'x': axis x has 3 entities, but 4 in Y, index 'x'.\n"
        "Arrays over one axis have equal sizes; give a table where only some entities occur.",
    ),
    "table beyond the array": (
        lambda: build("x", [Tallied(TableLocation("X", "x", noun="index"), 3), seen("t, column 'x'", [0, 3])]),
        "t, column 'x', row 1 (counting from 0): 3 is no row of an array, but X, index 'x' is one: axis x is 0…2.\n"
        "Use these integers, or name the array's rows with `labels={'x': …}`.",
    ),
    "names beside an array": (
        lambda: build("x", [Tallied(TableLocation("X", "x", noun="index"), 3), seen("t, column 'x'", ["a"])]),
        "t, column 'x', row 0 (counting from 0): 'a' is no row of an array, but X, index 'x' is one: axis x is 0…2.\n"
        "Use these integers, or name the array's rows with `labels={'x': …}`.",
    ),
    "declared for an array of another size": (
        lambda: build("x", [Tallied(TableLocation("X", "x", noun="index"), 3)], declared=["a"]),
        "labels of x: 1 names are declared, but X, index 'x' has 3 entities.\n"
        "Declare one name for each row of the array, in order.",
    ),
    "no entity": (
        lambda: build("x", [seen("t, column 'x'", [])]),
        "axis x has no entity: there is nothing in t, column 'x'.\n"
        "Give at least one row, or declare the entities with `labels={'x': …}`.",
    ),
    "no common integer type": (
        lambda: build("x", [seen("s, column 'x'", [-1]), seen("t, column 'x'", [2**63])]),
        "s, column 'x': -1 and integers beyond 2^63 elsewhere on axis x have no common type.\n"
        "Convert the labels of x to strings.",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_the_error_says_what_and_where_and_a_cure(name):
    call, wanted = ERRORS[name]
    assert message(call) == wanted
