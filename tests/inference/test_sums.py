"""Laws of equations that are sums of products, and of factors that stand twice in a term."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import plait
from plait.inference import prune as pruning
from tests.support import oracle
from tests.support.infer_laws import BOTH_LIKELIHOODS, DENSE, finite, own_bounds_rise
from tests.support.models import DOUBLED, SUMS
from tests.support.problems import Start, bits, make, own_bounds, starts, state_of

# Of a few listed cells all may be links; pairs without a direction are listed once.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::plait.errors.{kind}") for kind in ("NoZerosWarning", "AsymmetricLinksWarning")
]


@pytest.mark.quick(name=["pairwise", "rescal_bias"])
@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")
@pytest.mark.parametrize("name", [*SUMS, *DOUBLED])
def test_a_fit_under_default_settings_is_finite(name):
    case = make(name, "missing_cells")
    settings = {"rank": case.rank, "fixed": case.fixed, "seed": 0, "tol": 0.02, "max_iter": 40, **DENSE}
    fit = finite(plait.fit(case.model, case.data, restarts=2, **settings))
    assert list(fit.prior) == case.problem.free


def test_given_terms_may_be_tables_with_a_default():
    rng = np.random.default_rng(2)
    X, N = rng.poisson(2.0, (6, 5)).astype(float), np.full((6, 5), 0.25)
    N[[0, 2, 5], [1, 1, 4]] = 3.0, 0.0, 1.5
    table = pl.DataFrame({"i": [0, 2, 5], "j": [1, 1, 4], "value": [3.0, 0.0, 1.5]})
    settings = {"rank": 2, "seed": 0, "max_iter": 12, **DENSE}
    text = "X[i,j] = A[i,r] B[j,r] + w[] N[i,j]"
    dense, listed = (
        plait.fit(text, {"X": X}, fixed={"N": given}, **settings) for given in (N, plait.Exposure(table, default=0.25))
    )
    assert bits(dense) == bits(listed)


# --- a sum and the single product


@BOTH_LIKELIHOODS
def test_one_cp_of_rank_6_is_two_terms_of_rank_3(likelihood):
    case, rng = make("cp3", "missing_cells", likelihood), np.random.default_rng(5)
    whole = {name: Start(*rng.uniform(0.3, 2.0, (2, size, 6))) for name, size in zip("ABC", (5, 4, 3))}
    halves = {
        new: Start(whole[old].concentration[:, part], whole[old].scale[:, part])
        for names, part in (("ABC", slice(0, 3)), ("DEF", slice(3, 6)))
        for old, new in zip("ABC", names)
    }
    settings = {"prior": plait.Gamma(0.7, 1.3), "adapt_prior": None, "max_iter": 20, "tol": 0.0}
    one = plait.fit(case.model, case.data, rank=6, init=whole, threads=1, **settings)
    # In the order A D B E C F, a sweep updates what the sweep of the single product does.
    model = plait.Model("X[i,j,k] = A[i,r] B[j,r] C[k,r] + D[i,r] E[j,r] F[k,r]")
    two = plait.fit(model, replace(case.data, model=model), rank=3, init=halves, threads=1, **settings)
    np.testing.assert_allclose(own_bounds(two), own_bounds(one), rtol=1e-10)
    for old, new in zip("ABC", "DEF"):
        joined = np.concatenate([two.factors[old].mean, two.factors[new].mean], axis=1)
        np.testing.assert_allclose(joined, one.factors[old].mean, rtol=1e-8)


def test_a_sum_of_one_product_and_its_factors_in_other_relations_keep_their_scale():
    """A factor at its true scale, for a sum has it, is as good in a relation that is a single product."""
    case = make("coupled_sum")
    sizes = {"A": 1e-70, "B": 1e80, "C": 1e-10, "D": 1e-80}
    state = {name: (C, D * sizes.get(name, 1.0)) for name, (C, D) in case.start(1).items()}
    prior = {name: plait.Gamma(0.7, 1.3 * sizes.get(name, 1.0)) for name in case.problem.free}
    plain = case.fit(init=starts(case.start(1)), adapt_prior=None, max_iter=5, **DENSE)
    moved = case.fit(init=starts(state), prior=prior, adapt_prior=None, max_iter=5, **DENSE)
    assert finite(moved).objective == pytest.approx(plain.objective, rel=1e-10)


# --- pairs without a direction


def graph(size=14, seed=0, rank=3):
    """Pairs, each listed once, and the relation that they make with a hidden diagonal."""
    rng = np.random.default_rng(seed)
    U = rng.gamma(0.4, 1.0, (size, rank))
    X = np.triu(rng.poisson(U @ U.T), 1).astype(float)
    return X, pairs(X, ("user", "friend"))


def pairs(X, indices):
    i, j = np.nonzero(X)
    table, diagonal = pl.DataFrame(dict(zip(indices, (i, j))) | {"value": X[i, j]}), range(len(X))
    return plait.Relation(table, missing=pl.DataFrame(dict.fromkeys(indices, diagonal)), unseen="zero")


@pytest.mark.quick(method=["vb"])
@pytest.mark.parametrize("method", ["em", "vb"])
@pytest.mark.parametrize(
    "right", ["U[{0},r] U[{1},r]", "w[r] U[{0},r] U[{1},r] + c[]", "U[{0},r] W[{1},r] + U[{1},r] W[{0},r]"]
)
def test_exchanging_the_two_indices_of_an_undirected_relation_changes_no_bit(right, method):
    _, relation = graph()
    settings = {"rank": 3, "seed": 0, "max_iter": 8, "method": method, "entities": {"user": range(14)}, "threads": 1}
    texts = (f"X[user,friend] = {right.format(*names)}" for names in (("user", "friend"), ("friend", "user")))
    one, other = (plait.fit(f"{text}\nfriend: user", {"X": relation}, **settings) for text in texts)
    assert bits(one) == bits(other)


def test_rows_without_links_of_a_symmetric_factor_are_0_after_em():
    X = np.zeros((6, 6))
    X[0, 1], X[0, 2], X[1, 2] = 3.0, 1.0, 2.0
    data = {"friends": pairs(X, ("user", "friend"))}
    settings = {"entities": {"user": range(6)}, "rank": 2, "method": "em", "seed": 0, "max_iter": 30}
    U = plait.fit(DOUBLED["symmetric"], data, **settings, **DENSE).factors["U"].mean
    assert not U[3:].any()
    assert (U[:3].sum(axis=1) > 0).all()


def test_entries_of_a_symmetric_factor_that_fade_away_under_em_stay_finite():
    """Down to the smallest doubles and beyond: their exposure divided by them overflows."""
    case = make("symmetric")
    start = {"U": np.full((6, 3), 0.5)}
    start["U"][:3, 0], start["U"][3:, 1], start["U"][0, 2], start["U"][5, 2] = 1e-320, 5e-324, 1e-310, 1e-300
    finite(case.fit("em", init=start, max_iter=20, **DENSE))


def rescal(seed, scale):
    """Counts of 6 kinds between 40 entities of 3 groups, and what they are drawn from."""
    rng = np.random.default_rng(seed)
    A = np.eye(3)[rng.integers(0, 3, 40)] * rng.gamma(4.0, 0.5, (40, 1)) + 0.02
    G = rng.gamma(0.5, 2.0 * scale, (3, 6, 3))
    X = rng.poisson(np.einsum("ha,apb,tb->hpt", A, G, A)).astype(float)
    X[np.arange(40), :, np.arange(40)] = np.nan
    return X, A, G


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("likelihood", "scale"), [("poisson", 1.0), ("bernoulli", 0.03)])
def test_rescal_fitted_to_its_own_data_reaches_the_bound_of_a_fit_started_at_the_truth(likelihood, scale, seed):
    """The best of six starts, within 1 %: one alone may end several percent below."""
    X, A, G = rescal(seed, scale)
    X = np.where(np.isnan(X), X, np.minimum(X, 1.0)) if likelihood == "bernoulli" else X
    text = "X[h,p,t] = A[h,a] G[a,p,b] A[t,b]\nt: h"
    data = plait.Model(text).bind({"X": plait.Relation(X, likelihood=likelihood)})
    settings = {"rank": 3, "max_iter": 200, "accelerate": True, "threads": 1}
    truth = plait.fit(text, data, init={"A": A, "G": G}, **settings)
    found = plait.fit(text, data, seed=0, restarts=6, combine="best", **settings)
    assert found.objective >= truth.objective - 0.01 * abs(truth.objective)


# --- extremes


@BOTH_LIKELIHOODS
@pytest.mark.parametrize("name", ["same_latent", "given_in_terms", "symmetric", "rescal_bias"])
def test_entries_of_a_sum_that_underflow_equal_the_oracle(name, likelihood, underflow):
    case, rng = make(name, "all", likelihood), np.random.default_rng(3)
    problem = replace(case.problem, prior=dict.fromkeys(case.problem.free, (1e-3, 1.0)))
    state = {
        factor: (rng.choice([1.2e-3, 1.0], np.shape(C)), np.ones(np.shape(C)))
        for factor, (C, _) in case.start(0).items()
    }
    settings = {"prior": plait.Gamma(1e-3, 1.0), "adapt_prior": None, "init": starts(state), **DENSE}
    for sweeps in (1, 2):
        state = oracle.sweep(problem, state, "vb")
        fit = finite(case.fit(max_iter=sweeps, **settings))
        assert fit.objective == pytest.approx(oracle.bound(problem, state), rel=1e-9)
        for factor in problem.free:
            np.testing.assert_allclose(fit.factors[factor].concentration, state[factor][0], rtol=1e-8, atol=1e-12)
    assert underflow, "no entry took the log-sum-exp path"


@pytest.mark.filterwarnings("ignore::plait.errors.OverdispersionWarning")
def test_counts_up_to_1e9_next_to_a_background():
    X = np.random.default_rng(0).poisson(1.0, (6, 5, 4)).astype(float)
    X[1, 2, 3], X[4, 0, 0] = 1e9, 123_456_789.0
    for method in ("vb", "em"):
        finite(plait.fit(SUMS["cp3_bias"], {"X": X}, rank=3, method=method, seed=0, max_iter=40, **DENSE))


# --- pruning


def test_components_of_a_sum_go_wherever_their_index_stands():
    """From a start at which two of four components are next to nothing in every factor."""
    rng = np.random.default_rng(1)
    blocks = [np.repeat(np.eye(2), n, axis=0) * rng.gamma(4.0, 0.5, (2 * n, 1)) for n in (8, 7, 6)]
    X = rng.poisson(2.0 * np.einsum("ir,jr,kr->ijk", *blocks) + rng.gamma(2.0, 0.2, (16, 1, 1))).astype(float)
    text = "X[i,j,k] = A[i,r] B[j,r] C[k,r] + b[i] + D[i,r] E[j,r]"
    start = {name: faded(rng, size) for name, size in zip("ABCDE", (16, 14, 12, 16, 14))}
    fit = plait.fit(text, {"X": X}, rank=4, init=start, **PRUNED)
    assert fit.rank == {"r": 2}
    assert {fit.factors[name].mean.shape[1] for name in "ABCDE"} == {2}
    own_bounds_rise(fit)


def test_both_latent_indices_of_a_factor_twice_are_pruned_together():
    X, _, _ = rescal(0, 1.0)
    text, rng = "X[h,p,t] = A[h,a] G[a,p,b] A[t,b]\nt: h", np.random.default_rng(2)
    fit = plait.fit(text, {"X": X}, rank=4, init={"A": faded(rng, 40), "G": rng.gamma(1.0, 1.0, (4, 6, 4))}, **PRUNED)
    assert fit.rank == {"a": 2, "b": 2}
    assert fit.factors["G"].mean.shape == (2, 6, 2)
    assert fit.factors["A"].mean.shape == (40, 2)
    own_bounds_rise(fit)


PRUNED = {"adapt_prior": "component", "prune": True, "max_iter": 30, "tol": 0.0, **DENSE}


def faded(rng, size):
    """Four components, of which the second and the last are next to nothing."""
    return rng.gamma(1.0, 1.0, (size, 4)) * np.array([1.0, 1e-60, 1.0, 1e-60])


@pytest.mark.parametrize("name", ["pairwise", "shared_factor", "tucker_cp", "symmetric_weighted", "rescal"])
def test_counts_of_components_are_those_of_the_oracle(name, working_set):
    """Each value of an axis has the counts of all terms that it stands in; in two places of a term, half of both."""
    case = make(name)
    fit = case.fit(max_iter=3, **DENSE)
    problem, logs = working_set[0], oracle.log_geomeans(case.problem, state_of(fit, case.problem.free))
    found = pruning.component_counts(problem, problem.expected_counts())
    assert set(found) == set(case.model.ranks)
    for axis, counts in found.items():
        assert counts == pytest.approx(component_totals(case, logs, axis), rel=1e-9), axis


def component_totals(case, logs, axis):
    total = 0.0
    for terms in oracle.term_counts(case.problem, logs).values():
        for onto, S in terms:
            places = [index for index in onto if index in case.model.latent and case.model.axis(index) == axis]
            total = total + sum(oracle.gather(S, onto, (index,)) / len(places) for index in places)
    return total
