"""Curves of a test are those of scikit-learn, thinned where there are many points."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, poisson
from sklearn import metrics as sk

import plait
from plait.evaluation import metrics


def scored(n, levels, seed):
    """Links and scores, some of them tied."""
    rng = np.random.default_rng(seed)
    link = rng.random(n) < 0.3
    link[:2] = True, False
    score = rng.normal(link, 1.0)
    return link, np.round(score * levels) / levels if levels else score


def area(roc):
    return float(np.trapezoid(roc["true_positive_rate"], roc["false_positive_rate"]))


def steps(curve):
    return float(np.sum(np.diff(curve["recall"].to_numpy(), prepend=0.0) * curve["precision"].to_numpy()))


@settings(deadline=None)
@given(st.integers(2, 300), st.sampled_from([0, 1, 5]), st.integers(0, 1000))
def test_short_curves_equal_scikit_learn(n, levels, seed):
    link, score = scored(n, levels, seed)
    roc = metrics.roc(link, score)
    wrong, right, _ = sk.roc_curve(link, score, drop_intermediate=False)
    np.testing.assert_allclose(roc["false_positive_rate"], wrong)
    np.testing.assert_allclose(roc["true_positive_rate"], right)
    assert area(roc) == pytest.approx(sk.roc_auc_score(link, score))
    curve = metrics.precision_recall(link, score)
    precision, recall, _ = sk.precision_recall_curve(link, score)
    points = {(round(r, 12), round(p, 12)) for r, p in zip(recall, precision)}
    assert {(round(r, 12), round(p, 12)) for r, p, _ in curve.iter_rows()} <= points
    assert curve["recall"][-1] == 1.0
    assert steps(curve) == pytest.approx(sk.average_precision_score(link, score))


@pytest.mark.parametrize(("levels", "kept"), [(0, 1.0), (3, 1.0), (1000, 1.0), (0, 0.01)])
def test_long_curves_have_500_points_and_the_same_area(levels, kept):
    link, score = scored(200_000, levels, 1)
    link &= np.random.default_rng(0).random(len(link)) < kept  # few links among many cells
    roc, curve = metrics.roc(link, score), metrics.precision_recall(link, score)
    assert max(len(roc), len(curve)) <= 500
    assert (roc.row(0)[:2], roc.row(-1)[:2]) == ((0.0, 0.0), (1.0, 1.0))
    assert area(roc) == pytest.approx(sk.roc_auc_score(link, score), abs=1e-4 if kept == 1 else 1e-3)
    assert steps(curve) == pytest.approx(sk.average_precision_score(link, score), abs=2e-3)
    for table in (roc, curve):
        assert np.isfinite(table.to_numpy()).all()


def test_errors_are_those_of_shares():
    link, score = scored(300, 0, 3)
    links = int(link.sum())
    for _, right, error in metrics.roc(link, score).iter_rows():
        k = round(right * links)
        assert error == pytest.approx(beta.std(k + 0.5, links - k + 0.5))
        assert error == pytest.approx(np.sqrt(right * (1 - right) / links), abs=0.01)
    order = np.argsort(-score)
    for recall, precision, error in metrics.precision_recall(link, score).iter_rows():
        cells = 1 + int(np.flatnonzero(np.cumsum(link[order]) >= round(recall * links))[0])
        hits = round(precision * cells)
        assert error == pytest.approx(beta.std(hits + 0.5, cells - hits + 0.5))


@pytest.fixture(scope="module")
def measured():
    X = np.random.default_rng(0).poisson(0.6, (20, 15)).astype(float)
    train, test = plait.train_test_split(plait.Relation(X, indices=("i", "j")), fraction=0.3, by="cells", seed=0)
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": train}, rank=2, seed=0, max_iter=20)
    return fit, test, plait.evaluate(fit, "X", test)


def test_areas_of_curves_are_the_metrics(measured):
    fit, test, found = measured
    assert area(found.roc) == pytest.approx(found["roc_auc"])
    assert steps(found.precision_recall) == pytest.approx(found["average_precision"])
    score = fit.predict("X", test.drop("value"))["mean"].to_numpy()
    assert found["roc_auc"] == pytest.approx(sk.roc_auc_score(test["value"].to_numpy() > 0, score))


def test_the_baseline_is_popularity_on_the_same_test(measured):
    fit, test, found = measured
    links = fit.known["X"].cells
    degree = [np.bincount(links[:, n], minlength=size) for n, size in enumerate((20, 15))]
    score = [float(degree[0][i] * degree[1][j]) for i, j in test.select("i", "j").iter_rows()]
    link = test["value"].to_numpy() > 0
    assert list(found.baseline) == list(found)
    assert found.baseline["roc_auc"] == pytest.approx(sk.roc_auc_score(link, score))
    assert area(found.baseline.roc) == pytest.approx(found.baseline["roc_auc"])
    assert (found.baseline.links, found.baseline.zeros) == (found.links, found.zeros)
    assert found.baseline.calibration is None


def test_the_rates_of_popularity_add_up_to_the_known_values_over_observed_cells(measured):
    fit, test, found = measured
    known, observed = np.zeros((20, 15)), np.ones((20, 15))
    known[tuple(fit.known["X"].cells.astype(int).T)] = fit.known["X"].values
    at = test["i"].to_numpy(), test["j"].to_numpy()
    observed[at] = 0
    rate = np.outer(known.sum(axis=1) + 0.5, known.sum(axis=0) + 0.5)
    rate *= known.sum() / (observed * rate).sum()
    values = test["value"].to_numpy()
    assert found.baseline["log_likelihood"] == pytest.approx(poisson.logpmf(values, rate[at]).mean())
    assert found.baseline["brier"] == pytest.approx(np.mean((1 - np.exp(-rate[at]) - (values > 0)) ** 2))


def test_popularity_ranks_by_degrees(measured):
    fit, test, _ = measured
    found = plait.evaluate(fit, "X", test, target="j")
    degree = np.bincount(fit.known["X"].cells[:, 1].astype(int), minlength=15)
    links = test.filter(test["value"] > 0).select("i", "j").rows()
    own = np.array([degree[j] for _, j in links])
    above, tied = (degree > own[:, None]).sum(axis=1), (degree == own[:, None]).sum(axis=1) - 1
    assert found.baseline["mean_rank_raw"] == pytest.approx(np.mean(1 + above + tied / 2))


def test_a_bin_of_the_calibration_has_an_error_even_without_links(measured):
    table = measured[2].calibration
    for cells, observed, error in table.select("cells", "observed", "error").iter_rows():
        k = round(observed * cells)
        assert error == pytest.approx(beta.std(k + 0.5, cells - k + 0.5))
        assert error > 0


def test_without_zeros_there_is_no_curve(measured):
    fit, test, _ = measured
    found = plait.evaluate(fit, "X", test.filter(test["value"] > 0))
    assert (found.roc, found.precision_recall, found.baseline.roc) == (None, None, None)
    assert 0 < found.baseline["roc_auc_uniform"] < 1
