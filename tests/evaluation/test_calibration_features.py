"""Fit.calibrate with features: the regression, and predictions, searches and rankings that follow it."""

from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

import plait
from plait.errors import DataError, InexactSearchWarning, ParameterError, StorageError
from plait.evaluation.calibrate import SHRINKAGE, newton, regress
from plait.storage.calibration import Calibration, CalibrationFeature

SIZES = {"u": 9, "a": 8, "h": 5}
MODEL = "X[u, a, h] = U[u, r] A[a, r] H[h, r]"
CELLS = pl.DataFrame(list(product(*map(range, SIZES.values()))), schema=list(SIZES), orient="row")
PATHS = pl.DataFrame({"u": [0, 1, 1, 7], "h": [1, 1, 4, 0], "paths": [2.0, 1.0, 5.0, 0.25]})


def layered(fit, slope=0.6, relation="X"):
    """The fit with a calibration by counts of one and two indices, and by a table."""
    table = np.array([[0, 1], [1, 1], [1, 4], [7, 0]])
    features = (
        CalibrationFeature("links of a", (1,), -0.4, 0.5),
        CalibrationFeature("links of u and a", (0, 1), 1.3, 0.5),
        CalibrationFeature("paths", (0, 2), 0.7, 0.1, table, PATHS["paths"].to_numpy()),
    )
    return replace(fit, calibration={relation: Calibration(-0.5, slope, 10, 20, 0.1, 0.01, features)})


@pytest.fixture(scope="module", params=["bernoulli", "poisson"])
def fit(request):
    rng = np.random.default_rng(0)
    habit = rng.random((9, 8, 1)) < 0.3
    table = pl.DataFrame(np.argwhere(rng.random((9, 8, 5)) < 0.05 + 0.5 * habit), schema=list(SIZES), orient="row")
    entities = {index: range(size) for index, size in SIZES.items()}
    data = {"X": plait.Relation(table, unseen="zero", likelihood=request.param)}
    return plait.fit(MODEL, data, rank=2, max_iter=5, warmup=0, entities=entities, seed=0)


# --- features


def test_counts_are_those_of_other_links(fit):
    X = np.zeros(tuple(SIZES.values()))
    known = fit.known["X"]
    X[tuple(known.cells.T)] = 1
    rows = CELLS.to_numpy()
    for places in ((0,), (1,), (0, 1), (1, 2)):
        sums = X.sum(axis=tuple({0, 1, 2} - set(places)), keepdims=True) - X
        found = CalibrationFeature("", places, 1.0, 0.5).log_values(known, rows)
        np.testing.assert_allclose(np.exp(found), sums[tuple(rows.T)] + 0.5)
    unknown = CalibrationFeature("", (0,), 1.0, 0.5).log_values(known, np.array([[-1, 2, 3]]))
    np.testing.assert_allclose(np.exp(unknown), 0.5)


def test_an_undirected_pair_has_the_features_of_both_ends():
    table = pl.DataFrame({"a": ["p", "p", "q"], "b": ["q", "s", "s"]})
    relation = plait.Relation(table, unseen="zero", likelihood="bernoulli")
    options = {"rank": 1, "max_iter": 5, "warmup": 0, "entities": {"a": ["p", "q", "s", "t"]}}
    fit = plait.fit("X[a, b] = U[a, r] U[b, r]\nb: a", {"X": relation}, **options)
    p, t = fit.entities["a"].encode(["p", "t"])
    feature = CalibrationFeature("links of a", (0,), 1.0, 0.5)
    for cell in ([[p, t]], [[t, p]]):
        np.testing.assert_allclose(feature.log_values(fit.known["X"], np.array(cell)), np.log(2.5 * 0.5) / 2)
    held_out = pl.DataFrame({"a": ["p", "q"], "b": ["t", "t"], "value": [1, 0]})
    assert fit.calibrate("X", held_out, features="counts", zeros="all").calibration["X"].is_identity


# --- regression


def test_newton_with_features_finds_the_maximum_that_scipy_finds():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 400)) * [[1.0], [2.0], [0.5]] - 1
    link = rng.random(400) < -np.expm1(-np.exp([0.7, 0.5, -0.3] @ x))
    size = x[1:].std(axis=1)

    def loss(theta):
        log = theta[0] + theta[1:] @ x
        shrunk = np.log(theta[1]) - theta[1] + 1 - ((theta[2:] * size) ** 2).sum() / 2
        return -np.where(link, np.log(-np.expm1(-np.exp(log))), -np.exp(log)).sum() - SHRINKAGE * shrunk

    best = minimize(
        loss, [0.0, 1.0, 0.0, 0.0], method="L-BFGS-B", bounds=[(None, None), (1e-3, None), *[(None, None)] * 2]
    )
    np.testing.assert_allclose(newton(x, link, np.ones(400)), best.x, atol=1e-3)


def test_features_are_used_where_they_help_and_not_where_they_are_noise():
    used = []
    for seed, coefficient in product(range(10), (0.0, 1.0)):
        rng = np.random.default_rng(seed)
        miss, f = np.exp(rng.normal(-2.0, 1.0, 1500)), rng.exponential(size=1500)
        link = rng.random(1500) < -np.expm1(-miss * f**coefficient)
        own = CalibrationFeature("f", (0,), 0.0, 0.01)
        found = regress(miss, link, np.ones(1500), rng, [own], [np.log(f + 0.01)])
        used.append((coefficient, bool(found.features)))
        if coefficient:
            assert found.features[0].coefficient == pytest.approx(1.0, abs=0.25)
    assert sum(is_used for coefficient, is_used in used if coefficient) == 10
    assert sum(is_used for coefficient, is_used in used if not coefficient) <= 3


def test_habits_that_the_model_lacks_are_found_in_counts():
    rng = np.random.default_rng(1)
    habit = rng.random((30, 25, 1)) < 0.1
    X = rng.random((30, 25, 8)) < np.where(habit, 0.5, 0.02)
    table = pl.DataFrame(np.argwhere(X), schema=list(SIZES), orient="row")
    entities = {index: range(size) for index, size in zip(SIZES, X.shape)}
    options = {"model": MODEL, "entities": entities}
    relation = plait.Relation(table, unseen="zero", likelihood="bernoulli")
    rest, test = plait.train_test_split({"X": relation}, "X", fraction=0.3, seed=0, **options)
    train, held_out = plait.train_test_split(rest, "X", fraction=0.3, seed=1, **options)
    fit = plait.fit(MODEL, train, rank=2, max_iter=5, warmup=0, entities=entities, seed=0)
    plain, found = (fit.calibrate("X", held_out, features=features) for features in (None, "counts"))
    names = [own.name for own in found.calibration["X"].features]
    assert names == [
        "links of u",
        "links of a",
        "links of h",
        "links of u and a",
        "links of u and h",
        "links of a and h",
    ]
    scores = [plait.evaluate(one, "X", test) for one in (plain, found)]
    assert scores[1]["average_precision"] > 1.5 * scores[0]["average_precision"]
    assert scores[1]["log_likelihood"] > scores[0]["log_likelihood"]


# --- answers


def test_probabilities_follow_the_layer(fit):
    own = layered(fit)
    before, found = fit.predict("X", CELLS), own.predict("X", CELLS)
    shift = sum(f.coefficient * f.log_values(fit.known["X"], CELLS.to_numpy()) for f in own.calibration["X"].features)
    shown = np.exp(-0.5 + shift) * (-np.log1p(-before["probability"].to_numpy())) ** 0.6
    np.testing.assert_allclose(found["probability"], -np.expm1(-shown), rtol=1e-9)
    assert (found["lower"] <= found["upper"]).all()
    if fit.likelihood["X"].binary:
        np.testing.assert_array_equal(found["mean"], found["probability"])
    else:
        assert found.select("mean", "sd").equals(before.select("mean", "sd"))


@pytest.mark.parametrize("all_cells", [2**20, 0])
@pytest.mark.parametrize("query", [{}, {"given": {"u": 3}}, {"per": "u"}, {"per": ["u", "h"]}, {"include_known": True}])
def test_top_is_the_order_of_probabilities(fit, query, all_cells, tuning):
    tuning(all_cells=all_cells)
    own = layered(fit)
    found = own.top("X", k=4, score="probability", **query)
    table = own.predict("X", CELLS).with_columns(known=fit.known["X"].contain(CELLS.to_numpy()))
    table = table.filter(~pl.col("known") | query.get("include_known", False))
    for index, name in query.get("given", {}).items():
        table = table.filter(pl.col(index) == name)
    table = table.sort("probability", descending=True)
    per = [query["per"]] if isinstance(query.get("per"), str) else query.get("per", [])
    expected = table.group_by(per, maintain_order=True).head(4).sort(per, maintain_order=True) if per else table.head(4)
    np.testing.assert_allclose(found["probability"], expected["probability"], rtol=1e-12)


def test_a_search_that_ends_early_says_so(fit, tuning):
    tuning(all_cells=0, max_calibrated_cells=0)
    with pytest.warns(InexactSearchWarning, match="X: the list may lack some links"):
        assert len(layered(fit).top("X", k=2, score="probability")) == 2
    layered(fit).top("X", k=2, score="rate")


def test_evaluate_ranks_by_the_layer(fit):
    new = CELLS.filter(~pl.Series(fit.known["X"].contain(CELLS.to_numpy())))
    test = new.with_columns(value=(pl.col("u") + pl.col("a") + 2 * pl.col("h")) % 7 == 0).cast(pl.Int64)
    links = test.filter(pl.col("value") == 1).drop("value").to_numpy()
    feature = CalibrationFeature("truth", (0, 1, 2), 30.0, 0.1, links, np.ones(len(links)))
    own = replace(fit, calibration={"X": Calibration(0.0, 0.1, 1, 1, 0.0, 0.0, (feature,))})
    metrics = plait.evaluate(own, "X", test, score="probability", target="a")
    assert metrics["roc_auc"] == 1.0
    assert metrics["mrr"] == 1.0
    assert plait.evaluate(own, "X", test, score="rate")["roc_auc"] < 0.9


def test_runs_keep_features_and_refuse_damaged_ones(fit, tmp_path):
    own = layered(fit)
    own.save(tmp_path / "run")
    found = plait.load(tmp_path / "run")
    assert found.predict("X", CELLS).equals(own.predict("X", CELLS))
    assert str(found.calibration["X"]) == str(own.calibration["X"])
    feature = own.calibration["X"].features[-1]
    damaged = replace(own.calibration["X"], features=(replace(feature, cells=feature.cells + 90),))
    replace(own, calibration={"X": damaged}).save(tmp_path / "other")
    with pytest.raises(StorageError, match="invalid row numbers"):
        plait.load(tmp_path / "other")


def test_new_entities_have_the_features_of_their_links(fit):
    own, new = layered(fit), {"X": pl.DataFrame({"u": [99, 99], "a": [2, 2], "h": [1, 4], "value": [1, 1]})}
    cell = {"u": [99], "a": [2], "h": [0]}
    alone, folded = own.predict("X", cell, new_entities=new), own.fold_in(new).predict("X", cell)
    np.testing.assert_allclose(alone["probability"], folded["probability"], rtol=1e-9)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("count", r"`features` must be 'counts', or a dict of tables, got 'count'\.\nDid you mean 'counts'"),
        ({"": PATHS}, "must be a dict with names as keys"),
        ({"paths": PATHS.drop("u", "h")}, "a column for one or more of u, a, h, and one of values; got 'paths'"),
        ({"paths": PATHS.with_columns(x=1)}, "one of values; got"),
        ({"paths": PATHS.with_columns(-pl.col("paths"))}, "values must be finite and at least 0, got -2.0"),
        ({"paths": PATHS.with_columns(pl.col("u") + 100)}, "no row has a value above 0"),
        ({"paths": pl.concat([PATHS, PATHS.with_columns(pl.col("paths") + 1)])}, "a cell has two values"),
    ],
)  # fmt: skip
def test_wrong_features_are_refused(fit, features, message):
    test = CELLS.filter(~pl.Series(fit.known["X"].contain(CELLS.to_numpy()))).head(40).with_columns(value=1)
    with pytest.raises((DataError, ParameterError), match=message):
        fit.calibrate("X", test, features=features)
