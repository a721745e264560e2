"""Momentum: fewer sweeps to the same place, and nothing that a plain fit promises is lost."""

import numpy as np
import pytest

import plait
from plait.inference import acceleration
from plait.inference.row_kernels import extrapolate
from tests.support.infer_laws import BOTH_LIKELIHOODS, NAMES, PRODUCTS, parse_strategy, rises
from tests.support.problems import ADAPT_WARM, make

# Of a few listed cells all may be links.
pytestmark = pytest.mark.filterwarnings("ignore::plait.errors.NoZerosWarning")

MATRIX = "X[i,j] = A[i,r] B[j,r]"
CP3 = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"


def counts(seed=0, sizes=(30, 25, 20), rank=5):
    rng = np.random.default_rng(seed)
    letters = "ijk"[: len(sizes)]
    text = ",".join(f"{letter}r" for letter in letters) + f"->{letters}"
    return rng.poisson(np.einsum(text, *(rng.gamma(0.5, 1.0, (n, rank)) for n in sizes))).astype(float)


# --- one leap


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("beta", [0.25, 0.6, 0.95])
def test_leap_is_a_power_of_the_last_step(beta, dtype):
    rng = np.random.default_rng(0)
    x0 = rng.gamma(1.0, 1.0, (7, 8)).astype(dtype)
    x1 = (x0 * np.exp(rng.uniform(-0.02, 0.02, x0.shape))).astype(dtype)
    now, before = x1.copy(), x0.copy()
    extrapolate(0, 7, beta, np.ones(7, bool), now, before)
    np.testing.assert_allclose(now, x1.astype(float) * (x1.astype(float) / x0) ** beta, rtol=3e-6)
    assert np.array_equal(before, x1)


def test_leap_stays_positive_whatever_the_step():
    x0, x1 = np.geomspace(1e-12, 1e12, 9)[None], np.geomspace(1e12, 1e-12, 9)[None]
    now, before = x1.copy(), x0.copy()
    extrapolate(0, 1, 0.9, np.ones(1, bool), now, before)
    assert (now > 0).all()
    assert (np.abs(np.log(now / x1)) <= np.log(19.0) + 1e-12).all()


def test_zeros_and_rows_that_do_not_move_stay():
    now, before = np.array([[0.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), np.array([[1.0, 0.0, 2.0], [2.0, 1.0, 2.0]])
    extrapolate(0, 2, 0.5, np.array([True, False]), now, before)
    assert now[0, :2].tolist() == [0.0, 2.0]
    assert now[0, 2] == pytest.approx(3.0 * (5.0 + 0.5) / (5.0 - 0.5))
    assert now[1].tolist() == [1.0, 2.0, 3.0]
    assert before.tolist() == [[0.0, 2.0, 3.0], [1.0, 2.0, 3.0]]


# --- the laws of a fit hold


@pytest.mark.quick(name=["matrix", "bias", "coupled_paper", "friends_two_names"])
@BOTH_LIKELIHOODS
@pytest.mark.parametrize("name", PRODUCTS)
def test_bound_rises_in_every_sweep_with_leaps(name, likelihood, leaps):
    for number, method in enumerate(("em", "map", "vb")):
        case = make(name, parse_strategy(name, 2 * number), likelihood)
        adapt = {"adapt_prior": ("component", None)[NAMES.index(name) % 2]} if method == "vb" else {}
        rises(case, case.fit(method, max_iter=45, accelerate=True, **adapt))
    assert any(leaps)


@pytest.mark.quick(name=["matrix", "bias", "coupled_paper", "friends_two_names"])
@pytest.mark.parametrize("method", ["em", "map", "vb"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_bound_after_leaps_is_that_of_the_state(name, method, leaps):
    case = make(name, parse_strategy(name, 1), ("poisson", "bernoulli")[NAMES.index(name) % 2])
    for sweeps in (24, 31):
        fit = case.fit(method, max_iter=sweeps, accelerate=True)
        assert case.objective(fit) == pytest.approx(fit.objective, rel=1e-10, abs=1e-10 * case.slack(fit) + 1e-11)
    assert any(leaps)


def test_refused_leap_leaves_the_sweep_as_it_was(monkeypatch, leaps):
    def far_off(lo, hi, beta, moves, now, before):
        before[lo:hi] = now[lo:hi]
        now[lo:hi] *= 50.0

    X = counts()
    plain = plait.fit(CP3, {"X": X}, rank=4, seed=0, max_iter=40, tol=0.0)
    monkeypatch.setattr(acceleration, "extrapolate", far_off)
    refused = plait.fit(CP3, {"X": X}, rank=4, seed=0, max_iter=40, tol=0.0, accelerate=True)
    assert leaps
    assert not any(leaps)
    np.testing.assert_allclose([r.objective for r in refused.history], [r.objective for r in plain.history], rtol=1e-12)
    for name, factor in plain.factors.items():
        np.testing.assert_allclose(refused.factors[name].mean, factor.mean, rtol=1e-9)


def test_leaps_that_go_too_far_are_refused_and_the_bound_still_rises(tuning, leaps):
    tuning(momentum_delay=0.0)
    case = make("cp3")
    rises(case, case.fit(max_iter=120, accelerate=True))
    assert any(leaps)
    assert not all(leaps)


def test_fit_leaps_only_if_asked_to_and_calm(tuning, leaps):
    fit = plait.fit(CP3, {"X": counts()}, rank=3, seed=0, max_iter=40, tol=0.0)
    assert not leaps
    assert fit.settings["accelerate"] is False
    tuning(max_momentum_change=0.0)
    plait.fit(CP3, {"X": counts()}, rank=3, seed=0, max_iter=40, tol=0.0, accelerate=True)
    assert not leaps


# --- it pays


@pytest.mark.parametrize("arguments", [{}, {"adapt_prior": None}, {"method": "em"}], ids=str)
def test_fewer_sweeps_to_a_bound_no_lower(arguments):
    settings = {"rank": 6, "seed": 1, "max_iter": 3000, "tol": 1e-8} | arguments
    fast, slow = (plait.fit(CP3, {"X": counts(1)}, accelerate=on, **settings) for on in (True, False))
    assert fast.stop.reason == "converged"
    assert fast.objective >= slow.objective - 1e-5 * abs(slow.objective)
    assert fast.history[-1].sweep < 0.6 * slow.history[-1].sweep


@pytest.mark.parametrize("seed", range(2))
def test_fit_converges_only_by_a_plain_sweep(seed):
    fit = plait.fit(CP3, {"X": counts(2)}, rank=5, seed=seed, max_iter=2000, tol=1e-5, accelerate=True)
    assert fit.stop.reason == "converged"
    assert not fit.state.momentum.extrapolated
    assert abs(fit.history[-1].change) < 1e-5


# --- what must not move


def test_zeros_of_em_stay_zeros(leaps):
    rng = np.random.default_rng(0)
    X = counts(sizes=(15, 12), rank=4)
    start = {"A": rng.gamma(2.0, 1.0, (15, 4)), "B": rng.gamma(2.0, 1.0, (12, 4))}
    start["A"][3:6, 1] = 0.0
    fit = plait.fit(MATRIX, {"X": X}, rank=4, method="em", init=start, max_iter=60, tol=0.0, accelerate=True)
    assert any(leaps)
    assert (fit.factors["A"].mean[3:6, 1] == 0.0).all()
    assert (np.delete(fit.factors["A"].mean, 1, axis=1) > 0.0).any(axis=1).all()


def test_given_factors_and_rows_without_observations_do_not_move(leaps):
    B = np.random.default_rng(0).gamma(2.0, 1.0, (25, 3))
    X = np.where(np.arange(30)[:, None, None] == 4, np.nan, counts())
    fit = plait.fit(CP3, {"X": X}, rank=3, seed=0, fixed={"B": B}, max_iter=50, tol=0.0, accelerate=True)
    assert any(leaps)
    assert np.array_equal(fit.factors["B"].mean, B)
    prior, row = fit.prior["A"], fit.factors["A"]
    np.testing.assert_allclose(row.concentration[4], np.broadcast_to(prior.concentration, (30, 3))[4], rtol=1e-12)
    np.testing.assert_allclose(row.mean[4], np.broadcast_to(prior.mean, (30, 3))[4], rtol=1e-12)


@pytest.mark.parametrize("max_iter", [30, 40, 41])
def test_em_ends_with_the_total_of_the_data(max_iter, leaps):
    X = counts()
    fit = plait.fit(CP3, {"X": X}, rank=5, seed=0, method="em", max_iter=max_iter, tol=0.0, accelerate=True)
    assert leaps
    Z = [fit.factors[name].mean.sum(axis=0) for name in "ABC"]
    assert np.prod(Z, axis=0).sum() == pytest.approx(X.sum(), rel=1e-12)


def test_run_that_ended_in_a_leap_has_not_converged_for_a_plain_fit(tmp_path, leaps):
    settings = {"rank": 5, "seed": 0, "tol": 0.0}
    for last in range(ADAPT_WARM + 5, 70):  # before that, no fit converges
        run = tmp_path / str(last)
        arguments = {"checkpoint": run, "progress": lambda record, last=last: record.sweep < last, "accelerate": True}
        if plait.fit(CP3, {"X": counts()}, max_iter=80, **settings, **arguments).state.momentum.extrapolated:
            break
    on = plait.fit(CP3, {"X": counts()}, **settings | {"tol": 1.0}, max_iter=80, init=run)
    assert on.history[-1].sweep == last + 1, on.stop
