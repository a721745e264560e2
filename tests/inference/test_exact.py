"""Where an exact answer exists, a fit gives it: conjugate posteriors, log evidence, log-likelihood, no data at all."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import bernoulli, nbinom, poisson

import plait
from tests.support import oracle
from tests.support.infer_laws import BOTH_LIKELIHOODS
from tests.support.log_evidence import gamma_poisson_log_evidence, log_evidence
from tests.support.models import RANKS, SIZES
from tests.support.problems import as_counts, make, state_of

# Models with one free factor over visible indices: its posterior under Poisson is a Gamma, exactly.
ONE_FACTOR = (
    "X[] = c[]",
    "X[i] = b[i]",
    "X[i] = c[] w[i]",
    "X[i,j] = b[i] w[j]",
    "X[i,j] = b[j] w[i]",
    "X[i,j] = b[i] V[i,j]",
    "X[j,i] = b[i] V[i,j]",
    "X[i,j] = c[] V[j,i]",
    "X[i,j,k] = b[k] V[i,j]",
)
SHAPE = {"i": 5, "j": 3, "k": 4}


def as_relation(way, indices, X, rng):
    """The data seen in one way, and M."""
    if X.ndim == 0:
        return as_counts(X), np.ones(())
    if way == "all":
        return as_counts(X), np.ones(X.shape)
    mask = rng.random(X.shape) < (0.8 if way == "most" else 0.4)
    if way == "listed":
        table = pl.DataFrame(dict(zip(indices, np.nonzero(mask))) | {"value": X[mask]})
        return as_counts(plait.Relation(table, observed="listed")), mask.astype(float)
    return as_counts(np.where(mask, X, np.nan)), mask.astype(float)


@pytest.mark.quick(executor=["reference"])
@pytest.mark.parametrize("executor", ["compiled", "reference"])
@pytest.mark.parametrize("way", ["all", "most", "listed"])
@pytest.mark.parametrize("text", ONE_FACTOR)
def test_one_free_factor_has_its_exact_gamma_posterior_and_evidence(text, way, executor):
    rng = np.random.default_rng(3)
    ((relation, visible, occurrences),) = oracle.from_text(text)
    fixed = {name: rng.uniform(0.1, 3.0, [SHAPE[i] for i in its]) for name, its in occurrences[1:]}
    free, own = occurrences[0]
    V = np.ones([SHAPE[index] for index in visible])
    for name, its in occurrences[1:]:
        V = V * oracle.spread(fixed[name], its, visible)
    X = np.asarray(rng.poisson(3.0 * V), float)
    data, M = as_relation(way, visible, X, rng)
    labels = {index: range(SHAPE[index]) for index in visible}
    fit = plait.fit(
        text, {relation: data}, entities=labels, fixed=fixed, prior=plait.Gamma(0.3, 2.0), adapt_prior=None, max_iter=2,
        seed=0, executor=plait.executors.Reference() if executor == "reference" else None,
    )  # fmt: skip
    counts, exposure = (oracle.gather(array, visible, own) for array in (M * X, M * V))
    np.testing.assert_allclose(fit.factors[free].concentration, 0.3 + counts, rtol=1e-13)
    np.testing.assert_allclose(fit.factors[free].scale, 1 / (0.3 / 2.0 + exposure), rtol=1e-12)
    exact = 0.0
    for at in np.ndindex(*(SHAPE[index] for index in own)):
        here = tuple(at[own.index(index)] if index in own else slice(None) for index in visible)
        seen = M[here] > 0
        exact += gamma_poisson_log_evidence(X[here][seen], V[here][seen], 0.3, 2.0)
    assert fit.objective == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("count", [0, 1, 7, 1_000_000])
@pytest.mark.parametrize(("A", "B"), [(0.5, 10.0), (3.0, 0.2), (1e-3, 1.0)])
def test_bound_of_one_scalar_and_one_count_is_a_log_negative_binomial(count, A, B):
    X, start = np.array(float(count)), {"c": np.array(2.0)}
    prior = plait.Gamma(A, B)
    fit = plait.fit("X[] = c[]", as_counts({"X": X}), prior=prior, adapt_prior=None, max_iter=1, init=start)
    assert fit.objective == pytest.approx(nbinom.logpmf(count, A, 1 / (1 + B / A)), rel=1e-9, abs=1e-12)


@BOTH_LIKELIHOODS
@pytest.mark.parametrize(
    "text",
    ["X[i,j] = A[i,r] B[j,r]", "X[i,j] = A[i,r] B[j,r] V[j,i]", "X[i,j] = V[j,i] w[j]",
     "X[i,j] = A[i,r] B[j,r] + V[j,i]", "X[i,j] = w[j] + V[j,i]"],
)  # fmt: skip
def test_bound_with_all_factors_given_is_the_log_likelihood(text, likelihood):
    rng = np.random.default_rng(1)
    shapes = {"A": (4, 2), "B": (3, 2), "V": (3, 4), "w": 3}
    given = {name: rng.uniform(0.2, 1, shape) for name, shape in shapes.items() if f"{name}[" in text}
    equations = oracle.from_text(text)
    rate = oracle.rate(oracle.Problem(equations, {"X": np.zeros((4, 3))}, given=given), {})["X"]
    law = poisson(rate) if likelihood == "poisson" else bernoulli(-np.expm1(-rate))
    X = law.rvs(random_state=2).astype(float)
    exact = law.logpmf(X)
    exact[0, 0], X[0, 0] = 0.0, np.nan
    rank = 2 if "r]" in text else None
    data = {"X": plait.Relation(X, likelihood=likelihood)}
    for method, settings in (("vb", {"adapt_prior": None}), ("em", {}), ("map", {})):
        fit = plait.fit(text, data, rank=rank, fixed=given, method=method, **settings)
        assert fit.objective == pytest.approx(exact.sum(), rel=1e-12)


def test_without_data_the_posterior_is_the_prior_and_the_bound_is_0():
    X = np.full((4, 3), np.nan)
    prior = {"A": plait.Gamma(np.array([[0.01, 2.0]]), 3.0), "B": plait.Gamma(0.4, np.array([[1.0], [2.0], [30.0]]))}
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, rank=2, prior=prior, adapt_prior=None, max_iter=1, seed=0)
    assert abs(fit.objective) < 1e-12
    for name, factor in fit.factors.items():
        shape = factor.mean.shape
        np.testing.assert_array_equal(factor.concentration, np.broadcast_to(prior[name].concentration, shape))
        np.testing.assert_allclose(factor.mean, np.broadcast_to(prior[name].mean, shape), rtol=1e-15)


def test_two_weighted_relations_add_their_evidence():
    rng = np.random.default_rng(4)
    W, X, Y = rng.uniform(0.5, 2.0, (5, 1)), rng.poisson(3.0, (4, 5)), rng.poisson(1.0, (4,))
    text = "X[i,j] = A[i,r] W[j,r]\nY[i] = A[i,r] c[r]"
    data = {"X": X.astype(float), "Y": plait.Relation(Y.astype(float), weight=0.25)}
    prior = plait.Gamma(0.8, 5.0)
    fit = plait.fit(text, data, rank=1, fixed={"W": W, "c": [2.0]}, prior=prior, adapt_prior=None, max_iter=2)
    np.testing.assert_allclose(fit.factors["A"].concentration[:, 0], 0.8 + X.sum(axis=1) + 0.25 * Y, rtol=1e-13)
    np.testing.assert_allclose(fit.factors["A"].scale[:, 0], 1 / (0.8 / 5.0 + W.sum() + 0.25 * 2.0), rtol=1e-13)


@pytest.mark.quick(text=["X[i,j] = a[i] b[j]", "X[i] = a[i] + c[]", "X[i] = c[] V[i] + d[] N[i]"])
@BOTH_LIKELIHOODS
@pytest.mark.parametrize(
    ("text", "X", "rank"),
    [
        ("X[] = c[] d[]", 3.0, None),
        ("X[i,j] = a[i] b[j]", [[2.0, 0.0]], None),
        ("X[i,j] = A[i,r] B[j,r]", [[1.0]], 2),
        ("X[i] = A[i,r] w[r]", [4.0], 2),
        ("X[] = c[] + d[]", 3.0, None),
        ("X[i] = a[i] + c[]", [2.0, 0.0], None),
        ("X[i] = c[] V[i] + d[] N[i]", [1.0, 4.0], None),
    ],
)
def test_bound_is_below_the_brute_force_log_evidence_and_near_it(text, X, rank, likelihood):
    X = np.minimum(X, 1.0) if likelihood == "bernoulli" else np.array(X)
    given = {name: v for name, v in {"V": np.array([0.3, 2.0]), "N": np.array([1.0, 0.5])}.items() if name in text}
    fit = plait.fit(
        text, {"X": plait.Relation(X, likelihood=likelihood)}, rank=rank, fixed=given, prior=plait.Gamma(1.5, 1.2),
        adapt_prior=None, max_iter=3000, tol=1e-13, seed=0,
    )  # fmt: skip
    equations = oracle.from_text(text)
    sizes = dict(zip(equations[0][1], X.shape)) | {"r": rank}
    prior = {name: (1.5, 1.2) for name in oracle.factor_indices(equations) if name not in given}
    problem = oracle.Problem(equations, {"X": X}, prior, likelihood={"X": likelihood}, given=given)
    entries = sum(np.size(fit.factors[name].mean) for name in prior)
    evidence = log_evidence(problem, sizes, nodes={2: 301, 3: 91, 4: 41}[entries])
    assert evidence - 1.3 < fit.objective < evidence + 1e-3


def test_two_copies_of_a_relation_are_one_with_weight_2():
    case = make("matrix")
    X, start = case.problem.X["X"], {"A": np.ones((SIZES["i"], RANKS["r"])), "B": case.start(0)["B"][0]}
    settings = {"rank": 3, "init": start, "adapt_prior": None, "max_iter": 20}
    twice = plait.fit("X[i,j] = A[i,r] B[j,r]\nY[i,j] = A[i,r] B[j,r]", {"X": X, "Y": X}, **settings)
    heavy = plait.fit(case.model, {"X": plait.Relation(X, weight=2.0)}, **settings)
    assert twice.objective == pytest.approx(heavy.objective, rel=1e-12)
    np.testing.assert_allclose(twice.factors["A"].mean, heavy.factors["A"].mean, rtol=1e-10)
    problem = replace(case.problem, M={"X": np.full(X.shape, 2.0)}, prior=dict.fromkeys("AB", (0.5, 10.0)))
    assert oracle.bound(problem, state_of(heavy, "AB")) == pytest.approx(heavy.objective, rel=1e-11)
