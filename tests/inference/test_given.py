"""A given posterior: neither updated nor forgotten."""

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.special import gammaln, psi
from scipy.stats import gamma, poisson

import plait
from plait import Posterior

TEXT = "X[i, j] = A[i, r] B[j, r]"
X = np.random.default_rng(0).poisson(1.5, (5, 4)).astype(float)
PRIOR = plait.Gamma(concentration=0.7, mean=2.0)
PLAIN = {"rank": 1, "seed": 0, "prior": PRIOR, "adapt_prior": None}


def posterior(indices, C, D):
    """A posterior as a fit hands it out."""
    C, D = np.broadcast_arrays(np.asarray(C, float), np.asarray(D, float))
    return Posterior(indices, C, D, C * D, np.exp(psi(C)) * D)


def kl(C, D, A, B):
    """KL(Gamma(C, D) || Gamma of concentration A and mean B)."""
    rate = A / B
    return (C - A) * psi(C) - gammaln(C) + gammaln(A) - A * np.log(D * rate) + C * (D * rate - 1.0)


def test_with_rank_1_the_other_factor_and_the_bound_are_in_closed_form():
    C, D = np.array([[0.5], [2.0], [3.0], [9.0]]), np.array([[2.0], [0.3], [0.5], [0.1]])
    fit = plait.fit(TEXT, {"X": X}, fixed={"B": posterior(("j", "r"), C, D)}, max_iter=3, warmup=0, **PLAIN)
    own, scale = 0.7 + X.sum(axis=1), 1.0 / (0.7 / 2.0 + (C * D).sum())
    np.testing.assert_allclose(fit.factors["A"].concentration[:, 0], own, rtol=1e-12)
    np.testing.assert_allclose(fit.factors["A"].scale[:, 0], scale, rtol=1e-12)
    logs = (psi(own) + np.log(scale))[:, None] + (psi(C) + np.log(D)).T
    rates = np.outer(own * scale, C * D)
    bound = (X * logs - gammaln(X + 1) - rates).sum() - kl(own, scale, 0.7, 2.0).sum()
    assert fit.objective == pytest.approx(bound, rel=1e-12)


@pytest.mark.thorough
def test_the_bound_is_below_the_evidence_under_the_given_posterior_as_a_prior():
    given = posterior(("j", "r"), [[2.0]], [[0.4]])
    fit = plait.fit(TEXT, {"X": np.array([[3.0]])}, fixed={"B": given}, max_iter=5, warmup=0, **PLAIN)
    a, b = gamma(0.7, scale=2.0 / 0.7), gamma(2.0, scale=0.4)
    evidence, _ = dblquad(lambda y, x: a.pdf(x) * b.pdf(y) * poisson.pmf(3, x * y), 0, 60, 0, 12)
    assert fit.objective < np.log(evidence)
    assert fit.objective > np.log(evidence) - 1.0


@pytest.mark.parametrize("warmup", [50, 0])
def test_a_given_posterior_does_not_change(warmup):
    first = plait.fit(TEXT, {"X": X}, rank=2, seed=0, max_iter=20)
    again = plait.fit(TEXT, {"X": X}, rank=2, seed=1, max_iter=20, warmup=warmup, fixed={"B": first.factors["B"]})
    for word in ("concentration", "scale", "mean"):
        assert np.array_equal(getattr(again.factors["B"], word), getattr(first.factors["B"], word))
    assert "B" not in again.prior


def test_a_given_posterior_predicts_as_the_fit_it_came_from():
    whole = plait.fit(TEXT, {"X": X}, max_iter=2000, tol=1e-14, **PLAIN)
    cells = {"i": [0, 3, 4], "j": [1, 1, 3]}
    wanted = whole.predict("X", cells)
    for fixed, same in ((whole.factors["B"], True), (whole.factors["B"].mean, False)):
        found = plait.fit(TEXT, {"X": X}, max_iter=2000, tol=1e-14, fixed={"B": fixed}, **PLAIN).predict("X", cells)
        np.testing.assert_allclose(found["mean"], wanted["mean"], rtol=1e-6)
        if same:
            np.testing.assert_allclose(found["sd"], wanted["sd"], rtol=1e-6)
        else:
            assert (found["sd"] < 0.95 * wanted["sd"]).all()


@pytest.mark.parametrize("method", ["em", "map", "vb"])
def test_a_method_or_a_posterior_without_uncertainty_takes_the_mean(method):
    if method == "vb":
        given = plait.fit(TEXT, {"X": X}, rank=2, seed=0, max_iter=5, method="em").factors["B"]
    else:
        given = posterior(("j", "r"), np.full((4, 2), 3.0), np.random.default_rng(1).random((4, 2)))
    prior = {"prior": plait.Gamma(concentration=1.5, mean=2.0)} if method == "map" else {}
    left, right = (
        plait.fit(TEXT, {"X": X}, rank=2, seed=0, max_iter=5, method=method, fixed={"B": fixed}, **prior)
        for fixed in (given, given.mean)
    )
    assert left.objective == right.objective
    assert left.fingerprint == right.fingerprint


def test_a_factor_of_visible_indices_only_is_uncertain_too():
    text = "X[i, j] = a[i] b[j]"
    C, D = np.array([1.0, 2.0, 0.5, 4.0]), np.array([1.0, 0.5, 2.0, 0.2])
    fit = plait.fit(
        text, {"X": X}, fixed={"b": posterior(("j",), C, D)}, max_iter=3, seed=0, prior=PRIOR, adapt_prior=None
    )
    own, scale = 0.7 + X.sum(axis=1), 1.0 / (0.7 / 2.0 + (C * D).sum())
    np.testing.assert_allclose(fit.factors["a"].concentration, own, rtol=1e-12)
    found = fit.predict("X", {"i": [0], "j": [2]})
    mean, variance = own[0] * scale * C[2] * D[2], (own[0] * scale**2, C[2] * D[2] ** 2)
    first, second = own[0] * scale, C[2] * D[2]
    assert found["mean"][0] == pytest.approx(mean, rel=1e-12)
    sd = np.sqrt(variance[0] * variance[1] + variance[0] * second**2 + variance[1] * first**2)
    assert found["sd"][0] == pytest.approx(sd, rel=1e-9)


def test_a_run_resumes_with_the_same_given_posterior_only(tmp_path):
    given = posterior(("j", "r"), np.full((4, 2), 3.0), np.random.default_rng(1).random((4, 2)))
    other = posterior(("j", "r"), given.concentration * 2, given.scale / 2)  # of the same mean
    common = {"rank": 2, "seed": 0, "tol": 0.0}
    whole = plait.fit(TEXT, {"X": X}, max_iter=8, fixed={"B": given}, **common)
    plait.fit(TEXT, {"X": X}, max_iter=3, fixed={"B": given}, checkpoint=tmp_path, **common)
    again = plait.fit(TEXT, {"X": X}, max_iter=8, fixed={"B": given}, init=tmp_path, **common)
    assert again.objective == whole.objective
    assert str(whole.explain("X", {"i": 0, "j": 0}, exact=True, data={"X": X}))
    with pytest.raises(plait.errors.ParameterError, match="cannot continue: its data differs"):
        plait.fit(TEXT, {"X": X}, max_iter=8, fixed={"B": other}, init=tmp_path, **common)


def test_a_posterior_that_does_not_fit_is_refused():
    given = posterior(("j", "r"), np.ones((4, 3)), 1.0)
    with pytest.raises(plait.errors.ParameterError, match=r"`fixed`: factor B has shape \(4, 3\), expected \(4, 2\)"):
        plait.fit(TEXT, {"X": X}, rank=2, fixed={"B": given})
    pairs = plait.fit("X[i,j] = A[i,r] B[j,r] + M[i,j]", {"X": np.eye(80)}, rank=1, seed=0, max_iter=2)
    with pytest.raises(plait.errors.ParameterError, match="got a posterior over pairs"):
        plait.fit("X[i,j] = A[i,r] B[j,r] + M[i,j]", {"X": np.eye(80)}, rank=1, fixed={"M": pairs.factors["M"]})
