"""Extreme numbers: everything stays finite and sensible."""

import numpy as np
import polars as pl
import pytest

import plait
import plait.infer.counts
from tests import oracle
from tests.cases import own_bounds, starts, state_of
from tests.models import MODELS

CP3, CP5 = MODELS["cp3"], MODELS["cp5"]
METHODS = {"vb": {}, "em": {}, "map": {"prior": plait.Gamma(1.2, 1.0)}}
EVERY_METHOD = pytest.mark.parametrize("method", METHODS)


def finite(fit):
    """Nothing in a fit is NaN or infinite, except the concentration of a point."""
    for name, factor in fit.factors.items():
        words = ("mean", "geomean", "sd", "scale", *(("concentration",) if fit.method == "vb" else ()))
        for word in words:
            values = getattr(factor, word)
            assert np.isfinite(values).all(), f"{word} of {name}"
            assert (values >= 0).all(), f"{word} of {name}"
    for name, prior in fit.prior.items():
        assert np.isfinite(prior.concentration).all(), name
        assert np.isfinite(prior.mean).all(), name
    assert all(np.isfinite(record.bound) for record in fit.history)
    warm_up = [record.bound for record in fit.history if record.warm_up]
    for bounds in (warm_up, own_bounds(fit)):
        assert -np.diff(bounds).min(initial=0.0) <= 1e-7 * (1 + np.abs(bounds).max(initial=0.0))
    return fit


def predicted(fit, relation, shape):
    indices = fit.model.equation(relation).indices
    cells = pl.DataFrame(dict(zip(indices, np.indices(shape).reshape(len(shape), -1))))
    mean = fit.predict(relation, cells)["mean"].to_numpy().reshape(shape)
    assert np.isfinite(mean).all()
    return mean


@pytest.fixture
def rare(monkeypatch):
    """How many entries took the log-sum-exp path, pass by pass."""
    seen, original = [], plait.infer.counts.rare_counts

    def counted(plan, order, stats, *others):
        seen.append(len(stats.rare_entries))
        return original(plan, order, stats, *others)

    monkeypatch.setattr(plait.infer.counts, "rare_counts", counted)
    return seen


@EVERY_METHOD
def test_counts_up_to_1e9(method):
    X = np.random.default_rng(0).poisson(1.0, (6, 5, 4)).astype(float)
    X[1, 2, 3], X[4, 0, 0] = 1e9, 123_456_789.0
    fit = finite(plait.fit(CP3, {"X": X}, rank=3, method=method, seed=0, sweeps=60, **METHODS[method]))
    mean = predicted(fit, "X", X.shape)
    assert mean[1, 2, 3] == pytest.approx(1e9, rel=1e-3)
    if method == "em":
        assert mean.sum() == pytest.approx(X.sum(), rel=1e-12)


@pytest.mark.parametrize("adapt", [None, "factor", "component", "entity", "rank-one"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_prior_concentration_of_1e_3(adapt, likelihood):
    X = (np.random.default_rng(1).random((8, 7, 6)) < 0.1).astype(float)
    data = {"X": plait.Relation(X, likelihood=likelihood)}
    fit = finite(plait.fit(CP3, data, rank=4, prior=plait.Gamma(1e-3, 1.0), adapt=adapt, seed=0, sweeps=50, tol=0.0))
    predicted(fit, "X", X.shape)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_order_5_at_concentration_1e_3_does_not_underflow(likelihood, rare):
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
        fit = finite(plait.fit(CP5, data, rank=6, prior=prior, adapt=None, init=init, sweeps=sweeps, tol=0.0))
        assert fit.bound == pytest.approx(oracle.bound(problem, reference), rel=1e-9)
        for name in "ABCDE":
            np.testing.assert_allclose(fit.factors[name].concentration, reference[name][0], rtol=1e-8, atol=1e-12)
    assert rare, "no entry took the log-sum-exp path"
    adapted = finite(plait.fit(CP5, data, rank=6, prior=prior, init=init, sweeps=60, tol=0.0))
    problem = oracle.Problem(
        problem.equations, problem.X, {n: (p.concentration, p.mean) for n, p in adapted.prior.items()},
        likelihood=problem.likelihood,
    )  # fmt: skip
    assert adapted.bound == pytest.approx(oracle.bound(problem, state_of(adapted, "ABCDE")), rel=1e-9)


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_an_entry_that_underflows_leaves_the_others_of_its_fibre_alone(likelihood, rare):
    """An index that only a given factor has: all entries of a fibre share one Xhat, which is rare or not."""
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
    fit = plait.fit(text, data, rank=2, fixed={"w": w}, prior=prior, adapt=None, init=starts(state), sweeps=1)
    assert rare
    state = oracle.sweep(problem, state, "vb")
    assert fit.bound == pytest.approx(oracle.bound(problem, state), rel=1e-10)
    for name in "AB":
        np.testing.assert_allclose(fit.factors[name].concentration, state[name][0], rtol=1e-10, atol=1e-14)


@EVERY_METHOD
@pytest.mark.parametrize("rank", [1, 200])
@pytest.mark.filterwarnings("ignore::plait.RankWarning")  # that is the extreme
def test_ranks_1_and_200(rank, method):
    X = np.random.default_rng(4).poisson(2.0, (7, 6, 5)).astype(float)
    X[0, 0] = np.nan
    fit = finite(plait.fit(CP3, {"X": X}, rank=rank, method=method, seed=0, sweeps=15, **METHODS[method]))
    assert fit.factors["B"].mean.shape == (6, rank)
    mean = predicted(fit, "X", X.shape)
    if method == "em":
        assert mean[~np.isnan(X)].sum() == pytest.approx(np.nansum(X), rel=1e-11)


@EVERY_METHOD
def test_an_entity_with_no_observation_is_as_its_prior_says(method):
    X = np.random.default_rng(5).poisson(2.0, (7, 6, 5)).astype(float)
    X[3] = np.nan
    settings = METHODS[method] | ({"adapt": None, "prior": plait.Gamma(0.5, 2.0)} if method == "vb" else {})
    fit = finite(plait.fit(CP3, {"X": X}, rank=3, method=method, seed=0, sweeps=40, **settings))
    predicted(fit, "X", X.shape)
    if method == "vb":
        np.testing.assert_array_equal(fit.factors["A"].concentration[3], 0.5)
        np.testing.assert_allclose(fit.factors["A"].mean[3], 2.0, rtol=1e-15)
    elif method == "map":
        np.testing.assert_allclose(fit.factors["A"].mean[3], (1.2 - 1) / 1.2, rtol=1e-14)


def test_an_entity_that_only_another_relation_mentions_is_not_zeros():
    text = "X[i,j] = A[i,r] B[j,r]\nY[i,k] = A[i,r] C[k,r]"
    X = pl.DataFrame({"i": [0, 0, 1], "j": [0, 1, 1], "value": [3, 1, 4]})
    Y = pl.DataFrame({"i": [0, 1, 2], "k": [0, 1, 0], "value": [2, 2, 90]})
    fit = finite(plait.fit(text, {"X": X, "Y": Y}, rank=2, seed=0, sweeps=50))
    assert predicted(fit, "X", (3, 2))[2].sum() > predicted(fit, "X", (3, 2))[0].sum()


@EVERY_METHOD
@pytest.mark.filterwarnings("ignore::plait.NoLinksWarning")  # that is the extreme
def test_a_relation_with_no_link(method):
    text = "X[i,j] = A[i,r] B[j,r]\nY[i,k] = A[i,r] C[k,r]"
    data = {"X": np.random.default_rng(6).poisson(3.0, (6, 5)).astype(float), "Y": np.zeros((6, 4))}
    fit = finite(plait.fit(text, data, rank=2, method=method, seed=0, sweeps=60, **METHODS[method]))
    assert predicted(fit, "Y", (6, 4)).sum() < {"em": 1e-12, "vb": 5.0, "map": 10.0}[method]
    assert predicted(fit, "X", (6, 5)).sum() == pytest.approx(data["X"].sum(), rel={"em": 1e-12}.get(method, 0.3))


@EVERY_METHOD
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.filterwarnings("ignore::plait.NoLinksWarning")  # that is the extreme
def test_no_link_at_all(method, likelihood):
    data = {"X": plait.Relation(np.zeros((4, 3, 2)), likelihood=likelihood)}
    fit = finite(plait.fit(CP3, data, rank=2, method=method, seed=0, sweeps=60, **METHODS[method]))
    assert predicted(fit, "X", (4, 3, 2)).max() < 0.6


@EVERY_METHOD
@pytest.mark.parametrize("X", [0.0, 1.0, 1e9])
def test_one_single_cell(X, method):
    fit = finite(plait.fit(CP3, {"X": np.full((1, 1, 1), X)}, rank=2, method=method, seed=0, **METHODS[method]))
    mean = predicted(fit, "X", (1, 1, 1)).item()
    if method == "em":
        assert mean == pytest.approx(X, rel=1e-12, abs=1e-12)


@EVERY_METHOD
@pytest.mark.parametrize("weight", [1e-3, 1e6])
def test_weights_of_a_relation_from_1e_3_to_1e6(weight, method):
    X = np.random.default_rng(7).poisson(2.0, (6, 5, 4)).astype(float)
    data = {"X": plait.Relation(X, weight=weight)}
    fit = finite(plait.fit(CP3, data, rank=2, method=method, seed=0, sweeps=40, **METHODS[method]))
    if method == "em" or weight > 1:
        assert predicted(fit, "X", X.shape).sum() == pytest.approx(X.sum(), rel=1e-4)


def test_zeros_of_weight_1e_3_count_for_little():
    X = np.maximum(np.random.default_rng(8).random((12, 10)) < 0.2, np.eye(12, 10)).astype(float)
    X[10:, 0] = 1.0
    links = pl.DataFrame(dict(zip("ij", np.nonzero(X))))
    rates = [
        predicted(finite(plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": r}, rank=2, seed=0)), "X", X.shape).mean()
        for r in (plait.Relation(links), plait.Relation(links, observed=1e-3))
    ]
    assert rates[1] > 2 * rates[0]


@EVERY_METHOD
@pytest.mark.filterwarnings("ignore::plait.NoLinksWarning")  # that is the extreme
def test_all_cells_hidden(method):
    start = {name: np.full((n, 2), 0.7) for name, n in zip("ABC", (4, 3, 2))}
    settings = METHODS[method] | ({"prior": plait.Gamma(0.5, 2.0), "adapt": None} if method == "vb" else {})
    fit = finite(
        plait.fit(CP3, {"X": np.full((4, 3, 2), np.nan)}, rank=2, method=method, init=start, sweeps=5, **settings)
    )
    means = {"em": 0.7, "map": (1.2 - 1) / 1.2, "vb": 2.0}
    np.testing.assert_allclose(fit.factors["A"].mean, means[method], rtol=1e-13)
    if method != "map":
        assert abs(fit.bound) < 1e-12


@EVERY_METHOD
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_relations_and_rows_of_very_unequal_scales(method, likelihood):
    rng = np.random.default_rng(9)
    text = "X[i,j] = A[i,r] B[j,r]\nY[i,k] = A[i,r] C[k,r]"
    X = rng.poisson(np.geomspace(1e-3, 1e7, 8)[:, None] * rng.gamma(1.0, 1.0, (1, 6))).astype(float)
    Y = (rng.random((8, 5)) < 0.3).astype(float)
    data = {"X": X, "Y": plait.Relation(Y, likelihood=likelihood)}
    fit = finite(plait.fit(text, data, rank=3, method=method, seed=0, sweeps=60, **METHODS[method]))
    mean = predicted(fit, "X", X.shape)
    np.testing.assert_allclose(mean.sum(axis=1)[-2:], X.sum(axis=1)[-2:], rtol=0.01)
    assert (predicted(fit, "Y", Y.shape) >= 0).all()


@EVERY_METHOD
def test_starts_of_very_unequal_scales(method):
    X = np.random.default_rng(10).poisson(2.0, (6, 5, 4)).astype(float)
    rng = np.random.default_rng(11)
    init = {name: s * rng.gamma(1.0, 1.0, (n, 2)) for name, n, s in zip("ABC", (6, 5, 4), (1e-80, 1e100, 1e-30))}
    fit = finite(plait.fit(CP3, {"X": X}, rank=2, method=method, init=init, sweeps=60, **METHODS[method]))
    assert predicted(fit, "X", X.shape).sum() == pytest.approx(X.sum(), rel=1e-9 if method == "em" else 0.2)
