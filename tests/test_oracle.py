"""The oracle equals exact answers, finite differences, quadrature and a Gibbs sampler before it judges fits."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, psi
from scipy.stats import bernoulli, gamma, nbinom, poisson

from plait.model.model import Model
from tests.support import gibbs as sampling
from tests.support import oracle
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
@pytest.mark.parametrize("method", ["em", "map", "vb"])
def test_sweeps_raise_the_objective(name, likelihood, method):
    problem, rng = make(name, likelihood=likelihood, concentration=1.3, real_weights=True)
    state = oracle.start(problem, ALL_SIZES, rng, method)
    value = oracle.objective(problem, state, method)
    for _ in range(4):
        state = oracle.sweep(problem, state, method)
        new = oracle.objective(problem, state, method)
        if method == "vb":
            scale = oracle.bound_terms(problem, state).scale
        else:
            scale = abs(new) + oracle.total_rate(problem, state | problem.given)
        assert new >= value - 1e-9 * scale
        value = new
    assert np.isfinite(value)


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
    np.testing.assert_allclose(sampling.gamma_poisson_log_evidence([x], [1.0], A, B), exact, rtol=1e-12)
    if A > 0.1 and x < 100:
        np.testing.assert_allclose(sampling.log_evidence(problem, {}, nodes=400), exact, rtol=1e-9)


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


@pytest.mark.parametrize(("A", "B", "C", "D"), [(0.5, 10.0, 0.7, 3.0), (3.0, 1.0, 20.0, 0.1), (1.0, 2.0, 1.4, 0.2)])
def test_the_divergence_is_its_integral(A, B, C, D):
    q, p = gamma(C, scale=D), gamma(A, scale=B / A)

    def integrand(u):  # in u = log z it is smooth
        return q.pdf(np.exp(u)) * np.exp(u) * (q.logpdf(np.exp(u)) - p.logpdf(np.exp(u)))

    np.testing.assert_allclose(oracle.kl(A, B, C, D), quad(integrand, -60, 6, limit=400)[0], rtol=1e-6)


@BOTH_LIKELIHOODS
def test_tiny_concentrations_lose_no_counts(likelihood):
    problem, rng = make("coupled_paper", likelihood=likelihood)
    shapes = oracle.factor_shapes(problem.equations, ALL_SIZES)
    state = {
        factor: (rng.choice([1e-3, 2e-3, 1.0], p=[0.5, 0.3, 0.2], size=shapes[factor]), np.ones(shapes[factor]))
        for factor in problem.free
    }
    logs = oracle.log_geomeans(problem, state)
    assert min(np.min(value) for value in oracle.log_rate(problem, logs).values()) < -800
    for relation, by_factor in oracle.relation_counts(problem, logs).items():
        totals = [N.sum() for N in by_factor.values()]
        np.testing.assert_allclose(totals, totals[0], rtol=1e-11)
        assert totals[0] >= np.nansum(problem.M[relation] * problem.X[relation]) * (1 - 1e-11)
    assert oracle.bound(problem, oracle.sweep(problem, state, "vb")) >= oracle.bound(problem, state)


# --- quadrature and sampling

# text, sizes, data, prior (A, B), nodes: few enough entries for quadrature
TINY = {
    "two scalars": ("X[] = c[] d[]", {}, 4.0, (0.5, 3.0), 400),
    "no event": ("X[] = c[] d[]", {}, 0.0, (1.5, 1.0), 300),
    "rank one": ("X[i,j] = a[i] b[j]", {"i": 2, "j": 1}, [[1.0], [3.0]], (2.0, 1.5), 64),
    "a missing cell": ("X[i,j] = a[i] b[j]", {"i": 1, "j": 2}, [[1.0, np.nan]], (2.0, 1.5), 64),
    "two components": ("X[] = v[r] w[r]", {"r": 2}, 3.0, (5.0, 1.0), 24),
}


def tiny(name, likelihood):
    text, sizes, data, prior, nodes = TINY[name]
    equations, x = oracle.from_text(text), np.array(data)
    M = np.where(np.isnan(x), 0.0, 1.0)
    x = np.where(x > 0, 1.0, x) if likelihood == "bernoulli" else x
    priors = dict.fromkeys(oracle.factor_indices(equations), prior)
    return Problem(equations, {"X": x}, priors, {"X": M}, likelihood={"X": likelihood}), sizes, nodes


@pytest.mark.parametrize("name", TINY)
@BOTH_LIKELIHOODS
def test_the_bound_is_below_the_log_evidence_and_near_it(name, likelihood):
    problem, sizes, nodes = tiny(name, likelihood)
    evidence = sampling.log_evidence(problem, sizes, nodes=nodes)
    state = oracle.start(problem, sizes, np.random.default_rng(0), "vb")
    for _ in range(200):
        state = oracle.sweep(problem, state, "vb")
    value = oracle.bound(problem, state)
    assert value <= evidence + 1e-6
    assert value >= evidence - 1.0 or likelihood == "bernoulli"


def test_gibbs_draws_have_the_exact_posterior_of_one_factor():
    rng = np.random.default_rng(7)
    problem = oracle.instance(oracle.from_text("X[i,j] = a[i] V[i,j]"), SIZES, rng, given=("V",))
    draws = sampling.gibbs(problem, oracle.start(problem, SIZES, rng, "em"), 2500, rng, burn=0)["a"]
    C, D = oracle.sweep(problem, oracle.start(problem, SIZES, rng, "vb"), "vb")["a"]
    np.testing.assert_allclose(draws.mean(axis=0), C * D, rtol=0.1)
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(C) * D, rtol=0.1)


@pytest.mark.parametrize(
    ("name", "likelihood", "more", "seed"),
    [("two components", "poisson", 4.0, 11), ("a missing cell", "bernoulli", [[1.0, 1.0]], 13)],
)
def test_gibbs_draws_predict_the_ratio_of_two_evidences(name, likelihood, more, seed):
    """Of counts E[rate | x] = (x + 1) p(x + 1) / p(x); of links the chance of one is p(x and it) / p(x)."""
    problem, sizes, nodes = tiny(name, likelihood)
    other = Problem(problem.equations, {"X": np.array(more)}, problem.prior, likelihood=problem.likelihood)
    evidences = (sampling.log_evidence(p, sizes, nodes=nodes) for p in (other, problem))
    ratio, rng = np.exp(np.subtract(*evidences)), np.random.default_rng(seed)
    draws = sampling.gibbs(problem, oracle.start(problem, sizes, rng, "em"), 2500, rng)
    rates = sampling.draw_rates(problem, draws, "X")
    if likelihood == "poisson":
        np.testing.assert_allclose(rates.mean(), more * ratio, rtol=0.08)
    else:
        np.testing.assert_allclose(-np.expm1(-rates[:, 0, 1]).mean(), ratio, atol=0.02)


@pytest.mark.parametrize("name", ["two_visible", "given_in_terms", "symmetric_weighted", "rescal_bias"])
def test_the_variance_of_a_rate_is_that_of_draws(name):
    problem, rng = make(name)
    state = {factor: (C + 3.0, D) for factor, (C, D) in oracle.start(problem, ALL_SIZES, rng, "vb").items()}
    draws = {factor: rng.gamma(C, D, size=(6000, *C.shape)) for factor, (C, D) in state.items()}
    for relation in oracle.relations_of(problem.equations):
        rates, seen = sampling.draw_rates(problem, draws, relation), problem.M[relation] > 0
        mean, variance = oracle.rate_moments(problem, state, relation)
        np.testing.assert_allclose(rates.mean(axis=0)[seen], mean[seen], rtol=0.05)
        np.testing.assert_allclose(rates.std(axis=0)[seen], np.sqrt(variance)[seen], rtol=0.15)


# --- priors


def prior_part(A, B, C, D):
    """The only part of the bound that depends on the prior."""
    return -np.sum(oracle.kl(np.broadcast_to(A, C.shape), np.broadcast_to(B, C.shape), C, D))


@pytest.mark.parametrize("tie", [(), ("r",), ("i", "k")])
def test_adapted_priors_maximise_the_bound(tie):
    rng = np.random.default_rng(17)
    C, D = rng.gamma(1.0, 1.0, (9, 4, 10)) + 0.05, rng.gamma(2.0, 1.0, (9, 4, 10))
    A, B = oracle.adapted_prior(C, D, 0.5, ("i", "k", "r"), tie)
    best = prior_part(A, B, C, D)
    assert best > prior_part(0.5, B, C, D) > prior_part(0.5, 10.0, C, D)
    for factor in (0.999, 1.001):
        assert best > prior_part(A * factor, B, C, D)
        assert best > prior_part(A, B * factor, C, D)


def test_a_group_without_an_observed_cell_takes_the_average_of_the_others():
    C, D = np.random.default_rng(19).gamma(1.0, 1.0, (5, 9)) + 0.05, np.ones((5, 9))
    seen = np.array([True, True, False, True, True])[:, None]
    for value in oracle.adapted_prior(C, D, 0.5, ("i", "r"), ("i",), observed=seen):
        np.testing.assert_allclose(value[2], np.delete(value, 2).mean())


def test_rank_one_means_are_the_fixed_point_of_their_alternation():
    rng = np.random.default_rng(23)
    E = (rng.gamma(1.0, 1.0, (6, 4, 3)) + 0.05) * rng.gamma(2.0, 1.0, (6, 4, 3))
    b = c = np.ones([1, 1, 1])
    for _ in range(500):
        b = (E / c).mean(axis=1, keepdims=True)
        c = (E / b).mean(axis=(0, 2), keepdims=True)
    np.testing.assert_allclose(oracle.rank_one_means(E, ("i", "r", "k"), {"i", "k"}), b * c, rtol=1e-7)
