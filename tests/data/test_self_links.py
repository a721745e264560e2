"""The diagonal of two indices on one axis is missing unless a link or an option says otherwise."""

import numpy as np
import polars as pl
import pytest
import scipy.sparse

import plait
from plait.executors import Reference
from tests.support.data_errors import assert_mentions, error_text

GRAPH = plait.Model("X[a, b] = A[a, r] B[b, r]; b: a")
EYE = np.eye(6, dtype=bool)


def graph(seed=0):
    """Links between six entities, none with itself."""
    X = (np.random.default_rng(seed).random((6, 6)) < 0.4).astype(float)
    X[EYE] = 0
    return X


def bound(relation, entities=None, model=GRAPH):
    return model.bind({"X": relation}, entities=entities).relations["X"]


def weights(relation, **options):
    """M, cell by cell."""
    found = bound(relation, **options).weights
    return found.at(np.argwhere(np.ones((6, 6)))).reshape(6, 6)


def rows(mask, values=None):
    a, b = np.nonzero(mask)
    return pl.DataFrame({"a": a, "b": b} | ({} if values is None else {"value": values[mask]}))


def kinds(X):
    """The same links as a dense and a sparse array and as a table."""
    return {"dense": X, "sparse": scipy.sparse.coo_array(X), "table": rows(X > 0)}


@pytest.mark.parametrize("kind", ["dense", "sparse", "table"])
def test_self_links_are_missing_if_no_link_is_one(kind):
    X = graph()
    found = weights(kinds(X)[kind], entities={"a": range(6)} if kind == "table" else None)
    np.testing.assert_array_equal(found, ~EYE)


@pytest.mark.parametrize("kind", ["dense", "sparse", "table"])
def test_one_self_link_makes_all_of_them_observed(kind):
    X = graph()
    X[2, 2] = 1
    relation = kinds(X)[kind]
    np.testing.assert_array_equal(weights(relation), np.ones((6, 6)))
    assert bound(relation).self_links == "observed"
    assert "self-links      observed" in str(bound(relation))


def test_the_option_decides_about_the_diagonal():
    X = graph()
    np.testing.assert_array_equal(weights(plait.Relation(X, self_links="observed")), np.ones((6, 6)))
    X[2, 2] = 1
    hidden = bound(plait.Relation(X, self_links="missing"))
    assert not (hidden.cells[:, 0] == hidden.cells[:, 1]).any()
    np.testing.assert_array_equal(weights(plait.Relation(X, self_links="missing")), ~EYE)


def test_a_listed_zero_stays_observed_and_weights_of_zeros_hold():
    X = graph()
    listed = (X > 0) | (EYE & (np.arange(6) == 4))
    expected = np.where(X > 0, 1.0, np.where(EYE, 0.0, 0.25))
    expected[4, 4] = 0.25
    np.testing.assert_allclose(weights(plait.Relation(rows(listed, X), observed=0.25)), expected)


def test_hidden_self_links_do_not_open_the_diagonal():
    X = graph()
    X[2, 2] = 1
    relation = plait.Relation(X, hidden=pl.DataFrame({"a": [2], "b": [2]}))
    np.testing.assert_array_equal(weights(relation), ~EYE)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_a_fit_is_the_same_with_and_without_nan_on_the_diagonal(likelihood):
    X, fits = graph(), []
    for array in (X, np.where(EYE, np.nan, X)):
        relation = plait.Relation(array, likelihood=likelihood)
        fits.append(plait.fit(GRAPH, {"X": relation}, rank=2, max_iter=5, seed=0, warmup=0, executor=Reference()))
    assert fits[0].objective == fits[1].objective
    np.testing.assert_array_equal(fits[0].factors["A"].mean, fits[1].factors["A"].mean)
    assert fits[0].top("X", 40).equals(fits[1].top("X", 40))


def test_other_relations_have_no_diagonal():
    triples = plait.Model("X[a, k, b] = A[a, r] K[k, r] B[b, r]; b: a")
    assert bound(np.zeros((6, 2, 6)), model=triples).missing_cells == 0
    plain = plait.Model("X[a, b] = A[a, r] B[b, r]")
    assert bound(graph(), model=plain).missing_cells == 0
    assert "diagonal" not in str(bound(graph(), model=plain))


def test_a_diagonal_of_a_relation_that_has_none_is_refused():
    plain = plait.Model("X[a, b] = A[a, r] B[b, r]")
    text = error_text(bound, plait.Relation(graph(), self_links="observed"), model=plain)
    assert_mentions(text, "X: ", "`self_links` is 'observed'", "cannot have self-links")
    triples = plait.Model("X[a, k, b] = A[a, r] K[k, r] B[b, r]; b: a")
    text = error_text(bound, plait.Relation(np.ones((3, 2, 3)), self_links="missing"), model=triples)
    assert_mentions(text, "`self_links` is 'missing'", "more than two indices", "Put the self-links into `missing`")


@pytest.mark.parametrize("by", ["cells", "links", "thinned_links", ("index", "a")], ids=str)
def test_a_split_keeps_the_diagonal_as_it_was(by):
    X = graph()
    train, test = plait.train_test_split({"X": X}, fraction=0.4, by=by, seed=0, model=GRAPH, leakage="ignore")
    assert (test["a"] != test["b"]).all()
    assert not np.diagonal(weights(train["X"])).any()
    X[2, 2] = 1  # whether or not this one is hidden, the others were observed
    for seed in range(4):
        train, test = plait.train_test_split({"X": X}, fraction=0.4, by=by, seed=seed, model=GRAPH, leakage="ignore")
        hidden = set(test.filter(pl.col("a") == pl.col("b"))["a"])
        left = [n for n in range(6) if n not in hidden]
        assert (np.diagonal(weights(train["X"]))[left] > 0).all()


def test_a_split_without_a_model_keeps_the_option():
    relation = plait.Relation(rows(graph() > 0), self_links="observed")
    train, _ = plait.train_test_split(relation, fraction=0.2, seed=0)
    assert train.self_links == "observed"
