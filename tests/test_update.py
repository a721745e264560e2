"""New links learnt without the old data: against dense inference with the old counts added, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from plait.execute import Threads
from plait.fold.updating import old_counts
from tests import oracle
from tests.growing import grow, state_of, under

LATE = {
    "matrix": {},
    "cp3": {"j": 1},
    "cp3_weighted": {"i": 1},
    "tucker2": {},
    "two_visible": {"i": 1},
    "coupled_chain": {"j": 1},
    "friends": {"user": 1},
    "cp3_bias": {},
    "pairwise": {"j": 1},
    "symmetric": {"user": 1},
    "symmetric_coupled": {"place": 1},
    "rescal": {"user": 1},
}
CASES = [(name, "all", "poisson", "vb") for name in LATE]
CASES += [(name, way, "poisson", "vb") for name in ("cp3", "symmetric") for way in ("listed", "zeros")]
CASES += [("matrix", "hidden", "poisson", "vb"), ("friends", "zeros", "bernoulli", "vb")]
CASES += [(name, "all", "poisson", method) for name in ("cp3", "pairwise", "rescal") for method in ("em", "map")]


@pytest.mark.parametrize(("name", "way", "likelihood", "method"), CASES, ids=map("-".join, CASES))
def test_a_fixed_point_has_the_old_counts_and_those_of_new_links(name, way, likelihood, method):
    case = grow(name, LATE[name], way, likelihood, later=0.25)
    fit = case.fit(method, sweeps=30 if method == "vb" else 3000)
    old = oracle.objective(under(case.before, fit), state_of(fit), method)
    assert fit.bound == pytest.approx(old, rel=1e-9)
    updated = fit.update(case.rows, iterations=1000)
    problem, state = under(case.after, updated), state_of(updated)
    assert updated.bound == pytest.approx(oracle.objective(problem, state, method), rel=1e-9)
    counts = dense_counts(case, fit, problem, state, method)
    means = oracle.means(problem, state) if method == "vb" else state
    for factor in fit.factors:
        again = oracle._updated(problem, factor, counts[factor], means, method)
        for then, here in zip(*(value if method == "vb" else (value,) for value in (state[factor], again))):
            np.testing.assert_allclose(here, then, rtol=2e-3, atol=1e-5, err_msg=factor)


def dense_counts(case, fit, problem, state, method):
    """Those that the fit had, with those of what came later, under the factors of the state."""
    before = case.before.X
    later = {}
    for name, X in case.after.X.items():
        later[name] = X.copy()
        place = tuple(slice(n) for n in before[name].shape)
        later[name][place] -= before[name]
    new = oracle.counts(replace(problem, X=later), oracle._logs(problem, state, method))
    sizes = {axis: len(fit.labels[axis]) for axis in fit.model.axes}
    for name, stored in old_counts(fit, sizes, Threads(1)).items():
        own = fit.state.factors[name].layout.written(stored)
        new[name][tuple(slice(n) for n in own.shape)] += own
    return new
