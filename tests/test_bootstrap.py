"""Bootstrapped ensembles: reweighed links, the shown member, resuming."""

import numpy as np
import polars as pl
import pytest
import scipy.stats

import plait
from plait.analysis.explain.counterfactual import losses
from plait.data.binding.known import reweighed
from plait.data.sparse.cell_draws import Draws
from tests.support.problems import bits

CP = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
SHAPE = (7, 6, 5)
CELLS = {"i": [0, 1, 6], "j": [5, 0, 2], "k": [4, 4, 0]}


def data(likelihood="poisson"):
    rng = np.random.default_rng(0)
    X = rng.poisson(np.einsum("ir,jr,kr->ijk", *(rng.gamma(0.5, 1.5, (size, 2)) for size in SHAPE))).astype(float)
    X = np.minimum(X, 1.0) if likelihood == "bernoulli" else X
    X[1, 2, 3] = np.nan
    return plait.Model(CP).bind({"X": plait.Relation(X, likelihood=likelihood)})


def fitted(likelihood="poisson", **options):
    common = {"rank": 3, "seed": 2, "max_iter": 30, "tol": 0.0, "restarts": 3, "bootstrap": True}
    return plait.fit(CP, data(likelihood), **common | options)


def test_only_links_are_weighed_by_draws_of_mean_one():
    X = np.random.default_rng(1).poisson(0.3, (200, 100)).astype(float)
    X[5, 5] = np.nan
    bound = plait.Model("X[i,j] = A[i,r] B[j,r]").bind({"X": plait.Relation(X, weight=2.0)})
    relation = reweighed(bound, 4).relations["X"]
    every = np.argwhere(np.ones_like(X))
    M = relation.weights.at(every).reshape(X.shape)
    assert M[5, 5] == 0
    assert set(M[X == 0]) == {2.0}
    np.testing.assert_allclose(M[tuple(relation.cells.T)], relation.cell_weights, rtol=1e-9)
    draws = relation.cell_weights / 2.0
    assert draws.mean() == pytest.approx(1.0, abs=0.06)
    assert draws.std() == pytest.approx(1.0, abs=0.1)


def test_a_draw_depends_on_its_cell_alone():
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, size, 1000) for size in (300, 40_000, 7)]
    draws, order = Draws((5, 1))(columns), rng.permutation(1000)
    again = Draws((5, 1))([column[order].astype(kind) for column, kind in zip(columns, ("u2", "u4", "u1"))])
    assert np.array_equal(again, draws[order])
    assert not np.array_equal(Draws((5, 0))(columns), draws)
    assert abs(np.corrcoef(draws, Draws((6, 1))(columns))[0, 1]) < 0.1
    assert scipy.stats.kstest(draws, "expon").pvalue > 0.01


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_the_first_member_sees_the_data_and_the_others_weighed_links(likelihood):
    whole = fitted(likelihood)
    assert bits(whole.members[0]) == bits(fitted(likelihood, restarts=1, bootstrap=False))
    for member in whole.members[1:]:
        relation = reweighed(data(likelihood), member.seed).relations["X"]
        table = pl.DataFrame(dict(zip("ijk", relation.cells.T))).with_columns(
            value=relation.values, w=relation.cell_weights
        )
        missing = pl.DataFrame({"i": [1], "j": [2], "k": [3]})
        listed = plait.Relation(table, weight="w", likelihood=likelihood, missing=missing, unseen="zero")
        labels = {index: range(size) for index, size in zip("ijk", SHAPE)}
        alone = plait.fit(CP, {"X": listed}, entities=labels, rank=3, seed=member.seed, max_iter=30, tol=0.0)
        assert member.objective == pytest.approx(alone.objective, rel=1e-9)


def test_a_bootstrap_shows_its_first_member():
    whole = fitted()
    assert whole.objective != max(member.objective for member in whole.members)
    assert bits(whole) == bits(whole.members[0])
    assert "the first one, which has unweighted links" in str(whole)
    assert "below is the first one, which has unweighted links" in whole._repr_html_()


def test_a_bootstrapped_run_resumes(tmp_path):
    whole = fitted()
    fitted(max_iter=10, checkpoint=tmp_path / "run")
    again = fitted(init=str(tmp_path / "run"))
    assert [bits(member) for member in again.members] == [bits(member) for member in whole.members]
    assert plait.load(tmp_path / "run").predict("X", CELLS).equals(fitted(max_iter=10).predict("X", CELLS))
    with pytest.raises(plait.errors.ParameterError, match=r"its bootstrap differs \(True then, False now\)"):
        fitted(init=str(tmp_path / "run"), bootstrap=False)


@pytest.mark.thorough
def test_an_exact_explanation_weighs_links_as_each_member_does():
    whole, values = fitted(max_iter=300), data().relations["X"].values
    number = int(values.argmax())
    cell = data().relations["X"].cells[number].astype(np.int64)
    found = losses(whole, data(), "X", cell, [("X", number)], "missing")
    means, parts = [], []
    for member in whole.members:
        seen = data() if member.seed == whole.seed else reweighed(data(), member.seed)
        means.append(member.predict("X", {index: [row] for index, row in zip("ijk", cell)})["mean"][0])
        parts.append(losses(member, seen, "X", cell, [("X", number)], "missing"))
    np.testing.assert_allclose(found, np.average(parts, axis=0, weights=means), rtol=1e-3)
    assert np.ptp(parts) > 0.01


MISTAKES = [
    ({"restarts": 1}, "`bootstrap=True` requires `restarts` of at least 2, got 1"),
    ({"combine": "best"}, '`bootstrap=True` and `combine="best"` exclude each other'),
    ({"bootstrap": 1}, "`bootstrap` must be True or False, got 1"),
]


@pytest.mark.parametrize(("options", "message"), MISTAKES)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(plait.errors.ParameterError, match=message):
        fitted(**options)
