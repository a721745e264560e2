"""Every model × way of observing × likelihood × exposure × method equals the dense oracle after 1 and 5 sweeps."""

from dataclasses import replace

import numpy as np
import pytest

import plait
from plait.executors import Reference
from tests.support import oracle
from tests.support.infer_laws import BOTH_LIKELIHOODS
from tests.support.models import DOUBLED, EXPOSED, MODELS, ONLY_EXPOSED, SUMS
from tests.support.problems import make, starts
from tests.support.ways_of_observing import WAYS

CONCENTRATION = {"vb": 0.7, "map": 1.6}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)

pytestmark = pytest.mark.filterwarnings("ignore::plait.PlaitWarning")  # so small, what is drawn may be links only


def close(actual, expected, message):
    """rtol 1e-10, and 1e-12 of the array's largest entry."""
    scale = float(np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12 * scale, err_msg=message)


def equals_oracle(case, method, seed=1, max_iter=(1, 5), executor=None):
    """The fit equals the oracle's sweeps: every factor, and the objective."""
    prior, settings = {}, {}
    if method != "em":
        prior = dict.fromkeys(case.problem.free, (CONCENTRATION[method], 1.3))
        settings = {"prior": plait.Gamma(CONCENTRATION[method], 1.3)}
    problem, state = replace(case.problem, prior=prior), case.start(seed, method)
    reference, done = state, 0
    for count in max_iter:
        for _ in range(count - done):
            reference = oracle.sweep(problem, reference, method)
        done = count
        fit = plait.fit(
            case.model, case.data, rank=case.rank, method=method, adapt_prior=None, max_iter=count, tol=0.0,
            fixed=case.fixed,
            init=starts(state), executor=executor, threads=1 if executor is None else None, **settings,
        )  # fmt: skip
        where = f"{method}, {count} sweeps"
        for factor in problem.free:
            if method == "vb":
                close(fit.factors[factor].concentration, reference[factor][0], f"C of {factor}, {where}")
                close(fit.factors[factor].scale, reference[factor][1], f"D of {factor}, {where}")
            else:
                close(fit.factors[factor].mean, reference[factor], f"Z of {factor}, {where}")
        expected = oracle.objective(problem, reference, method)
        assert fit.objective == pytest.approx(expected, rel=1e-10, abs=1e-9), where


@pytest.mark.quick(name=["cp3", "tucker"], likelihood=["poisson"])
@BOTH_LIKELIHOODS
@EVERY_WAY
@pytest.mark.parametrize("name", MODELS)
def test_fit_equals_dense_oracle(name, way, likelihood):
    for method in ("em", "map", "vb"):
        equals_oracle(make(name, way, likelihood), method)


@pytest.mark.quick(name=["matrix", "coupled_paper"], likelihood=["bernoulli"])
@BOTH_LIKELIHOODS
@EVERY_WAY
@pytest.mark.parametrize("name", EXPOSED | ONLY_EXPOSED)
def test_fit_under_an_exposure_equals_dense_oracle(name, way, likelihood):
    for method in ("em", "map", "vb"):
        equals_oracle(make(name, way, likelihood, exposed=True), method)


@pytest.mark.quick(way=["all", "weighted_zeros"])
@BOTH_LIKELIHOODS
@EVERY_WAY
@pytest.mark.parametrize("name", SUMS | DOUBLED)
def test_fit_of_a_sum_or_of_a_factor_twice_equals_dense_oracle(name, way, likelihood):
    """By dense sums, for kernels equal those (tests/codegen)."""
    for method in ("em", "map", "vb"):
        equals_oracle(make(name, way, likelihood), method, max_iter=(3,), executor=Reference())


@pytest.mark.quick(name=["given_in_terms"])
@BOTH_LIKELIHOODS
@pytest.mark.parametrize("name", ["pairwise", "given_in_terms", "coupled_sum", "symmetric_coupled", "rescal_bias"])
def test_compiled_fit_of_a_sum_equals_dense_oracle(name, likelihood):
    equals_oracle(make(name, "missing_cells", likelihood), "vb", seed=2)


@pytest.mark.quick(name=["cp3"])
@BOTH_LIKELIHOODS
@pytest.mark.parametrize("name", ["matrix", "cp3", "tucker", "coupled_cp_matrix", "coupled_core", "friends_two_names"])
def test_a_given_factor_with_latent_indices_is_used_and_never_updated(name, likelihood):
    case = make(name, "missing_cells", likelihood)
    chosen = case.model.factors[-1]
    given = {chosen: case.start(3, "em")[chosen]}
    case = replace(case, problem=replace(case.problem, given=given), fixed=given)
    for method in ("em", "vb"):
        equals_oracle(case, method)
