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
from plait.inference import empirical_bayes, gamma
from tests.support import oracle
from tests.support.infer_laws import DENSE
from tests.support.models import DOUBLED, SUMS
from tests.support.problems import ADAPT_AFTER, ADAPT_WARM, PRIOR, RANK_ONE_MEAN_SWEEPS, make, starts, state_of

MATRIX = "X[i,j] = A[i,r] B[j,r]"
MODEL_NAMES = (
    "matrix", "cp3_mixed_order", "tucker", "block_term", "two_visible_mixed_order", "vector", "coupled_bias",
    "shared_factor", "symmetric_weighted", "rescal_bias",
)  # fmt: skip


def before_and_after(case, name, tie, **options):
    """The fit when priors are about to adapt for the first time, and one sweep later; one factor: no gauge to fix."""
    common = options | {"adapt_prior": {name: tie}, **DENSE}
    return case.fit(max_iter=ADAPT_AFTER, **common), case.fit(max_iter=ADAPT_AFTER + 1, **common)


def indices_of(tie, factor):
    return {"factor": (), "component": factor.latent, "entity": factor.visible}.get(tie, tie)


@pytest.mark.quick(name=["tucker", "rescal_bias"])
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
    common = {"rank": 2, "prior": prior, "adapt_prior": {"A": "component"}, "seed": 0, "tol": 0.0, "warmup": 0}
    fit = plait.fit(MATRIX, {"X": X}, max_iter=ADAPT_AFTER + 1, **common)
    assert (fit.prior["A"].mean != 1.3).all()
    assert (fit.prior["A"].concentration != 0.7).all() == (size == 8)


def test_groups_without_observed_cells_take_the_average_of_the_others():
    X = np.random.default_rng(1).poisson(2.0, (9, 11)).astype(float)
    X[[2, 5]] = np.nan
    common = {"rank": 9, "adapt_prior": {"A": "entity"}, "seed": 0, "tol": 0.0, "warmup": 0}
    before, after = (
        plait.fit(MATRIX, {"X": X}, prior=plait.Gamma(0.7, 1.3), max_iter=n, **common)
        for n in (ADAPT_AFTER, ADAPT_AFTER + 1)
    )
    observed = ~np.isnan(X).all(axis=1, keepdims=True)
    factor = before.factors["A"]
    A, B = oracle.adapted_prior(factor.concentration, factor.scale, 0.7, ("i", "r"), ("i",), observed=observed)
    np.testing.assert_allclose(after.prior["A"].mean, B, rtol=1e-12)
    np.testing.assert_allclose(after.prior["A"].concentration, A, rtol=1e-9)
    assert B[2] == B[5] == pytest.approx(np.delete(B, [2, 5]).mean())


def test_an_unseen_entity_takes_part_in_no_rank_one_average():
    X = np.random.default_rng(2).poisson(2.0, (9, 11)).astype(float)
    X[4] = np.nan
    fit = plait.fit(MATRIX, {"X": X}, rank=3, adapt_prior={"A": "rank-one"}, seed=0, max_iter=40, tol=0.0)
    B = fit.prior["A"].mean
    np.testing.assert_allclose(B[4], np.delete(B, 4, axis=0).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(fit.factors["A"].mean[4], B[4], rtol=1e-12)


@pytest.mark.parametrize("name", ["matrix", "tucker2", "two_visible_mixed_order"])
def test_rank_one_means_approach_the_oracles_and_concentration_solves_for_them(name, working_set):
    case = make(name, "missing_cells")
    case.fit(max_iter=ADAPT_AFTER, adapt_prior=None)
    problem = working_set[0]
    factor = next(f for f in case.model.factors if case.model.factor(f).visible and case.model.factor(f).latent)
    for _ in range(200):  # the posterior stays: only the means alternate
        empirical_bayes.adapt(problem, {factor: "rank-one"})
    layout, prior = problem.factors[factor].layout, problem.priors[factor]
    E, log_L = (layout.unpack(a) for a in (problem.factors[factor].mean, problem.factors[factor].log_geomean))
    np.testing.assert_allclose(prior.mean, oracle.rank_one_means(E, layout.inside, layout.visible), rtol=1e-6)
    A = oracle.best_concentration(E, log_L, prior.mean)
    np.testing.assert_allclose(prior.concentration, A, rtol=1e-8)


def scarce():
    """Counts of 12 rows of which rows 3 and 7 have no link, and row 9 has one."""
    X = np.random.default_rng(5).poisson(1.5, (12, 15)).astype(float)
    X[[3, 7, 9]] = 0.0
    X[9, 0] = 1.0
    return X


def test_rows_of_fewer_than_two_links_share_a_rank_one_level():
    fit = plait.fit(MATRIX, {"X": scarce()}, rank=3, adapt_prior={"A": "rank-one"}, seed=0, max_iter=60)
    level = fit.prior["A"].mean[:, 0]
    assert level[3] == level[7] == level[9]
    assert len(set(level)) == 10


def test_a_row_without_links_keeps_a_rate():
    fit = plait.fit(MATRIX, {"X": scarce()}, rank=3, adapt_prior="rank-one", seed=0, max_iter=1000, tol=0.0)
    rates = fit.factors["A"].mean @ fit.factors["B"].mean.sum(axis=0)
    assert rates[3] > 0.01


@pytest.mark.parametrize(("weight", "levels"), [(1.0, 12), (0.01, 1)])
def test_weights_decide_what_few_links_are(weight, levels):
    X = plait.Relation(np.random.default_rng(5).poisson(1.5, (12, 15)).astype(float), weight=weight)
    fit = plait.fit(MATRIX, {"X": X}, rank=3, adapt_prior={"A": "rank-one"}, seed=0, max_iter=60)
    assert len(set(fit.prior["A"].mean[:, 0])) == levels


@pytest.mark.parametrize(("warmup", "after"), [(0, ADAPT_AFTER), (50, ADAPT_WARM)])
def test_rank_one_concentrations_wait_until_the_means_have_settled(warmup, after):
    common = {"rank": 3, "adapt_prior": {"A": "rank-one", "B": "factor"}, "seed": 0, "tol": 0.0, "warmup": warmup}
    early, late = (
        plait.fit(MATRIX, {"X": scarce()}, max_iter=after + RANK_ONE_MEAN_SWEEPS + n, **common) for n in (0, 1)
    )
    assert early.prior["A"].concentration == 0.5
    assert len(set(early.prior["A"].mean.ravel())) > 3
    assert late.prior["A"].concentration != 0.5
    assert early.prior["B"].concentration != 0.5


def test_no_fit_converges_before_its_rank_one_concentrations_adapt():
    fit = plait.fit(MATRIX, {"X": scarce()}, rank=2, adapt_prior="rank-one", seed=0, tol=0.5)
    assert fit.history[-1].sweep == ADAPT_WARM + RANK_ONE_MEAN_SWEEPS + 2


def test_rank_one_of_a_factor_without_entities_or_components_is_one_prior():
    case = make("cp3_weighted")
    rank_one, factor = (case.fit(max_iter=20, adapt_prior={"w": tie}) for tie in ("rank-one", "factor"))
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

    low, high = np.log(gamma.MIN_CONCENTRATION), np.log(gamma.MAX_CONCENTRATION)
    found = gamma.solve_concentration(np.array([gap]), np.array([start]))[0]
    if slope(low) <= 0:
        assert found == gamma.MIN_CONCENTRATION
    elif slope(high) >= 0:
        assert found == gamma.MAX_CONCENTRATION
    else:
        exact = np.exp(brentq(slope, low, high, xtol=1e-14, rtol=1e-14))
        # The equation's own condition: for large A the left side is 1/(2A), so an error of 1e-16 moves A by 2e-16 A.
        assert found == pytest.approx(exact, rel=1e-11 * max(1.0, exact))


@pytest.mark.parametrize("gap", [-1.0, 0.0, 1e-12])
def test_entries_that_do_not_spread_give_the_highest_concentration(gap):
    assert gamma.solve_concentration(np.array([gap]), np.array([0.5])) == gamma.MAX_CONCENTRATION


# --- the gauge


def scaled(state, factors):
    return {n: (C, D * factors.get(n, 1.0)) for n, (C, D) in state.items()}


@pytest.mark.parametrize("tie", ["factor", "component", "entity", "rank-one"])
def test_scaled_starts_under_scaled_priors_report_the_same_priors_and_posteriors(tie):
    case = make("coupled_chain", "missing_cells")
    state, scale = case.start(0), {"A": 4.0, "B": 0.25, "C": 4.0, "D": 0.25}
    fits = [
        case.fit(
            max_iter=25, adapt_prior=tie, init=starts(scaled(state, by)),
            prior={n: plait.Gamma(0.7, 1.3 * by.get(n, 1.0)) for n in case.model.factors},
        )
        for by in ({}, scale)
    ]  # fmt: skip
    assert fits[1].objective == pytest.approx(fits[0].objective, rel=1e-11)
    for name in case.model.factors:
        np.testing.assert_allclose(fits[1].prior[name].mean, fits[0].prior[name].mean, rtol=1e-9)
        np.testing.assert_allclose(fits[1].factors[name].mean, fits[0].factors[name].mean, rtol=1e-9)


@pytest.mark.parametrize(
    "name",
    ["cp3", "coupled_paper", "coupled_scalar", "tucker", "pairwise", "shared_factor", "coupled_sum",
     "symmetric_coupled", "rescal_bias"],
)  # fmt: skip
def test_fixing_the_gauge_changes_neither_the_bound_nor_predictions(name, monkeypatch):
    case = make(name, "missing_cells", "bernoulli")
    settings = {"max_iter": 25, "adapt_prior": "component", **(DENSE if name in SUMS | DOUBLED else {})}
    fixed = case.fit(**settings)
    monkeypatch.setattr(plait.storage.fitted, "_log_scales", lambda *arguments: {})
    plain = case.fit(**settings)
    assert case.objective(fixed) == pytest.approx(case.objective(plain), rel=1e-11)
    assert fixed.objective == plain.objective == pytest.approx(case.objective(plain), rel=1e-10)
    if name in SUMS | DOUBLED:
        return
    assert any(not np.allclose(fixed.factors[f].mean, plain.factors[f].mean, rtol=1e-3) for f in case.model.factors)
    for relation, indices, _ in case.problem.equations:
        if shape := case.problem.X[relation].shape:
            cells = pl.DataFrame(dict(zip(indices, np.indices(shape).reshape(len(shape), -1))))
            first, second = (fit.predict(relation, cells)["mean"].to_numpy() for fit in (fixed, plain))
            np.testing.assert_allclose(first, second, rtol=1e-11)


def test_gauge_brings_the_means_of_adapted_factors_together():
    fit = make("cp3").fit(max_iter=25)
    means = [factor.mean.mean() for factor in fit.factors.values()]
    np.testing.assert_allclose(means, means[0], rtol=1e-12)


def test_factors_that_are_not_adapted_keep_their_scale_and_prior():
    case = make("cp3")
    fit = case.fit(max_iter=25, adapt_prior={"A": "factor", "C": "factor"})
    assert fit.prior["B"].mean.item() == 1.3
    problem = replace(case.problem, prior={n: (p.concentration, p.mean) for n, p in fit.prior.items()})
    assert oracle.bound(problem, state_of(fit, "ABC")) == pytest.approx(fit.objective, rel=1e-11)
