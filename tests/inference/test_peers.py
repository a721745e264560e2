"""Agreement with others: scikit-learn's multiplicative updates, and VB written down once more from the mathematics."""

import warnings

import numpy as np
import pytest
from scipy.special import gammaln, psi
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

import plait
from tests.support.problems import Start


def by_turns(X, W, H, iterations):
    """EM of one factor at a time, as scikit-learn does it: the other one is given."""
    fits = {}
    for _ in range(iterations):
        for name, other in (("W", "H"), ("H", "W")):
            now = {"W": W, "H": H}
            fits[name] = plait.fit(
                "X[i,j] = W[i,r] H[r,j]", {"X": X}, rank=W.shape[1], method="em", init={name: now[name]},
                fixed={other: now[other]}, max_iter=1, tol=0.0,
            )  # fmt: skip
            W, H = (fits[name].factors[one].mean for one in "WH")
    return fits["H"]


@pytest.mark.parametrize("iterations", [1, 3, 60])
def test_em_on_a_full_matrix_is_scikit_learns_kl_nmf_update_for_update(iterations):
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(1.0, 2.0, (12, 3)) @ rng.gamma(1.0, 2.0, (3, 9))).astype(float)
    X[3], X[:, 5] = 0.0, 0.0
    W, H = rng.uniform(0.1, 1.0, (12, 4)), rng.uniform(0.1, 1.0, (4, 9))
    nmf = NMF(4, init="custom", solver="mu", beta_loss="kullback-leibler", tol=0.0, max_iter=iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        wanted = nmf.fit_transform(X, W=W.copy(), H=H.copy())
    fit = by_turns(X, W, H, iterations)
    np.testing.assert_allclose(fit.factors["W"].mean, wanted, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(fit.factors["H"].mean, nmf.components_, rtol=1e-10, atol=1e-13)
    # scikit-learn reports sqrt(2 KL); the log-likelihood is -KL plus what does not depend on the factors.
    constant = np.sum(np.where(X > 0, X * np.log(np.maximum(X, 1.0)), 0.0) - X - gammaln(X + 1))
    assert fit.objective == pytest.approx(constant - nmf.reconstruction_err_**2 / 2, rel=1e-10)


def dense_vb(X, M, C, D, A, B, max_iter):
    """VB for X[i,j,k] = U[i,r] P[j,r] T[k,r], from docs/math.md alone; C, D: lists of three. Returns C, D, bound."""
    subscripts = ["ir", "jr", "kr"]
    X = np.where(M > 0, X, 0.0)

    def others(arrays, a):
        return [x for n in range(3) if n != a for x in (subscripts[n], arrays[n])]

    def delta(Q, arrays, a):
        left = others(arrays, a)
        return np.einsum(f"ijk,{left[0]},{left[2]}->{subscripts[a]}", Q, left[1], left[3])

    def geomeans():
        return [np.exp(psi(c)) * d for c, d in zip(C, D)]

    def counts():
        L = geomeans()
        Q = M * X / np.einsum("ir,jr,kr->ijk", *L)
        return [L[a] * delta(Q, L, a) for a in range(3)]

    for _ in range(max_iter):
        kept = counts()
        for a in range(3):
            N = kept[a]
            E = [c * d for c, d in zip(C, D)]
            C[a], D[a] = A + N, 1 / (A / B + delta(M, E, a))
    log_xhat = np.log(np.einsum("ir,jr,kr->ijk", *geomeans()))
    rate = np.einsum("ir,jr,kr->ijk", *(c * d for c, d in zip(C, D)))
    bound = np.sum(M * (X * log_xhat - gammaln(X + 1) - rate))
    for c, d in zip(C, D):
        bound += np.sum((A - 1) * (psi(c) + np.log(d)) - A / B * c * d + A * np.log(A / B) - gammaln(A))
        bound += np.sum(-(c - 1) * psi(c) + np.log(d) + c + gammaln(c))
    return C, D, bound


@pytest.mark.parametrize("missing", [0.0, 0.3, 0.9])
@pytest.mark.parametrize("max_iter", [1, 40])
def test_vb_on_a_3_way_tensor_is_an_independent_dense_implementation(max_iter, missing):
    rng = np.random.default_rng(2)
    X = rng.poisson(np.einsum("ir,jr,kr->ijk", *(rng.gamma(0.5, 2.0, (n, 3)) for n in (9, 8, 7)))).astype(float)
    M = (rng.random(X.shape) >= missing).astype(float)
    C = [rng.uniform(0.5, 2.0, (n, 4)) for n in X.shape]
    D = [rng.uniform(0.5, 2.0, (n, 4)) for n in X.shape]
    init = {name: Start(c.copy(), d.copy()) for name, c, d in zip("UPT", C, D)}
    fit = plait.fit(
        "X[i,j,k] = U[i,r] P[j,r] T[k,r]", {"X": np.where(M > 0, X, np.nan)}, rank=4, prior=plait.Gamma(0.6, 1.7),
        adapt_prior=None, init=init, max_iter=max_iter, tol=0.0,
    )  # fmt: skip
    C, D, bound = dense_vb(X, M, C, D, 0.6, 1.7, max_iter)
    for name, c, d in zip("UPT", C, D):
        np.testing.assert_allclose(fit.factors[name].concentration, c, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(fit.factors[name].scale, d, rtol=1e-8)
    assert fit.objective == pytest.approx(bound, rel=1e-10)
