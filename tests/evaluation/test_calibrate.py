"""Fit.calibrate: the regression against scipy.optimize, and laws of calibrated probabilities."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

import plait
from plait.analysis.predict.prediction import columns, neg_log_p_zero
from plait.errors import DataError, ParameterError
from plait.evaluation.calibrate import SHRINKAGE, log_likelihood, newton, regress
from plait.evaluation.negative_sampling import KnownLinks, count_non_links, uniform
from plait.storage.calibration import Calibration
from plait.storage.fitted import structural_zeros_of
from tests.support.evaluating import INDICES, MODEL, fit_counts
from tests.support.posteriors import cp_fit, cp_rates, random_cp

SMALL = plait.Relation(
    (np.random.default_rng(0).random((8, 7, 5)) < 0.3).astype(float), indices=INDICES, likelihood="bernoulli"
)
CURVE = Calibration(0.4, 0.7, 100, 1000, 0.1, 0.01)


def drawn(n, b, slope, seed=0):
    """Λ of n cells, and links drawn from exp(b) Λ^slope."""
    rng = np.random.default_rng(seed)
    miss = np.exp(rng.normal(-2.0, 1.5, n))
    return miss, rng.random(n) < -np.expm1(-np.exp(b) * miss**slope), rng


@pytest.fixture(scope="module")
def held_out():
    return {kind: fit_counts(kind) for kind in ("bernoulli", "poisson")}


def with_curve(fit, curve=CURVE):
    return replace(fit, calibration={"X": curve})


# --- regression


@pytest.mark.parametrize("seed", range(3))
def test_newton_finds_the_maximum_that_scipy_finds(seed):
    miss, link, rng = drawn(400, 0.5, 0.6, seed)
    weights = np.where(link, 1.0, rng.uniform(0.5, 30.0))

    def loss(theta):
        shown = np.exp(theta[0]) * miss ** np.exp(theta[1])
        terms = np.where(link, np.log(-np.expm1(-shown)), -shown)
        return -(weights @ terms) - SHRINKAGE * (theta[1] - np.exp(theta[1]) + 1)

    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-10, "maxiter": 4000})
    b, slope = newton(np.log(miss), link, weights)
    np.testing.assert_allclose((b, slope), (best.x[0], np.exp(best.x[1])), rtol=1e-4, atol=1e-5)


def test_a_known_distortion_is_found_and_probabilities_that_are_right_stay():
    miss, link, rng = drawn(20_000, 0.8, 0.5)
    found = regress(miss, link, np.ones(len(miss)), rng)
    assert found.intercept == pytest.approx(0.8, abs=0.1)
    assert found.slope == pytest.approx(0.5, abs=0.05)
    assert found.gain > 5 * found.gain_error
    identities = [regress(*drawn(2000, 0.0, 1.0, n)[:2], np.ones(2000), np.random.default_rng(n)) for n in range(20)]
    assert sum(one.is_identity for one in identities) >= 16
    assert all(abs(one.intercept) < 0.4 and abs(one.slope - 1) < 0.3 for one in identities)


def test_a_zero_of_weight_w_counts_as_w_zeros():
    miss, link, _ = drawn(500, 0.3, 0.8)
    thrice = [np.concatenate([part, np.repeat(part[~link], 2)]) for part in (np.log(miss), link)]
    np.testing.assert_allclose(
        newton(np.log(miss), link, np.where(link, 1.0, 3.0)), newton(*thrice, np.ones(len(thrice[0]))), rtol=1e-9
    )


@pytest.mark.parametrize("link", [[True, False], [True] * 5, [False] * 5])
def test_too_few_cells_to_cross_validate_change_nothing(link):
    found = regress(np.full(len(link), 0.1), np.array(link), np.ones(len(link)), np.random.default_rng(0))
    assert found.is_identity


def test_extreme_rates_are_no_obstacle():
    miss = np.array([1e-300, 1e-200, 1e-9, 1e-3, 1.0, 50.0, 1e5, 0.0] * 20)
    link = np.array([0, 0, 0, 1, 1, 1, 1, 1] * 20, bool)
    found = regress(miss, link, np.ones(len(miss)), np.random.default_rng(0))
    assert np.isfinite([found.intercept, found.slope, found.gain]).all()
    assert found.slope > 0
    assert found.links == 80
    assert np.isfinite(log_likelihood(np.array([-800.0, 800.0]), np.array([False, True]))).all()


def test_the_curve_keeps_0_and_infinity():
    np.testing.assert_array_equal(CURVE.apply(np.array([0.0, np.inf])), [0.0, np.inf])
    np.testing.assert_allclose(CURVE.apply(np.array([2.0])), np.exp(0.4) * 2**0.7)
    at, step = np.array([0.01, 0.3, 4.0]), 1e-6
    p, shown = -np.expm1(-np.array([at - step, at + step])), -np.expm1(-CURVE.apply(np.array([at - step, at + step])))
    np.testing.assert_allclose(CURVE.probability_slope(at), (shown[1] - shown[0]) / (p[1] - p[0]), rtol=1e-5)


# --- predictions


@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_probabilities_follow_the_curve_and_rates_stay(held_out, kind):
    fit, test = held_out[kind]
    cells = test.drop("value")
    raw, found = fit.predict("X", cells), with_curve(fit).predict("X", cells)
    p = 1 - np.exp(-CURVE.apply(-np.log1p(-raw["probability"].to_numpy())))
    np.testing.assert_allclose(found["probability"], p, rtol=1e-9)
    if kind == "bernoulli":
        np.testing.assert_array_equal(found["mean"], found["probability"])
        for end in ("lower", "upper"):
            ends = 1 - np.exp(-CURVE.apply(-np.log1p(-raw[end].to_numpy())))
            np.testing.assert_allclose(found[end], ends, rtol=1e-9, atol=1e-12)
        assert (found["lower"] <= found["upper"]).all()
        assert (found["sd"] ** 2 <= found["mean"] * (1 - found["mean"]) + 1e-12).all()
        assert found["rate"].equals(raw["rate"])
    else:
        assert found.select("mean", "sd").equals(raw.select("mean", "sd"))
    assert with_curve(fit, replace(CURVE, intercept=0.0, slope=1.0)).predict("X", cells).equals(raw)


@pytest.mark.parametrize("curve", [CURVE, replace(CURVE, intercept=-0.7, slope=1.4)])
@pytest.mark.parametrize(("factors", "means"), [(1, (-2.0, 1.0)), (3, (-2.0, 1.0)), (3, (1.0, 4.0))])
def test_ends_of_counts_are_quantiles_of_zero_or_a_positive_count(factors, means, curve):
    rng = np.random.default_rng(factors)
    C, E = random_cp(factors, 3, 6, rng, means=means)
    fit, rows = cp_fit(factors, C, E)
    found = columns(with_curve(fit, curve), "X", rows)
    for n in range(len(rows)):
        x = rng.poisson(cp_rates(C[n], E[n], 40_000, rng))
        p = found["probability"][n]
        some = x[x > 0]
        for end, level in ((found["lower"][n], 0.05), (found["upper"][n], 0.95)):
            below, upto = ((1 - p) * (end > 0) + p * (some < end).mean(), 1 - p + p * (some <= end).mean())
            assert below < level + 0.03
            assert upto > level - 0.03


def test_ensembles_calibrate_the_mixture():
    relation, test = plait.train_test_split(SMALL, fraction=0.3, seed=0)
    fit = plait.fit(MODEL, {"X": relation}, rank=2, restarts=2, max_iter=5, warmup=0, seed=0)
    cells = test.drop("value")
    raw, found = fit.predict("X", cells), with_curve(fit).predict("X", cells)
    p = 1 - np.exp(-CURVE.apply(-np.log1p(-raw["probability"].to_numpy())))
    np.testing.assert_allclose(found["probability"], p, rtol=1e-9)
    ends = 1 - np.exp(-CURVE.apply(-np.log1p(-raw["upper"].to_numpy())))
    np.testing.assert_allclose(found["upper"], ends, rtol=1e-9)
    with_test = fit.calibrate("X", test)
    assert set(with_test.calibration) == {"X"}
    assert not any(member.calibration for member in with_test.members)


@pytest.mark.parametrize("options", [{}, {"given": {"i": 1}}, {"per": "i"}])
@pytest.mark.parametrize("score", ["mean", "probability"])
@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_top_has_the_same_links_in_the_same_order(held_out, kind, score, options):
    fit, _ = held_out[kind]
    curve = replace(CURVE, intercept=12.0)  # rounds many probabilities to 1
    raw, found = (one.top("X", 7, score=score, **options) for one in (fit, with_curve(fit, curve)))
    indices = fit.model.equation("X").indices
    assert raw.select(indices).equals(found.select(indices))
    p = with_curve(fit, curve).predict("X", found.select(indices))["probability"]
    assert found["probability"].equals(p)


def test_other_queries_use_the_calibration(held_out):
    fit, _ = held_out["bernoulli"]
    calibrated = with_curve(fit)
    indices = fit.model.equation("X").indices
    raw, found = (one.surprising("X", 3) for one in (fit, calibrated))
    assert raw.select(indices).equals(found.select(indices))
    rows = np.argwhere(np.ones(fit.known["X"].shape))[:4]
    np.testing.assert_allclose(neg_log_p_zero(calibrated, "X", rows), CURVE.apply(neg_log_p_zero(fit, "X", rows)))
    cell = {index: fit.entities[index][0] for index in indices}
    p = calibrated.predict("X", {index: [name] for index, name in cell.items()})["probability"][0]
    assert calibrated.explain("X", cell).prediction["probability"] == pytest.approx(p)


@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_evaluate_and_compare_use_the_calibration(held_out, kind):
    fit, test = held_out[kind]
    calibrated, link = with_curve(fit), (test["value"] > 0).to_numpy()
    raw, found = plait.evaluate(fit, "X", test, target="i"), plait.evaluate(calibrated, "X", test, target="i")
    predicted, before = (one.predict("X", test.drop("value"))["probability"].to_numpy() for one in (calibrated, fit))
    assert found["brier"] == pytest.approx(np.mean((predicted - link) ** 2))
    change = np.where(link, np.log(predicted / before), np.log1p(-predicted) - np.log1p(-before))
    assert found["log_likelihood"] - raw["log_likelihood"] == pytest.approx(change.mean(), abs=1e-6)
    assert found["roc_auc"] == raw["roc_auc"]
    assert found["mrr"] == raw["mrr"]
    both = plait.compare({"raw": fit, "calibrated": calibrated}, "X", test)
    assert both.differences["calibrated"]["brier"].value == pytest.approx(found["brier"] - raw["brier"])


# --- held-out cells


def test_evaluate_says_where_probabilities_of_a_random_sample_of_cells_are_wrong():
    likely = plait.Relation(np.random.default_rng(0).random((40, 30)) < 0.5, likelihood="bernoulli")
    text = "X[i,j] = A[i,r] B[j,r]"
    split = plait.train_test_split({"X": likely}, "X", fraction=0.5, seed=0, model=text)
    fit = plait.fit(text, split.train, rank=1, seed=0, max_iter=5, warmup=0)
    wrong = with_curve(fit, replace(CURVE, intercept=-0.7, slope=1.0))
    links, zeros = (split.test.filter((pl.col("value") > 0) == kind) for kind in (True, False))
    sampled = pl.concat([links, zeros.head(60)])
    said = [" ".join(plait.evaluate(*given).notes) for given in ((fit, "X", split.test), (wrong, "X", sampled))]
    assert not any("÷" in notes for notes in said)
    ratio = wrong.predict("X", split.test)["probability"].sum() / len(links)  # one bin has all
    assert plait.evaluate(wrong, "X", split.test).notes == (
        f"predicted ÷ observed links are {ratio:.2f} in bins of 200 links: `calibrate` on held-out cells corrects "
        "probabilities",
    )


def test_calibrating_improves_held_out_probabilities_where_links_were_thinned():
    rng = np.random.default_rng(0)
    U, P = rng.gamma(1.0, 1.0, (60, 2)), rng.gamma(1.0, 0.3, (50, 2))
    X = (rng.random((60, 50)) < -np.expm1(-U @ P.T)).astype(float)
    hidden = rng.random(X.shape) < 0.4
    shown = np.where(hidden, np.nan, X * (rng.random(X.shape) < 0.5))  # half of the links are recorded
    fit = plait.fit("X[i, j] = A[i, r] B[j, r]", {"X": plait.Relation(shown, likelihood="bernoulli")}, rank=2, seed=0,
                    max_iter=5, warmup=0)  # fmt: skip
    table = pl.DataFrame({"i": np.nonzero(hidden)[0], "j": np.nonzero(hidden)[1], "value": X[hidden]})
    first, second = table[::2], table[1::2]
    calibrated = fit.calibrate("X", first)
    curve = calibrated.calibration["X"]
    assert 0.2 < curve.intercept < 1.5
    assert (curve.links, curve.zeros) == (int(first["value"].sum()), int((first["value"] == 0).sum()))
    before, after = (plait.evaluate(one, "X", second) for one in (fit, calibrated))
    assert after["log_likelihood"] > before["log_likelihood"]
    assert after["calibration_error"] < before["calibration_error"]
    again = calibrated.calibrate("X", first)  # from the posterior, not from the calibrated probabilities
    assert again.calibration == calibrated.calibration
    assert fit.calibration == {}


def test_zeros_that_are_not_listed_are_drawn_and_stand_for_all(held_out):
    fit, test = held_out["bernoulli"]
    links = test.filter(pl.col("value") > 0)
    listed = fit.calibrate("X", test, zeros="all").calibration["X"]
    drawn = fit.calibrate("X", links).calibration["X"]
    assert (drawn.links, drawn.zeros) == (listed.links, 10_000)
    few = pl.concat([links, test.filter(pl.col("value") == 0)[:2]])
    with pytest.raises(DataError, match=r"zeros, but about .* are expected for .* held-out links") as caught:
        fit.calibrate("X", few)
    assert 'zeros="sample"' in caught.value.hint
    assert fit.calibrate("X", few, zeros="sample").calibration["X"].zeros == 2


def test_what_cannot_calibrate_is_refused(held_out):
    fit, test = held_out["bernoulli"]
    with pytest.raises(DataError, match="no links"):
        fit.calibrate("X", test.filter(pl.col("value") == 0))
    with pytest.raises(DataError, match="the table is empty"):
        fit.calibrate("X", test.head(0))
    indices = fit.model.equation("X").indices
    cells = fit.known["X"].cells[:3]
    known = pl.DataFrame({index: [fit.entities[index][int(n)] for n in cells[:, k]] for k, index in enumerate(indices)})
    with pytest.raises(DataError, match="3 of 3 links are in the training data"):
        fit.calibrate("X", known)
    with pytest.raises(ParameterError, match="zeros"):
        fit.calibrate("X", test, zeros="some")
    with pytest.raises(ParameterError, match="seed"):
        fit.calibrate("X", test, seed=-1)


@pytest.mark.parametrize("listed", [True, False])
def test_non_links_are_counted(held_out, tuning, listed):
    fit, _ = held_out["bernoulli"]
    known = fit.known["X"]
    links = KnownLinks(known, structural_zeros_of(fit, "X"), known.cells[:0], INDICES)
    if not listed:
        tuning(max_negatives_listed=0)
    exact = len(np.unique(uniform(links, 10_000, np.random.default_rng(0)), axis=0))
    assert count_non_links(links) == (exact if listed else pytest.approx(exact, rel=0.02))


# --- storage


def test_saved_fits_keep_their_calibration_bitwise(held_out, tmp_path):
    fit, test = held_out["bernoulli"]
    calibrated = with_curve(fit, replace(CURVE, intercept=1 / 3, gain=2 / 7))
    calibrated.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert loaded.calibration == calibrated.calibration
    cells = test.drop("value")
    assert loaded.predict("X", cells).equals(calibrated.predict("X", cells))
    fit.save(tmp_path / "run", replace=True)
    assert plait.load(tmp_path / "run").calibration == {}


def test_new_data_keep_the_calibration(held_out):
    fit, test = held_out["poisson"]
    calibrated = with_curve(fit)
    old = test.filter(pl.col("value") > 0)[:1]
    new = pl.DataFrame({"i": [99], "j": old["j"], "k": old["k"], "value": [2.0]})
    for learn, rows in ((plait.Fit.update, old), (plait.Fit.fold_in, new)):
        raw, found = learn(fit, {"X": rows}, iterations=1), learn(calibrated, {"X": rows}, iterations=1)
        assert found.calibration == {"X": CURVE}
        cells = rows.drop("value")
        p = raw.predict("X", cells)["probability"].to_numpy()
        np.testing.assert_allclose(found.predict("X", cells)["probability"], 1 - np.exp(-CURVE.apply(-np.log1p(-p))))


def test_one_held_out_link_is_one_link():
    assert str(Calibration(0.0, 1.0, 1, 1_000, 0.0, 0.0)).endswith("by 1 held-out link and 1,000 zeros")
