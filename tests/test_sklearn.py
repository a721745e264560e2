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
        C = a + L * ((X / (L @ H.geomean.T)) @ H.geomean)
        L = np.exp(digamma(C)) * D
    return C * D


@parametrize_with_checks([PoissonFactorization(n_components=2, max_iter=60)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::plait.PlaitWarning")
def test_it_is_an_estimator_of_scikit_learn(estimator, check):
    check(estimator)


def test_new_samples_are_those_of_variational_bayes_against_held_components(fitted):
    np.testing.assert_allclose(fitted.transform(NEW), settled(fitted, NEW), rtol=2e-3, atol=1e-4)


def test_the_samples_of_the_fit_are_folded_in_to_where_it_has_them(fitted):
    W = fitted.transform(X)
    np.testing.assert_allclose(W, fitted.fit_.factors["W"].mean, rtol=0.02, atol=1e-3)
    np.testing.assert_array_equal(W, clone(fitted).fit_transform(X))


def test_no_sample_depends_on_others_beside_it(fitted):
    one_by_one = np.concatenate([fitted.transform(NEW[k : k + 1]) for k in range(len(NEW))])
    np.testing.assert_allclose(one_by_one, fitted.transform(NEW), rtol=1e-12)


def test_transform_times_components_is_the_mean_that_the_fit_predicts(fitted):
    rows, columns = np.indices(X.shape).reshape(2, -1)
    mean = fitted.fit_.predict("X", {"sample": rows, "feature": columns})["mean"].to_numpy().reshape(X.shape)
    assert fitted.components_.shape == (3, X.shape[1])
    np.testing.assert_allclose(fitted.fit_.factors["W"].mean @ fitted.components_, mean, rtol=1e-12)
    found = fitted.inverse_transform(fitted.transform(X))
    np.testing.assert_allclose(found, mean, rtol=0.01, atol=1e-3)
    assert abs(found.sum() / X.sum() - 1) < 0.02


def test_features_that_go_together_are_one_component():
    blocks = np.kron(np.eye(2), np.full((6, 4), 5.0))
    H = PoissonFactorization(2, random_state=0).fit(blocks).components_
    share = H / H.sum(axis=0)
    assert (np.sort(share, axis=0)[-1] > 0.95).all()
    assert len(set(share[:, :4].argmax(axis=0))) == len(set(share[:, 4:].argmax(axis=0))) == 1


def test_the_score_is_a_bound_of_the_log_evidence_of_new_samples(fitted):
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


def test_the_score_tells_samples_of_the_kind_from_others(fitted):
    shuffled = np.random.default_rng(0).permuted(NEW, axis=1)
    assert fitted.score(NEW) > fitted.score(shuffled) + 1


def test_arrays_sparse_matrices_and_tables_give_the_same_bits(fitted):
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


def test_values_need_not_be_whole():
    amounts = 2.5 * X
    found = PoissonFactorization(3, random_state=0).fit(amounts)
    assert abs(found.inverse_transform(found.transform(amounts)).sum() / amounts.sum() - 1) < 0.02


def test_samples_and_features_without_counts_have_small_weights():
    rare = X.copy()
    rare[4], rare[:, 5] = 0, 0
    found = PoissonFactorization(3, random_state=0).fit(rare)
    W = found.transform(rare)
    assert np.isfinite(W).all()
    assert W[4].sum() == W.sum(axis=1).min()
    assert found.components_[:, 5].sum() == found.components_.sum(axis=0).min()


def test_equal_seeds_give_equal_components_and_a_generator_is_taken():
    first, again = (PoissonFactorization(3, random_state=7).fit(X).components_ for _ in range(2))
    np.testing.assert_array_equal(first, again)
    state = np.random.RandomState(7)
    np.testing.assert_array_equal(PoissonFactorization(3, random_state=state).fit(X).components_, first)
    assert (PoissonFactorization(3, random_state=state).fit(X).components_ != first).any()


def test_a_number_of_components_that_is_left_out_is_found():
    found = PoissonFactorization(random_state=0).fit(X)
    assert found.n_components is None
    assert found.n_components_ == len(found.components_) == found.transform(NEW).shape[1]
    assert 2 <= found.n_components_ <= 6


def test_outputs_have_names_where_tables_are_asked_for(fitted):
    pytest.importorskip("pandas", reason="pandas is optional")
    names = [f"poissonfactorization{k}" for k in range(3)]
    assert fitted.get_feature_names_out().tolist() == names
    assert list(clone(fitted).set_output(transform="pandas").fit(X).transform(NEW).columns) == names


def test_it_goes_into_pipelines_and_searches():
    pipeline = make_pipeline(FunctionTransformer(np.abs), PoissonFactorization(2, random_state=0))
    assert pipeline.fit_transform(X).shape == (40, 2)
    search = GridSearchCV(PoissonFactorization(random_state=0), {"n_components": [1, 3]}, cv=3).fit(counts(2, 120))
    assert search.best_params_ == {"n_components": 3}


def test_too_few_sweeps_are_told():
    with pytest.warns(ConvergenceWarning, match=r"still changes after 2 sweeps\. Raise max_iter"):
        found = PoissonFactorization(2, max_iter=2, random_state=0).fit(X)
    assert found.n_iter_ == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert PoissonFactorization(2, random_state=0).fit(X).n_iter_ < 500


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"n_components": 0}, "`n_components` must be None or a whole number, 1 or more, got 0"),
        ({"n_components": 2.5}, r"`n_components` must be .* got 2\.5"),
        ({"n_components": True}, "`n_components` must be .* got True"),
        ({"max_iter": 0}, "`max_iter` must be a whole number, 1 or more, got 0"),
        ({"tol": -1.0}, r"`tol` must be a finite number, 0 or more, got -1\.0"),
        ({"tol": float("nan")}, "`tol` must be a finite number, 0 or more, got nan"),
    ],
)
def test_senseless_settings_are_refused_when_it_fits(settings, text):
    with pytest.raises(plait.SettingError, match=text):
        PoissonFactorization(**settings).fit(X)


def test_what_cannot_be_transformed_is_refused(fitted):
    with pytest.raises(NotFittedError):
        PoissonFactorization(2).transform(X)
    with pytest.raises(ValueError, match="Negative values in data"):
        fitted.transform(-X)
    with pytest.raises(ValueError, match="features"):
        fitted.transform(X[:, 1:])
    with pytest.raises(plait.SettingError, match="X has 2 columns, but there are 3 components"):
        fitted.inverse_transform(np.ones((1, 2)))


def test_the_fit_itself_answers_all_else(fitted):
    assert isinstance(fitted.fit_, plait.Fit)
    assert fitted.bound_ == fitted.fit_.bound
    assert len(fitted.fit_.top("X", 3)) == 3


def test_a_missing_scikit_learn_is_named_with_its_cure(monkeypatch):
    monkeypatch.delitem(sys.modules, "plait.sklearn")
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(plait.PlaitError, match=r"pip install 'tensorplait\[sklearn\]'"):
        import_module("plait.sklearn")
