"""plait.evidence.features: columns of 0 or more that sum to 1 for every feature."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import plait
from tests.support.data_errors import assert_mentions, error_text

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
def test_columns_of_a_feature_are_not_negative_and_sum_to_one(kind):
    found = plait.evidence.features(kind(TABLE), "item")
    assert found.entities == tuple("abcdefg")
    assert found.values.shape == (7, len(found)) == (7, len(found.names))
    assert (found.values >= 0).all()
    for name in ("year", "genre", "new", "score"):
        np.testing.assert_allclose(found.values[:, columns_of(found, name)].sum(axis=1), 1.0, rtol=1e-12)


def test_text_has_a_column_per_value_and_missing_text_is_the_average():
    found = plait.evidence.features(pl.DataFrame(TABLE).select("item", "genre"), "item")
    assert found.names == ("genre=folk", "genre=jazz", "genre=rock")
    assert found.values[0].tolist() == [0, 1, 0]
    np.testing.assert_allclose(found.values[3], [1 / 6, 3 / 6, 2 / 6])


def test_a_number_is_shared_between_neighbouring_knots():
    found = plait.evidence.features({"item": range(9), "x": np.arange(9.0)}, "item", knots=3)
    assert found.names == ("x~0", "x~4", "x~8")
    np.testing.assert_allclose(
        found.values[[0, 1, 4, 6, 8]], [[1, 0, 0], [0.75, 0.25, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]
    )


def test_few_numbers_have_a_column_each():
    found = plait.evidence.features({"item": range(4), "stars": [1, 3, 3, 2]}, "item")
    assert found.names == ("stars~1", "stars~2", "stars~3")
    assert found.values.tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 1, 0]]


def test_many_equal_values_leave_fewer_knots():
    found = plait.evidence.features({"item": range(100), "x": [0.0] * 90 + list(range(1, 11))}, "item", knots=4)
    assert found.names == ("x~0", "x~10")
    np.testing.assert_allclose(found.values[94], [0.5, 0.5])


@pytest.mark.parametrize("values", [[5.0, 5.0, 5.0], ["x", "x", "x"], [None, None, None], [True, True, True]])
def test_a_constant_column_is_a_column_of_ones(values):
    found = plait.evidence.features(pl.DataFrame({"item": [1, 2, 3], "same": values}), "item")
    assert found.names == ("same",)
    assert found.values.tolist() == [[1.0]] * 3
    assert plait.evidence.features({"item": ["a"], "x": values[:1]}, "item").values.tolist() == [[1.0]]


def test_encode_keeps_the_columns_and_new_values_are_the_average():
    found = plait.evidence.features(pl.DataFrame(TABLE), "item")
    other = found.encode(
        {"item": ["z"], "year": [2050.0], "genre": ["polka"], "new": [True], "score": [None]} | {"unused": [1]}
    )
    assert other.names == found.names
    values = dict(zip(other.names, other.values[0]))
    assert values["year~2010"] == 1.0
    assert [values[f"genre={genre}"] for genre in ("folk", "jazz", "rock")] == pytest.approx([1 / 6, 3 / 6, 2 / 6])
    assert values["new=True"] == 1.0
    assert sum(value for name, value in values.items() if name.startswith("score")) == pytest.approx(1.0)


def test_rows_follow_the_given_order_and_unknown_entities_are_the_average():
    found = plait.evidence.features(pl.DataFrame(TABLE), "item")
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
    items = plait.evidence.features({"item": range(40), "genre": [str(g) for g in genre]}, "item")
    model = plait.Model("X[user, item] = U[user, r] G[g, r] F[item, g]")
    data = model.bind({"X": X}, entities={"item": items.entities})
    fit = plait.fit(
        model, data, rank={"r": 2, "g": len(items)}, fixed={"F": items.rows(data.entities["item"])}, seed=0
    )  # fmt: skip
    means = fit.predict("X", {"user": [0, 0, 29, 29], "item": [19, 39, 19, 39]})["mean"]
    assert means[0] > 5 * means[1]
    assert means[3] > 5 * means[2]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"item": ["a", "a"], "x": [1, 2]}, ["row 1", "'a' occurs twice"]),
        ({"item": ["a", None], "x": [1, 2]}, ["row 1", "'item' is missing"]),
        ({"thing": ["a"], "x": [1]}, ["no column 'item'", "'thing', 'x'"]),
        ({"item": ["a"]}, ["no columns other than 'item'"]),
        ({"item": [1], "x": [float("inf")]}, ["column 'x', row 0", "inf"]),
        ({"item": [1], "x": [[1, 2]]}, ["column 'x'", "expected text, booleans or numbers"]),
        ({"item": [], "x": []}, ["no rows"]),
    ],
)
def test_a_bad_table_is_refused(table, words):
    assert_mentions(error_text(plait.evidence.features, pl.DataFrame(table), "item"), "features", *words)


def test_knots_are_2_or_more():
    with pytest.raises(plait.errors.ParameterError, match=r"`knots` .* got 1"):
        plait.evidence.features({"item": [1], "x": [1]}, "item", knots=1)
