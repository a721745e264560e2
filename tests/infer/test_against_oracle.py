"""Every model × every way of observing × likelihood × exposure × method equals the dense oracle after 1 and 5 sweeps."""

import zlib
from dataclasses import replace

import numpy as np
import pytest

import plait
from tests import oracle
from tests.models import EXPOSED, MODELS, RANKS, SIZES
from tests.observed import WAYS, observe

CONCENTRATION = {"vb": 0.7, "map": 1.6}


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


@pytest.mark.parametrize("exposed", [False, True], ids=["plain", "exposed"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_fit_equals_dense_oracle(name, way, likelihood, exposed):
    if exposed and name not in EXPOSED:
        pytest.skip("a relation without an index has nothing to expose")
    model = plait.Model((EXPOSED if exposed else MODELS)[name])
    rng = np.random.default_rng(zlib.crc32(f"{name} {way} {likelihood} {exposed}".encode()))
    data, drawn = problem_of(model, way, likelihood, rng, exposed)
    labels = {axis: range(SIZES[axis]) for axis in model.axes}
    bound = model.bind(data, labels=labels)
    rank = {index: RANKS[index] for index in model.latent} or None
    fixed = {"V": drawn.given["V"]} if exposed else None
    for method in ("em", "map", "vb"):
        prior = {f: (CONCENTRATION.get(method, 1.0), 1.3) for f in drawn.free}
        problem = replace(drawn, prior=prior if method != "em" else {})
        state = oracle.start(problem, SIZES | RANKS, rng, method)
        settings = {} if method == "em" else {"prior": plait.Gamma(CONCENTRATION[method], 1.3)}
        order = "one-pass" if method != "em" else "per-factor"
        reference, done = state, 0
        for sweeps in (1, 5):
            for _ in range(sweeps - done):
                reference = oracle.sweep(problem, reference, method, order)
            done = sweeps
            fit = plait.fit(
                model, bound, rank=rank, method=method, adapt=None, order=order, sweeps=sweeps, tol=0.0,
                fixed=fixed, init=starts(state), threads=1, **settings,
            )  # fmt: skip
            where = f"{method}, {sweeps} sweeps"
            for factor in problem.free:
                if method == "vb":
                    close(fit.factors[factor].concentration, reference[factor][0], f"C of {factor}, {where}")
                    close(fit.factors[factor].scale, reference[factor][1], f"D of {factor}, {where}")
                else:
                    close(fit.factors[factor].mean, reference[factor], f"Z of {factor}, {where}")
            expected = oracle.objective(problem, reference, method)
            assert fit.bound == pytest.approx(expected, rel=1e-10, abs=1e-9), where
