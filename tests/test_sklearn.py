"""The estimator of scikit-learn: its contract, and what it computes."""

import sys
import warnings
from importlib import import_module

import numpy as np
import polars as pl
import pytest
from scipy import sparse
from scipy.special import digamma
from scipy.stats import poisson

import plait

pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn is optional")

from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from plait.sklearn import PoissonFactorization


def counts(seed=0, samples=40, features=12, rank=3):
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.5, 2, (samples, rank)) @ rng.gamma(0.5, 1, (rank, features))).astype(float)


X = counts()
NEW = counts(1)[:7]


@pytest.fixture(scope="module")
def fitted():
    return PoissonFactorization(3, random_state=0, max_iter=2000, tol=1e-8).fit(X)


def settled(estimator, X, iterations=3000):
    """E[W] of samples by dense updates of variational Bayes: C = a + L ∘ (X / L Lᵀ) L, 1/D = a/b + Σ E[H]."""
    H, prior = estimator.fit_.factors["H"], estimator.fit_.prior["W"]
    a, b = (np.broadcast_to(array, (len(X), H.mean.shape[1])) for array in (prior.concentration, prior.mean))
    D = 1 / (a / b + H.mean.sum(axis=0))
    L = b.copy()
    for _ in range(iterations):
        C = a + L * ((X / (L @ H.exp_mean_log.T)) @ H.exp_mean_log)
        L = np.exp(digamma(C)) * D
    return C * D


@parametrize_with_checks([PoissonFactorization(n_components=2, max_iter=60)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::plait.PlaitWarning")
def test_estimator_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_transform_by_dense_updates(fitted):
    np.testing.assert_allclose(fitted.transform(NEW), settled(fitted, NEW), rtol=2e-3, atol=1e-4)


def test_transform_of_the_samples_of_the_fit(fitted):
    W = fitted.transform(X)
    np.testing.assert_allclose(W, fitted.fit_.factors["W"].mean, rtol=0.02, atol=1e-3)
    np.testing.assert_array_equal(W, clone(fitted).fit_transform(X))


def test_samples_are_transformed_independently(fitted):
    one_by_one = np.concatenate([fitted.transform(NEW[k : k + 1]) for k in range(len(NEW))])
    np.testing.assert_allclose(one_by_one, fitted.transform(NEW), rtol=1e-12)


def test_inverse_transform_is_the_predicted_mean(fitted):
    rows, columns = np.indices(X.shape).reshape(2, -1)
    mean = fitted.fit_.predict("X", {"sample": rows, "feature": columns})["mean"].to_numpy().reshape(X.shape)
    assert fitted.components_.shape == (3, X.shape[1])
    np.testing.assert_allclose(fitted.fit_.factors["W"].mean @ fitted.components_, mean, rtol=1e-12)
    found = fitted.inverse_transform(fitted.transform(X))
    np.testing.assert_allclose(found, mean, rtol=0.01, atol=1e-3)
    assert abs(found.sum() / X.sum() - 1) < 0.02


@pytest.mark.thorough
def test_score_is_a_lower_bound_of_the_log_evidence(fitted):
    """Evidence by brute force: W from its prior, H from its posterior, 400,000 draws for each of a few samples."""
    rng, few = np.random.default_rng(0), NEW[:3]
    H, prior = fitted.fit_.factors["H"], fitted.fit_.prior["W"]
    a, b = (float(np.ravel(array)[0]) for array in (prior.concentration, prior.mean))
    W = rng.gamma(a, b / a, (400_000, 3))
    rates = np.einsum("nk,njk->nj", W, rng.gamma(H.concentration, H.scale, (len(W), *H.mean.shape)))
    for x in few:
        evidence = np.log(np.exp(poisson.logpmf(x, rates).sum(axis=1)).mean())
        assert evidence - 2.0 < fitted.score(x[None]) < evidence + 0.1
    scores = [fitted.score(x[None]) for x in few]
    assert fitted.score(few) == pytest.approx(np.mean(scores), rel=1e-9)


def test_score_is_lower_for_shuffled_samples(fitted):
    shuffled = np.random.default_rng(0).permuted(NEW, axis=1)
    assert fitted.score(NEW) > fitted.score(shuffled) + 1


@pytest.mark.thorough
def test_every_kind_of_input_gives_the_same_bits(fitted):
    pandas = pytest.importorskip("pandas", reason="pandas is optional")
    names = [f"w{k}" for k in range(X.shape[1])]
    zeros = sparse.coo_array((np.zeros(3), ([0, 1, 2], [0, 0, 0])), X.shape)
    doubled = sparse.csr_array(
        (np.repeat(X[X > 0] / 2, 2), np.repeat(np.nonzero(X)[1], 2), np.append(0, 2 * (X > 0).sum(1).cumsum())), X.shape
    )
    kinds = [sparse.csr_matrix(X), sparse.csc_array(X), sparse.csr_array(X) + zeros, doubled, X.astype(int).tolist()]
    for kind in [*kinds, X.astype(np.float32), pandas.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)]:
        found = clone(fitted).fit(kind)
        np.testing.assert_array_equal(found.components_, fitted.components_)
        np.testing.assert_array_equal(found.transform(kind), fitted.transform(X))
    assert doubled.nnz == 2 * (X > 0).sum()  # what is given stays as it is


def test_rows_without_counts_and_fractions():
    rare = 2.5 * X
    rare[4], rare[:, 5] = 0, 0
    found = PoissonFactorization(3, random_state=0).fit(rare)
    W = found.transform(rare)
    assert np.isfinite(W).all()
    assert W[4].sum() == W.sum(axis=1).min()
    assert found.components_[:, 5].sum() == found.components_.sum(axis=0).min()
    assert abs(found.inverse_transform(W).sum() / rare.sum() - 1) < 0.02


def test_random_state_is_a_seed_or_a_generator():
    first, again = (PoissonFactorization(3, random_state=7).fit(X).components_ for _ in range(2))
    np.testing.assert_array_equal(first, again)
    state = np.random.RandomState(7)
    np.testing.assert_array_equal(PoissonFactorization(3, random_state=state).fit(X).components_, first)
    assert (PoissonFactorization(3, random_state=state).fit(X).components_ != first).any()


@pytest.mark.thorough
def test_n_components_is_chosen_by_default():
    found = PoissonFactorization(random_state=0).fit(X)
    assert found.n_components is None
    assert found.n_components_ == len(found.components_) == found.transform(NEW).shape[1]
    assert 2 <= found.n_components_ <= 6


def test_names_of_outputs(fitted):
    pytest.importorskip("pandas", reason="pandas is optional")
    names = [f"poissonfactorization{k}" for k in range(3)]
    assert fitted.get_feature_names_out().tolist() == names
    assert list(clone(fitted).set_output(transform="pandas").fit(X).transform(NEW).columns) == names


def test_pipelines_and_grid_search():
    pipeline = make_pipeline(FunctionTransformer(np.abs), PoissonFactorization(2, random_state=0))
    assert pipeline.fit_transform(X).shape == (40, 2)
    search = GridSearchCV(PoissonFactorization(random_state=0), {"n_components": [1, 3]}, cv=3).fit(counts(2, 120))
    assert search.best_params_ == {"n_components": 3}


def test_too_few_sweeps_warn():
    with pytest.warns(ConvergenceWarning, match=r"not converged after 2 sweeps\. Increase `max_iter`"):
        found = PoissonFactorization(2, max_iter=2, random_state=0).fit(X)
    assert found.n_iter_ == 2
    assert found.objective_ == found.fit_.objective
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PoissonFactorization(2, random_state=0).fit(X).n_iter_ < 500


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        *(({"n_components": n}, f"`n_components` must be .* at least 1, got {n}") for n in (0, 2.5, True)),
        ({"max_iter": 0}, "`max_iter` must be an integer of at least 1, got 0"),
        *(({"tol": tol}, f"`tol` must be a finite number of at least 0, got {tol}") for tol in (-1.0, float("nan"))),
    ],
)
def test_wrong_settings_are_named(settings, text):
    with pytest.raises(plait.errors.ParameterError, match=text):
        PoissonFactorization(**settings).fit(X)


def test_wrong_samples_are_refused(fitted):
    with pytest.raises(NotFittedError):
        PoissonFactorization(2).transform(X)
    with pytest.raises(ValueError, match="Negative values in data"):
        fitted.transform(-X)
    with pytest.raises(ValueError, match="features"):
        fitted.transform(X[:, 1:])
    with pytest.raises(plait.errors.ParameterError, match="X has 2 columns, expected 3"):
        fitted.inverse_transform(np.ones((1, 2)))


def test_a_missing_scikit_learn_is_named(monkeypatch):
    monkeypatch.delitem(sys.modules, "plait.sklearn")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(plait.PlaitError, match=r"pip install 'tensorplait\[sklearn\]'"):
        import_module("plait.sklearn")
