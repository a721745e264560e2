"""Extreme numbers: everything stays finite and sensible."""

import numpy as np
import polars as pl
import pytest

import plait
from tests.support import oracle
from tests.support.infer_laws import BOTH_LIKELIHOODS, METHODS, finite
from tests.support.models import MODELS
from tests.support.problems import as_counts, starts, state_of

CP3, CP5 = MODELS["cp3"], MODELS["cp5"]
COUPLED = "X[i,j] = A[i,r] B[j,r]\nY[i,k] = A[i,r] C[k,r]"
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)
NO_LINKS = pytest.mark.filterwarnings("ignore::plait.errors.NoLinksWarning")  # that is the extreme


def counts(seed, *shape, rate=2.0):
    return np.random.default_rng(seed).poisson(rate, shape).astype(float)


def fitted(X, method="vb", text=CP3, max_iter=60, **options):
    """A finite fit of one relation X, or of several."""
    data = as_counts(X if isinstance(X, dict) else {"X": X})
    options = {"seed": 0} | METHODS[method] | options
    return finite(plait.fit(text, data, method=method, max_iter=max_iter, **options))


def predicted(fit, relation, shape):
    indices = fit.model.equation(relation).indices
    cells = pl.DataFrame(dict(zip(indices, np.indices(shape).reshape(len(shape), -1))))
    mean = fit.predict(relation, cells)["mean"].to_numpy().reshape(shape)
    assert np.isfinite(mean).all()
    return mean


@pytest.mark.filterwarnings("ignore::plait.errors.OverdispersionWarning")
@EVERY_METHOD
def test_counts_up_to_1e9(method):
    X = counts(0, 6, 5, 4, rate=1.0)
    X[1, 2, 3], X[4, 0, 0] = 1e9, 123_456_789.0
    mean = predicted(fitted(X, method, rank=3), "X", X.shape)
    assert mean[1, 2, 3] == pytest.approx(1e9, rel=1e-3)
    if method == "em":
        assert mean.sum() == pytest.approx(X.sum(), rel=1e-12)


@pytest.mark.parametrize("adapt_prior", [None, "factor", "component", "entity", "rank-one"])
@BOTH_LIKELIHOODS
def test_prior_concentration_of_1e_3(adapt_prior, likelihood):
    X = (np.random.default_rng(1).random((8, 7, 6)) < 0.1).astype(float)
    data = plait.Relation(X, likelihood=likelihood)
    predicted(
        fitted(data, rank=4, prior=plait.Gamma(1e-3, 1.0), adapt_prior=adapt_prior, max_iter=50, tol=0.0), "X", X.shape
    )


@BOTH_LIKELIHOODS
def test_products_of_five_factors_that_underflow_equal_the_oracle(likelihood, underflow):
    """Rows that peak at different components: every product of five geometric means is below the smallest double."""
    X = np.zeros((4, 4, 4, 4, 4))
    X[tuple(np.random.default_rng(2).integers(0, 4, (5, 12)))] = 1.0
    prior = plait.Gamma(1e-3, 1.0)
    data = {"X": plait.Relation(X, likelihood=likelihood)}
    sizes = dict.fromkeys("ijklm", 4) | {"r": 6}
    rng = np.random.default_rng(3)
    problem = oracle.Problem(
        oracle.from_text(CP5), {"X": X}, dict.fromkeys("ABCDE", (1e-3, 1.0)), likelihood={"X": likelihood}
    )
    start = {
        name: (rng.choice([2e-3, 1.0], shape), np.full(shape, 1.0))
        for name, shape in oracle.factor_shapes(problem.equations, sizes).items()
    }

    init, reference = starts(start), start
    for sweeps in range(1, 4):
        reference = oracle.sweep(problem, reference, "vb")
        fit = finite(plait.fit(CP5, data, rank=6, prior=prior, adapt_prior=None, init=init, max_iter=sweeps, tol=0.0))
        assert fit.objective == pytest.approx(oracle.bound(problem, reference), rel=1e-9)
        for name in "ABCDE":
            np.testing.assert_allclose(fit.factors[name].concentration, reference[name][0], rtol=1e-8, atol=1e-12)
    assert underflow, "no entry took the log-sum-exp path"
    adapted = finite(plait.fit(CP5, data, rank=6, prior=prior, init=init, max_iter=60, tol=0.0))
    problem = oracle.Problem(
        problem.equations, problem.X, {n: (p.concentration, p.mean) for n, p in adapted.prior.items()},
        likelihood=problem.likelihood,
    )  # fmt: skip
    assert adapted.objective == pytest.approx(oracle.bound(problem, state_of(adapted, "ABCDE")), rel=1e-9)


@BOTH_LIKELIHOODS
def test_an_entry_that_underflows_leaves_the_others_of_its_fibre_alone(likelihood, underflow):
    """An index that only a given factor has: all entries of a fibre share one Xhat, which underflows or not."""
    text = "X[i,j,k] = A[i,r] B[j,r] w[k]"
    rng = np.random.default_rng(12)
    X = rng.integers(0, 2, (6, 2, 5)).astype(float)
    w = rng.uniform(0.5, 2.0, 5)
    problem = oracle.Problem(
        oracle.from_text(text), {"X": X}, dict.fromkeys("AB", (1e-3, 1.0)), likelihood={"X": likelihood}, given={"w": w}
    )
    peaks = {"A": rng.integers(0, 2, 6), "B": np.array([0, 1])}
    state = {
        name: (np.where(np.arange(2) == peak[:, None], 1.0, 1e-3), np.ones((len(peak), 2)))
        for name, peak in peaks.items()
    }
    data = {"X": plait.Relation(X, likelihood=likelihood)}
    prior = plait.Gamma(1e-3, 1.0)
    fit = plait.fit(text, data, rank=2, fixed={"w": w}, prior=prior, adapt_prior=None, init=starts(state), max_iter=1)
    assert underflow
    state = oracle.sweep(problem, state, "vb")
    assert fit.objective == pytest.approx(oracle.bound(problem, state), rel=1e-10)
    for name in "AB":
        np.testing.assert_allclose(fit.factors[name].concentration, state[name][0], rtol=1e-10, atol=1e-14)


@EVERY_METHOD
@pytest.mark.parametrize("rank", [1, 200])
@pytest.mark.filterwarnings("ignore::plait.errors.RankWarning")  # that is the extreme
def test_ranks_1_and_200(rank, method):
    X = counts(4, 7, 6, 5)
    X[0, 0] = np.nan
    fit = fitted(X, method, rank=rank, max_iter=15)
    assert fit.factors["B"].mean.shape == (6, rank)
    mean = predicted(fit, "X", X.shape)
    if method == "em":
        assert mean[~np.isnan(X)].sum() == pytest.approx(np.nansum(X), rel=1e-11)


@EVERY_METHOD
@NO_LINKS
@pytest.mark.parametrize("hidden", [3, slice(None)], ids=["one row", "all"])
def test_an_entity_with_no_observation_stays_at_its_prior(hidden, method):
    X = counts(5, 7, 6, 5)
    X[hidden] = np.nan
    settings = {"adapt_prior": None, "prior": plait.Gamma(0.5, 2.0)} if method == "vb" else {}
    start = {name: np.full((n, 3), 0.7) for name, n in zip("ABC", X.shape)}
    fit = fitted(X, method, rank=3, init=start, seed=None, max_iter=40, **settings)
    predicted(fit, "X", X.shape)
    wanted = {"em": 0.7, "map": (1.2 - 1) / 1.2, "vb": 2.0}
    np.testing.assert_allclose(fit.factors["A"].mean[hidden], wanted[method], rtol=1e-14)
    if method == "vb":
        np.testing.assert_array_equal(fit.factors["A"].concentration[hidden], 0.5)
    if method != "map" and hidden != 3:
        assert abs(fit.objective) < 1e-12


def test_an_entity_that_only_another_relation_mentions_is_not_zeros():
    X = pl.DataFrame({"i": [0, 0, 1], "j": [0, 1, 1], "value": [3, 1, 4]})
    Y = pl.DataFrame({"i": [0, 1, 2], "k": [0, 1, 0], "value": [2, 2, 90]})
    mean = predicted(fitted({"X": X, "Y": Y}, text=COUPLED, rank=2, max_iter=50), "X", (3, 2))
    assert mean[2].sum() > mean[0].sum()


@EVERY_METHOD
@NO_LINKS
def test_a_relation_with_no_link(method):
    data = {"X": counts(6, 6, 5, rate=3.0), "Y": np.zeros((6, 4))}
    fit = fitted(data, method, COUPLED, rank=2)
    assert predicted(fit, "Y", (6, 4)).sum() < {"em": 1e-12, "vb": 5.0, "map": 10.0}[method]
    assert predicted(fit, "X", (6, 5)).sum() == pytest.approx(data["X"].sum(), rel={"em": 1e-12}.get(method, 0.3))


@EVERY_METHOD
@BOTH_LIKELIHOODS
@NO_LINKS
def test_no_link_at_all(method, likelihood):
    fit = fitted(plait.Relation(np.zeros((4, 3, 2)), likelihood=likelihood), method, rank=2)
    assert predicted(fit, "X", (4, 3, 2)).max() < 0.6


@EVERY_METHOD
@pytest.mark.parametrize("X", [0.0, 1.0, 1e9])
def test_one_single_cell(X, method):
    mean = predicted(fitted(np.full((1, 1, 1), X), method, max_iter=200, rank=2), "X", (1, 1, 1)).item()
    if method == "em":
        assert mean == pytest.approx(X, rel=1e-12, abs=1e-12)


@EVERY_METHOD
@pytest.mark.parametrize("weight", [1e-3, 1e6])
def test_weights_of_a_relation_from_1e_3_to_1e6(weight, method):
    X = counts(7, 6, 5, 4)
    fit = fitted(plait.Relation(X, weight=weight), method, rank=2, max_iter=40)
    if method == "em" or weight > 1:
        assert predicted(fit, "X", X.shape).sum() == pytest.approx(X.sum(), rel=1e-4)


def test_zeros_of_weight_1e_3_count_for_little():
    X = np.maximum(np.random.default_rng(8).random((12, 10)) < 0.2, np.eye(12, 10)).astype(float)
    X[10:, 0] = 1.0
    links = pl.DataFrame(dict(zip("ij", np.nonzero(X))))
    plain, light = (
        predicted(fitted(relation, text=MODELS["matrix"], max_iter=200, rank=2), "X", X.shape).mean()
        for relation in (plait.Relation(links), plait.Relation(links, observed=1e-3))
    )
    assert light > 2 * plain


@EVERY_METHOD
@BOTH_LIKELIHOODS
def test_relations_and_rows_of_very_unequal_scales(method, likelihood):
    rng = np.random.default_rng(9)
    X = rng.poisson(np.geomspace(1e-3, 1e7, 8)[:, None] * rng.gamma(1.0, 1.0, (1, 6))).astype(float)
    Y = (rng.random((8, 5)) < 0.3).astype(float)
    fit = fitted({"X": X, "Y": plait.Relation(Y, likelihood=likelihood)}, method, COUPLED, rank=3)
    mean = predicted(fit, "X", X.shape)
    np.testing.assert_allclose(mean.sum(axis=1)[-2:], X.sum(axis=1)[-2:], rtol=0.01)
    assert (predicted(fit, "Y", Y.shape) >= 0).all()


@EVERY_METHOD
def test_starts_of_very_unequal_scales(method):
    X, rng = counts(10, 6, 5, 4), np.random.default_rng(11)
    init = {name: s * rng.gamma(1.0, 1.0, (n, 2)) for name, n, s in zip("ABC", (6, 5, 4), (1e-80, 1e100, 1e-30))}
    fit = fitted(X, method, rank=2, init=init, seed=None)
    assert predicted(fit, "X", X.shape).sum() == pytest.approx(X.sum(), rel=1e-9 if method == "em" else 0.2)
