"""Relation and Exposure: options, columns, dimensions, and what print shows."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

import plait
from plait import Exposure, Relation
from tests.support.data_errors import assert_mentions, error_text

TABLE = pd.DataFrame({"user": ["a", "b"], "place": [1, 2], "plays": [3, 0]})


VISITS = plait.Model("visits[user, place] = U[user, r] P[place, r]")


# options, words of the error
OPTIONS = {
    "observed misspelt": ({"observed": "lsited"}, ["'lsited'", "Did you mean 'listed'?"]),
    "observed above 1": ({"observed": 1.5}, ["1.5"]),
    "observed below 0": ({"observed": -0.1}, ["-0.1"]),
    "observed NaN": ({"observed": float("nan")}, ["nan"]),
    "observed a bool": ({"observed": True}, ["True"]),
    "unseen": ({"unseen": "zeor"}, ["'zeor'", "Did you mean 'zero'?"]),
    "likelihood": ({"likelihood": "gauss"}, ["'gauss'", "poisson, bernoulli, negbin, tweedie"]),
    "duplicates": ({"duplicates": "summ"}, ["'summ'", "Did you mean 'sum'?"]),
    "negative weight": ({"weight": -1}, ["-1", "1e+75"]),
    "infinite weight": ({"weight": float("inf")}, ["inf"]),
    "indices a string": ({"indices": "user"}, ["('user',)"]),
    "columns a string": ({"columns": "user"}, ["{'user': 'id'}"]),
    "missing no table": ({"missing": {"user": ["a"]}}, ["dict"]),
    "ignore a string": ({"ignore_columns": "plays"}, ["['plays']"]),
    "strip no bool": ({"strip": 1}, ["got 1", "True or False"]),
    "self_links": ({"self_links": "observd"}, ["'observd'", "Did you mean 'observed'?"]),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_bad_option_is_refused(name):
    options, words = OPTIONS[name]
    assert_mentions(error_text(Relation, TABLE, **options), f"`{next(iter(options))}`", *words)


@pytest.mark.parametrize("data", [[[1, 2]], None, pd.Series([1]), Relation(TABLE)])
def test_data_that_are_neither_table_nor_array_are_refused(data):
    assert type(data).__name__ in error_text(Relation, data)
    if not isinstance(data, Relation):
        assert type(data).__name__ in error_text(Exposure, data)


@pytest.mark.parametrize(
    ("option", "value"),
    [("value", "plays"), ("weight", "w"), ("columns", {"i": "x"}), ("ignore_columns", ["a"]), ("strip", True)],
)
def test_options_about_columns_are_refused_for_arrays(option, value):
    assert_mentions(error_text(Relation, np.eye(2), **{option: value}), f"`{option}`", repr(value), "no columns")


COLUMNS = "'user', 'place', 'plays'"

# relation, words of the error
READ_ERRORS = {
    "missing column": (
        Relation(TABLE.rename(columns={"user": "usr"}), value="plays"),
        ["'user'", "'usr', 'place', 'plays'", "Did you mean 'usr'?", "`columns={'user': …}`"],
    ),
    "missing value column": (Relation(TABLE, value="counts"), ["'counts'", COLUMNS, "`value`"]),
    "missing weight column": (Relation(TABLE, value="plays", weight="w"), ["'w'", COLUMNS, "`weight`"]),
    "mapped column missing": (Relation(TABLE, value="plays", columns={"user": "id"}), ["'id'", COLUMNS]),
    "surplus column": (Relation(TABLE), ["'plays'", "`ignore_columns=['plays']`", "`value='plays'`"]),
    "surplus columns": (Relation(TABLE.assign(day=1, hour=2), value="plays"), ["`ignore_columns=['day', 'hour']`"]),
    "one column for two indices": (Relation(TABLE, columns={"user": "place"}), ["'place'", "twice"]),
    "columns for no index": (Relation(TABLE, columns={"usr": "user"}), ["'usr'", "Did you mean 'user'?"]),
    "indices of another relation": (Relation(TABLE, indices=("user", "day")), ["user, day", "user, place"]),
    "wrong number of dimensions": (Relation(np.ones((2, 2, 2))), ["3 dimensions", "expected 2"]),
    "wrong number of dimensions, sparse": (Relation(scipy.sparse.coo_array(np.ones(2))), ["1 dimension", "expected 2"]),
    "array of strings": (Relation(np.array([["a"]])), ["<U1"]),
    "ignored column missing": (
        Relation(TABLE, value="plays", ignore_columns=["dya"]),
        ["`ignore_columns`", "'dya'", COLUMNS],
    ),
    "ignored column used": (Relation(TABLE, value="plays", ignore_columns=["plays"]), ["`ignore_columns`", "'plays'"]),
}
MISSING_ERRORS = {
    "missing over no index": (pd.DataFrame({"plcae": [1]}), ["visits, missing:", "'plcae'", "Did you mean 'place'?"]),
    "second missing table": ([TABLE[["user"]], TABLE], ["visits, missing[1]:", "'plays'", "'user', 'place'"]),
    "missing without columns": (pd.DataFrame(), ["visits, missing:", "no columns"]),
}


@pytest.mark.parametrize("name", READ_ERRORS)
def test_columns_and_dimensions_must_fit_the_model(name):
    relation, words = READ_ERRORS[name]
    assert_mentions(error_text(VISITS.bind, {"visits": relation}), "visits", *words)


@pytest.mark.parametrize("name", MISSING_ERRORS)
def test_tables_of_missing_cells_must_fit_the_model(name):
    missing, words = MISSING_ERRORS[name]
    relation = Relation(TABLE, value="plays", missing=missing)
    assert_mentions(error_text(VISITS.bind, {"visits": relation}), *words)


def test_two_columns_of_one_name_are_refused():
    table = pd.DataFrame([[1, 2, 3]], columns=["user", "place", "user"])
    with pytest.raises(plait.errors.DataError, match="the DataFrame: "):
        Relation(table)


def test_values_are_in_a_column_called_value_or_1():
    links = TABLE[["user", "place"]]
    for table, values in ((links, [1.0, 1.0]), (links.assign(value=[3, 2]), [3.0, 2.0])):
        assert VISITS.bind({"visits": table}).relations["visits"].values.tolist() == values
    relation = dataclasses.replace(Relation(TABLE, value="plays"), observed="listed")
    bound = VISITS.bind({"visits": relation}).relations["visits"]
    assert (bound.values.tolist(), bound.observed_zeros, bound.missing_cells) == ([3.0], 1, 2)


def test_print_shows_data_and_options():
    relation = Relation(TABLE, columns={"place": "spot"}, observed=0.1, missing=TABLE, unseen="zero", weight=2.0)
    assert str(relation) == (
        "Relation: table of 2 rows, columns 'user', 'place', 'plays'\n"
        "  columns     place = spot\n"
        "  observed    zeros have weight 0.1, links 1\n"
        "  missing     1 table of hidden cells\n"
        "  unseen      zero: entities without links in this relation are zeros\n"
        "  likelihood  auto\n"
        "  weight      2.0"
    )
    assert str(Relation(np.array([[1.0, np.nan]]), indices=("j", "i"))).split("\n")[:2] == [
        "Relation: array of 1 × 2, 1 missing",
        "  indices     j, i",
    ]
    assert str(Relation(scipy.sparse.eye_array(3))).startswith("Relation: sparse array of 3 × 3, 3 stored")
    assert str(Relation(4)).startswith("Relation: one number")
    assert str(Relation(pl.LazyFrame({"user": ["a"]}))).startswith("Relation: table of columns 'user'")


@pytest.mark.parametrize("default", [-1.0, float("nan"), float("inf"), "1", True])
def test_the_default_of_an_exposure_is_a_finite_number_not_below_0(default):
    assert_mentions(error_text(Exposure, TABLE, default=default), "`default`", repr(default), "1e+75")


# --- ignored columns, and blanks around names


def test_ignored_columns_change_nothing():
    table = pl.DataFrame({"user": ["ann", "bob"], "place": ["cafe", "gym"], "when": [1, 2], "by": ["x", "y"]})
    relation = Relation(table, ignore_columns=["when", "by"])
    assert str(VISITS.bind({"visits": relation})) == str(VISITS.bind({"visits": table.drop("when", "by")}))
    assert "ignore_columns 'when', 'by'" in str(relation)


def test_an_ignored_column_is_no_index_of_a_split():
    users = [f"u{n % 10}" for n in range(60)]
    table = pl.DataFrame({"user": users, "place": [f"p{n % 7}" for n in range(60)], "when": range(60)})
    split = plait.train_test_split(Relation(table, ignore_columns=["when"], duplicates="sum"), fraction=0.2, seed=0)
    assert split.test.columns == ["user", "place", "value"]
    VISITS.bind({"visits": split.train})


def test_an_ignored_column_may_be_the_time_of_a_split():
    table = pl.DataFrame({"user": ["a", "b", "c", "d"], "place": ["x", "y", "x", "y"], "when": [4, 3, 2, 1]})
    split = plait.train_test_split(
        Relation(table, ignore_columns=["when"]), fraction=0.25, by="time", time="when", seed=0
    )
    assert split.test["user"].to_list() == ["a"]
    VISITS.bind({"visits": split.train})


def test_strip_removes_blanks_around_names():
    table = pd.DataFrame({"user": ["ann", "bob ", "ann"], "place": [" cafe", "cafe", "gym"]})
    closed = pl.DataFrame({"place": ["gym "]})
    relation = Relation(table, strip=True, missing=closed)
    data = VISITS.bind({"visits": relation})
    assert list(data.entities["place"]) == ["cafe", "gym"]
    assert list(data.entities["user"]) == ["ann", "bob"]
    assert len(data.relations["visits"].links) == 2


def test_evaluate_ignores_columns_and_strips_blanks():
    table = pl.DataFrame({"user": ["ann", "bob", "cem"], "place": ["cafe", "gym", "cafe"]})
    fit = plait.fit("X[user, place] = U[user, r] P[place, r]", {"X": table}, rank=1, seed=0, max_iter=3)
    test = pl.DataFrame({"user": ["ann ", "bob"], "place": ["gym", " cafe"], "value": [1, 0], "when": [1, 2]})
    found = plait.evaluate(fit, "X", Relation(test, ignore_columns=["when"], strip=True))
    bare = test.drop("when").with_columns(pl.col("user", "place").str.strip_chars())
    assert found.figures == plait.evaluate(fit, "X", bare).figures
