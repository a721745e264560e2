"""Gamma Markov chains along ordered axes: the objective, its ascent, the update, and what is refused."""

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize

import plait
from plait.codegen.layout import Layout
from plait.executors import Threads
from plait.inference.chains import chain_objective, update_chain
from plait.inference.gamma import Chain, Prior, posterior
from plait.inference.updates import RowEvidence
from tests.support.dense_chains import dense_objective, ordered_case
from tests.support.models import DOUBLED, MODELS, SUMS
from tests.support.problems import bits, own_bounds
from tests.support.ways_of_observing import WAYS

MONTHLY = "visits[user, place, month] = U[user, r] P[place, r] T[month, r]; month: ordered"
DRIFTING = "visits[user, place, month] = U[user, month, r] P[place, r] + b[month]; month: ordered"
QUICK = {"rank": 2, "seed": 0, "warmup": 0, "max_iter": 5, "tol": 0.0, "threads": 1}


def drifting_counts(periods=8, a=20.0, seed=0):
    rng = np.random.default_rng(seed)
    T = np.ones((periods, 2))
    for t in range(1, periods):
        T[t] = rng.gamma(a, 1 / (a * rng.gamma(a + 1, 1 / (a * T[t - 1]))))
    U, P = rng.gamma(0.5, 4.0, (12, 2)), rng.gamma(0.5, 1.0, (9, 2))
    return rng.poisson(np.einsum("ur,pr,tr->upt", U, P, T))


def cases(count):
    """Random models, ways of observing, likelihoods, methods and ordered axes."""
    rng = np.random.default_rng(36)
    names = [name for name in MODELS | SUMS | DOUBLED if plait.Model((MODELS | SUMS | DOUBLED)[name]).visible]
    found = []
    for n in range(count):
        name = str(rng.choice(names))
        index = str(rng.choice(plait.Model((MODELS | SUMS | DOUBLED)[name]).axes))
        likelihood, method = ("poisson", "bernoulli")[rng.integers(2)], ("vb", "vb", "map")[rng.integers(3)]
        found.append((name, str(rng.choice(list(WAYS))), likelihood, index, method, n))
    return found


@pytest.mark.parametrize(
    ("name", "way", "likelihood", "index", "method", "number"),
    [
        *(
            pytest.param(*c)
            for c in [("cp3", "all", "poisson", "k", "vb", 0), ("matrix", "all", "poisson", "j", "map", 1)]
        ),
        *(pytest.param(*c, marks=pytest.mark.thorough) for c in cases(1000)[:300]),
        *(pytest.param(*c, marks=pytest.mark.nightly) for c in cases(1000)[300:]),
    ],
)
@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")
def test_objective_is_that_of_the_dense_chain_and_never_falls(name, way, likelihood, index, method, number):
    case, priors = ordered_case(name, way, likelihood, index, method)
    adapt = (None, "auto")[number % 2] if method == "vb" else None
    fit = case.fit(method, prior=priors, adapt_prior=adapt, max_iter=12)
    value, scale = dense_objective(case, fit)
    assert fit.objective == pytest.approx(value, abs=1e-8 * scale)
    assert (np.diff(own_bounds(fit)) >= -1e-9 * scale).all()


@pytest.mark.parametrize("shape", [(3, 6), (6, 9), (2, 6, 3)], ids=str)
@pytest.mark.parametrize("latent", [(), ("r",)], ids=str)
def test_updates_reach_the_maximum_of_every_chain(shape, latent):
    # Given counts and exposures, the ELBO is concave in log E; 9 chains fill a vector and one column of the next.
    rng, a, axis = np.random.default_rng(1), 9.0, shape.index(6)
    names = tuple("ijk"[: len(shape)])
    layout = Layout("b", (*names, *latent), names, latent, (*shape, *(2,) * len(latent)))
    prior = Prior(np.full((1,) * len(layout.sizes), 0.7), np.full((1,) * len(layout.sizes), 1.3), Chain(axis, a, False))
    counts, exposure = rng.gamma(0.3, 9.0, layout.sizes), rng.gamma(1.0, 1.0, layout.sizes)
    np.moveaxis(counts, axis, 0)[2] = np.moveaxis(exposure, axis, 0)[2] = 0.0  # a period without data
    start = np.exp(rng.normal(0.0, 5.0, layout.sizes))
    factor = posterior(layout, layout.pack(np.full(layout.sizes, 2.0)), layout.pack(start / 2.0))
    values = []
    for _ in range(30):  # sweeps; counts do not depend on L here
        gradient = layout.pack(counts / layout.unpack(factor.exp_mean_log))
        evidence = RowEvidence(gradient, None, layout.pack(exposure))
        value = update_chain(factor, evidence, prior, "vb", Threads(1))
        assert value == pytest.approx(chain_objective(factor, prior, "vb", Threads(1)), rel=1e-11)
        E, log_E = layout.unpack(factor.mean), layout.unpack(factor.log_geomean)
        values.append(value + float((counts * log_E - exposure * E).sum()))
    assert (np.diff(values) >= -1e-10 * abs(values[-1])).all()
    # Each chain alone, by SciPy.
    C, b, E = (np.moveaxis(array, axis, -1).reshape(-1, 6) for array in (counts, exposure, E))
    C = C + a + np.array([0.7 + 1.0] + [a + 1.0] * 4 + [0.0])
    b = b + np.array([0.7 / 1.3] + [0.0] * 5)
    for c, e, found in zip(C, b, E):

        def negative(x, c=c, e=e):
            pairs = np.logaddexp(x[1:], x[:-1]).sum()
            return -(c @ x - e @ np.exp(x) - (2 * a + 1) * pairs)

        best = minimize(negative, np.zeros(6), method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(np.log(found), best.x, atol=1e-5)


@pytest.mark.parametrize(("a", "low", "high"), [(4.0, 2.5, 6.0), (60.0, 35.0, 100.0)])
def test_the_pace_of_a_drift_is_found(a, low, high):
    rng = np.random.default_rng(3)
    theta, X = rng.gamma(1.0, 1.0, 100), []
    for _ in range(12):
        X.append(rng.poisson(5.0 * theta))
        theta = rng.gamma(a, 1 / (a * rng.gamma(a + 1, 1 / (a * theta))))
    relation = plait.Relation(np.array(X).T, likelihood="poisson")
    fit = plait.fit(
        "n[item, month] = b[item, month]; month: ordered", {"n": relation}, **QUICK | {"rank": None, "max_iter": 14}
    )
    assert low < fit.prior["b"].concentration < high
    falls = np.flatnonzero(np.diff(own_bounds(fit)) < -1e-9 * abs(fit.objective))
    assert set(falls) <= {10}  # the ELBO is of another a from the sweep on at which it is chosen


@pytest.mark.parametrize("text", [MONTHLY, DRIFTING])
def test_a_fit_resumes_to_the_same_bits(text, tmp_path):
    X = drifting_counts()
    whole = plait.fit(text, {"visits": X}, adapt_prior="factor", **QUICK | {"max_iter": 14})
    checkpoint = plait.Checkpoint(tmp_path / "run")
    plait.fit(text, {"visits": X}, adapt_prior="factor", checkpoint=checkpoint, **QUICK | {"max_iter": 11})
    del (settings := dict(QUICK))["warmup"]
    again = plait.fit(text, {"visits": X}, adapt_prior="factor", init=tmp_path / "run", **settings | {"max_iter": 14})
    assert [r.objective for r in again.history] == [r.objective for r in whole.history]
    for name in whole.factors:
        assert again.factors[name].mean.tobytes() == whole.factors[name].mean.tobytes()
    assert (
        again.prior["U" if text == DRIFTING else "T"].concentration
        == whole.prior["U" if text == DRIFTING else "T"].concentration
    )


@pytest.mark.parametrize("text", [MONTHLY, pytest.param(DRIFTING, marks=pytest.mark.thorough)])
def test_hidden_cells_never_influence_a_chain(text):
    X, hidden = drifting_counts(), np.random.default_rng(2).random((12, 9, 8)) < 0.3
    cells = np.argwhere(hidden)
    missing = pl.DataFrame(dict(zip(("user", "place", "month"), cells.T)))

    def fitted(values):
        at = np.nonzero(values)
        table = pl.DataFrame(dict(zip(("user", "place", "month"), at)) | {"value": values[at]})
        relation = plait.Relation(table, missing=missing, unseen="zero", likelihood="poisson")
        entities = {"user": range(12), "place": range(9), "month": range(8)}
        return plait.fit(text, {"visits": relation}, entities=entities, **QUICK | {"max_iter": 14})

    first, other = fitted(X), fitted(np.where(hidden, 7 * X + 5, X))
    assert [r.objective for r in first.history] == [r.objective for r in other.history]
    for name in first.factors:
        assert first.factors[name].mean.tobytes() == other.factors[name].mean.tobytes()


def test_a_run_keeps_its_chain(tmp_path):
    fit = plait.fit(MONTHLY, {"visits": drifting_counts()}, prior={"T": plait.GammaChain(7.5)}, **QUICK)
    fit.save(tmp_path / "run")
    loaded = plait.load(tmp_path / "run")
    assert loaded.model.ordered == ("month",)
    assert loaded.prior["T"].concentration == 7.5
    np.testing.assert_array_equal(loaded.prior["T"].start.mean, fit.prior["T"].start.mean)


@pytest.mark.parametrize(
    "settings",
    [
        {"warmup": 6},
        pytest.param({"accelerate": True, "max_iter": 40}, marks=pytest.mark.thorough),
        pytest.param({"dtype": "float32", "warmup": 6}, marks=pytest.mark.thorough),
        pytest.param({"prune": True, "rank": 4, "max_iter": 40}, marks=pytest.mark.thorough),
        pytest.param({"restarts": 2, "bootstrap": True}, marks=pytest.mark.thorough),
    ],
    ids=str,
)
@pytest.mark.parametrize("text", [MONTHLY, pytest.param(DRIFTING, marks=pytest.mark.thorough)])
def test_the_bound_never_falls_under_other_options(text, settings):
    X = drifting_counts()
    X[:, :, 3] = 0  # EM sets this period to 0
    fit = plait.fit(text, {"visits": X}, **QUICK | settings)
    for member in fit.members:
        bounds = own_bounds(member)
        assert np.isfinite(bounds).all()
        assert (np.diff(bounds) >= -1e-6 * abs(bounds[-1]) if "dtype" in settings else -1e-9 * abs(bounds[-1])).all()


@pytest.mark.parametrize("likelihood", [pytest.param("negbin", marks=pytest.mark.thorough), "tweedie"])
def test_other_likelihoods_have_chains(likelihood):
    relation = plait.Relation(drifting_counts(), likelihood=likelihood)
    bounds = own_bounds(plait.fit(MONTHLY, {"visits": relation}, **QUICK))
    assert (np.diff(bounds) >= -1e-9 * abs(bounds[-1])).all()


def test_a_period_without_data_lies_between_its_neighbours():
    X = drifting_counts().astype(float)
    cells = np.argwhere(X >= 0)
    listed = cells[cells[:, 2] != 4]
    table = pl.DataFrame(dict(zip(("user", "place", "month"), listed.T)) | {"value": X[tuple(listed.T)]})
    relation = plait.Relation(table, value="value", observed="listed")
    fit = plait.fit(MONTHLY, {"visits": relation}, prior={"T": plait.GammaChain(50.0)}, **QUICK | {"max_iter": 60})
    assert fit.entities["month"].names.to_list() == list(range(8))
    T = fit.factors["T"]
    low, high = np.minimum(T.mean[3], T.mean[5]), np.maximum(T.mean[3], T.mean[5])
    assert (T.mean[4] >= 0.95 * low).all()
    assert (T.mean[4] <= 1.05 * high).all()
    assert ((T.sd / T.mean)[4] > (T.sd / T.mean)[[3, 5]].max(axis=0)).all()


def test_a_gamma_prior_switches_a_chain_off():
    X, plain = drifting_counts(), MONTHLY.split(";")[0]
    off = plait.fit(MONTHLY, {"visits": X}, prior={"T": plait.Gamma(0.5, 10.0)}, **QUICK)
    assert bits(off) == bits(plait.fit(plain, {"visits": X}, **QUICK))


@pytest.mark.parametrize(
    ("text", "settings", "words"),
    [
        (MONTHLY, {"method": "em", "warmup": None}, "has no priors"),
        (MONTHLY, {"method": "map", "warmup": None}, "concentration of at least 1"),
        (MONTHLY, {"prior": {"U": plait.GammaChain()}}, "no ordered axis"),
        (MONTHLY, {"adapt_prior": {"T": "entity"}}, "has a chain"),
        (
            MONTHLY,
            {"prior": {"T": plait.GammaChain(start=plait.Gamma(np.ones((8, 1))))}},
            "one prior for its first period",
        ),
        ("f[m, n] = A[m, n, r] b[r]; n: m; m: ordered", {}, "two indices of ordered axes"),
    ],
)
def test_what_a_chain_cannot_do_is_refused(text, settings, words):
    X = drifting_counts() if text == MONTHLY else np.ones((3, 3))
    with pytest.raises(plait.errors.ParameterError, match=words):
        plait.fit(text, {text.split("[")[0]: X}, **QUICK | settings)


@pytest.mark.parametrize("concentration", [1.0, -2.0, float("inf"), True, "fast"])
def test_a_concentration_is_above_one(concentration):
    with pytest.raises(plait.errors.ParameterError, match="finite number above 1"):
        plait.GammaChain(concentration)


def links_of(X, periods):
    cells = np.argwhere(X > 0)
    cells = cells[np.isin(cells[:, 2], periods)]
    return pl.DataFrame(dict(zip(("user", "place", "month"), cells.T)) | {"value": X[tuple(cells.T)]})


@pytest.mark.parametrize("text", [MONTHLY, pytest.param(DRIFTING, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("method", ["vb", pytest.param("map", marks=pytest.mark.thorough)])
def test_update_with_a_later_period_extends_the_chain(text, method):
    X = drifting_counts(periods=8)
    factors = [name for name in plait.Model(text).factors if plait.Model(text)._ordered_places(name)]
    chains = {name: plait.GammaChain(20.0, plait.Gamma(1.2)) for name in factors}
    prior = {name: plait.Gamma(1.2, 1.0) for name in plait.Model(text).factors} | chains
    settings = QUICK | {"max_iter": 60, "method": method, "prior": prior, "warmup": 0 if method == "vb" else None}
    fit = plait.fit(
        text, {"visits": links_of(X, range(6))}, entities={"user": range(12), "place": range(9)}, **settings
    )
    later = fit.update({"visits": links_of(X, [7])}, iterations=20)  # period 6 has no rows
    assert later.entities["month"].names.to_list() == list(range(8))
    again = later.update({"visits": links_of(X, [6])}, iterations=1) if method == "map" else None
    assert again is None or len(again.entities["month"]) == 8
    for name in factors:
        assert np.isfinite(later.factors[name].mean).all()
        assert later.prior[name].concentration == 20.0
    with pytest.raises(plait.errors.DataError, match="is not a later period"):
        fit.update({"visits": links_of(X, [1]).with_columns(month=-1)})
