"""Components that explain nothing go, one bound at a time: how the model order is found."""

import numpy as np
import pytest

import plait
from tests.support.infer_laws import own_bounds_rise

CP3 = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"


def true_rank_3():
    """Three blocks along the diagonal, rows of different weight."""
    rng = np.random.default_rng(1)
    factors = [np.repeat(np.eye(3), n, axis=0) * rng.gamma(4.0, 0.25, (3 * n, 1)) for n in (6, 5, 4)]
    return rng.poisson(2.0 * np.einsum("ir,jr,kr->ijk", *factors)).astype(float)


@pytest.fixture(scope="module")
def fits():
    common = {"rank": 8, "adapt_prior": "component", "seed": 0, "max_iter": 400, "tol": 1e-8}
    data = {"X": true_rank_3()}
    return plait.fit(CP3, data, prune=True, **common), plait.fit(CP3, data, **common)


def test_components_beyond_the_true_rank_go(fits):
    pruned, whole = fits
    assert pruned.rank == {"r": 3}
    assert whole.rank == {"r": 8}
    for factor in pruned.factors.values():
        assert factor.mean.shape[-1] == factor.concentration.shape[-1] == pruned.rank["r"]
    for prior in pruned.prior.values():
        assert prior.mean.shape == (1, pruned.rank["r"])


def test_bound_rises_through_pruning_to_that_of_the_whole_fit_and_of_the_state(fits):
    pruned, whole = fits
    assert pruned.objective >= whole.objective - 1e-6 * abs(whole.objective)
    own_bounds_rise(pruned)
    ranks = [record.rank["r"] for record in pruned.history]
    assert ranks[0] == 8
    assert (np.diff(ranks) <= 0).all()
    assert ranks[-1] == pruned.rank["r"]
    again = plait.fit(CP3, {"X": true_rank_3()}, rank=3, init=pruned, prior=pruned.prior, adapt_prior=None, max_iter=0)
    assert again.objective == pytest.approx(pruned.objective, rel=1e-11)


@pytest.mark.parametrize("X", [np.zeros((5, 4, 3)), np.full((5, 4, 3), np.nan), np.eye(5, 4)[:, :, None] * np.ones(3)])
@pytest.mark.filterwarnings("ignore::plait.errors.NoLinksWarning")  # two of the three have none
def test_at_least_one_component_stays(X):
    fit = plait.fit(CP3, {"X": X}, rank=6, adapt_prior="component", prune=True, seed=0, max_iter=80)
    assert 1 <= fit.rank["r"] <= 6
    assert all(np.isfinite(factor.mean).all() for factor in fit.factors.values())


@pytest.mark.filterwarnings("ignore::plait.errors.BelowBaselineWarning")  # the truth has rank 1
def test_ranks_of_several_latent_indices_fall_separately():
    rng = np.random.default_rng(1)
    A, B = rng.gamma(0.5, 3.0, (20, 1)), rng.gamma(0.5, 3.0, (16, 1))
    X = rng.poisson(A @ B.T).astype(float)
    fit = plait.fit(
        "X[i,j] = A[i,p] G[p,q] B[j,q]", {"X": X}, rank={"p": 5, "q": 4}, adapt_prior="component", prune=True, seed=0,
        max_iter=300,
    )  # fmt: skip
    assert fit.factors["G"].mean.shape == (fit.rank["p"], fit.rank["q"])
    assert fit.rank["p"] < 5
    assert fit.rank["q"] < 4
    own_bounds_rise(fit)


def test_a_component_of_a_given_factor_may_explain_nothing():
    rng = np.random.default_rng(2)
    B = rng.gamma(2.0, 1.0, (10, 3)) * [1.0, 1.0, 1e-9]
    X = rng.poisson(rng.gamma(1.0, 2.0, (12, 3)) @ B.T).astype(float)
    common = {"rank": 3, "fixed": {"B": B}, "adapt_prior": "component", "seed": 0, "max_iter": 60}
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, prune=True, **common)
    whole = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, warmup=0, **common)
    assert fit.objective >= whole.objective - 1e-6 * abs(whole.objective)


@pytest.mark.parametrize("method", ["em", "map"])
def test_pruning_is_refused_without_a_posterior(method):
    with pytest.raises(plait.errors.ParameterError, match=f"`prune` requires .*, got '{method}'"):
        plait.fit(CP3, {"X": np.ones((2, 2, 2))}, rank=2, method=method, prune=True)
