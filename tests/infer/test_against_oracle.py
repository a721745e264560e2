"""Every model × way of observing × likelihood × exposure × method equals the dense oracle after 1 and 5 sweeps."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

import plait
from plait.execute import Reference
from tests import oracle
from tests.cases import make
from tests.models import DOUBLED, EXPOSED, MODELS, ONLY_EXPOSED, RANKS, SIZES, SUMS
from tests.observed import WAYS, observe

WITH_V = EXPOSED | ONLY_EXPOSED
CONCENTRATION = {"vb": 0.7, "map": 1.6}
BOTH_LIKELIHOODS = pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])


class Start:
    """A posterior handed over as a start."""

    def __init__(self, concentration, scale):
        self.concentration, self.scale = concentration, scale


def close(actual, expected, message):
    """rtol 1e-10, and 1e-12 of the array's largest entry."""
    scale = float(np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12 * scale, err_msg=message)


def problem_of(model, way, likelihood, rng, exposed):
    """Data for Plait, and the oracle's problem of the same data with M built cell by cell."""
    plain = oracle.from_model(model)
    given = ("V",) if exposed else ()
    drawn = oracle.instance(plain, SIZES | RANKS, rng, likelihood=likelihood, missing=0.0, given=given)
    data, M = {}, {}
    for relation, indices, _ in plain:
        data[relation], M[relation] = observe(way, tuple(indices), drawn.X[relation], likelihood, rng)
    return data, replace(drawn, M=M)


def starts(state):
    return {name: Start(*value) if isinstance(value, tuple) else value for name, value in state.items()}


def compare(model, bound, problem, state, method, fixed, sweeps=(1, 5), executor=None):
    """The fit equals the oracle's sweeps: every factor, and the objective."""
    rank = {index: RANKS[index] for index in model.ranks} or None
    settings = {} if method == "em" else {"prior": plait.Gamma(CONCENTRATION[method], 1.3)}
    reference, done = state, 0
    for count in sweeps:
        for _ in range(count - done):
            reference = oracle.sweep(problem, reference, method)
        done = count
        fit = plait.fit(
            model, bound, rank=rank, method=method, adapt=None, sweeps=count, tol=0.0,
            fixed=fixed, init=starts(state), executor=executor, threads=1 if executor is None else None, **settings,
        )  # fmt: skip
        where = f"{method}, {count} sweeps"
        for factor in problem.free:
            if method == "vb":
                close(fit.factors[factor].concentration, reference[factor][0], f"C of {factor}, {where}")
                close(fit.factors[factor].scale, reference[factor][1], f"D of {factor}, {where}")
            else:
                close(fit.factors[factor].mean, reference[factor], f"Z of {factor}, {where}")
        expected = oracle.objective(problem, reference, method)
        assert fit.bound == pytest.approx(expected, rel=1e-10, abs=1e-9), where


def with_prior(problem, method):
    if method == "em":
        return replace(problem, prior={})
    return replace(problem, prior=dict.fromkeys(problem.free, (CONCENTRATION[method], 1.3)))


@pytest.mark.sampled(9)
@BOTH_LIKELIHOODS
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")  # so small, what is drawn may be links only
def test_fit_equals_dense_oracle(name, way, likelihood):
    equals_oracle(name, way, likelihood, exposed=False)


@pytest.mark.sampled(7)
@BOTH_LIKELIHOODS
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", WITH_V)
@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")
def test_fit_under_an_exposure_equals_dense_oracle(name, way, likelihood):
    equals_oracle(name, way, likelihood, exposed=True)


def equals_oracle(name, way, likelihood, *, exposed):
    model = plait.Model((WITH_V if exposed else MODELS)[name])
    rng = np.random.default_rng(zlib.crc32(f"{name} {way} {likelihood} {exposed}".encode()))
    data, drawn = problem_of(model, way, likelihood, rng, exposed)
    bound = model.bind(data, labels={axis: range(SIZES[axis]) for axis in model.axes})
    fixed = {"V": drawn.given["V"]} if exposed else None
    for method in ("em", "map", "vb"):
        problem = with_prior(drawn, method)
        state = oracle.start(problem, SIZES | RANKS, rng, method)
        compare(model, bound, problem, state, method, fixed)


@pytest.mark.sampled(23)
@BOTH_LIKELIHOODS
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SUMS | DOUBLED)
@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")
def test_fit_of_a_sum_or_of_a_factor_twice_equals_dense_oracle(name, way, likelihood):
    """By dense sums, for kernels equal those (tests/compile)."""
    case = make(name, way, likelihood)
    for method in ("em", "map", "vb"):
        problem = with_prior(case.problem, method)
        state = case.start(1, method)
        compare(case.model, case.data, problem, state, method, case.fixed, (3,), Reference())


@pytest.mark.sampled(3)
@BOTH_LIKELIHOODS
@pytest.mark.parametrize("name", ["pairwise", "given_in_terms", "coupled_sum", "symmetric_coupled", "rescal_bias"])
@pytest.mark.filterwarnings("ignore::plait.PlaitWarning")
def test_compiled_fit_of_a_sum_equals_dense_oracle(name, likelihood):
    case = make(name, "missing_cells", likelihood)
    compare(case.model, case.data, with_prior(case.problem, "vb"), case.start(2), "vb", case.fixed)


@pytest.mark.sampled(4)
@BOTH_LIKELIHOODS
@pytest.mark.parametrize("name", ["matrix", "cp3", "tucker", "coupled_cp_matrix", "coupled_core", "friends_two_names"])
def test_a_given_factor_with_latent_indices_is_used_and_never_updated(name, likelihood):
    model = plait.Model(MODELS[name])
    rng = np.random.default_rng(zlib.crc32(f"given {name} {likelihood}".encode()))
    plain = oracle.from_model(model)
    chosen = model.factors[-1]
    drawn = oracle.instance(plain, SIZES | RANKS, rng, likelihood=likelihood, missing=0.0, given=(chosen,))
    observed = {nu: observe("missing_cells", tuple(i), drawn.X[nu], likelihood, rng) for nu, i, _ in plain}
    drawn = replace(drawn, M={nu: M for nu, (_, M) in observed.items()})
    bound = model.bind(
        {nu: relation for nu, (relation, _) in observed.items()}, labels={a: range(SIZES[a]) for a in model.axes}
    )
    for method in ("em", "vb"):
        problem = with_prior(drawn, method)
        state = oracle.start(problem, SIZES | RANKS, rng, method)
        compare(model, bound, problem, state, method, {chosen: drawn.given[chosen]})
