"""Laws that every fit obeys: the bound rises, its parts are in step, and counts are conserved."""

import numpy as np
import pytest

import plait
from tests.support import oracle
from tests.support.infer_laws import BOTH_LIKELIHOODS, NAMES, PRODUCTS, dense_sums, parse_strategy, rises
from tests.support.models import EXPOSED, MODELS, SIZES
from tests.support.problems import RANK_ONE_MEAN_SWEEPS, make, state_of
from tests.support.ways_of_observing import WAYS

# Of a few listed cells all may be links; pairs without a direction are listed once.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::plait.errors.{kind}") for kind in ("NoZerosWarning", "AsymmetricLinksWarning")
]

TIES = {
    "none": None,
    "factor": "factor",
    "component": "component",
    "entity": "entity",
    "rank-one": "rank-one",
    "indices": ("r", "i", "user"),
}
EVERY = pytest.mark.parametrize("name", NAMES)
QUICK = ["matrix", "bias", "coupled_paper", "friends_two_names", "pairwise", "given_in_terms", "rescal_bias",
         "symmetric_coupled"]  # fmt: skip


@pytest.mark.quick(name=QUICK)
@BOTH_LIKELIHOODS
@EVERY
def test_bound_rises_in_every_sweep(name, likelihood):
    for number, method in enumerate(("em", "map", "vb")):
        case = make(name, parse_strategy(name, 2 * number), likelihood)
        settings = {} if method == "em" else {"adapt_prior": None}
        rises(case, case.fit(method, max_iter=25, **settings, **dense_sums(name)))


@pytest.mark.quick(name=["matrix"])
@pytest.mark.parametrize("tie", TIES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_bound_rises_while_priors_adapt(name, tie):
    latent = plait.Model(MODELS[name]).indices
    adapt = TIES[tie] if tie != "indices" else tuple(index for index in TIES[tie] if index in latent)
    likelihood = "bernoulli" if list(TIES).index(tie) % 2 else "poisson"
    case = make(name, parse_strategy(name, list(TIES).index(tie)), likelihood)
    rises(case, case.fit(adapt_prior=adapt, max_iter=RANK_ONE_MEAN_SWEEPS + 15 if tie == "rank-one" else 30))


@pytest.mark.parametrize("tie", ["factor", "component", "entity", "rank-one"])
@pytest.mark.parametrize("name", ["pairwise", "shared_factor", "symmetric_coupled", "rescal_bias"])
def test_bound_of_a_sum_rises_while_priors_adapt_and_leaps_are_taken(name, tie):
    case = make(name, parse_strategy(name, len(tie)))
    for accelerate in (False, True):
        sweeps = RANK_ONE_MEAN_SWEEPS + 15 if tie == "rank-one" else 25
        rises(case, case.fit(adapt_prior=tie, accelerate=accelerate, max_iter=sweeps, **dense_sums(name)))


@pytest.mark.parametrize("way", WAYS)
def test_bound_rises_under_every_weight_with_an_exposure(way):
    for likelihood in ("poisson", "bernoulli"):
        case = make("cp3", way, likelihood, exposed=True)
        for method in ("em", "map", "vb"):
            rises(case, case.fit(method, max_iter=20))


@pytest.mark.parametrize("tie", ["factor", "entity", "rank-one"])
def test_bound_rises_when_the_priors_concentration_differs_between_entries(tie):
    case = make("matrix")
    prior = {"A": plait.Gamma(np.geomspace(0.05, 20.0, SIZES["i"])[:, None], 1.0), "B": plait.Gamma(0.7, 1.3)}
    rises(case, case.fit(adapt_prior={"A": tie}, prior=prior, max_iter=RANK_ONE_MEAN_SWEEPS + 20))


@pytest.mark.quick(name=["matrix", "coupled_paper", "pairwise"])
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("method", ["em", "map", "vb"])
@EVERY
def test_incremental_bound_equals_measuring_again_and_the_oracle(name, method, number, working_set):
    exposed, likelihood = number == 2 and name in EXPOSED, ("poisson", "bernoulli")[number % 2]
    case = make(name, parse_strategy(name, 2 * number + 1), likelihood, exposed=exposed)
    fit = case.fit(method, max_iter=12, **dense_sums(name))
    problem = working_set[0]
    rates, divergences = list(problem.rates), dict(problem.divergences)
    problem.recompute_elbo_terms()
    slack = 1e-11 * case.slack(fit) + 1e-12
    np.testing.assert_allclose(rates, problem.rates, rtol=1e-11, atol=slack)
    assert divergences == pytest.approx(problem.divergences, rel=1e-10, abs=slack)
    assert problem.objective(problem.expected_counts()) == pytest.approx(fit.objective, abs=slack)
    assert case.objective(fit) == pytest.approx(fit.objective, rel=1e-10, abs=10 * slack)


@pytest.mark.quick(name=QUICK)
@BOTH_LIKELIHOODS
@EVERY
def test_counts_of_every_factor_are_those_of_its_terms_and_all_terms_add_up_to_the_data(name, likelihood, working_set):
    case = make(name, parse_strategy(name, 3), likelihood)
    fit = case.fit(max_iter=3, **dense_sums(name))
    problem, logs = working_set[0], oracle.log_geomeans(case.problem, state_of(fit, case.problem.free))
    totals, log_lambda = oracle.term_totals(case.problem, logs), oracle.log_rate(case.problem, logs)
    for relation, counted in zip(problem.relations, problem.expected_counts()):
        own = relation.part.name
        X = oracle.expected_counts(case.problem, own, log_lambda[own])
        assert sum(totals[own]) == pytest.approx(np.sum(case.problem.weights(own) * X), rel=1e-11)
        for factor, gradient in counted.gradients.items():
            explained = np.sum(gradient * problem.factors[factor].exp_mean_log) + np.sum(
                counted.underflow.get(factor, 0.0)
            )
            uses = [term.uses[factor] for term in relation.terms]
            assert explained == pytest.approx(np.dot(uses, totals[own]), rel=1e-11), factor
