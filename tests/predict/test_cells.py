"""Tables of cells by outside names: what is accepted, what is refused, and what an unknown name means."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import plait
from plait.answer.predict.lookup import row_of, rows_of
from plait.answer.predict.moments import moments

VISITS = pl.DataFrame(
    {"user": ["ann", "bob", "bob", "cid"], "place": ["zoo", "zoo", "bar", "gym"], "value": [3.0, 1.0, 2.0, 5.0]}
)
CELLS = {"user": ["bob", "ann"], "place": ["gym", "zoo"]}


def fitted(**settings):
    return plait.fit(
        "visits[user,place] = U[user,r] P[place,r]", {"visits": VISITS}, rank=2, seed=0, sweeps=3, **settings
    )


FIT = fitted()


def test_rows_are_in_the_order_of_the_relations_indices():
    _, rows = rows_of(FIT, "visits", {"place": ["gym", "bar"], "note": [1, 2], "user": ["cid", "ann"]})
    assert rows.dtype == np.int64
    names = [(FIT.labels["user"][u], FIT.labels["place"][p]) for u, p in rows]
    assert names == [("cid", "gym"), ("ann", "bar")]


@pytest.mark.parametrize("kind", [pl.DataFrame, pd.DataFrame, pa.table], ids=["polars", "pandas", "pyarrow"])
def test_a_table_comes_back_as_the_kind_that_came_in(kind):
    table = kind(CELLS | {"note": ["x", "y"]})
    found = FIT.predict("visits", table)
    assert type(found) is type(table)
    names = found.column_names if isinstance(found, pa.Table) else list(found.columns)
    assert names == ["user", "place", "note", "mean", "sd", "probability", "low", "high"]
    plain = FIT.predict("visits", CELLS)
    assert isinstance(plain, pl.DataFrame)
    np.testing.assert_array_equal(np.asarray(found["mean"]), plain["mean"].to_numpy())


def test_a_pandas_table_keeps_its_index():
    table = pd.DataFrame(CELLS, index=[7, 3])
    found = FIT.predict("visits", table)
    assert list(found.index) == [7, 3]
    np.testing.assert_array_equal(found["mean"].to_numpy(), FIT.predict("visits", CELLS)["mean"].to_numpy())
    assert list(table.columns) == ["user", "place"]


def test_a_lazy_table_is_collected():
    found = FIT.predict("visits", pl.LazyFrame(CELLS))
    assert found["mean"].equals(FIT.predict("visits", CELLS)["mean"])


@pytest.mark.parametrize(
    "empty",
    [{"user": [], "place": []}, pl.DataFrame(CELLS).clear(), pd.DataFrame(CELLS)[:0], pa.table(CELLS)[:0]],
    ids=["dict", "polars", "pandas", "pyarrow"],
)
def test_an_empty_table_gives_an_empty_prediction_with_all_columns(empty):
    found = FIT.predict("visits", empty)
    assert len(found) == 0
    names = found.column_names if isinstance(found, pa.Table) else list(found.columns)
    assert names == ["user", "place", "mean", "sd", "probability", "low", "high"]


def test_the_cell_of_a_relation_without_indices_needs_no_table():
    fit = plait.fit("X[] = c[] d[]", {"X": np.array(4.0)}, rank=None, seed=0, sweeps=3)
    found = fit.predict("X", {})
    assert found.columns == ["mean", "sd", "probability", "low", "high"]
    assert len(found) == 1
    assert len(fit.predict("X", {"note": [1, 2, 3]})) == 3
    assert row_of(fit, "X", {}).shape == (0,)


# --- errors


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({"usr": ["ann"], "place": ["zoo"]}, ["no column 'user'", "'usr'", "Did you mean 'usr'?", "user, place"]),
        ({"user": ["ann"]}, ["no column 'place'", "visits needs user, place"]),
        (
            {"user": ["ann", "bob"], "place": ["zoo", "zoom"]},
            ["row 1", "'zoom'", "Did you mean 'zoo'?", '`unknown="prior"`'],
        ),
        ({"user": ["ann", None], "place": ["zoo", "zoo"]}, ["column 'user'", "row 1", "missing"]),
        ({"user": [1], "place": ["zoo"]}, ["column 'user'", "integers", "strings"]),
        ({"user": ["ann"], "place": ["zoo"], "mean": [1.0]}, ["column 'mean'", "Rename or drop"]),
        ({"user": ["ann", "bob"], "place": ["zoo", "bar", "gym"]}, ["no table", "one length"]),
        ("ann", ["wanted a table", "str"]),
    ],
)
def test_a_mistake_in_the_cells_is_named_with_its_cure(cells, words):
    with pytest.raises(plait.DataError) as caught:
        FIT.predict("visits", cells)
    for word in words:
        assert word in str(caught.value)
    assert "\n" in str(caught.value)


def test_a_misspelt_relation_and_a_misspelt_setting_get_a_suggestion():
    with pytest.raises(plait.ModelError, match="Did you mean visits"):
        FIT.predict("visit", CELLS)
    with pytest.raises(plait.SettingError, match="Did you mean 'prior'"):
        FIT.predict("visits", CELLS, unknown="priors")


def test_a_rate_column_of_the_users_own_is_kept_where_a_prediction_has_none():
    assert FIT.predict("visits", CELLS | {"rate": [0.5, 0.25]})["rate"].to_list() == [0.5, 0.25]
    links = VISITS.with_columns(value=pl.lit(1.0))
    fit = plait.fit(FIT.model, {"visits": plait.Relation(links, likelihood="bernoulli")}, rank=2, seed=0, sweeps=2)
    with pytest.raises(plait.DataError, match="column 'rate'"):
        fit.predict("visits", CELLS | {"rate": [0.5, 0.25]})


def test_one_cell_is_a_mapping_of_every_index():
    rows = row_of(FIT, "visits", {"place": "gym", "user": "bob"})
    np.testing.assert_array_equal(rows, rows_of(FIT, "visits", {"user": ["bob"], "place": ["gym"]})[1][0])


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({"user": "bob"}, ["no index 'place'", "visits needs user, place"]),
        ({"user": "bob", "plac": "gym"}, ["'plac' is no index of visits", "Did you mean 'place'?"]),
        ({"user": "bob", "place": "gymm"}, ["'gymm'", "Did you mean 'gym'?"]),
        (["bob", "gym"], ["list", "'user': …"]),
    ],
)
def test_a_mistake_in_one_cell_is_named_with_its_cure(cell, words):
    with pytest.raises(plait.DataError) as caught:
        row_of(FIT, "visits", cell)
    for word in words:
        assert word in str(caught.value)


# --- unknown="prior"


@pytest.mark.parametrize("method", ["vb", "map"])
def test_an_unknown_name_has_the_moments_of_the_prior(method):
    settings = {"adapt": None} if method == "vb" else {}
    fit = fitted(method=method, prior=plait.Gamma(1.5, 2.0), **settings)
    _, rows = rows_of(fit, "visits", {"user": ["eve", "ann"], "place": ["zoo", "zoo"]}, unknown="prior")
    assert rows[0].tolist() == [-1, fit.labels["place"].row("zoo")]
    mean, variance = moments(fit, "visits", rows)
    P = fit.factors["P"]
    p, spread = P.mean[rows[0, 1]], P.sd[rows[0, 1]] ** 2
    B, Var = 2.0, 2.0**2 / 1.5
    np.testing.assert_allclose(mean[0], B * p.sum(), rtol=1e-12)
    np.testing.assert_allclose(variance[0], ((B**2 + Var) * (p**2 + spread) - B**2 * p**2).sum(), rtol=1e-12)
    np.testing.assert_allclose(np.stack(moments(fit, "visits", rows[1:]))[:, 0], [mean[1], variance[1]], rtol=1e-12)


def test_an_unknown_entity_takes_the_average_of_priors_that_differ_by_entity():
    B = np.array([[1.0], [2.0], [6.0]]) * np.ones((1, 2))
    prior = FIT.prior | {"U": plait.Gamma(np.full((3, 1), 0.5), B)}
    fit = replace(FIT, prior=prior)
    _, rows = rows_of(fit, "visits", {"user": ["eve"], "place": ["zoo"]}, unknown="prior")
    mean, _ = moments(fit, "visits", rows)
    np.testing.assert_allclose(mean, 3.0 * fit.factors["P"].mean[rows[0, 1]].sum(), rtol=1e-12)


def test_a_factor_of_two_indices_takes_the_prior_where_either_is_unknown():
    X = np.random.default_rng(0).poisson(2.0, (3, 4, 2))
    fit = plait.fit("X[i,j,k] = H[i,k,r] B[j,r]", {"X": X}, rank=2, seed=0, sweeps=2)
    A = np.arange(1.0, 7.0).reshape(3, 2, 1)
    fit = replace(fit, prior=fit.prior | {"H": plait.Gamma(A, A + 1)})
    rows = np.array([[-1, 0, 1], [2, 0, -1], [-1, 0, -1], [2, 0, 1]])
    mean, variance = moments(fit, "X", rows)
    B = fit.factors["B"].mean[0].sum()
    wanted = [(A + 1)[:, 1].mean(), (A + 1)[2].mean(), (A + 1).mean()]
    np.testing.assert_allclose(mean[:3], np.array(wanted) * B, rtol=1e-12)
    np.testing.assert_allclose(mean[3], (fit.factors["H"].mean[2, 1] * fit.factors["B"].mean[0]).sum(), rtol=1e-12)
    assert (variance > 0).all()


def test_all_columns_of_an_unknown_name_are_finite_and_the_known_cells_do_not_change():
    cells = {"user": ["eve", "ann", "bob"], "place": ["zoo", "spa", "bar"]}
    found = FIT.predict("visits", cells, unknown="prior")
    for name in ("mean", "sd", "probability", "low", "high"):
        assert np.isfinite(found[name].to_numpy()).all()
    known = FIT.predict("visits", {"user": ["bob"], "place": ["bar"]})
    np.testing.assert_allclose(found.row(2)[2:], known.row(0)[2:], rtol=1e-12)


def test_where_there_is_no_prior_an_unknown_name_is_refused_with_a_cure():
    em = fitted(method="em")
    with pytest.raises(plait.SettingError, match=r"EM, which has no prior.*\n.*method=\"vb\""):
        em.predict("visits", {"user": ["eve"], "place": ["zoo"]}, unknown="prior")
    given = fitted(fixed={"U": np.ones((3, 2))})
    with pytest.raises(plait.SettingError, match="U given, which has no prior"):
        given.predict("visits", {"user": ["eve"], "place": ["zoo"]}, unknown="prior")
    assert len(given.predict("visits", {"user": ["ann"], "place": ["spa"]}, unknown="prior")) == 1


def test_an_unknown_name_without_an_exposure_is_refused_but_only_where_the_exposure_depends_on_it():
    text = "visits[user,place] = U[user,r] P[place,r] V[user]"
    fit = plait.fit(text, {"visits": VISITS}, rank=2, seed=0, sweeps=2, fixed={"V": np.array([1.0, 2.0, 3.0])})
    with pytest.raises(plait.DataError, match="exposure that depends on user"):
        fit.predict("visits", {"user": ["eve"], "place": ["zoo"]}, unknown="prior")
    found = fit.predict("visits", {"user": ["bob", "ann"], "place": ["spa", "spa"]}, unknown="prior")
    bob, ann = ((fit.factors["U"].mean[row] * fit.prior["P"].mean.ravel()).sum() for row in (1, 0))
    assert found["mean"][0] / found["mean"][1] == pytest.approx(2.0 * bob / ann)
