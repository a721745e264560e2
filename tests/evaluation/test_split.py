"""plait.train_test_split: exact counts, every way and kind of data, and no hidden value in the training data."""

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
import sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import plait
from plait.errors import DataError, ParameterError
from tests.support.evaluating import INDICES, MODEL, check_refused
from tests.support.tuning import tuned
from tests.support.ways_of_observing import WAYS

LIKES = "likes[user, film] = U[user, r] F[film, r]"
BYS = ("cells", "links", "thinned_links", ("index", "j"), ("pair", "i", "k"))


def counts(seed=0, shape=(5, 6, 4), rate=0.5):
    return np.random.default_rng(seed).poisson(rate, shape).astype(float)


def links_of(X, indices=INDICES):
    return pl.DataFrame({**dict(zip(indices, np.nonzero(X))), "value": X[X > 0]})


def all_cells(shape):
    return np.indices(shape).reshape(len(shape), -1).T


def weights(relation, entities, model=MODEL, name="X", others=None):
    """M of a relation at every cell, as a fit would see it."""
    data = plait.Model(model).bind({name: relation, **(others or {})}, entities=entities)
    bound = data.relations[name]
    return bound.weights.at(all_cells(bound.shape)).reshape(bound.shape), bound


def hidden_mask(test, shape, indices=INDICES):
    mask = np.zeros(shape, bool)
    mask[tuple(test[index].to_numpy() for index in indices)] = True
    return mask


# --- what is hidden


@given(st.integers(0, 10_000), st.floats(0.05, 0.9))
@settings(max_examples=30, deadline=None)
def test_an_exact_share_of_the_cells_is_hidden_with_their_values(seed, fraction):
    X = counts(seed)
    with tuned(listing_chunk=7):  # several chunks
        train, test = plait.train_test_split(X, "X", model=MODEL, fraction=fraction, seed=seed)
    assert len(test) == int(np.floor(fraction * X.size + 0.5))
    hidden = hidden_mask(test, X.shape)
    assert hidden.sum() == len(test)  # no cell twice
    np.testing.assert_array_equal(test["value"], X[tuple(test[i].to_numpy() for i in INDICES)])
    M, bound = weights(train, None)
    np.testing.assert_array_equal(M, ~hidden)
    assert len(bound.values) == np.count_nonzero(X[~hidden])


@given(st.integers(0, 10_000), st.floats(0.1, 0.8))
@settings(max_examples=30, deadline=None)
def test_an_exact_share_of_the_links_is_hidden_and_all_zeros_stay(seed, fraction):
    X = counts(seed)
    train, test = plait.train_test_split(links_of(X), fraction=fraction, by="links", seed=seed)
    hidden = hidden_mask(test, X.shape)
    assert hidden.sum() == len(test) == int(np.floor(fraction * np.count_nonzero(X) + 0.5))
    assert (test["value"] > 0).all()
    M, _ = weights(train, {"i": range(5), "j": range(6), "k": range(4)})
    whole, _ = weights(links_of(X), {"i": range(5), "j": range(6), "k": range(4)})
    np.testing.assert_array_equal(M, np.where(hidden, 0.0, whole))


@pytest.mark.parametrize("zero_weight", [1.0, 0.4])
def test_a_thinned_link_weighs_what_a_zero_weighs(zero_weight):
    X, f = counts(3), 0.3
    observed = "all" if zero_weight == 1 else zero_weight
    split = plait.train_test_split(
        plait.Relation(links_of(X), observed=observed), fraction=f, by="thinned_links", seed=1
    )
    dropped = hidden_mask(split.test, X.shape)
    kept = (X > 0) & ~dropped
    w = zero_weight * (1 - f)
    M, bound = weights(split.train, None)
    np.testing.assert_allclose(M, w + (1 - w) * kept, atol=1e-15)
    np.testing.assert_array_equal(bound.cells, np.argwhere(kept))
    assert (split.links, split.zeros) == (len(split.test), None)


@pytest.mark.parametrize(
    ("by", "axis", "count", "candidates"),
    [
        (("index", "j"), (0, 2), 3, 6),
        (("pair", "i", "k"), 1, 10, 20),
        (("i", "k"), 1, 10, 20),
        (("k", "i"), 1, 10, 20),
        (["pair", "k", "i"], 1, 10, 20),
    ],
)
def test_all_cells_of_a_hidden_entity_or_pair_are_hidden_and_tested(by, axis, count, candidates):
    X = counts(4)
    split = plait.train_test_split(X, "X", model=MODEL, fraction=0.5, by=by, seed=2)
    hidden = hidden_mask(split.test, X.shape)
    whole = hidden.all(axis=axis, keepdims=True)
    assert (whole.sum(), split.chosen, split.candidates) == (count, count, candidates)
    np.testing.assert_array_equal(hidden, np.broadcast_to(whole, X.shape))
    np.testing.assert_array_equal(weights(split.train, None)[0], ~hidden)
    assert split.zeros == np.count_nonzero(X[hidden] == 0)


def test_only_listed_cells_are_candidates_where_only_they_are_observed(tuning):
    X = counts(6)
    listed = np.random.default_rng(0).random(X.shape) < 0.5
    table = pl.DataFrame({**dict(zip(INDICES, np.nonzero(listed))), "value": X[listed]})
    tuning(max_listed_cells=10)  # the tensor is too large to list, the cells are not
    split = plait.train_test_split(plait.Relation(table, observed="listed"), fraction=0.5, seed=0)
    hidden = hidden_mask(split.test, X.shape)
    assert split.candidates == listed.sum()
    assert not (hidden & ~listed).any()
    assert (split.test["value"] == 0).any()
    np.testing.assert_array_equal(weights(split.train, None)[0], listed & ~hidden)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("by", BYS, ids=str)
def test_the_weights_of_other_cells_do_not_change(way, by):
    X = counts(7, (4, 5, 3), 0.7)
    labels = {"i": range(4), "j": range(5), "k": range(3)}
    relation, M = WAYS[way](INDICES, X, "poisson", np.random.default_rng(1))
    if by == "thinned_links" and way == "listed":
        check_refused(ParameterError, lambda: plait.train_test_split(relation, fraction=0.3, by=by), '`by="cells"`')
        return
    split = plait.train_test_split(relation, fraction=0.3, by=by, seed=5, entities=labels)
    hidden = hidden_mask(split.test, X.shape)
    assert (M[hidden] > 0).all()
    zero = 0.0
    if by == "thinned_links":
        M = np.where(X > 0, M, 0.7 * M)
        zero = M[(X == 0) & (M > 0)].min()  # what zeros weigh
    np.testing.assert_allclose(weights(split.train, labels)[0], np.where(hidden, zero, M), atol=1e-14)


# --- names and unseen entities


def test_an_entity_whose_links_are_all_hidden_keeps_its_zeros_and_its_name():
    # User c has one link only; hidden, nothing but its zeros is left.
    table = pl.DataFrame({"user": ["a", "a", "b", "b", "c"], "film": ["x", "y", "x", "z", "z"]})
    hidden = set()
    for seed in range(20):
        train, test = plait.train_test_split(table, fraction=0.2, by="links", seed=seed)
        hidden.add(test["user"][0])
        M, bound = weights(train, None, LIKES, "likes")
        expected = np.ones((3, 3))
        at = ["abc".index(test["user"][0]), "xyz".index(test["film"][0])]
        expected[tuple(at)] = 0
        np.testing.assert_array_equal(M, expected)
        assert len(bound.values) == 4
    assert hidden == {"a", "b", "c"}


def test_entities_of_another_relation_stay_missing_here():
    likes = pl.DataFrame({"user": ["a", "a", "b", "b", "c"], "film": ["x", "y", "x", "z", "z"]})
    friends = pl.DataFrame({"user": ["a", "d"], "group": ["g", "g"]})
    model = f"{LIKES}; friends[user, group] = U[user, r] G[group, r]"
    data = {"likes": likes, "friends": friends}
    for seed in range(10):
        train, test = plait.train_test_split(data, "likes", fraction=0.4, by="links", seed=seed)
        assert train["friends"] is friends
        M, _ = weights(train["likes"], None, model, "likes", {"friends": friends})
        expected = np.ones((4, 3))
        expected[3] = 0  # d is seen among friends only
        for row in test.iter_rows(named=True):
            expected["abcd".index(row["user"]), "xyz".index(row["film"])] = 0
        np.testing.assert_array_equal(M, expected)


@pytest.mark.parametrize("by", ["links", "thinned_links"])
def test_lost_zeros_weigh_what_zeros_weigh_with_a_column_of_weights(by):
    table = pd.DataFrame({"u": ["a", "a", "b", "b", "c"], "f": ["x", "y", "x", "z", "z"], "w": [2.0, 3, 4, 5, 6]})
    relation = plait.Relation(table, columns={"user": "u", "film": "f"}, weight="w")
    zero = 0.8 if by == "thinned_links" else 1.0
    original = np.array([[2, 3, zero], [4, zero, 5], [zero, zero, 6]])
    for seed in range(10):
        train, test = plait.train_test_split(relation, fraction=0.2, by=by, seed=seed)
        expected = original.copy()
        expected["abc".index(test["user"][0]), "xyz".index(test["film"][0])] = zero if by == "thinned_links" else 0
        np.testing.assert_allclose(weights(train, None, LIKES, "likes")[0], expected)


@pytest.mark.filterwarnings("ignore::plait.errors.UniqueAxisWarning")  # each film is liked once
def test_a_zero_remains_of_an_entity_that_is_hidden_nearly_everywhere():
    # Of 10 cells of user b all but the last are hidden; the link is hidden too, so its last zero must be listed.
    films = list(range(10))
    table = pl.DataFrame({"user": ["a"] * 10 + ["b"], "film": [*films, 0]})
    relation = plait.Relation(table, missing=pl.DataFrame({"user": ["b"] * 8, "film": films[1:-1]}))
    for seed in range(300):
        train, test = plait.train_test_split(relation, fraction=0.1, by="links", seed=seed)
        if "b" in test["user"].to_list():
            break
    assert "b" in test["user"].to_list()
    M, _ = weights(train, None, LIKES, "likes")
    assert M[1, -1] == 1
    assert M[1].sum() == 1


def test_an_index_may_be_read_from_a_column_named_value():
    table = pl.DataFrame({"value": ["a", "a", "b", "b", "c"], "film": ["x", "y", "x", "z", "z"]})
    relation = plait.Relation(table, columns={"user": "value"})
    for seed in range(10):
        train, _ = plait.train_test_split(relation, fraction=0.4, by="links", seed=seed)
        M, bound = weights(train, None, LIKES, "likes")
        assert (M.sum(), len(bound.values)) == (7, 3)


def test_swapped_columns_are_not_confused():
    table = pl.DataFrame({"user": ["x", "y", "x", "z"], "film": ["a", "a", "b", "b"]})
    relation = plait.Relation(table, columns={"user": "film", "film": "user"})
    train, test = plait.train_test_split(relation, fraction=0.25, by="links", seed=0)
    assert set(test["user"]) <= {"a", "b"}
    assert weights(train, None, LIKES, "likes")[0].sum() == 5


# --- kinds of data


TABLES = {
    "polars": (lambda t: t, pl.DataFrame),
    "lazy": (lambda t: t.lazy(), pl.DataFrame),
    "pandas": (lambda t: pd.DataFrame(t.to_dict(as_series=False)), pd.DataFrame),
    "pyarrow": (lambda t: t.to_arrow(), pa.Table),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("by", ["cells", "links", ("index", "user")], ids=str)
def test_a_test_is_a_table_of_the_kind_of_the_data(kind, by):
    X = counts(9, (6, 5))
    names = pl.Series([f"u{k}" for k in range(6)])
    table = links_of(X, ("user", "film")).with_columns(user=names.gather(np.nonzero(X)[0]))
    make, expected = TABLES[kind]
    train, test = plait.train_test_split(make(table), fraction=0.4, by=by, seed=4)
    assert type(test) is expected
    plain = pl.DataFrame(test.to_pydict() if kind == "pyarrow" else {c: list(test[c]) for c in test.columns})
    reference = plait.train_test_split(table, fraction=0.4, by=by, seed=4).test
    assert plain.equals(reference)
    assert isinstance(train, plait.Relation)


ARRAYS = {
    "dense": lambda X: X,
    "masked": lambda X: np.ma.MaskedArray(X, mask=False),
    "integers": lambda X: X.astype(int),
    "scipy": scipy.sparse.csr_array,
    "sparse": sparse.COO,
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("by", ["cells", "links", "thinned_links", ("index", "user")], ids=str)
def test_arrays_of_every_kind_are_split_alike(kind, by):
    X = counts(10, (6, 5))
    train, test = plait.train_test_split({"likes": ARRAYS[kind](X)}, fraction=0.4, by=by, seed=4, model=LIKES)
    reference = plait.train_test_split({"likes": X}, fraction=0.4, by=by, seed=4, model=LIKES).test
    assert test.equals(reference)
    hidden = hidden_mask(test, X.shape, ("user", "film"))
    zero = 0.6 if by == "thinned_links" else 1.0
    M, _ = weights(train["likes"], None, LIKES, "likes")
    np.testing.assert_allclose(M, np.where(hidden, zero if by == "thinned_links" else 0, np.where(X > 0, 1, zero)))


def test_gaps_of_an_array_are_never_tested():
    X = counts(11, (8, 8))
    X[:3] = np.nan
    _, test = plait.train_test_split(plait.Relation(X, indices=("user", "film")), fraction=0.5, seed=0)
    assert (len(test), test["user"].min()) == (20, 3)


def test_named_rows_of_an_array_keep_their_names():
    X = counts(12, (3, 4))
    labels = {"user": ["a", "b", "c"]}
    train, test = plait.train_test_split({"likes": X}, fraction=0.3, seed=0, model=LIKES, entities=labels)
    assert set(test["user"]) <= {"a", "b", "c"}
    fit = plait.fit(LIKES, train, rank=1, max_iter=2, seed=0, entities=labels)
    assert len(plait.evaluate(fit, "likes", test)) > 0


def test_every_option_of_a_relation_is_kept():
    table = pd.DataFrame({"id": [1, 1, 2, 3], "film": [7, 8, 8, 7], "plays": [1, 1, 1, 1]})
    relation = plait.Relation(
        table, columns={"user": "id"}, value="plays", observed=0.5, unseen="zero", likelihood="bernoulli",
        weight=2.0, duplicates="sum", missing=pd.DataFrame({"id": [1], "film": [8]}),
    )  # fmt: skip
    train, test = plait.train_test_split(relation, fraction=0.34, by="links", seed=0)
    for option in dataclasses.fields(plait.Relation):
        if option.name != "hidden":
            assert getattr(train, option.name) is getattr(relation, option.name)
    assert list(test.columns) == ["user", "film", "value"]
    assert list(train.hidden_tables[0].columns) == ["id", "film"]


# --- leaks


def test_thinning_leaves_no_trace_of_the_hidden_links():
    """Entities without a known link look alike to a fit, whether they have hidden links or not."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"i": rng.integers(0, 60, 300), "j": rng.integers(0, 80, 300), "k": 0}).unique()
    labels = {"i": range(60), "j": range(100), "k": [0]}  # the last twenty have no link at all
    train, test = plait.train_test_split(
        {"X": plait.Relation(table, ("i", "j", "k"), unseen="zero")},
        fraction=0.9,
        by="thinned_links",
        seed=0,
        entities=labels,
    )
    fit = plait.fit(MODEL, train, rank=2, max_iter=20, seed=0, entities=labels)
    cold = np.setdiff1d(np.arange(100), fit.known["X"].cells[:, 1])
    betrayed = np.intersect1d(cold, test["j"])
    assert 10 < len(betrayed) < len(cold)
    rate = fit.factors["B"].mean @ (fit.factors["A"].mean.sum(axis=0) * fit.factors["C"].mean[0])
    np.testing.assert_allclose(rate[cold], rate[cold[0]], rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.COO], ids=["dense", "sparse"])
@pytest.mark.parametrize("by", ["cells", "thinned_links"])
def test_dimensions_in_another_order_are_hidden_at_the_right_cells(kind, by):
    X = counts(16, (4, 5, 3), 0.7)
    turned = plait.Relation(kind(X.transpose(2, 0, 1)), indices=("k", "i", "j"))
    train, test = plait.train_test_split({"X": turned}, fraction=0.4, by=by, seed=2, model=MODEL)
    hidden = hidden_mask(test, X.shape)
    np.testing.assert_array_equal(test["value"], X[tuple(test[i].to_numpy() for i in INDICES)])
    assert train["X"].indices == ("k", "i", "j")
    M, bound = weights(train["X"], None)
    np.testing.assert_array_equal(bound.cells, np.argwhere((X > 0) & ~hidden))
    np.testing.assert_allclose(M, ~hidden if by == "cells" else np.where((X > 0) & ~hidden, 1.0, 0.6))


@pytest.mark.parametrize(("by", "weight"), [("links", 0.0), ("thinned_links", 0.66)])
def test_all_rows_of_a_repeated_link_are_hidden_and_tested_by_their_sum(by, weight):
    table = pl.DataFrame({"i": [0, 0, 1, 1, 2], "j": [0, 0, 1, 1, 2], "k": 0, "value": [1.0, 2, 3, 4, 5]})
    sums = {0: 3.0, 1: 7.0, 2: 5.0}
    for seed in range(5):
        train, test = plait.train_test_split(plait.Relation(table, duplicates="sum"), fraction=0.34, by=by, seed=seed)
        M, bound = weights(train, None)
        (gone,) = test["i"].to_list()
        assert test["value"].to_list() == [sums[gone]]
        assert sorted(bound.values) == sorted(sums[i] for i in range(3) if i != gone)
        assert M[gone, gone, 0] == pytest.approx(weight)


def test_a_thinned_relation_can_be_thinned_again():
    table = pl.DataFrame({"i": [0, 0, 1, 1, 2, 2, 3, 3], "j": [0, 1, 1, 2, 2, 3, 3, 0], "k": 0, "w": 2.0})
    once, first = plait.train_test_split(
        plait.Relation(table, INDICES, weight="w"), fraction=0.25, by="thinned_links", seed=0
    )
    twice, second = plait.train_test_split(once, fraction=0.5, by="thinned_links", seed=1)
    M, bound = weights(twice, None)
    assert len(first.join(second, on=INDICES, how="semi")) == 0
    known = np.zeros(M.shape, bool)
    known[tuple(bound.cells.T)] = True
    assert known.sum() == 3
    np.testing.assert_allclose(M, np.where(known, 2.0, 0.75 * 0.5))


@pytest.mark.parametrize("by", BYS, ids=str)
def test_no_hidden_link_is_known_to_the_fit_and_every_tested_name_is(by):
    X = counts(15)
    train, test = plait.train_test_split(links_of(X), fraction=0.3, by=by, seed=1)
    fit = plait.fit(MODEL, {"X": train}, rank=2, max_iter=2, seed=0)
    links = test.filter(pl.col("value") > 0)
    rows = np.stack([fit.entities[i].encode(links[i]) for i in INDICES], axis=1)
    assert len(rows)
    assert not fit.known["X"].contain(rows).any()
    assert len(fit.predict("X", test.drop("value"))) == len(test)


# --- seeds, words and errors


def test_a_seed_fixes_the_split_and_is_recorded():
    X = counts(16)
    a, b, c = (plait.train_test_split(X, "X", model=MODEL, fraction=0.3, seed=s).test for s in (7, 7, 8))
    assert a.equals(b)
    assert not a.equals(c)
    drawn = plait.train_test_split(X, "X", model=MODEL, fraction=0.3)
    assert drawn.test.equals(plait.train_test_split(X, "X", model=MODEL, fraction=0.3, seed=drawn.seed).test)


def test_a_split_unpacks_as_two_and_prints_its_counts():
    split = plait.train_test_split(links_of(counts(17)), fraction=0.25, seed=3)
    assert isinstance(split, plait.Split)
    assert tuple(split) == (split.train, split.test)
    assert "30 of 120 observed cells held out, seed 3" in str(split)
    assert "8 links, 22 zeros" in str(split)
    assert repr(split) == str(split)


T = pl.DataFrame({"user": [1, 1, 2], "film": [1, 2, 2]})

THIRD = pl.Series([1, 1, 0])
WRONG = {
    "fraction 0": ({"fraction": 0}, ("`fraction`", "got 0.", "Example: 0.2")),
    "fraction 1": ({"fraction": 1.0}, ("`fraction`", "got 1.0", "Example: 0.2")),
    "fraction nan": ({"fraction": float("nan")}, ("`fraction`", "got nan", "Example: 0.2")),
    "fraction a bool": ({"fraction": True}, ("`fraction`", "got True", "Example: 0.2")),
    "seed": ({"seed": -1}, ("`seed`", "-1")),
    "by misspelt": ({"by": "link"}, ("`by`", "'link'", "Did you mean 'links'?")),
    "by a number": ({"by": 3}, ("`by`", "got 3", "Give each index once")),
    "by unknown index": ({"by": ("index", "usr")}, ("'usr'", "Did you mean 'user'?")),
    "by twice": ({"by": ("pair", "user", "user")}, ("('pair', 'user', 'user')", "Give each index once")),
    "leakage": ({"leakage": "remov"}, ("`leakage`", "'remov'", "Did you mean 'remove'?")),
    "none": ({"fraction": 0.01, "by": "links"}, ("`fraction=0.01` of 3 links", "Use a larger `fraction`")),
    "all": ({"fraction": 0.99, "by": ("index", "user")}, ("`fraction=0.99` of 2 entities", "Use a smaller")),
    "which relation": ({"data": {"a": T, "b": T}}, ("a, b", "`relation='a'`")),
    "no such relation": ({"data": {"likes": T}, "relation": "like"}, ("'like'", "Did you mean 'likes'?")),
    "model": ({"model": 3}, ("`model`", "got int")),
    "thinned listed": (
        {"data": plait.Relation(T, observed="listed"), "by": "thinned_links"},
        ('`by="thinned_links"`', '`observed="listed"`', 'Use `by="cells"`'),
    ),
    "thinned weighted zeros": (
        {"data": plait.Relation(T.with_columns(value=THIRD, w=2.0), weight="w"), "by": "thinned_links"},
        ('`by="thinned_links"`', "weight column", 'Use `by="links"`'),
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_is_refused_with_a_hint(name):
    options, words = WRONG[name]
    check_refused(ParameterError, lambda: plait.train_test_split(**{"data": T, "fraction": 0.5, **options}), *words)


VISITS = pl.DataFrame(
    {"user": ["ann", "ann", "bob", "cem"], "place": ["cafe", "park", "cafe", "gym"], "times": [1, 3, 2, 1]}
)


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.DataFrame.lazy, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
@pytest.mark.parametrize("values", [[1, 3, 2, 1], [1.0, 3.0, 2.0, 1.0], [True, False, True, True]])
def test_numbers_that_may_be_values_are_refused_as_an_index(kind, values):
    table = kind(VISITS.with_columns(times=pl.Series(values)))
    check_refused(
        DataError, lambda: plait.train_test_split(table, fraction=0.5, seed=0), "column 'times' contains numbers"
    )


@pytest.mark.parametrize("column", ["user", "place", "times"])
def test_value_names_the_column_of_values(column):
    indices = [name for name in VISITS.columns if name != column]
    numbered = VISITS.with_columns(pl.col(name).rank("dense").cast(int) for name in VISITS.columns)
    split = plait.train_test_split(plait.Relation(numbered, value=column), fraction=0.5, seed=0)
    assert split.test.columns == [*indices, "value"]
    assert f"Split of data[{', '.join(indices)}]: " in str(split)


def test_numbers_are_an_index_where_named_or_needed():
    said = plait.train_test_split(plait.Relation(VISITS, indices=("user", "place", "times")), fraction=0.5, seed=0)
    more = pl.concat([VISITS, pl.DataFrame({"user": ["ann"], "place": ["cafe"], "times": [7]})])
    for split in (
        said,
        plait.train_test_split(plait.Relation(VISITS, columns={"times": "times"}), fraction=0.5, seed=0),
        plait.train_test_split(
            VISITS, model="data[user, place, times] = U[user, r] P[place, r] T[times, r]", fraction=0.5, seed=0
        ),
        plait.train_test_split(VISITS.with_columns(value=1.0), fraction=0.5, seed=0),
        plait.train_test_split(more, fraction=0.5, seed=0),
    ):
        assert split.test.columns == ["user", "place", "times", "value"]


def test_an_index_of_numbers_stays_one_in_the_next_split():
    """Fewer links may name each pair once; what the numbers are is known by then."""
    table = pl.DataFrame({"i": [0, 0, 0, 0, 1], "j": [0, 0, 1, 1, 1], "k": [0, 1, 0, 1, 0]})
    for seed in range(8):
        train, _ = plait.train_test_split(table, fraction=0.4, by="thinned_links", seed=seed)
        assert plait.train_test_split(train, fraction=0.4, by="thinned_links", seed=0).test.columns == [
            "i",
            "j",
            "k",
            "value",
        ]


WRONG_DATA = {
    "no links": (T.with_columns(value=0.0), ("no observed link", "Give data with links")),
    "array without names": (np.ones((3, 3)), ("names of the dimensions", "Give `model`")),
    "column no name": (T.rename({"film": "the film"}), ("'the film'", "`value='the film'`")),
    "perhaps values": (VISITS, ("'times'", "'user', 'place'", "`value='times'`")),
    "no data": (None, ("NoneType", "Give a table")),
    "no file": ("visits.csv", ("visits.csv: the file does not exist",)),
}


@pytest.mark.parametrize("name", WRONG_DATA)
def test_data_that_cannot_be_split_are_refused_with_a_hint(name):
    data, words = WRONG_DATA[name]
    check_refused(DataError, lambda: plait.train_test_split(data, fraction=0.5), "data: ", *words)


def test_a_tensor_too_large_to_list_is_thinned_instead():
    rng = np.random.default_rng(0)
    table = pl.DataFrame({i: rng.integers(0, 5000, 3000) for i in INDICES}).unique()
    relation = plait.Relation(table, INDICES)
    check_refused(ParameterError, lambda: plait.train_test_split(relation, fraction=0.5), 'Use `by="thinned_links"`')
    check_refused(ParameterError, lambda: plait.train_test_split(relation, fraction=1.5), "`fraction`")
    check_refused(ParameterError, lambda: plait.train_test_split(relation), "requires `fraction`")
    split = plait.train_test_split(relation, fraction=0.5, by="thinned_links", seed=0)
    bound = plait.Model(MODEL).bind({"X": split.train}).relations["X"]
    whole = plait.Model(MODEL).bind({"X": table}).relations["X"]
    kept = len(table) - len(split.test)
    # Σ M = w · (cells that are no known link) + kept: every entity still counts, though many lost all their links.
    assert bound.weights.total() == pytest.approx(0.5 * (whole.total_cells - kept) + kept, rel=1e-12)
    cold = plait.train_test_split(relation, fraction=0.5, by=("index", "i"), seed=0)
    assert cold.zeros is None
    assert (cold.test["value"] > 0).all()


def test_a_model_in_front_of_the_data_is_refused():
    with pytest.raises(ParameterError, match="`relation` must be the name of a relation"):
        plait.train_test_split(LIKES, {"likes": links_of(counts(), INDICES)}, seed=0)
