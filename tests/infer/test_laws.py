"""Laws that every fit obeys: the bound rises, its parts are in step, and counts are conserved."""

import numpy as np
import pytest

import plait
import plait.fitting.members
from plait.infer.hyper import HOLD
from tests import oracle
from tests.cases import make, state_of
from tests.models import MODELS, SIZES
from tests.observed import WAYS

# Of a few listed cells all may be links.
pytestmark = pytest.mark.filterwarnings("ignore::plait.NoZerosWarning")

CHOSEN = (
    "matrix", "cp5", "cp3_weighted", "cp3_mixed_order", "tucker_mixed_order", "train", "bias", "two_visible",
    "lone_latent", "disconnected_vector", "sums_only", "coupled_paper", "coupled_tucker", "friends_two_names",
)  # fmt: skip
TIES = {
    "none": None,
    "factor": "factor",
    "component": "component",
    "entity": "entity",
    "rank-one": "rank-one",
    "indices": ("r", "i", "user"),
}
EVERY = pytest.mark.parametrize("name", CHOSEN)
BOTH_LIKELIHOODS = pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])


def rises(case, fit):
    """No sweep lowers the bound by more than rounding."""
    falls = -np.diff([record.bound for record in fit.history])
    assert falls.max() <= 1e-9 * case.slack(fit), f"sweep {falls.argmax() + 1} lowers the bound by {falls.max():.3g}"


def way_of(name, number=0):
    """Spread the ways of observing over the models."""
    return list(WAYS)[(CHOSEN.index(name) + number) % len(WAYS)]


@pytest.fixture
def working_set(monkeypatch):
    """Every fit's problem, as the loop left it."""
    problems, run = [], plait.fitting.members.run

    def kept(problem, *arguments):
        problems.append(problem)
        return run(problem, *arguments)

    monkeypatch.setattr(plait.fitting.members, "run", kept)
    return problems


# --- the bound rises


@pytest.mark.sampled(8)
@BOTH_LIKELIHOODS
@EVERY
def test_bound_rises_in_every_sweep(name, likelihood):
    for number, method in enumerate(("em", "map", "vb")):
        case = make(name, way_of(name, 2 * number), likelihood)
        settings = {} if method == "em" else {"adapt": None}
        rises(case, case.fit(method, sweeps=25, **settings))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("tie", TIES)
@EVERY
def test_bound_rises_while_priors_adapt(name, tie):
    latent = plait.Model(MODELS[name]).indices
    adapt = TIES[tie] if tie != "indices" else tuple(index for index in TIES[tie] if index in latent)
    likelihood = "bernoulli" if list(TIES).index(tie) % 2 else "poisson"
    case = make(name, way_of(name, list(TIES).index(tie)), likelihood)
    rises(case, case.fit(adapt=adapt, sweeps=HOLD + 15 if tie == "rank-one" else 30))


@pytest.mark.sampled(7)
@pytest.mark.parametrize("way", WAYS)
def test_bound_rises_under_every_weight_with_an_exposure(way):
    for likelihood in ("poisson", "bernoulli"):
        case = make("cp3", way, likelihood, exposed=True)
        for method in ("em", "map", "vb"):
            rises(case, case.fit(method, sweeps=20))


@pytest.mark.parametrize("tie", ["factor", "entity", "rank-one"])
def test_bound_rises_when_the_priors_concentration_differs_between_entries(tie):
    case = make("matrix")
    prior = {"A": plait.Gamma(np.geomspace(0.05, 20.0, SIZES["i"])[:, None], 1.0), "B": plait.Gamma(0.7, 1.3)}
    rises(case, case.fit(adapt={"A": tie}, prior=prior, sweeps=HOLD + 20))


# --- the bound's parts are in step


@pytest.mark.sampled(9)
@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("method", ["em", "map", "vb"])
@EVERY
def test_incremental_bound_equals_measuring_afresh_and_the_oracle(name, method, number, working_set):
    case = make(name, way_of(name, 2 * number + 1), ("poisson", "bernoulli")[number % 2], exposed=number == 2)
    fit = case.fit(method, sweeps=12)
    problem = working_set[0]
    rates, divergences = list(problem.rates), dict(problem.divergences)
    problem.measure()
    slack = 1e-11 * case.slack(fit) + 1e-12
    np.testing.assert_allclose(rates, problem.rates, rtol=1e-11, atol=slack)
    assert divergences == pytest.approx(problem.divergences, rel=1e-10, abs=slack)
    assert problem.bound(problem.count()) == pytest.approx(fit.bound, abs=slack)
    assert case.objective(fit) == pytest.approx(fit.bound, rel=1e-10, abs=10 * slack)


@pytest.mark.sampled(8)
@BOTH_LIKELIHOODS
@EVERY
def test_counts_of_every_factor_of_a_relation_add_up_to_its_data(name, likelihood, working_set):
    case = make(name, way_of(name, 3), likelihood)
    fit = case.fit(sweeps=3)
    problem, logs = working_set[0], oracle.log_geomeans(case.problem, state_of(fit, case.problem.free))
    log_lambda = oracle.log_rate(case.problem, logs)
    for relation, counted in zip(problem.relations, problem.count()):
        X = oracle.expected_counts(case.problem, relation.part.name, log_lambda[relation.part.name])
        total = np.sum(case.problem.weights(relation.part.name) * X)
        for factor, gradient in counted.gradients.items():
            explained = np.sum(gradient * problem.factors[factor].geomean) + np.sum(counted.extras.get(factor, 0.0))
            assert explained == pytest.approx(total, rel=1e-11)
