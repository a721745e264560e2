"""Adapted priors equal the oracle's, group by group; concentrations solve their equation; the gauge is only a gauge."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import digamma

import plait
import plait.execute
import plait.fitting.members
from plait.infer import hyper
from plait.infer.loop import ADAPT_AFTER, ADAPT_WARM
from tests import oracle
from tests.cases import PRIOR, make, starts, state_of

MODEL_NAMES = (
    "matrix", "cp3_mixed_order", "tucker", "block_term", "two_visible_mixed_order", "vector", "coupled_bias",
    "shared_factor", "symmetric_weighted", "rescal_bias",
)  # fmt: skip


def before_and_after(case, name, tie, **options):
    """The fit when priors are about to adapt for the first time, and one sweep later; one factor: no gauge to fix."""
    common = options | {"adapt": {name: tie}, "executor": plait.execute.Reference()}
    return case.fit(sweeps=ADAPT_AFTER, **common), case.fit(sweeps=ADAPT_AFTER + 1, **common)


def indices_of(tie, factor):
    return {"factor": (), "component": factor.latent, "entity": factor.visible}.get(tie, tie)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("tie", ["factor", "component", "entity", "first", "last"])
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_adapted_prior_is_the_oracles_for_every_factor_and_tying(name, tie):
    case = make(name, "missing_cells")
    for factor in case.model.factors:
        its = case.model.factor(factor)
        if tie in ("first", "last") and len(its.indices) < 2:
            continue
        tied = {"first": its.indices[:1], "last": its.indices[-1:]}.get(tie, tie)
        before, after = before_and_after(case, factor, tied)
        C, D = before.factors[factor].concentration, before.factors[factor].scale
        E = oracle.means(case.problem, state_of(before, case.problem.free))
        observed = oracle.exposure(case.problem, E, factor) > 0
        old = PRIOR["vb"].concentration
        groups = {case.model.axis(index) for index in indices_of(tied, its)}
        groups = [index for index in its.indices if case.model.axis(index) in groups]
        A, B = oracle.adapted_prior(C, D, old, its.indices, groups, observed=observed)
        prior = after.prior[factor]
        np.testing.assert_allclose(prior.mean, B, rtol=1e-12, err_msg=factor)
        # log A - psi(A) is flat for large A: rounding on its right side moves A by A times as much.
        np.testing.assert_allclose(prior.concentration, A, rtol=1e-10 * max(1.0, float(A.max())), err_msg=factor)


@pytest.mark.parametrize("size", [7, 8])
def test_groups_of_fewer_than_8_entries_adapt_their_mean_only(size):
    X = np.random.default_rng(0).poisson(2.0, (size, 12)).astype(float)
    prior = plait.Gamma(0.7, 1.3)
    common = {"rank": 2, "prior": prior, "adapt": {"A": "component"}, "seed": 0, "tol": 0.0, "start": "random"}
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, sweeps=ADAPT_AFTER + 1, **common)
    assert (fit.prior["A"].mean != 1.3).all()
    assert (fit.prior["A"].concentration != 0.7).all() == (size == 8)


def test_groups_that_nothing_was_observed_of_take_the_average_of_the_others():
    rng = np.random.default_rng(1)
    X = rng.poisson(2.0, (9, 11)).astype(float)
    X[[2, 5]] = np.nan
    prior, common = plait.Gamma(0.7, 1.3), {"rank": 9, "adapt": {"A": "entity"}, "seed": 0, "tol": 0.0}
    before, after = (
        plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, prior=prior, start="random", sweeps=n, **common)
        for n in (ADAPT_AFTER, ADAPT_AFTER + 1)
    )
    C, D = before.factors["A"].concentration, before.factors["A"].scale
    observed = np.ones((9, 1), bool)
    observed[[2, 5]] = False
    A, B = oracle.adapted_prior(C, D, 0.7, ("i", "r"), ("i",), observed=observed)
    np.testing.assert_allclose(after.prior["A"].mean, B, rtol=1e-12)
    np.testing.assert_allclose(after.prior["A"].concentration, A, rtol=1e-9)
    assert B[2] == B[5] == pytest.approx(np.delete(B, [2, 5]).mean())


def test_an_unseen_entity_takes_part_in_no_rank_one_average():
    X = np.random.default_rng(2).poisson(2.0, (9, 11)).astype(float)
    X[4] = np.nan
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=3, adapt={"A": "rank-one"}, seed=0, sweeps=40, tol=0.0)
    B = fit.prior["A"].mean
    np.testing.assert_allclose(B[4], np.delete(B, 4, axis=0).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(fit.factors["A"].mean[4], B[4], rtol=1e-12)


@pytest.mark.parametrize("name", ["matrix", "tucker2", "two_visible_mixed_order"])
def test_rank_one_means_approach_the_oracles_and_concentration_solves_for_them(name, monkeypatch):
    case, kept, run = make(name, "missing_cells"), [], plait.fitting.members.run
    monkeypatch.setattr(plait.fitting.members, "run", lambda problem, *a: kept.append(problem) or run(problem, *a))
    case.fit(sweeps=ADAPT_AFTER, adapt=None)
    problem = kept[0]
    factor = next(f for f in case.model.factors if case.model.factor(f).visible and case.model.factor(f).latent)
    for _ in range(200):  # the posterior stays: only the means alternate
        hyper.adapt(problem, {factor: "rank-one"})
    layout, prior = problem.factors[factor].layout, problem.priors[factor]
    E, log_L = (layout.unpack(a) for a in (problem.factors[factor].mean, problem.factors[factor].log_geomean))
    np.testing.assert_allclose(prior.mean, oracle.rank_one_means(E, layout.inside, layout.visible), rtol=1e-6)
    A = oracle.best_concentration(E, log_L, prior.mean)
    np.testing.assert_allclose(prior.concentration, A, rtol=1e-8)


def scarce(rows=12, empty=(3, 7), single=9):
    """Counts of which some rows have no link, and one has one."""
    X = np.random.default_rng(5).poisson(1.5, (rows, 15)).astype(float)
    X[[*empty, single]] = 0.0
    X[single, 0] = 1.0
    return X


def test_rows_of_fewer_than_two_links_share_a_rank_one_level():
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": scarce()}, rank=3, adapt={"A": "rank-one"}, seed=0, sweeps=60)
    level = fit.prior["A"].mean[:, 0]
    assert level[3] == level[7] == level[9]
    assert len(set(level)) == 10


def test_a_row_without_links_is_not_pressed_to_nothing():
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": scarce()}, rank=3, adapt="rank-one", seed=0, sweeps=1000, tol=0.0)
    rates = fit.factors["A"].mean @ fit.factors["B"].mean.sum(axis=0)
    assert rates[3] > 0.01


def test_weights_decide_what_few_links_are():
    X = np.random.default_rng(5).poisson(1.5, (12, 15)).astype(float)
    heavy, light = (
        plait.fit(
            "X[i,j] = A[i,r] B[j,r]", {"X": plait.Relation(X, weight=weight)}, rank=3, adapt={"A": "rank-one"}, seed=0,
            sweeps=60,
        )
        for weight in (1.0, 0.01)
    )  # fmt: skip
    assert len(set(heavy.prior["A"].mean[:, 0])) == 12
    assert len(set(light.prior["A"].mean[:, 0])) == 1


@pytest.mark.parametrize(("start", "after"), [("random", ADAPT_AFTER), ("em", ADAPT_WARM)])
def test_rank_one_concentrations_wait_until_the_means_have_settled(start, after):
    common = {"rank": 3, "adapt": {"A": "rank-one", "B": "factor"}, "seed": 0, "tol": 0.0, "start": start}
    early, late = (
        plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": scarce()}, sweeps=after + hyper.HOLD + n, **common) for n in (0, 1)
    )
    assert early.prior["A"].concentration == 0.5
    assert len(set(early.prior["A"].mean.ravel())) > 3
    assert late.prior["A"].concentration != 0.5
    assert early.prior["B"].concentration != 0.5


def test_no_fit_converges_before_its_rank_one_concentrations_adapt():
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": scarce()}, rank=2, adapt="rank-one", seed=0, tol=0.5)
    assert fit.history[-1].sweep == ADAPT_WARM + hyper.HOLD + 2


def test_rank_one_of_a_factor_without_entities_or_components_is_one_prior():
    case = make("cp3_weighted")
    rank_one, factor = (case.fit(sweeps=20, adapt={"w": tie}) for tie in ("rank-one", "factor"))
    assert rank_one.prior["w"].mean.tolist() == factor.prior["w"].mean.tolist()


# --- the concentration


@given(
    gap=st.floats(-2, 3.2).map(lambda power: 10.0**power) | st.floats(1e-6, 1e4),
    start=st.floats(-4, 5).map(lambda power: 10.0**power),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_concentration_solves_its_equation_from_any_start_or_is_clipped(gap, start):
    def slope(log_A):
        return log_A - digamma(np.exp(log_A)) - gap

    low, high = np.log(hyper.LOWEST), np.log(hyper.HIGHEST)
    found = hyper.solve_concentration(np.array([gap]), np.array([start]))[0]
    if slope(low) <= 0:
        assert found == hyper.LOWEST
    elif slope(high) >= 0:
        assert found == hyper.HIGHEST
    else:
        exact = np.exp(brentq(slope, low, high, xtol=1e-14, rtol=1e-14))
        # The equation's own condition: for large A the left side is 1/(2A), so an error of 1e-16 moves A by 2e-16 A.
        assert found == pytest.approx(exact, rel=1e-11 * max(1.0, exact))


def test_concentrations_of_groups_do_not_depend_on_how_an_array_lies_in_memory():
    gap = np.linspace(0.1, 3.0, 12).reshape(3, 4)
    assert (
        hyper.solve_concentration(gap.T, np.ones((1, 1))).T.tolist()
        == hyper.solve_concentration(gap, np.ones((1, 1))).tolist()
    )


@pytest.mark.parametrize("gap", [-1.0, 0.0, 1e-12])
def test_entries_that_do_not_spread_give_the_highest_concentration(gap):
    assert hyper.solve_concentration(np.array([gap]), np.array([0.5])) == hyper.HIGHEST


def test_adapted_concentration_stays_within_its_clip():
    same = plait.fit("X[i,j] = a[i] b[j]", {"X": np.full((20, 20), 50.0)}, seed=0, sweeps=300, tol=0.0)
    assert all(hyper.LOWEST <= p.concentration.item() <= hyper.HIGHEST for p in same.prior.values())
    X = np.zeros((30, 30))
    X[0, 0] = 1e7
    spiky = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=4, seed=0, sweeps=300, tol=0.0)
    assert all(hyper.LOWEST <= p.concentration.item() <= hyper.HIGHEST for p in spiky.prior.values())
    assert np.isfinite(spiky.bound)


# --- the gauge


def scaled(state, factors):
    return {n: (C, D * factors.get(n, 1.0)) for n, (C, D) in state.items()}


@pytest.mark.parametrize("tie", ["factor", "component", "entity", "rank-one"])
def test_scaled_starts_under_scaled_priors_report_the_same_priors_and_posteriors(tie):
    case = make("coupled_chain", "missing_cells")
    state, scale = case.start(0), {"A": 4.0, "B": 0.25, "C": 4.0, "D": 0.25}
    fits = [
        case.fit(
            sweeps=25, adapt=tie, init=starts(scaled(state, by)),
            prior={n: plait.Gamma(0.7, 1.3 * by.get(n, 1.0)) for n in case.model.factors},
        )
        for by in ({}, scale)
    ]  # fmt: skip
    assert fits[1].bound == pytest.approx(fits[0].bound, rel=1e-11)
    for name in case.model.factors:
        np.testing.assert_allclose(fits[1].prior[name].mean, fits[0].prior[name].mean, rtol=1e-9)
        np.testing.assert_allclose(fits[1].factors[name].mean, fits[0].factors[name].mean, rtol=1e-9)


def test_scaled_starts_under_one_prior_report_the_same_prior_once_converged():
    rng = np.random.default_rng(3)
    X = rng.poisson(rng.gamma(1.0, 2.0, (30, 2)) @ rng.gamma(1.0, 2.0, (25, 2)).T).astype(float)
    start = {"A": rng.gamma(2.0, 1.0, (30, 2)), "B": rng.gamma(2.0, 1.0, (25, 2))}
    other = {"A": 3.0 * start["A"], "B": start["B"] / 3.0}
    fits = [
        plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, init=init, sweeps=3000, tol=1e-13)
        for init in (start, other)
    ]
    assert fits[0].bound == pytest.approx(fits[1].bound, rel=1e-7)
    for name in "AB":
        for word in ("concentration", "mean"):
            first, second = (getattr(fit.prior[name], word) for fit in fits)
            np.testing.assert_allclose(first, second, rtol=2e-3, err_msg=f"{word} of {name}")


@pytest.mark.parametrize("name", ["cp3", "coupled_paper", "coupled_scalar", "tucker"])
def test_fixing_the_gauge_changes_neither_the_bound_nor_predictions(name, monkeypatch):
    case = make(name, "missing_cells", "bernoulli")
    fixed = case.fit(sweeps=25, adapt="component")
    monkeypatch.setattr(plait.run.record, "_log_scales", lambda *arguments: {})
    plain = case.fit(sweeps=25, adapt="component")
    assert any(not np.allclose(fixed.factors[f].mean, plain.factors[f].mean, rtol=1e-3) for f in case.model.factors)
    assert case.objective(fixed) == pytest.approx(case.objective(plain), rel=1e-11)
    assert fixed.bound == plain.bound
    for relation, indices, _ in case.problem.equations:
        shape = case.problem.X[relation].shape
        if shape:
            cells = pl.DataFrame(dict(zip(indices, np.indices(shape).reshape(len(shape), -1))))
            first, second = (fit.predict(relation, cells)["mean"].to_numpy() for fit in (fixed, plain))
            np.testing.assert_allclose(first, second, rtol=1e-11)


@pytest.mark.parametrize("name", ["pairwise", "shared_factor", "coupled_sum", "symmetric_coupled", "rescal_bias"])
def test_fixing_the_gauge_of_a_sum_changes_no_bound(name, monkeypatch):
    case = make(name, "missing_cells", "bernoulli")
    settings = {"sweeps": 25, "adapt": "component", "executor": plait.execute.Reference()}
    fixed = case.fit(**settings)
    monkeypatch.setattr(plait.run.record, "_log_scales", lambda *arguments: {})
    plain = case.fit(**settings)
    assert case.objective(fixed) == pytest.approx(case.objective(plain), rel=1e-11)
    assert fixed.bound == plain.bound == pytest.approx(case.objective(plain), rel=1e-10)


def test_gauge_brings_the_means_of_adapted_factors_together():
    fit = make("cp3").fit(sweeps=25)
    means = [factor.mean.mean() for factor in fit.factors.values()]
    np.testing.assert_allclose(means, means[0], rtol=1e-12)


def test_factors_that_are_not_adapted_keep_their_scale_and_prior():
    case = make("cp3")
    fit = case.fit(sweeps=25, adapt={"A": "factor", "C": "factor"})
    assert fit.prior["B"].mean.item() == 1.3
    problem = replace(case.problem, prior={n: (p.concentration, p.mean) for n, p in fit.prior.items()})
    assert oracle.bound(problem, state_of(fit, "ABC")) == pytest.approx(fit.bound, rel=1e-11)
