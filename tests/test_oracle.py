"""The oracle equals exact answers and finite differences before it judges fits."""

import numpy as np
import pytest
from scipy.special import gammaln, psi
from scipy.stats import bernoulli, gamma, nbinom, poisson

from plait import Model
from tests.support import oracle
from tests.support.log_evidence import gamma_poisson_log_evidence, log_evidence
from tests.support.models import DOUBLED, EXPOSED, GIVEN, MODELS, RANKS, SIZES, SUMS
from tests.support.oracle import Problem

ALL_SIZES = SIZES | RANKS
NAMES = ("cp3", "tucker", "two_visible", "coupled_paper", "given_in_terms", "symmetric_weighted", "rescal_bias")
SOME = pytest.mark.parametrize("name", NAMES)
BOTH_LIKELIHOODS = pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])


def make(name, **options):
    """Return a problem for the named model, with an exposure where it has none, and its generator.

    The diagonal of a factor that stands twice is hidden.
    """
    rng = np.random.default_rng([1, NAMES.index(name)])
    equations = oracle.from_text((EXPOSED | SUMS | DOUBLED)[name])
    given = [factor for factor in oracle.factor_indices(equations) if factor in GIVEN]
    problem = oracle.instance(equations, ALL_SIZES, rng, given=given, **options)
    M = dict(problem.M)
    for relation, visible in oracle.relations_of(equations).items():
        if "friend" in visible:
            M[relation] = M[relation] * (1 - oracle.spread(np.eye(SIZES["user"]), ("user", "friend"), visible))
    return Problem(equations, problem.X, problem.prior, M, {}, problem.likelihood, problem.given), rng


def test_a_model_and_its_text_have_the_same_equations():
    for text in (*MODELS.values(), *EXPOSED.values(), *SUMS.values(), *DOUBLED.values()):
        equations = oracle.from_text(text)
        assert oracle.from_model(Model(text)) == equations
        assert tuple(oracle.factor_indices(equations)) == Model(text).factors


@SOME
@BOTH_LIKELIHOODS
def test_counts_and_exposures_are_gradients(name, likelihood):
    problem, rng = make(name, likelihood=likelihood, real_weights=True)
    Z = oracle.start(problem, ALL_SIZES, rng, "em")
    N = oracle.counts(problem, oracle.logs_of(problem, Z))

    def F(point):
        return sum(np.sum(t) for t in oracle.cell_terms(problem, oracle.logs_of(problem, point)).values())

    def G(point):
        return oracle.total_rate(problem, point | problem.given)

    for factor in problem.free:
        X = oracle.exposure(problem, Z | problem.given, factor)
        assert N[factor].shape == X.shape == Z[factor].shape
        direction, h = rng.normal(size=X.shape), 1e-5
        up, down = (Z | {factor: Z[factor] + s * h * direction} for s in (1, -1))
        np.testing.assert_allclose(np.sum(N[factor] / Z[factor] * direction), (F(up) - F(down)) / (2 * h), 1e-6, 1e-6)
        np.testing.assert_allclose(np.sum(X * direction), (G(up) - G(down)) / (2 * h), 1e-6, 1e-6)


# --- exact answers


@pytest.mark.parametrize(("x", "A", "B"), [(0, 0.5, 10.0), (1, 3.0, 0.2), (7, 0.05, 1.0), (250, 1.0, 10.0)])
def test_the_bound_of_one_scalar_and_one_count_is_a_log_negative_binomial(x, A, B):
    problem = Problem(oracle.from_text("X[] = c[]"), {"X": np.array(float(x))}, {"c": (A, B)})
    state = oracle.sweep(problem, {"c": (np.array(1.0), np.array(1.0))}, "vb")
    exact = nbinom.logpmf(x, A, (A / B) / (A / B + 1))
    np.testing.assert_allclose(oracle.bound(problem, state), exact, rtol=1e-12)
    np.testing.assert_allclose(gamma_poisson_log_evidence([x], [1.0], A, B), exact, rtol=1e-12)
    if A > 0.1 and x < 100:
        np.testing.assert_allclose(log_evidence(problem, {}, nodes=400), exact, rtol=1e-9)


@BOTH_LIKELIHOODS
def test_with_all_factors_given_the_bound_is_the_log_likelihood(likelihood):
    equations, rng = oracle.from_text(MODELS["coupled_tucker"]), np.random.default_rng(5)
    given = oracle.factor_indices(equations)
    problem = oracle.instance(equations, ALL_SIZES, rng, likelihood=likelihood, given=given, real_weights=True)
    exact = 0.0
    for relation, lam in oracle.rate(problem, {}).items():
        x, seen = np.nan_to_num(problem.X[relation]), problem.M[relation] > 0
        log_p = poisson.logpmf(x, lam) if likelihood == "poisson" else bernoulli.logpmf(x, -np.expm1(-lam))
        exact += np.sum(problem.M[relation][seen] * log_p[seen])
    np.testing.assert_allclose(oracle.bound(problem, {}), exact, rtol=1e-10)
    np.testing.assert_allclose(oracle.log_likelihood(problem, {}), exact, rtol=1e-10)


def test_the_log_joint_is_the_sum_of_log_densities():
    problem, rng = make("tucker", concentration=2.5, missing=0.0)
    Z = oracle.start(problem, ALL_SIZES, rng, "map")
    exact = poisson.logpmf(problem.X["X"], oracle.rate(problem, Z)["X"]).sum()
    exact += sum(gamma.logpdf(z, 2.5, scale=1.2 / 2.5).sum() for z in Z.values())
    np.testing.assert_allclose(oracle.log_joint(problem, Z), exact, rtol=1e-12)


def test_the_binary_bound_is_the_sum_over_the_latent_count():
    equations = oracle.from_text("X[] = c[]")
    problem = Problem(equations, {"X": np.array(1.0)}, {"c": (0.8, 2.0)}, likelihood={"X": "bernoulli"})
    C, D = np.array(1.7), np.array(0.6)
    # q(n) is proportional to exp(E[log p(n | c)]) on n >= 1; its entropy is summed term by term.
    n = np.arange(1, 60)
    log_p = n * (psi(C) + np.log(D)) - gammaln(n + 1) - C * D
    q = np.exp(log_p) / np.exp(log_p).sum()
    direct = np.sum(q * (log_p - np.log(q))) - oracle.kl(0.8, 2.0, C, D)
    np.testing.assert_allclose(oracle.bound(problem, {"c": (C, D)}), direct, rtol=1e-12)
    events = oracle.expected_counts(problem, "X", psi(C) + np.log(D))
    np.testing.assert_allclose(events, np.sum(q * n), rtol=1e-12)
