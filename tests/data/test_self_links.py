"""The diagonal of two indices on one axis: unobservable unless the data, or the user, say otherwise."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.errors import DataError
from plait.execute import Reference

GRAPH = plait.Model("X[a, b] = A[a, r] B[b, r]; b: a")
EYE = np.eye(6, dtype=bool)


def graph(seed=0):
    """Links between six entities, none with itself."""
    X = (np.random.default_rng(seed).random((6, 6)) < 0.4).astype(float)
    X[EYE] = 0
    return X


def bound(relation, labels=None, model=GRAPH):
    return model.bind({"X": relation}, labels=labels).relations["X"]


def weights(relation, **options):
    """M, cell by cell."""
    found = bound(relation, **options).weights
    return found.at(np.argwhere(np.ones((6, 6)))).reshape(6, 6)


def rows(mask, values=None):
    a, b = np.nonzero(mask)
    return pl.DataFrame({"a": a, "b": b} | ({} if values is None else {"value": values[mask]}))


def kinds(X):
    """The same links as a dense and a sparse array and as a table."""
    import scipy.sparse

    return {"dense": X, "sparse": scipy.sparse.coo_array(X), "table": rows(X > 0)}


@pytest.mark.parametrize("kind", ["dense", "sparse", "table"])
def test_self_links_are_missing_where_none_is_among_the_links(kind):
    X = graph()
    found = weights(kinds(X)[kind], labels={"a": range(6)} if kind == "table" else None)
    np.testing.assert_array_equal(found, ~EYE)


@pytest.mark.parametrize("kind", ["dense", "sparse", "table"])
def test_one_self_link_makes_all_of_them_observed(kind):
    X = graph()
    X[2, 2] = 1
    relation = kinds(X)[kind]
    np.testing.assert_array_equal(weights(relation), np.ones((6, 6)))
    assert bound(relation).diagonal == "observed"
    assert "diagonal        observed: self-links are cells like all others" in str(bound(relation))


def test_observed_and_missing_have_the_last_word():
    X = graph()
    np.testing.assert_array_equal(weights(plait.Relation(X, diagonal="observed")), np.ones((6, 6)))
    X[2, 2] = 1
    hidden = bound(plait.Relation(X, diagonal="missing"))
    assert not (hidden.cells[:, 0] == hidden.cells[:, 1]).any()
    np.testing.assert_array_equal(weights(plait.Relation(X, diagonal="missing")), ~EYE)


def test_a_listed_zero_stays_observed_and_weights_of_zeros_hold():
    X = graph()
    listed = (X > 0) | (EYE & (np.arange(6) == 4))
    expected = np.where(X > 0, 1.0, np.where(EYE, 0.0, 0.25))
    expected[4, 4] = 0.25
    np.testing.assert_allclose(weights(plait.Relation(rows(listed, X), observed=0.25)), expected)


def test_self_links_that_are_only_hidden_say_nothing_of_the_others():
    X = graph()
    X[2, 2] = 1
    relation = plait.Relation(X, hidden=pl.DataFrame({"a": [2], "b": [2]}))
    np.testing.assert_array_equal(weights(relation), ~EYE)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_a_fit_is_the_same_with_and_without_nan_on_the_diagonal(likelihood):
    X, fits = graph(), []
    for array in (X, np.where(EYE, np.nan, X)):
        relation = plait.Relation(array, likelihood=likelihood)
        fits.append(plait.fit(GRAPH, {"X": relation}, rank=2, sweeps=5, seed=0, executor=Reference()))
    assert fits[0].bound == fits[1].bound
    np.testing.assert_array_equal(fits[0].factors["A"].mean, fits[1].factors["A"].mean)
    assert fits[0].top("X", 40).equals(fits[1].top("X", 40))


def test_relations_of_three_indices_and_of_two_axes_are_what_they_were():
    triples = plait.Model("X[a, k, b] = A[a, r] K[k, r] B[b, r]; b: a")
    assert bound(np.zeros((6, 2, 6)), model=triples).missing_cells == 0
    plain = plait.Model("X[a, b] = A[a, r] B[b, r]")
    assert bound(graph(), model=plain).missing_cells == 0
    assert "diagonal" not in str(bound(graph(), model=plain))


def test_a_diagonal_of_a_relation_that_has_none_is_refused():
    plain = plait.Model("X[a, b] = A[a, r] B[b, r]")
    with pytest.raises(DataError) as caught:
        bound(plait.Relation(graph(), diagonal="observed"), model=plain)
    assert str(caught.value) == (
        "X: `diagonal` is 'observed', but it has no diagonal: only relations of two indices on one axis do.\n"
        "Leave it out, or declare the two indices to be one axis (friend: user)."
    )
    with pytest.raises(DataError, match="`diagonal` is 'observd'"):
        plait.Relation(graph(), diagonal="observd")


@pytest.mark.parametrize("by", ["cells", "links", "thin", ("index", "a")], ids=str)
def test_a_split_keeps_the_diagonal_as_it_was(by):
    X = graph()
    train, test = plait.hide({"X": X}, fraction=0.4, by=by, seed=0, model=GRAPH, twins="ignore")
    assert (test["a"] != test["b"]).all()
    assert not np.diagonal(weights(train["X"])).any()
    X[2, 2] = 1  # whether or not this one is hidden, the others were observed
    for seed in range(4):
        train, test = plait.hide({"X": X}, fraction=0.4, by=by, seed=seed, model=GRAPH, twins="ignore")
        hidden = set(test.filter(pl.col("a") == pl.col("b"))["a"])
        left = [n for n in range(6) if n not in hidden]
        assert (np.diagonal(weights(train["X"]))[left] > 0).all()


def test_a_split_without_a_model_leaves_what_was_said_of_the_diagonal():
    relation = plait.Relation(rows(graph() > 0), diagonal="observed")
    train, _ = plait.hide(relation, fraction=0.2, seed=0)
    assert train.diagonal == "observed"
