"""`plait.features`: columns of 0 or more that add up to 1 for every feature, whatever the values."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import plait

TABLE = {
    "item": ["a", "b", "c", "d", "e", "f", "g"],
    "year": [1950.0, 1960.0, 1970.0, 1980.0, 1990.0, 2000.0, 2010.0],
    "genre": ["jazz", "rock", "jazz", None, "folk", "rock", "jazz"],
    "new": [True, False, False, True, None, False, False],
    "score": [-3.0, 0.5, None, 2.0, float("nan"), 7.0, 1.0],
}


def columns_of(found, name):
    return [n for n, column in enumerate(found.names) if column.startswith((f"{name}=", f"{name}~")) or column == name]


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame, dict])
def test_columns_are_never_negative_and_those_of_a_feature_add_up_to_one(kind):
    found = plait.features(kind(TABLE), "item")
    assert found.labels == tuple("abcdefg")
    assert found.values.shape == (7, len(found)) == (7, len(found.names))
    assert (found.values >= 0).all()
    for name in ("year", "genre", "new", "score"):
        np.testing.assert_allclose(found.values[:, columns_of(found, name)].sum(axis=1), 1.0, rtol=1e-12)


def test_text_has_a_column_for_each_value_and_a_missing_one_is_the_average():
    found = plait.features(pl.DataFrame(TABLE).select("item", "genre"), "item")
    assert found.names == ("genre=folk", "genre=jazz", "genre=rock")
    assert found.values[0].tolist() == [0, 1, 0]
    np.testing.assert_allclose(found.values[3], [1 / 6, 3 / 6, 2 / 6])


def test_a_number_is_shared_between_the_knots_beside_it():
    found = plait.features({"item": range(9), "x": np.arange(9.0)}, "item", knots=3)
    assert found.names == ("x~0", "x~4", "x~8")
    np.testing.assert_allclose(
        found.values[[0, 1, 4, 6, 8]], [[1, 0, 0], [0.75, 0.25, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]
    )


def test_a_number_of_few_values_has_a_column_for_each():
    found = plait.features({"item": range(4), "stars": [1, 3, 3, 2]}, "item")
    assert found.names == ("stars~1", "stars~2", "stars~3")
    assert found.values.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]]


def test_many_equal_values_leave_fewer_knots():
    found = plait.features({"item": range(100), "x": [0.0] * 90 + list(range(1, 11))}, "item", knots=4)
    assert found.names == ("x~0", "x~10")
    np.testing.assert_allclose(found.values[94], [0.5, 0.5])


@pytest.mark.parametrize("values", [[5.0, 5.0, 5.0], ["x", "x", "x"], [None, None, None], [True, True, True]])
def test_a_column_that_tells_nothing_apart_is_a_column_of_ones(values):
    found = plait.features(pl.DataFrame({"item": [1, 2, 3], "same": values}), "item")
    assert found.names == ("same",)
    assert found.values.tolist() == [[1.0]] * 3


def test_one_row_is_enough():
    found = plait.features({"item": ["a"], "x": [3.0], "y": ["z"]}, "item")
    assert found.values.tolist() == [[1.0, 1.0]]


def test_another_table_has_the_same_columns_and_what_is_new_is_the_average():
    found = plait.features(pl.DataFrame(TABLE), "item")
    other = found.encode(
        {"item": ["z"], "year": [2050.0], "genre": ["polka"], "new": [True], "score": [None]} | {"unused": [1]}
    )
    assert other.names == found.names
    values = dict(zip(other.names, other.values[0]))
    assert values["year~2010"] == 1.0
    assert [values[f"genre={genre}"] for genre in ("folk", "jazz", "rock")] == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    assert values["new=True"] == 1.0
    assert sum(value for name, value in values.items() if name.startswith("score")) == pytest.approx(1.0)


def test_rows_are_in_the_order_asked_for_and_unknown_entities_have_the_average():
    found = plait.features(pl.DataFrame(TABLE), "item")
    rows = found.rows(["c", "nobody", "a"])
    assert rows[[0, 2]].tolist() == found.values[[2, 0]].tolist()
    average = found.values[:, columns_of(found, "year")].mean(axis=0)
    np.testing.assert_allclose(rows[1, columns_of(found, "year")], average)
    assert found.rows([]).shape == (0, len(found))


def test_a_given_factor_of_features_predicts_entities_without_links():
    rng = np.random.default_rng(0)
    genre = np.repeat([0, 1], 20)
    X = rng.poisson(np.where(genre == np.repeat([0, 1], 15)[:, None], 1.0, 0.05)).astype(float)
    X[:, [19, 39]] = np.nan  # one item of each genre has never been seen
    items = plait.features({"item": range(40), "genre": [str(g) for g in genre]}, "item")
    model = plait.Model("X[user, item] = U[user, r] G[g, r] F[item, g]")
    data = model.bind({"X": X}, labels={"item": items.labels})
    fit = plait.fit(
        model, data, rank={"r": 2, "g": len(items)}, fixed={"F": items.rows(data.labels["item"])}, seed=0
    )  # fmt: skip
    means = fit.predict("X", {"user": [0, 0, 29, 29], "item": [19, 39, 19, 39]})["mean"]
    assert means[0] > 5 * means[1]
    assert means[3] > 5 * means[2]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"item": ["a", "a"], "x": [1, 2]}, {}, "features, row 1 (counting from 0): 'a' stands twice."),
        ({"item": ["a", None], "x": [1, 2]}, {}, "features, row 1 (counting from 0): 'item' is missing."),
        ({"thing": ["a"], "x": [1]}, {}, "features: there is no column 'item', only 'thing', 'x'."),
        ({"item": ["a"]}, {}, "features: the table has no column besides 'item'."),
        ({"item": [1], "x": [float("inf")]}, {}, "features, column 'x', row 0 (counting from 0): the value is inf."),
        ({"item": [1], "x": [[1, 2]]}, {}, "features, column 'x': text, truth values or numbers are wanted, got"),
        ({"item": [1], "x": [1]}, {"knots": 1}, "`knots` must be a whole number, 2 or more, got 1."),
        ({"item": [], "x": []}, {}, "features: the table has no rows."),
    ],
)
def test_what_cannot_be_read_is_said(table, options, message):
    with pytest.raises(plait.PlaitError) as caught:
        plait.features(pl.DataFrame(table), "item", **options)
    assert str(caught.value).startswith(message)
    assert str(caught.value).count("\n") == (0 if options else 1)
