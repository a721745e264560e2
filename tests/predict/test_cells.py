"""Tables of cells for `Fit.predict`: kinds, wrong cells, unknown names."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plait

VISITS = pl.DataFrame(
    {"user": ["ann", "bob", "bob", "cid"], "place": ["zoo", "zoo", "bar", "gym"], "value": [3.0, 1.0, 2.0, 5.0]}
)
CELLS = {"user": ["bob", "ann"], "place": ["gym", "zoo"]}


def fitted(**settings):
    return plait.fit(
        "visits[user,place] = U[user,r] P[place,r]", {"visits": VISITS}, rank=2, seed=0, max_iter=3, **settings
    )


FIT = fitted()


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame, pa.table, pl.LazyFrame])
def test_predict_returns_the_kind_of_table_it_gets(kind):
    table = kind({"place": CELLS["place"], "note": ["x", "y"], "user": CELLS["user"]})
    found, plain = FIT.predict("visits", table), FIT.predict("visits", CELLS)
    assert isinstance(found, pl.DataFrame if kind is pl.LazyFrame else type(table))
    assert isinstance(plain, pl.DataFrame)
    names = found.column_names if isinstance(found, pa.Table) else list(found.columns)
    assert names == ["place", "note", "user", "mean", "sd", "probability", "lower", "upper"]
    np.testing.assert_array_equal(np.asarray(found["mean"]), plain["mean"].to_numpy())
    by_hand = FIT.factors["U"].mean[[1, 0]] * FIT.factors["P"].mean[[1, 2]]
    np.testing.assert_allclose(plain["mean"], by_hand.sum(axis=1), rtol=1e-12)
    empty = FIT.predict("visits", table.head(0) if isinstance(table, pl.LazyFrame) else table[:0])
    assert len(empty) == 0
    assert (empty.column_names if isinstance(empty, pa.Table) else list(empty.columns)) == names


def test_a_pandas_table_keeps_its_index():
    table = pd.DataFrame(CELLS, index=[7, 3])
    found = FIT.predict("visits", table)
    assert list(found.index) == [7, 3]
    np.testing.assert_array_equal(found["mean"].to_numpy(), FIT.predict("visits", CELLS)["mean"].to_numpy())
    assert list(table.columns) == ["user", "place"]


def test_a_relation_without_indices_needs_no_table():
    fit = plait.fit("X[] = c[] d[]", {"X": np.array(4.0)}, rank=None, seed=0, max_iter=3)
    found = fit.predict("X", {})
    assert found.columns == ["mean", "sd", "probability", "lower", "upper"]
    assert len(found) == 1
    assert len(fit.predict("X", {"note": [1, 2, 3]})) == 3


# --- errors


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"usr": ["ann"], "place": ["zoo"]}, ["no column 'user'", "Did you mean 'usr'?", "user, place"]),
        (
            {"user": ["ann", "bob"], "place": ["zoo", "zoom"]},
            ["row 1", "'zoom'", "Did you mean 'zoo'?", "handle_unknown="],
        ),
        ({"user": ["ann", None], "place": ["zoo", "zoo"]}, ["column 'user'", "row 1", "missing"]),
        ({"user": [1], "place": ["zoo"]}, ["column 'user'", "integers", "strings"]),
        ({"user": ["ann"], "place": ["zoo"], "mean": [1.0]}, ["column 'mean'", "Rename or drop"]),
        ({"user": ["ann", "bob"], "place": ["zoo", "bar", "gym"]}, ["not a table", "the same length"]),
        ("ann", ["expected a table", "str"]),
    ],
)
def test_wrong_cells_are_named(cells, words):
    with pytest.raises(plait.errors.DataError) as caught:
        FIT.predict("visits", cells)
    assert all(word in str(caught.value) for word in [*words, "\n"])


def test_a_rate_column_of_the_user_is_kept():
    assert FIT.predict("visits", CELLS | {"rate": [0.5, 0.25]})["rate"].to_list() == [0.5, 0.25]
    links = VISITS.with_columns(value=pl.lit(1.0))
    fit = plait.fit(FIT.model, {"visits": plait.Relation(links, likelihood="bernoulli")}, rank=2, seed=0, max_iter=2)
    with pytest.raises(plait.errors.DataError, match="column 'rate'"):
        fit.predict("visits", CELLS | {"rate": [0.5, 0.25]})


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({"user": "bob"}, ["index 'place' is missing", "visits needs user, place"]),
        ({"user": "bob", "plac": "gym"}, ["'plac' is not an index of visits", "Did you mean 'place'?"]),
        ({"user": "bob", "place": "gymm"}, ["'gymm'", "Did you mean 'gym'?"]),
        (["bob", "gym"], ["list", "'user': …"]),
    ],
)
def test_a_wrong_cell_is_named(cell, words):
    with pytest.raises(plait.errors.DataError) as caught:
        FIT.explain("visits", cell)
    assert all(word in str(caught.value) for word in words)
    with pytest.raises(plait.errors.ModelError, match="Did you mean visits"):
        FIT.predict("visit", CELLS)
    with pytest.raises(plait.errors.ParameterError, match="Did you mean 'prior'"):
        FIT.predict("visits", CELLS, handle_unknown="priors")


# --- handle_unknown="prior"


@pytest.mark.parametrize("method", ["vb", "map"])
def test_an_unknown_name_has_the_moments_of_the_prior(method):
    settings = {"adapt_prior": None} if method == "vb" else {}
    fit = fitted(method=method, prior=plait.Gamma(1.5, 2.0), **settings)
    found = fit.predict("visits", {"user": ["eve", "ann"], "place": ["zoo", "zoo"]}, handle_unknown="prior")
    P, zoo = fit.factors["P"], fit.entities["place"].row("zoo")
    p, spread = P.mean[zoo], P.sd[zoo] ** 2
    B, Var = 2.0, 2.0**2 / 1.5
    np.testing.assert_allclose(found["mean"][0], B * p.sum(), rtol=1e-12)
    np.testing.assert_allclose(found["sd"][0] ** 2, ((B**2 + Var) * (p**2 + spread) - B**2 * p**2).sum(), rtol=1e-12)
    known = fit.predict("visits", {"user": ["ann"], "place": ["zoo"]})
    np.testing.assert_allclose(found.row(1)[2:], known.row(0)[2:], rtol=1e-12)


def test_an_unknown_entity_takes_the_average_prior_in_a_factor_of_two_indices():
    X = np.random.default_rng(0).poisson(2.0, (3, 4, 2))
    fit = plait.fit("X[i,j,k] = H[i,k,r] B[j,r]", {"X": X}, rank=2, seed=0, max_iter=2)
    A = np.arange(1.0, 7.0).reshape(3, 2, 1)
    fit = replace(fit, prior=fit.prior | {"H": plait.Gamma(A, A + 1)})
    cells = {"i": [9, 2, 9, 2], "j": [0, 0, 0, 0], "k": [1, 9, 9, 1]}
    found = fit.predict("X", cells, handle_unknown="prior")
    B = fit.factors["B"].mean[0]
    wanted = [(A + 1)[:, 1].mean() * B.sum(), (A + 1)[2].mean() * B.sum(), (A + 1).mean() * B.sum()]
    np.testing.assert_allclose(found["mean"], [*wanted, fit.factors["H"].mean[2, 1] @ B], rtol=1e-12)
    for column in found.columns:
        assert np.isfinite(found[column].to_numpy()).all()


def test_an_unknown_name_needs_a_prior():
    em = fitted(method="em")
    with pytest.raises(plait.errors.ParameterError, match=r"EM, which has no prior.*\n.*method=\"vb\""):
        em.predict("visits", {"user": ["eve"], "place": ["zoo"]}, handle_unknown="prior")
    given = fitted(fixed={"U": np.ones((3, 2))})
    with pytest.raises(plait.errors.ParameterError, match="the fixed factor U, which has no prior"):
        given.predict("visits", {"user": ["eve"], "place": ["zoo"]}, handle_unknown="prior")
    assert len(given.predict("visits", {"user": ["ann"], "place": ["spa"]}, handle_unknown="prior")) == 1


def test_an_unknown_name_needs_an_exposure():
    text = "visits[user,place] = U[user,r] P[place,r] V[user]"
    fit = plait.fit(text, {"visits": VISITS}, rank=2, seed=0, max_iter=2, fixed={"V": np.array([1.0, 2.0, 3.0])})
    with pytest.raises(plait.errors.DataError, match="exposure over user"):
        fit.predict("visits", {"user": ["eve"], "place": ["zoo"]}, handle_unknown="prior")
    found = fit.predict("visits", {"user": ["bob", "ann"], "place": ["spa", "spa"]}, handle_unknown="prior")
    bob, ann = ((fit.factors["U"].mean[row] * fit.prior["P"].mean.ravel()).sum() for row in (1, 0))
    assert found["mean"][0] / found["mean"][1] == pytest.approx(2.0 * bob / ann)
