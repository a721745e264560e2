"""Relation and Exposure: options are checked at once, every kind of data is read, and print says what is known."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import plait
from plait.data.reading.relation import Exposure, Relation
from plait.errors import DataError

TABLE = pd.DataFrame({"user": ["a", "b"], "place": [1, 2], "plays": [3, 0]})


def message(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


OPTIONS = {
    "observed misspelt": (
        {"observed": "lsited"},
        "`observed` is 'lsited'.\nDid you mean 'listed'? It is 'all', 'listed' or the weight of zeros, 0 to 1.",
    ),
    "observed above 1": (
        {"observed": 1.5},
        "`observed` is 1.5.\nAs a number it is the weight of zeros, from 0 to 1.",
    ),
    "observed below 0": (
        {"observed": -0.1},
        "`observed` is -0.1.\nAs a number it is the weight of zeros, from 0 to 1.",
    ),
    "observed NaN": (
        {"observed": float("nan")},
        "`observed` is nan.\nAs a number it is the weight of zeros, from 0 to 1.",
    ),
    "observed a bool": (
        {"observed": True},
        "`observed` is True.\nAs a number it is the weight of zeros, from 0 to 1.",
    ),
    "universe": (
        {"universe": "modle"},
        "`universe` is 'modle'.\nDid you mean 'model'? It is 'relation' or 'model'.",
    ),
    "likelihood": (
        {"likelihood": "gauss"},
        "`likelihood` 'gauss' is not known.\nThere are poisson, bernoulli, negbin, amounts; one of your own is "
        "known once the module with its class is imported.",
    ),
    "duplicates": (
        {"duplicates": "add"},
        "`duplicates` is 'add'.\nIt is 'error' or 'sum'.",
    ),
    "negative weight": (
        {"weight": -1},
        '`weight` is -1.\nIt is 0, or from 1e-75 to 1e+75; a column of such numbers; or "auto".',
    ),
    "infinite weight": (
        {"weight": float("inf")},
        '`weight` is inf.\nIt is 0, or from 1e-75 to 1e+75; a column of such numbers; or "auto".',
    ),
    "indices a string": (
        {"indices": "user"},
        "`indices` is 'user'.\nGive a tuple of names: ('user',).",
    ),
    "columns a string": (
        {"columns": "user"},
        "`columns` is 'user'.\nGive a dict, index -> column: {'user': 'id'}.",
    ),
    "missing no table": (
        {"missing": {"user": ["a"]}},
        "`missing` holds dict.\nGive a table whose columns are some of the indices, or a list of such tables.",
    ),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_bad_option_is_refused_with_a_cure(name):
    options, wanted = OPTIONS[name]
    assert message(lambda: Relation(TABLE, **options)) == wanted


KINDS = "Give a table (pandas, polars, pyarrow), a NumPy array, a SciPy sparse matrix or a sparse.COO."


@pytest.mark.parametrize("data", ["visits.csv", {"user": [1]}, [[1, 2]], None, pd.Series([1])])
def test_what_is_neither_table_nor_array_is_refused(data):
    wanted = f"a relation cannot be read from {type(data).__name__}.\n{KINDS} A graph of NetworkX will do, too."
    assert message(lambda: Relation(data)) == wanted


def test_a_relation_of_a_relation_is_refused():
    assert (
        message(lambda: Relation(Relation(TABLE))) == "plait.Relation of a plait.Relation.\nGive the data themselves."
    )


@pytest.mark.parametrize(("option", "value"), [("value", "plays"), ("weight", "w"), ("columns", {"i": "x"})])
def test_options_about_columns_are_refused_for_arrays(option, value):
    wanted = f"`{option}` is {value!r}, but an array has no columns.\nGive a table, or omit it."
    assert message(lambda: Relation(np.eye(2), **{option: value})) == wanted


def test_a_relation_can_be_copied_with_other_options():
    relation = Relation(TABLE, value="plays")
    other = dataclasses.replace(relation, observed="listed")
    assert (other.value, other.observed, relation.observed) == ("plays", "listed", "all")
    assert other.read("visits", ("user", "place")).values.tolist() == [3.0, 0.0]


READ_ERRORS = {
    "missing column": (
        lambda: Relation(TABLE.rename(columns={"user": "usr"}), value="plays").read("visits", ("user", "place")),
        "visits: there is no column 'user'; the table has 'usr', 'place', 'plays'.\n"
        "Did you mean 'usr'? Say which column it is: `columns={'user': …}`.",
    ),
    "missing value column": (
        lambda: Relation(TABLE, value="counts").read("visits", ("user", "place")),
        "visits: there is no column 'counts'; the table has 'user', 'place', 'plays'.\n"
        "`value` names it: give the name of a column of the table.",
    ),
    "missing weight column": (
        lambda: Relation(TABLE, value="plays", weight="w").read("visits", ("user", "place")),
        "visits: there is no column 'w'; the table has 'user', 'place', 'plays'.\n"
        "`weight` names it: give the name of a column of the table.",
    ),
    "mapped column missing": (
        lambda: Relation(TABLE, value="plays", columns={"user": "id"}).read("visits", ("user", "place")),
        "visits: there is no column 'id'; the table has 'user', 'place', 'plays'.\n"
        "Say which column it is: `columns={'user': …}`.",
    ),
    "surplus column": (
        lambda: Relation(TABLE).read("visits", ("user", "place")),
        "visits: column 'plays' is not used; wanted are 'user', 'place'.\n"
        "Leave out what is not part of it: `ignore=['plays']`, or say what it is: "
        "`value='plays'`.",
    ),
    "surplus columns beside values": (
        lambda: Relation(TABLE.assign(day=1, hour=2), value="plays").read("visits", ("user", "place")),
        "visits: columns 'day', 'hour' are not used; wanted are 'user', 'place', 'plays'.\n"
        "Leave out what is not part of it: `ignore=['day', 'hour']`.",
    ),
    "one column for two indices": (
        lambda: Relation(TABLE, columns={"user": "place"}).read("visits", ("user", "place")),
        "visits: column 'place' is used twice.\nGive each index a column of its own.",
    ),
    "columns for no index": (
        lambda: Relation(TABLE, columns={"usr": "user"}).read("visits", ("user", "place")),
        "visits: `columns` names 'usr', which is no index of it.\nDid you mean 'user'? It has user, place.",
    ),
    "indices of another relation": (
        lambda: Relation(TABLE, indices=("user", "day")).read("visits", ("user", "place")),
        "visits: the indices are said to be user, day, but its equation has user, place.\n"
        "Name the same indices, in the order of the array's dimensions.",
    ),
    "wrong number of dimensions": (
        lambda: Relation(np.ones((2, 2, 2))).read("visits", ("user", "place")),
        "visits: the array has 3 dimensions, but 2 indices are wanted.\nGive one dimension for each index, or a table.",
    ),
    "wrong number of dimensions, sparse": (
        lambda: Relation(scipy.sparse.eye_array(2)).read("visits", ("user",)),
        "visits: the array has 2 dimensions, but 1 index is wanted.\nGive one dimension for each index, or a table.",
    ),
    "array of strings": (
        lambda: Relation(np.array(["a"])).read("visits", ("user",)),
        "visits: the array is of type <U1.\nConvert it to numbers.",
    ),
    "missing over no index": (
        lambda: Relation(TABLE, missing=pd.DataFrame({"plcae": [1]})).read_missing("visits", ("user", "place")),
        "visits, missing: column 'plcae' is no index of the relation.\n"
        "Did you mean 'place'? Its columns are among 'user', 'place'.",
    ),
    "second missing table": (
        lambda: Relation(TABLE, missing=[TABLE[["user"]], TABLE]).read_missing("visits", ("user", "place")),
        "visits, missing[1]: column 'plays' is no index of the relation.\nIts columns are among 'user', 'place'.",
    ),
    "missing without columns": (
        lambda: Relation(TABLE, missing=pd.DataFrame()).read_missing("visits", ("user", "place")),
        "visits, missing: the table has no columns.\nName what is hidden by some of the indices.",
    ),
}


@pytest.mark.parametrize("name", READ_ERRORS)
def test_reading_says_what_is_wrong_with_the_data(name):
    call, wanted = READ_ERRORS[name]
    assert message(call) == wanted


def test_two_columns_of_one_name_are_refused():
    table = pd.DataFrame([[1, 2, 3]], columns=["user", "place", "user"])
    assert message(lambda: Relation(table)).startswith("the DataFrame: the table cannot be read: ")


def test_a_value_column_is_optional():
    links = Relation(TABLE[["user", "place"]]).read("visits", ("user", "place"))
    assert links.values.tolist() == [1.0, 1.0]
    counts = Relation(TABLE.rename(columns={"plays": "value"})).read("visits", ("user", "place"))
    assert counts.values.tolist() == [3.0, 0.0]


def test_a_lazy_table_is_collected():
    lazy = pl.DataFrame({"user": ["a", "b"], "place": [1, 2]}).lazy()
    assert Relation(lazy).read("visits", ("user", "place")).rows == 2
    assert str(Relation(lazy)).startswith("Relation: table of columns 'user', 'place'")


def test_print_says_what_can_be_known_before_binding():
    relation = Relation(TABLE, columns={"place": "spot"}, observed=0.1, missing=TABLE, universe="model", weight=2.0)
    assert str(relation) == (
        "Relation: table of 2 rows, columns 'user', 'place', 'plays'\n"
        "  columns     place = spot\n"
        "  observed    zeros weigh 0.1, links 1\n"
        "  missing     1 table of hidden cells\n"
        "  universe    model: an entity that occurs only elsewhere is zeros here\n"
        "  likelihood  poisson\n"
        "  weight      2.0"
    )
    assert str(Relation(np.array([[1.0, np.nan]]), indices=("j", "i"))).split("\n")[:2] == [
        "Relation: array of 1 × 2, 1 missing",
        "  indices     j, i",
    ]
    assert str(Relation(scipy.sparse.eye_array(3))).startswith("Relation: sparse array of 3 × 3, 3 stored")
    assert str(Relation(4)).startswith("Relation: one number")


@pytest.mark.parametrize("default", [-1.0, float("nan"), float("inf"), "1", True])
def test_the_default_of_an_exposure_is_a_finite_number_not_below_0(default):
    wanted = f"`default` is {default!r}.\nAn exposure is 0, or from 1e-75 to 1e+75."
    assert message(lambda: Exposure(TABLE, default=default)) == wanted


def test_an_exposure_of_something_else_is_refused():
    assert message(lambda: Exposure("table.csv")) == f"an exposure cannot be read from str.\n{KINDS}"


# --- columns that are not part of it, blanks that are not part of names


def test_ignored_columns_are_as_if_they_were_not_there():
    table = pl.DataFrame({"user": ["ann", "bob"], "place": ["cafe", "gym"], "when": [1, 2], "by": ["x", "y"]})
    model = plait.Model("visits[user, place] = U[user, r] P[place, r]")
    bound, plain = (
        model.bind({"visits": data}) for data in (Relation(table, ignore=["when", "by"]), table.drop("when", "by"))
    )
    assert str(bound) == str(plain)
    assert "ignore      'when', 'by'" in str(Relation(table, ignore=["when", "by"]))


def test_hiding_without_a_model_does_not_take_an_ignored_column_for_an_index():
    users = [f"u{n % 10}" for n in range(60)]
    table = pl.DataFrame({"user": users, "place": [f"p{n % 7}" for n in range(60)], "when": range(60)})
    split = plait.hide(Relation(table, ignore=["when"], duplicates="sum"), fraction=0.2, seed=0)
    assert split.test.columns == ["user", "place", "value"]
    plait.Model("X[user, place] = U[user, r] P[place, r]").bind({"X": split.train})


def test_the_time_of_a_link_may_be_a_column_that_is_ignored():
    table = pl.DataFrame({"user": ["a", "b", "c", "d"], "place": ["x", "y", "x", "y"], "when": [4, 3, 2, 1]})
    split = plait.hide(Relation(table, ignore=["when"]), fraction=0.25, by="time", time="when", seed=0)
    assert split.test["user"].to_list() == ["a"]
    plait.Model("X[user, place] = U[user, r] P[place, r]").bind({"X": split.train})


def test_strip_makes_one_entity_of_a_name_with_and_without_blanks():
    table = pd.DataFrame({"user": ["ann", "bob ", "ann"], "place": [" cafe", "cafe", "gym"]})
    closed = pl.DataFrame({"place": ["gym "]})
    relation = Relation(table, strip=True, missing=closed)
    data = plait.Model("visits[user, place] = U[user, r] P[place, r]").bind({"visits": relation})
    assert list(data.labels["place"]) == ["cafe", "gym"]
    assert list(data.labels["user"]) == ["ann", "bob"]
    assert len(data.relations["visits"].links) == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Relation(TABLE, value="plays", ignore=["dya"]).read("visits", ("user", "place")),
            "visits: `ignore` names the column 'dya'; the table has 'user', 'place', 'plays'.\nLeave it out.",
        ),
        (
            lambda: Relation(TABLE, value="plays", ignore=["plays"]).read("visits", ("user", "place")),
            "visits: column 'plays' is used and in `ignore`.\nIt is one of the two.",
        ),
        (lambda: Relation(TABLE, ignore="plays"), "`ignore` is 'plays'.\nGive a list of columns: ['plays']."),
        (lambda: Relation(TABLE, strip=1), "`strip` is 1.\nIt is True or False."),
        (
            lambda: Relation(np.eye(2), ignore=["a"]),
            "`ignore` is ['a'], but an array has no columns.\nGive a table, or omit it.",
        ),
        (
            lambda: Relation(np.eye(2), strip=True),
            "`strip` is True, but an array has no columns.\nGive a table, or omit it.",
        ),
    ],
)
def test_what_cannot_be_ignored_or_stripped_is_refused(make, message):
    with pytest.raises(plait.DataError) as caught:
        make()
    assert str(caught.value) == message


def test_a_test_may_have_columns_to_ignore_and_blanks():
    table = pl.DataFrame({"user": ["ann", "bob", "cem"], "place": ["cafe", "gym", "cafe"]})
    fit = plait.fit("X[user, place] = U[user, r] P[place, r]", {"X": table}, rank=1, seed=0, sweeps=3)
    test = pl.DataFrame({"user": ["ann ", "bob"], "place": ["gym", " cafe"], "value": [1, 0], "when": [1, 2]})
    found = plait.evaluate(fit, "X", Relation(test, ignore=["when"], strip=True))
    bare = test.drop("when").with_columns(pl.col("user", "place").str.strip_chars())
    assert found.figures == plait.evaluate(fit, "X", bare).figures
