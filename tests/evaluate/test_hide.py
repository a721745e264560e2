"""plait.hide: exact counts, every way and kind of data, and nothing of the hidden values in the training data."""

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
from plait.errors import DataError, SettingError
from plait.evaluation import listing
from tests.observed import WAYS

MODEL = "X[i, j, k] = A[i, r] B[j, r] C[k, r]"
INDICES = ("i", "j", "k")
BYS = ("cells", "links", "thin", ("index", "j"), ("pair", "i", "k"))


def counts(seed=0, shape=(5, 6, 4), rate=0.5):
    return np.random.default_rng(seed).poisson(rate, shape).astype(float)


def links_of(X, indices=INDICES):
    return pl.DataFrame({**dict(zip(indices, np.nonzero(X))), "value": X[X > 0]})


def all_cells(shape):
    return np.indices(shape).reshape(len(shape), -1).T


def weights(relation, labels, model=MODEL, name="X", others=None):
    """M of a relation at every cell, as a fit would see it."""
    data = plait.Model(model).bind({name: relation, **(others or {})}, labels=labels)
    bound = data.relations[name]
    return bound.weights.at(all_cells(bound.shape)).reshape(bound.shape), bound


def hidden_mask(test, shape, indices=INDICES):
    mask = np.zeros(shape, bool)
    mask[tuple(test[index].to_numpy() for index in indices)] = True
    return mask


def message(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


# --- what is hidden


@given(st.integers(0, 10_000), st.floats(0.05, 0.9))
@settings(max_examples=30, deadline=None)
def test_cells_are_hidden_in_exactly_the_share_asked_for_with_their_values(seed, fraction):
    X = counts(seed)
    train, test = plait.hide(X, "X", model=MODEL, fraction=fraction, seed=seed)
    assert len(test) == int(np.floor(fraction * X.size + 0.5))
    hidden = hidden_mask(test, X.shape)
    assert hidden.sum() == len(test)  # no cell twice
    np.testing.assert_array_equal(test["value"], X[tuple(test[i].to_numpy() for i in INDICES)])
    M, bound = weights(train, None)
    np.testing.assert_array_equal(M, ~hidden)
    assert len(bound.values) == np.count_nonzero(X[~hidden])


@given(st.integers(0, 10_000), st.floats(0.1, 0.8))
@settings(max_examples=30, deadline=None)
def test_hidden_links_are_exactly_a_share_of_the_links_and_all_zeros_stay(seed, fraction):
    X = counts(seed)
    train, test = plait.hide(links_of(X), fraction=fraction, by="links", seed=seed)
    hidden = hidden_mask(test, X.shape)
    assert hidden.sum() == len(test) == int(np.floor(fraction * np.count_nonzero(X) + 0.5))
    assert (test["value"] > 0).all()
    M, _ = weights(train, {"i": range(5), "j": range(6), "k": range(4)})
    whole, _ = weights(links_of(X), {"i": range(5), "j": range(6), "k": range(4)})
    np.testing.assert_array_equal(M, np.where(hidden, 0.0, whole))


@pytest.mark.parametrize("zero_weight", [1.0, 0.4])
def test_after_thinning_a_hidden_link_weighs_what_every_cell_without_a_link_does(zero_weight):
    X, f = counts(3), 0.3
    observed = "all" if zero_weight == 1 else zero_weight
    split = plait.hide(plait.Relation(links_of(X), observed=observed), fraction=f, by="thin", seed=1)
    dropped = hidden_mask(split.test, X.shape)
    kept = (X > 0) & ~dropped
    w = zero_weight * (1 - f)
    M, bound = weights(split.train, None)
    np.testing.assert_allclose(M, w + (1 - w) * kept, atol=1e-15)
    np.testing.assert_array_equal(bound.cells, np.argwhere(kept))
    assert (split.links, split.zeros) == (len(split.test), None)


def test_all_cells_of_a_hidden_entity_are_hidden_and_tested():
    X = counts(4)
    split = plait.hide(X, "X", model=MODEL, fraction=0.5, by=("index", "j"), seed=2)
    hidden = hidden_mask(split.test, X.shape)
    rows = hidden.all(axis=(0, 2))
    assert rows.sum() == split.chosen == 3
    assert split.candidates == 6
    np.testing.assert_array_equal(hidden, np.broadcast_to(rows[None, :, None], X.shape))
    np.testing.assert_array_equal(weights(split.train, None)[0], ~hidden)
    assert split.zeros == np.count_nonzero(X[hidden] == 0)


@pytest.mark.parametrize("by", [("pair", "i", "k"), ("i", "k"), ("k", "i"), ["pair", "k", "i"]])
def test_pairs_are_hidden_for_all_values_of_the_other_indices(by):
    X = counts(5)
    split = plait.hide(X, "X", model=MODEL, fraction=0.25, by=by, seed=3)
    hidden = hidden_mask(split.test, X.shape)
    pairs = hidden.all(axis=1)
    assert (pairs.sum(), split.candidates) == (5, 20)
    np.testing.assert_array_equal(hidden, np.broadcast_to(pairs[:, None, :], X.shape))
    np.testing.assert_array_equal(weights(split.train, None)[0], ~hidden)


def test_only_listed_cells_are_candidates_where_only_they_are_observed(monkeypatch):
    X = counts(6)
    listed = np.random.default_rng(0).random(X.shape) < 0.5
    table = pl.DataFrame({**dict(zip(INDICES, np.nonzero(listed))), "value": X[listed]})
    monkeypatch.setattr(listing, "MOST_CELLS", 10)  # the tensor is too large to list, the cells are not
    split = plait.hide(plait.Relation(table, observed="listed"), fraction=0.5, seed=0)
    hidden = hidden_mask(split.test, X.shape)
    assert split.candidates == listed.sum()
    assert not (hidden & ~listed).any()
    assert (split.test["value"] == 0).any()
    np.testing.assert_array_equal(weights(split.train, None)[0], listed & ~hidden)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("by", BYS, ids=str)
def test_the_weights_of_all_other_cells_are_what_they_were(way, by):
    X = counts(7, (4, 5, 3), 0.7)
    labels = {"i": range(4), "j": range(5), "k": range(3)}
    relation, M = WAYS[way](INDICES, X, "poisson", np.random.default_rng(1))
    if by == "thin" and way in ("listed",):
        assert '`by="cells"`' in message(SettingError, lambda: plait.hide(relation, fraction=0.3, by=by))
        return
    split = plait.hide(relation, fraction=0.3, by=by, seed=5, labels=labels)
    hidden = hidden_mask(split.test, X.shape)
    assert (M[hidden] > 0).all()
    zero = 0.0
    if by == "thin":
        M = np.where(X > 0, M, 0.7 * M)
        zero = M[(X == 0) & (M > 0)].min()  # what zeros weigh
    np.testing.assert_allclose(weights(split.train, labels)[0], np.where(hidden, zero, M), atol=1e-14)


def test_what_was_missing_before_stays_missing_and_is_never_tested():
    X = counts(8)
    missing = [pl.DataFrame({"i": [0, 1]}), pl.DataFrame({"j": [2], "k": [3]})]
    split = plait.hide(plait.Relation(links_of(X), missing=missing), fraction=0.4, seed=0)
    test = split.test
    assert not test["i"].is_in([0, 1]).any()
    assert not ((test["j"] == 2) & (test["k"] == 3)).any()
    M, _ = weights(split.train, None)
    assert not M[[0, 1]].any()
    assert not M[:, 2, 3].any()


# --- names and universes


def test_an_entity_whose_links_are_all_hidden_keeps_its_zeros_and_its_name():
    # User c has one link only; hidden, nothing but its zeros is left.
    table = pl.DataFrame({"user": ["a", "a", "b", "b", "c"], "film": ["x", "y", "x", "z", "z"]})
    model = "likes[user, film] = U[user, r] F[film, r]"
    hidden = set()
    for seed in range(20):
        train, test = plait.hide(table, fraction=0.2, by="links", seed=seed)
        hidden.add(test["user"][0])
        M, bound = weights(train, None, model, "likes")
        expected = np.ones((3, 3))
        at = ["abc".index(test["user"][0]), "xyz".index(test["film"][0])]
        expected[tuple(at)] = 0
        np.testing.assert_array_equal(M, expected)
        assert len(bound.values) == 4
    assert hidden == {"a", "b", "c"}


def test_entities_of_another_relation_stay_missing_here():
    likes = pl.DataFrame({"user": ["a", "a", "b", "b", "c"], "film": ["x", "y", "x", "z", "z"]})
    friends = pl.DataFrame({"user": ["a", "d"], "group": ["g", "g"]})
    model = "likes[user, film] = U[user, r] F[film, r]; friends[user, group] = U[user, r] G[group, r]"
    data = {"likes": likes, "friends": friends}
    for seed in range(10):
        train, test = plait.hide(data, "likes", fraction=0.4, by="links", seed=seed)
        assert train["friends"] is friends
        M, _ = weights(train["likes"], None, model, "likes", {"friends": friends})
        expected = np.ones((4, 3))
        expected[3] = 0  # d is seen among friends only
        for row in test.iter_rows(named=True):
            expected["abcd".index(row["user"]), "xyz".index(row["film"])] = 0
        np.testing.assert_array_equal(M, expected)


@pytest.mark.parametrize("by", ["links", "thin"])
def test_lost_zeros_weigh_what_zeros_weigh_beside_a_column_of_weights(by):
    table = pd.DataFrame({"u": ["a", "a", "b", "b", "c"], "f": ["x", "y", "x", "z", "z"], "w": [2.0, 3, 4, 5, 6]})
    relation = plait.Relation(table, columns={"user": "u", "film": "f"}, weight="w")
    model = "likes[user, film] = U[user, r] F[film, r]"
    zero = 0.8 if by == "thin" else 1.0
    original = np.array([[2, 3, zero], [4, zero, 5], [zero, zero, 6]])
    for seed in range(10):
        train, test = plait.hide(relation, fraction=0.2, by=by, seed=seed)
        expected = original.copy()
        expected["abc".index(test["user"][0]), "xyz".index(test["film"][0])] = zero if by == "thin" else 0
        np.testing.assert_allclose(weights(train, None, model, "likes")[0], expected)


@pytest.mark.filterwarnings("ignore::plait.EventAxisWarning")  # each film is liked once
def test_a_zero_is_found_for_an_entity_that_is_hidden_nearly_everywhere():
    # Of 200 cells of user b all but the last are hidden; the link is hidden too, so its last zero must be listed.
    films = list(range(200))
    table = pl.DataFrame({"user": ["a"] * 200 + ["b"], "film": [*films, 0]})
    relation = plait.Relation(table, missing=pl.DataFrame({"user": ["b"] * 198, "film": films[1:-1]}))
    for seed in range(300):
        train, test = plait.hide(relation, fraction=0.01, by="links", seed=seed)
        if "b" in test["user"].to_list():
            break
    assert "b" in test["user"].to_list()
    M, _ = weights(train, None, "likes[user, film] = U[user, r] F[film, r]", "likes")
    assert M[1, -1] == 1
    assert M[1].sum() == 1


def test_the_column_of_values_avoids_an_index_that_is_read_from_a_column_of_that_name():
    table = pl.DataFrame({"value": ["a", "a", "b", "b", "c"], "film": ["x", "y", "x", "z", "z"]})
    relation = plait.Relation(table, columns={"user": "value"})
    for seed in range(10):
        train, _ = plait.hide(relation, fraction=0.4, by="links", seed=seed)
        M, bound = weights(train, None, "likes[user, film] = U[user, r] F[film, r]", "likes")
        assert (M.sum(), len(bound.values)) == (7, 3)


def test_swapped_columns_are_not_confused():
    table = pl.DataFrame({"user": ["x", "y", "x", "z"], "film": ["a", "a", "b", "b"]})
    relation = plait.Relation(table, columns={"user": "film", "film": "user"})
    train, test = plait.hide(relation, fraction=0.25, by="links", seed=0)
    assert set(test["user"]) <= {"a", "b"}
    assert weights(train, None, "likes[user, film] = U[user, r] F[film, r]", "likes")[0].sum() == 5


# --- kinds of data


TABLES = {
    "polars": (lambda t: t, pl.DataFrame),
    "lazy": (lambda t: t.lazy(), pl.DataFrame),
    "pandas": (lambda t: pd.DataFrame(t.to_dict(as_series=False)), pd.DataFrame),
    "pyarrow": (lambda t: t.to_arrow(), pa.Table),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("by", ["cells", "links", ("index", "user")], ids=str)
def test_a_test_is_a_table_of_the_kind_that_came_in(kind, by):
    X = counts(9, (6, 5))
    names = pl.Series([f"u{k}" for k in range(6)])
    table = links_of(X, ("user", "film")).with_columns(user=names.gather(np.nonzero(X)[0]))
    make, expected = TABLES[kind]
    train, test = plait.hide(make(table), fraction=0.4, by=by, seed=4)
    assert type(test) is expected
    plain = pl.DataFrame(test.to_pydict() if kind == "pyarrow" else {c: list(test[c]) for c in test.columns})
    reference = plait.hide(table, fraction=0.4, by=by, seed=4).test
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
@pytest.mark.parametrize("by", ["cells", "links", "thin", ("index", "user")], ids=str)
def test_arrays_of_every_kind_are_split_alike(kind, by):
    X = counts(10, (6, 5))
    model = "likes[user, film] = U[user, r] F[film, r]"
    train, test = plait.hide({"likes": ARRAYS[kind](X)}, fraction=0.4, by=by, seed=4, model=model)
    reference = plait.hide({"likes": X}, fraction=0.4, by=by, seed=4, model=model).test
    assert test.equals(reference)
    hidden = hidden_mask(test, X.shape, ("user", "film"))
    zero = 0.6 if by == "thin" else 1.0
    M, _ = weights(train["likes"], None, model, "likes")
    np.testing.assert_allclose(M, np.where(hidden, zero if by == "thin" else 0, np.where(X > 0, 1, zero)))


def test_gaps_of_an_array_are_never_tested():
    X = counts(11, (8, 8))
    X[:3] = np.nan
    _, test = plait.hide(plait.Relation(X, indices=("user", "film")), fraction=0.5, seed=0)
    assert (len(test), test["user"].min()) == (20, 3)


def test_named_rows_of_an_array_keep_their_names():
    X = counts(12, (3, 4))
    model = "likes[user, film] = U[user, r] F[film, r]"
    labels = {"user": ["a", "b", "c"]}
    train, test = plait.hide({"likes": X}, fraction=0.3, seed=0, model=model, labels=labels)
    assert set(test["user"]) <= {"a", "b", "c"}
    fit = plait.fit(model, train, rank=1, sweeps=2, seed=0, labels=labels)
    assert len(plait.evaluate(fit, "likes", test)) > 0


def test_an_array_in_another_order_is_tested_by_its_own_indices():
    X = counts(13, (3, 4, 5))
    model = "X[i, j, k] = A[i, r] B[j, r] C[k, r]"
    train, test = plait.hide(
        {"X": plait.Relation(X.transpose(2, 0, 1), indices=("k", "i", "j"))}, fraction=0.3, seed=0, model=model
    )
    np.testing.assert_array_equal(test["value"], X[tuple(test[i].to_numpy() for i in INDICES)])
    assert train["X"].indices == ("k", "i", "j")


def test_every_option_of_a_relation_is_kept():
    table = pd.DataFrame({"id": [1, 1, 2, 3], "film": [7, 8, 8, 7], "plays": [1, 1, 1, 1]})
    relation = plait.Relation(
        table, columns={"user": "id"}, value="plays", observed=0.5, universe="model", likelihood="bernoulli",
        weight=2.0, duplicates="sum", missing=pd.DataFrame({"id": [1], "film": [8]}),
    )  # fmt: skip
    train, test = plait.hide(relation, fraction=0.34, by="links", seed=0)
    for option in dataclasses.fields(plait.Relation):
        if option.name != "hidden":
            assert getattr(train, option.name) is getattr(relation, option.name)
    assert list(test.columns) == ["user", "film", "value"]
    assert list(train.hidden_tables[0].columns) == ["id", "film"]


def test_the_value_of_a_repeated_cell_is_the_sum_and_all_its_rows_are_hidden():
    table = pl.DataFrame({"user": ["a", "a", "b", "b"], "film": ["x", "x", "y", "y"], "value": [1, 2, 3, 4]})
    train, test = plait.hide(plait.Relation(table, duplicates="sum"), fraction=0.5, by="links", seed=0)
    assert test["value"].to_list() in ([3.0], [7.0])
    bound = weights(train, None, "likes[user, film] = U[user, r] F[film, r]", "likes")[1]
    assert bound.values.tolist() == [10.0 - test["value"][0]]


# --- leaks


@given(
    st.integers(0, 10_000),
    st.sampled_from(["cells", ("index", "j"), ("pair", "i", "j"), ("pair", "i", "k")]),
    st.sampled_from(["hide", "ignore"]),
)
@settings(max_examples=10, deadline=None)
def test_a_fit_is_bit_equal_whatever_the_hidden_values_are(seed, by, twins):
    rng = np.random.default_rng(seed)
    X, Y = counts(seed, (4, 6, 3)), counts(seed + 1, (4, 6), 2.0)
    model = f"{MODEL}; Y[i, j] = A[i, r] D[j, r]"
    options = {"fraction": 0.15, "by": by, "seed": seed, "model": model, "twins": twins}
    train, test = plait.hide({"X": X, "Y": Y}, "X", **options)
    hidden = hidden_mask(test, X.shape)
    other = np.where(hidden, rng.poisson(3.0, X.shape) * (rng.random(X.shape) < 0.5), X)
    changed, test_after = plait.hide({"X": other, "Y": Y}, "X", **options)
    np.testing.assert_array_equal(hidden_mask(test_after, X.shape), hidden)
    fits = [plait.fit(model, data, rank=2, sweeps=3, seed=0) for data in (train, changed)]
    assert fits[0].bound == fits[1].bound
    for name, factor in fits[0].factors.items():
        np.testing.assert_array_equal(factor.mean, fits[1].factors[name].mean)


@pytest.mark.parametrize("by", [by for by in BYS if by != "thin"], ids=str)
def test_a_fit_of_a_table_is_bit_equal_whatever_its_hidden_rows_say(by):
    X = counts(14, rate=0.9)
    train, test = plait.hide(links_of(X), fraction=0.3, by=by, seed=1)
    hidden = hidden_mask(test, X.shape)
    rows = train.data
    value = rows["value"].to_numpy().astype(float)
    at = tuple(rows[i].to_numpy() for i in INDICES)
    value[hidden[at]] = np.random.default_rng(0).uniform(0, 100, hidden[at].sum())
    changed = dataclasses.replace(train, data=rows.with_columns(value=value))
    fits = [plait.fit(MODEL, {"X": relation}, rank=2, sweeps=3, seed=0) for relation in (train, changed)]
    assert hidden[at].any()
    assert fits[0].bound == fits[1].bound
    np.testing.assert_array_equal(fits[0].factors["A"].mean, fits[1].factors["A"].mean)


def test_thinning_leaves_no_trace_of_the_hidden_links():
    """Entities without a known link look alike to a fit, whether they have hidden links or not."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"i": rng.integers(0, 60, 300), "j": rng.integers(0, 80, 300), "k": 0}).unique()
    labels = {"i": range(60), "j": range(100), "k": [0]}  # the last twenty have no link at all
    train, test = plait.hide(
        {"X": plait.Relation(table, ("i", "j", "k"), universe="model")}, fraction=0.9, by="thin", seed=0, labels=labels
    )
    fit = plait.fit(MODEL, train, rank=2, sweeps=20, seed=0, labels=labels)
    cold = np.setdiff1d(np.arange(100), fit.known["X"].cells[:, 1])
    betrayed = np.intersect1d(cold, test["j"])
    assert 10 < len(betrayed) < len(cold)
    rate = fit.factors["B"].mean @ (fit.factors["A"].mean.sum(axis=0) * fit.factors["C"].mean[0])
    np.testing.assert_allclose(rate[cold], rate[cold[0]], rtol=1e-12)


@pytest.mark.parametrize("kind", [np.asarray, sparse.COO], ids=["dense", "sparse"])
def test_dimensions_in_another_order_are_thinned_at_the_right_cells(kind):
    X = counts(16, (4, 5, 3), 0.7)
    turned = plait.Relation(kind(X.transpose(2, 0, 1)), indices=("k", "i", "j"))
    train, test = plait.hide({"X": turned}, fraction=0.4, by="thin", seed=2, model=MODEL)
    hidden = hidden_mask(test, X.shape)
    M, bound = weights(train["X"], None)
    np.testing.assert_array_equal(bound.cells, np.argwhere((X > 0) & ~hidden))
    np.testing.assert_allclose(M, np.where((X > 0) & ~hidden, 1.0, 0.6))


def test_all_rows_of_a_repeated_link_are_thinned_together():
    table = pl.DataFrame({"i": [0, 0, 1, 1, 2], "j": [0, 0, 1, 1, 2], "k": 0, "value": [1.0, 2, 3, 4, 5]})
    relation = plait.Relation(table, duplicates="sum")
    for seed in range(5):
        train, test = plait.hide(relation, fraction=0.34, by="thin", seed=seed)
        M, bound = weights(train, None)
        (gone,) = test["i"].to_list()
        assert sorted(bound.values) == sorted({0: 3.0, 1: 7.0, 2: 5.0}[i] for i in range(3) if i != gone)
        assert M[gone, gone, 0] == pytest.approx(0.66)


def test_a_thinned_relation_can_be_thinned_again():
    table = pl.DataFrame({"i": [0, 0, 1, 1, 2, 2, 3, 3], "j": [0, 1, 1, 2, 2, 3, 3, 0], "k": 0, "w": 2.0})
    once, first = plait.hide(plait.Relation(table, INDICES, weight="w"), fraction=0.25, by="thin", seed=0)
    twice, second = plait.hide(once, fraction=0.5, by="thin", seed=1)
    M, bound = weights(twice, None)
    assert len(first.join(second, on=INDICES, how="semi")) == 0
    known = np.zeros(M.shape, bool)
    known[tuple(bound.cells.T)] = True
    assert known.sum() == 3
    np.testing.assert_allclose(M, np.where(known, 2.0, 0.75 * 0.5))


@pytest.mark.parametrize("by", BYS, ids=str)
def test_no_hidden_link_is_known_to_the_fit_and_every_tested_name_is(by):
    X = counts(15)
    train, test = plait.hide(links_of(X), fraction=0.3, by=by, seed=1)
    fit = plait.fit(MODEL, {"X": train}, rank=2, sweeps=2, seed=0)
    links = test.filter(pl.col("value") > 0)
    rows = np.stack([fit.labels[i].encode(links[i]) for i in INDICES], axis=1)
    assert len(rows)
    assert not fit.known["X"].contain(rows).any()
    assert len(fit.predict("X", test.drop("value"))) == len(test)


# --- seeds, words and errors


def test_a_seed_fixes_the_split_and_one_is_kept_where_none_is_given():
    X = counts(16)
    a, b, c = (plait.hide(X, "X", model=MODEL, fraction=0.3, seed=s).test for s in (7, 7, 8))
    assert a.equals(b)
    assert not a.equals(c)
    drawn = plait.hide(X, "X", model=MODEL, fraction=0.3)
    assert drawn.test.equals(plait.hide(X, "X", model=MODEL, fraction=0.3, seed=drawn.seed).test)


def test_a_split_unpacks_as_two_and_says_what_it_is():
    split = plait.hide(links_of(counts(17)), fraction=0.25, seed=3)
    assert isinstance(split, plait.Split)
    assert tuple(split) == (split.train, split.test)
    assert (
        str(split)
        == "Split of data[i, j, k]: 30 of 120 observed cells hidden, seed 3\n  test   8 links, 22 zeros\n  twins  none"
    )
    assert repr(split) == str(split)


T = pl.DataFrame({"user": [1, 1, 2], "film": [1, 2, 2]})

WRONG = {
    "fraction 0": (
        lambda: plait.hide(T, fraction=0),
        "`fraction` must be over 0 and under 1, got 0.\nGive 0.2 to hide a fifth.",
    ),
    "fraction 1": (
        lambda: plait.hide(T, fraction=1.0),
        "`fraction` must be over 0 and under 1, got 1.0.\nGive 0.2 to hide a fifth.",
    ),
    "fraction nan": (
        lambda: plait.hide(T, fraction=float("nan")),
        "`fraction` must be over 0 and under 1, got nan.\nGive 0.2 to hide a fifth.",
    ),
    "fraction a bool": (
        lambda: plait.hide(T, fraction=True),
        "`fraction` must be over 0 and under 1, got True.\nGive 0.2 to hide a fifth.",
    ),
    "seed": (
        lambda: plait.hide(T, fraction=0.5, seed=-1),
        "`seed` must be a whole number, 0 or more, got -1.",
    ),
    "by misspelt": (
        lambda: plait.hide(T, fraction=0.5, by="link"),
        "`by` is 'link'.\nDid you mean 'links'? It is 'cells', 'links', 'thin', 'time', or a tuple of indices such as "
        "(\"index\", 'user').",
    ),
    "by a number": (
        lambda: plait.hide(T, fraction=0.5, by=3),
        "`by` is 3.\nName each index once: ('index', 'user') or ('pair', 'user', 'place').",
    ),
    "by unknown index": (
        lambda: plait.hide(T, fraction=0.5, by=("index", "usr")),
        "`by` names 'usr', which is no index of data.\nDid you mean 'user'? It has user, film.",
    ),
    "by twice": (
        lambda: plait.hide(T, fraction=0.5, by=("pair", "user", "user")),
        "`by` is ('pair', 'user', 'user').\nName each index once: ('index', 'user') or ('pair', 'user', 'place').",
    ),
    "twins": (
        lambda: plait.hide(T, fraction=0.5, twins="hid"),
        "`twins` must be one of 'report', 'hide', 'ignore', got 'hid'.\nDid you mean 'hide'?",
    ),
    "none": (
        lambda: plait.hide(T, fraction=0.01, by="links"),
        "a fraction of 0.01 of 3 links of data is none of them.\nGive a larger fraction, or more data.",
    ),
    "all": (
        lambda: plait.hide(T, fraction=0.99, by=("index", "user")),
        "a fraction of 0.99 of 2 entities of user in data is all of them.\nGive a smaller fraction, or more data.",
    ),
    "which relation": (
        lambda: plait.hide({"a": T, "b": T}, fraction=0.5),
        "`relation` must say which of a, b to hide from.\nGive `relation='a'`, or another.",
    ),
    "no such relation": (
        lambda: plait.hide({"likes": T}, "like", fraction=0.5),
        "`relation` is 'like', for which there are no data.\nDid you mean 'likes'? There are likes.",
    ),
    "model": (
        lambda: plait.hide(T, fraction=0.5, model=3),
        "`model` must be a plait.Model or its text, got int.",
    ),
    "thin listed": (
        lambda: plait.hide(plait.Relation(T, observed="listed"), fraction=0.5, by="thin"),
        '`by="thin"` weighs the zeros that data does not list, but with `observed="listed"` these are missing.\n'
        'Use `by="cells"`: it hides listed cells, however large the tensor.',
    ),
    "thin weighted zeros": (
        lambda: plait.hide(
            plait.Relation(T.with_columns(value=pl.Series([1, 1, 0]), w=2.0), weight="w"), fraction=0.5, by="thin"
        ),
        '`by="thin"` gives all zeros of data one weight, but its weight column gives some their own.\n'
        'Use `by="links"`, or leave out the rows of zeros.',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_setting_is_refused_with_a_cure(name):
    call, expected = WRONG[name]
    assert message(SettingError, call) == expected


VISITS = pl.DataFrame(
    {"user": ["ann", "ann", "bob", "cem"], "place": ["cafe", "park", "cafe", "gym"], "times": [1, 3, 2, 1]}
)


@pytest.mark.parametrize("kind", [pl.DataFrame, pl.DataFrame.lazy, pl.DataFrame.to_pandas, pl.DataFrame.to_arrow])
@pytest.mark.parametrize("values", [[1, 3, 2, 1], [1.0, 3.0, 2.0, 1.0], [True, False, True, True]])
def test_numbers_that_may_be_values_are_not_taken_for_an_index_in_silence(kind, values):
    table = kind(VISITS.with_columns(times=pl.Series(values)))
    assert "column 'times' holds numbers" in message(DataError, lambda: plait.hide(table, fraction=0.5, seed=0))


@pytest.mark.parametrize("column", ["user", "place", "times"])
def test_what_was_said_of_a_column_of_numbers_is_done_and_told(column):
    indices = [name for name in VISITS.columns if name != column]
    numbered = VISITS.with_columns(pl.col(name).rank("dense").cast(int) for name in VISITS.columns)
    split = plait.hide(plait.Relation(numbered, value=column), fraction=0.5, seed=0)
    assert split.test.columns == [*indices, "value"]
    assert f"Split of data[{', '.join(indices)}]: " in str(split)


def test_numbers_are_an_index_where_it_was_said_or_the_others_name_a_row_twice():
    said = plait.hide(plait.Relation(VISITS, indices=("user", "place", "times")), fraction=0.5, seed=0)
    more = pl.concat([VISITS, pl.DataFrame({"user": ["ann"], "place": ["cafe"], "times": [7]})])
    for split in (
        said,
        plait.hide(plait.Relation(VISITS, columns={"times": "times"}), fraction=0.5, seed=0),
        plait.hide(VISITS, model="data[user, place, times] = U[user, r] P[place, r] T[times, r]", fraction=0.5, seed=0),
        plait.hide(VISITS.with_columns(value=1.0), fraction=0.5, seed=0),
        plait.hide(more, fraction=0.5, seed=0),
    ):
        assert split.test.columns == ["user", "place", "times", "value"]


def test_what_was_taken_for_an_index_is_one_for_the_next_split_too():
    """Fewer links may name each pair once; what the numbers are is known by then."""
    table = pl.DataFrame({"i": [0, 0, 0, 0, 1], "j": [0, 0, 1, 1, 1], "k": [0, 1, 0, 1, 0]})
    for seed in range(8):
        train, _ = plait.hide(table, fraction=0.4, by="thin", seed=seed)
        assert plait.hide(train, fraction=0.4, by="thin", seed=0).test.columns == ["i", "j", "k", "value"]


WRONG_DATA = {
    "no links": (
        lambda: plait.hide(T.with_columns(value=0.0), fraction=0.5),
        "data: there is no observed link, so nothing can be tested.\nGive data with links.",
    ),
    "array without names": (
        lambda: plait.hide(np.ones((3, 3)), fraction=0.5),
        'data: the dimensions of an array have no names.\nGive `model`, or `indices=("user", "place")`.',
    ),
    "column no name": (
        lambda: plait.hide(T.rename({"film": "the film"}), fraction=0.5),
        "data: column 'the film' cannot be the name of an index.\n"
        "Say what it is: `columns={'user': 'the film'}`, `value='the film'` or `weight='the film'`.",
    ),
    "perhaps values": (
        lambda: plait.hide(VISITS, fraction=0.5),
        "data: column 'times' holds numbers, which may be values of cells or names of an index: 'user', 'place' alone "
        "tell all rows apart.\n"
        "Say which: `value='times'`, or `indices=('user', 'place', 'times')`.",
    ),
    "no data": (
        lambda: plait.hide("visits.csv", fraction=0.5),
        "data: a relation cannot be read from str.\n"
        "Give a table (pandas, polars, pyarrow), a NumPy array, a SciPy sparse matrix or a sparse.COO. "
        "A graph of NetworkX will do, too.",
    ),
}


@pytest.mark.parametrize("name", WRONG_DATA)
def test_data_that_cannot_be_split_are_refused_with_a_cure(name):
    call, expected = WRONG_DATA[name]
    assert message(DataError, call) == expected


def test_a_tensor_too_large_to_list_is_thinned_instead():
    rng = np.random.default_rng(0)
    table = pl.DataFrame({i: rng.integers(0, 5000, 3000) for i in INDICES}).unique()
    relation = plait.Relation(table, INDICES)
    assert message(SettingError, lambda: plait.hide(relation, fraction=0.5)).endswith(
        'Use `by="thin"`: it hides links and zeros in equal shares without listing them.'
    )
    assert "over 33,554,432" not in message(SettingError, lambda: plait.hide(relation, fraction=1.5))
    split = plait.hide(relation, fraction=0.5, by="thin", seed=0)
    bound = plait.Model(MODEL).bind({"X": split.train}).relations["X"]
    whole = plait.Model(MODEL).bind({"X": table}).relations["X"]
    kept = len(table) - len(split.test)
    # Σ M = w · (cells that are no known link) + kept: every entity still counts, though many lost all their links.
    assert bound.weights.total() == pytest.approx(0.5 * (whole.total_cells - kept) + kept, rel=1e-12)
    cold = plait.hide(relation, fraction=0.5, by=("index", "i"), seed=0)
    assert cold.zeros is None
    assert (cold.test["value"] > 0).all()
