"""Fits under every likelihood, against a dense oracle written from the mathematics, and what they promise."""

import itertools

import numpy as np
import polars as pl
import pytest
from scipy.special import gammaln, logsumexp, psi

import plait
from plait.likelihood import Negbin, Tweedie
from tests.support.likelihood_own import Geometric
from tests.support.problems import bits

TEXT = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
SUM = "X[i,j,k] = A[i,r] B[j,r] C[k,r] + a[i] b[j] + v[k]"
P, SHAPE, SCALE = 0.8, 2.0, 3.0


def drawn(likelihood, sides=(30, 25, 20), seed=0, mean=0.3):
    """A dense array drawn from a CP of rank 2."""
    rng = np.random.default_rng(seed)
    rate = np.einsum("ir,jr,kr->ijk", *(rng.gamma(0.7, 1.0, (side, 2)) for side in sides))
    events = rng.poisson(mean * rate / rate.mean())
    some, x = events > 0, np.zeros(events.shape)
    if likelihood == "tweedie":
        x[some] = rng.gamma(SHAPE * events[some], SCALE)
    else:
        x[some] = [rng.logseries(P, count).sum() for count in events[some]]
    return x


def fit(X, likelihood, text=TEXT, **options):
    relation = plait.Relation(X, likelihood=likelihood)
    return plait.fit(text, {"X": relation}, **{"rank": 2, "seed": 1, **options})


# --- the oracle


def negbin_behind(x, rate, c):
    """E[n] and log Σ_n p(x|n) λⁿ/n!, by the closed form; p = 1 − e^−c."""
    r, p = rate / c, -np.expm1(-c)
    term = gammaln(x + r) - gammaln(r) - gammaln(x + 1) + x * np.log(p)
    return r * (psi(r + x) - psi(r)), term


def amounts_behind(x, rate, theta):
    """The same by summing over n = 1 … 400."""
    n = np.arange(1, 401)
    logs = n * (np.log(rate) + SHAPE * np.log(x / theta))[:, None] - gammaln(n + 1) - gammaln(n * SHAPE)
    whole = logsumexp(logs, axis=1)
    return np.exp(logs - whole[:, None]) @ n, whole - np.log(x) - x / theta


def burst_with_mean(mean):
    """c with (e^c − 1)/c = mean, by halves."""
    low, high = 1e-12, 50.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.expm1(middle) / middle < mean else (low, middle)
    return middle


ORACLES = {
    "negbin": (negbin_behind, lambda total, events: burst_with_mean(total / events)),
    "tweedie": (amounts_behind, lambda total, events: total / (SHAPE * events)),
}


def vb(X, means, likelihood, max_iter, A=0.5, B=10.0):
    """Bounds, posterior means and the parameter: dense VB of CP-3 in one pass, from posteriors around given means."""
    behind, best = ORACLES[likelihood]
    C, D = [np.full(z.shape, 10.0) for z in means], [z / 10.0 for z in means]
    at = np.nonzero(X)
    x, bounds = X[at], []
    parameter = best(x.sum(), len(x))
    for sweep in range(max_iter + 1):
        E, L = [c * d for c, d in zip(C, D)], [np.exp(psi(c)) * d for c, d in zip(C, D)]
        parts = np.prod([z[rows] for z, rows in zip(L, at)], axis=0)
        expected, term = behind(x, parts.sum(axis=1), parameter)
        bounds.append(term.sum() - np.einsum("ir,jr,kr->", *E) - sum(divergence(c, d, A, B) for c, d in zip(C, D)))
        if sweep == max_iter:
            return bounds, E, parameter
        parameter = best(x.sum(), expected.sum())
        shares = parts * (expected / parts.sum(axis=1))[:, None]
        for n in range(3):
            counts = np.zeros(means[n].shape)
            np.add.at(counts, at[n], shares)
            others = np.prod([E[m].sum(axis=0) for m in range(3) if m != n], axis=0)
            C[n], D[n] = A + counts, 1.0 / (A / B + others) + np.zeros(counts.shape)
            E[n] = C[n] * D[n]


def divergence(C, D, A, B):
    log = psi(C) + np.log(D)
    prior = (A - 1) * log - A / B * C * D + A * np.log(A / B) - gammaln(A)
    own = (C - 1) * log - C - C * np.log(D) - gammaln(C)
    return (own - prior).sum()


@pytest.mark.parametrize("likelihood", ["negbin", "tweedie"])
def test_bounds_posteriors_and_the_parameter_are_those_of_a_dense_vb(likelihood):
    X = drawn(likelihood, (9, 8, 7), mean=0.8)
    rng = np.random.default_rng(5)
    means = [rng.gamma(5.0, 0.1, (side, 2)) for side in X.shape]
    bounds, E, parameter = vb(X, means, likelihood, 12)
    own = Tweedie(shape=SHAPE) if likelihood == "tweedie" else likelihood
    given = dict(zip("ABC", means))
    found = fit(X, own, init=given, adapt_prior=None, max_iter=12, tol=0.0)
    np.testing.assert_allclose([record.objective for record in found.history], bounds, rtol=1e-9)
    for name, mean in zip("ABC", E):
        np.testing.assert_allclose(found.factors[name].mean, mean, rtol=1e-7)
    name = "scale" if likelihood == "tweedie" else "burst"
    assert found.likelihood_params["X"][name] == pytest.approx(parameter, rel=1e-9)


# --- what a fit promises


@pytest.mark.quick(text=["X[i,j,k] = A[i,r] B[j,r] C[k,r]"])
@pytest.mark.parametrize("text", [TEXT, SUM])
@pytest.mark.parametrize(
    ("likelihood", "options"),
    [
        ("negbin", {}),
        ("tweedie", {}),
        ("negbin", {"method": "em"}),
        ("tweedie", {"warmup": 0}),
        ("negbin", {"accelerate": True}),
        ("tweedie", {"method": "map", "prior": plait.Gamma(concentration=1.5, mean=1.0)}),
    ],
)
def test_the_bound_never_falls(likelihood, options, text):
    history = fit(drawn(likelihood), likelihood, text, max_iter=45, tol=0.0, **options).history
    for before, after in itertools.pairwise(history):
        if before.warm_up == after.warm_up:
            assert after.objective >= before.objective - 1e-9 * abs(before.objective), after


@pytest.mark.parametrize("likelihood", ["negbin", "tweedie"])
def test_the_parameters_of_drawn_values_are_found(likelihood):
    learnt = fit(drawn(likelihood, (60, 50, 40)), likelihood).likelihood_params["X"]
    if likelihood == "negbin":
        assert -np.expm1(-learnt["burst"]) == pytest.approx(P, abs=0.02)
    else:
        assert learnt["shape"] == SHAPE
        assert learnt["scale"] == pytest.approx(SCALE, rel=0.03)


def test_given_parameters_are_not_learnt():
    assert fit(drawn("negbin"), Negbin(p=0.5), max_iter=5).likelihood_params["X"]["burst"] == pytest.approx(np.log(2.0))
    assert fit(drawn("tweedie"), Tweedie(shape=5), max_iter=12).likelihood_params["X"]["shape"] == 5


def test_all_ones_under_negbin_are_a_poisson_fit():
    X = np.minimum(drawn("negbin"), 1.0)
    burst, plain = (fit(X, word, adapt_prior=None, max_iter=40, tol=0.0) for word in ("negbin", "poisson"))
    assert burst.likelihood_params["X"]["burst"] == 0.0
    assert burst.objective == pytest.approx(plain.objective, rel=1e-9)


@pytest.mark.parametrize("likelihood", ["negbin", "tweedie"])
def test_an_interrupted_fit_ends_with_the_same_bits(likelihood, tmp_path):
    X = drawn(likelihood)
    whole = fit(X, likelihood, max_iter=24, tol=0.0)
    for cut in (0, 9, 20):
        fit(X, likelihood, max_iter=cut, tol=0.0, checkpoint=tmp_path / str(cut))
        rest = fit(X, likelihood, max_iter=24, tol=0.0, init=str(tmp_path / str(cut)))
        assert rest.likelihood_params == whole.likelihood_params
        assert bits(rest) == bits(whole)


def test_a_loaded_run_predicts_as_the_fit_did(tmp_path):
    own = fit(drawn("tweedie"), Tweedie(shape=2), max_iter=20)
    own.save(tmp_path / "run")
    again = plait.load(tmp_path / "run")
    assert again.likelihood["X"] == Tweedie(shape=2)
    cells = {"i": [0, 3, 5], "j": [1, 1, 2], "k": [2, 0, 4]}
    assert again.predict("X", cells).equals(own.predict("X", cells))


def test_the_unit_of_amounts_changes_nothing_but_the_amounts():
    X = drawn("tweedie")
    one, hundred = fit(X, "tweedie"), fit(100.0 * X, "tweedie")
    cells = pl.DataFrame({"i": [0, 3, 5, 9], "j": [1, 1, 2, 7], "k": [2, 0, 4, 11]})
    small, large = one.predict("X", cells), hundred.predict("X", cells)
    for name, unit in {"probability": 1, "rate": 1, "mean": 100, "sd": 100, "lower": 100, "upper": 100}.items():
        np.testing.assert_allclose(large[name] / unit, small[name], rtol=1e-6)
    assert one.top("X", 20).select("i", "j", "k").equals(hundred.top("X", 20).select("i", "j", "k"))


# --- prediction


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("likelihood", ["negbin", "tweedie"])
def test_predictions_are_those_of_values_drawn_from_the_posterior(likelihood, restarts):
    own = fit(drawn(likelihood, mean=0.8), likelihood, max_iter=30, restarts=restarts)
    best = own.top("X", 3, include_known=True)
    rng, draws = np.random.default_rng(3), 40_000
    predicted = own.predict("X", best.select("i", "j", "k"))
    for row in predicted.iter_rows(named=True):
        x, means = [], []
        for member in own.members:
            state = member.likelihood_params["X"]
            Z = [member.factors[f] for f in "ABC"]
            at = [row[index] for index in "ijk"]
            gammas = [rng.gamma(z.concentration[n], z.scale[n], (draws, 2)) for z, n in zip(Z, at)]
            rate = np.prod(gammas, axis=0).sum(axis=1)
            events = rng.poisson(rate)
            if likelihood == "tweedie":
                x.append(np.where(events > 0, rng.gamma(np.maximum(events, 1) * state["shape"], state["scale"]), 0.0))
            else:
                r = rate / state["burst"]
                x.append(rng.negative_binomial(r, np.exp(-state["burst"])).astype(float))
            means.append(member.likelihood["X"].bursts(state)[0] * rate)
        x, means = np.concatenate(x), np.concatenate(means)
        assert row["mean"] == pytest.approx(x.mean(), rel=0.03)
        assert row["sd"] == pytest.approx(means.std(), rel=0.05)
        assert row["probability"] == pytest.approx((x > 0).mean(), abs=0.01)
        for name, level in (("lower", 0.05), ("upper", 0.95)):
            assert (x < row[name]).mean() - 0.01 <= level <= (x <= row[name]).mean() + 0.01, name


@pytest.mark.parametrize("likelihood", ["negbin", "tweedie"])
def test_held_out_values_have_a_finite_log_likelihood_better_than_under_poisson(likelihood):
    X = drawn(likelihood, (40, 30, 20), mean=0.6)
    split = plait.train_test_split(
        {"X": plait.Relation(X, likelihood=likelihood)}, "X", fraction=0.1, seed=0, model=TEXT
    )
    own = plait.fit(TEXT, split.train, rank=2, seed=0)
    found = plait.evaluate(own, "X", split.test)
    assert np.isfinite(found["log_likelihood"])
    if likelihood == "negbin":
        split = plait.train_test_split({"X": plait.Relation(X)}, "X", fraction=0.1, seed=0, model=TEXT)
        plain = plait.evaluate(plait.fit(TEXT, split.train, rank=2, seed=0), "X", split.test)
        assert found["log_likelihood"] > plain["log_likelihood"]


# --- a custom likelihood


def test_a_likelihood_from_outside_is_fitted_saved_and_asked(tmp_path):
    rng = np.random.default_rng(0)
    rate = np.einsum("ir,jr->ij", rng.gamma(0.7, 1.0, (30, 2)), rng.gamma(0.7, 1.0, (25, 2)))
    events = rng.poisson(rate)
    X = np.where(events > 0, events + rng.negative_binomial(np.maximum(events, 1), 0.4), 0).astype(float)
    text = "X[i,j] = A[i,r] B[j,r]"
    own = fit(X, Geometric(0.6), text)
    bounds = [record.objective for record in own.history if not record.warm_up]
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert own.objective > fit(X, Geometric(0.2), text).objective
    own.save(tmp_path / "run")
    again = plait.load(tmp_path / "run")
    assert again.likelihood["X"] == Geometric(0.6)
    predicted = again.predict("X", {"i": [0, 1], "j": [0, 1]})
    np.testing.assert_allclose(predicted["mean"], 2.5 * predicted["rate"])
    assert (predicted["lower"] <= predicted["upper"]).all()
    own.explain("X", {"i": 0, "j": 0})


def test_impossible_values_are_refused_with_a_hint():
    with pytest.raises(
        plait.errors.DataError, match=r"1\.5, but the likelihood is negbin\.\nCounts are integers .*tweedie"
    ):
        plait.fit(TEXT, {"X": plait.Relation(drawn("negbin") * 1.5, likelihood="negbin")}, rank=2)


def test_a_term_that_vanishes_leaves_no_nan():
    relation = plait.Relation(np.array([[0, 10.5], [3.2, 0]]), likelihood="tweedie")
    fit = plait.fit("X[i,j] = A[i,r] B[j,r] + c[]", {"X": relation}, rank=1, seed=0, max_iter=30)  # warnings are errors
    assert np.isfinite([record.objective for record in fit.history]).all()
