"""`Fit.surprising`: known links of the least probability and observed zeros of the greatest, found by a look at all."""

import itertools

import numpy as np
import polars as pl
import pytest

import plait
from tests.support.problems import make
from tests.support.sums import sum_fit


def dense(fit, relation, X, M):
    """All cells that are observed, in the order of their rows: value, prediction and kind; a pair of two names once."""
    equation = fit.model.equation(relation)
    cells = []
    for cell in itertools.product(*(range(len(fit.entities[index])) for index in equation.indices)):
        row = dict(zip(equation.indices, cell))
        in_order = all(row[i] < row[j] for i, j in equation.exchanged)
        if M[cell] > 0 and in_order:
            cells.append(row | {"x": float(X[cell])})
    table = pl.DataFrame(cells)
    return fit.predict(relation, table).with_columns(
        kind=pl.when(pl.col("x") > 0).then(pl.lit("link")).otherwise(pl.lit("zero"))
    )


def check(fit, relation, X, M, k):
    found, whole = fit.surprising(relation, k), dense(fit, relation, X, M)
    indices = list(fit.model.equation(relation).indices)
    columns = [name for name in whole.columns if name not in ("x", "kind", *indices)]
    assert found.columns == [*indices, "kind", "value", "surprise", *columns]
    for kind, sign in (("link", 1), ("zero", -1)):
        own, every = found.filter(pl.col("kind") == kind), whole.filter(pl.col("kind") == kind)
        best = every.sort(sign * pl.col("probability"), maintain_order=True).head(k)
        assert len(own) == len(best)
        np.testing.assert_allclose(own["probability"], best["probability"], rtol=1e-9)
        p = own["probability"].to_numpy()
        np.testing.assert_allclose(own["surprise"], -np.log(p if kind == "link" else 1 - p), rtol=1e-9, atol=1e-15)
        joined = own.join(every, on=indices, how="inner")
        assert len(joined) == len(own)
        assert joined["value"].to_list() == joined["x"].to_list()
        np.testing.assert_allclose(joined["mean"], joined["mean_right"], rtol=1e-14)
        assert own["surprise"].to_list() == sorted(own["surprise"], reverse=True)
    assert found["kind"].to_list() == sorted(found["kind"])


@pytest.mark.quick(name=["cp3"], k=[4])
@pytest.mark.parametrize("k", [1, 4, 1000])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("way", ["all", "missing_cells", "listed"])
@pytest.mark.parametrize("name", ["cp3", "tucker", "coupled_paper", "symmetric"])
@pytest.mark.filterwarnings("ignore::plait.errors.NoZerosWarning")
def test_links_and_zeros_are_the_least_expected_of_all_cells(name, way, likelihood, k):
    case = make(name, way, likelihood)
    fit = case.fit(max_iter=5)
    for relation in fit.model.relations:
        check(fit, relation, case.problem.X[relation], case.problem.M[relation], k)


@pytest.mark.parametrize("method", ["em", "map"])
def test_em_and_map_find_links_and_zeros(method):
    case = make("cp3", "missing_cells")
    check(case.fit(method, max_iter=5), "X", case.problem.X["X"], case.problem.M["X"], 5)


def test_an_ensemble():
    X = np.random.default_rng(0).poisson(1.0, (8, 7)).astype(float)
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, seed=0, max_iter=30, restarts=3)
    check(fit, "X", X, np.ones(X.shape), 6)


@pytest.mark.parametrize("name", ["pairwise", "evidence", "undirected"])
def test_sums_and_exposures(name):
    fit = sum_fit(name)
    equation = fit.model.equation("X")
    shape = [len(fit.entities[index]) for index in equation.indices]
    X, M = np.zeros(shape), np.ones(shape)
    known = fit.known["X"]
    X[tuple(known.cells.T)] = known.values
    cells = np.argwhere(M)
    V = [fit.exposures.at("X", number, cells) for number in range(len(equation.terms))]
    if all(one is not None for one in V):
        M = (sum(V) > 0).reshape(shape)
    check(fit, "X", X, M, 5)


def test_terms_with_a_sparse_factor_are_searched(boxes):
    rng = np.random.default_rng(0)
    X, N = rng.random((6, 5)) < 0.3, rng.random((6, 3, 5)) * (rng.random((6, 3, 5)) < 0.3)
    at = np.argwhere(N > 0)
    entries = pl.DataFrame(dict(zip("iqj", at.T)) | {"value": N[N > 0]})
    relation = plait.Relation(X.astype(float), likelihood="bernoulli")
    model = "X[i,j] = A[i,r] B[j,r] + w[q] N[i,q,j]"
    fit = plait.fit(model, {"X": relation}, rank=2, fixed={"N": entries}, seed=0, max_iter=5, warmup=0)
    check(fit, "X", X, np.ones(X.shape), 6)


def test_missing_cells_are_not_zeros():
    rng = np.random.default_rng(0)
    X = rng.poisson(np.outer(np.r_[5.0, 5.0, np.full(8, 0.3)], np.full(9, 1.0))).astype(float)
    X[:2] = np.where(X[:2] == 0, np.nan, X[:2])
    X[:2, 3:] = np.nan
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=1, seed=0, max_iter=30)
    zeros = fit.surprising("X", 5).filter(pl.col("kind") == "zero")
    assert len(zeros) == 5
    assert zeros["i"].min() > 1
    assert fit.top("X", 1)["i"][0] < 2


def test_no_zeros_are_found_if_none_was_observed():
    table = pl.DataFrame({"i": [0, 0, 1, 2], "j": [0, 1, 1, 0], "value": [1, 2, 1, 3]})
    fit = plait.fit(
        "X[i,j] = A[i,r] B[j,r]", {"X": plait.Relation(table, observed="listed")}, rank=1, seed=0, max_iter=10
    )
    found = fit.surprising("X")
    assert found["kind"].to_list() == ["link"] * 4
    assert sorted(found["value"]) == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("A", "X", "kind", "wanted"),
    [([[1.0], [1e-320]], [[1.0, 0.0], [1.0, 0.0]], 0, 708.4), ([[60.0], [1.0]], [[60.0, 0.0], [1.0, 1.0]], 1, None)],
    ids=["link of probability 0", "zero of probability 0"],
)
def test_extreme_surprises_are_finite(A, X, kind, wanted):
    how = {"rank": 1, "method": "em", "max_iter": 0, "seed": 0, "init": {"A": np.array(A), "B": np.ones((2, 1))}}
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.array(X)}, **how)
    rate = fit.predict("X", {"i": [0], "j": [1]})["mean"][0]
    assert wanted is not None or rate > 40
    found = fit.surprising("X", 1)["surprise"]
    assert found[kind] == pytest.approx(wanted, abs=0.1) if wanted else found[kind] == pytest.approx(rate)
    assert found.is_finite().all()


def test_index_names_come_first():
    table = pl.DataFrame({"kind": ["a", "b", "b"], "surprise": ["x", "x", "y"]})
    fit = plait.fit("X[kind, surprise] = A[kind, r] B[surprise, r]", {"X": table}, rank=1, seed=0, max_iter=5)
    assert fit.surprising("X").columns[:5] == ["kind", "surprise", "kind_", "value", "surprise_"]


def test_wrong_arguments_are_named():
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": np.eye(4)}, rank=1, seed=0, max_iter=5)
    assert len(fit.surprising("X", 0)) == 0
    with pytest.raises(plait.errors.ParameterError, match="k"):
        fit.surprising("X", -1)
    with pytest.raises(plait.PlaitError, match="Did you mean X"):
        fit.surprising("x")
