"""New entities beside those of a fit: against dense inference from the mathematics alone, and what must not change."""

import numpy as np
import pytest

from tests import oracle
from tests.growing import grow, state_of, under

LATE = {
    "matrix": {"i": 2},
    "cp3": {"j": 1},
    "cp3_weighted": {"i": 1, "k": 2},
    "cp3_mixed_order": {"k": 2},
    "tucker": {"i": 2},
    "tucker2": {"k": 1},
    "block_term": {"j": 2},
    "bias": {"i": 2},
    "two_visible": {"i": 1, "k": 1},
    "two_visible_mixed_order": {"j": 2},
    "sums_only": {"i": 2},
    "rank_one": {"i": 1, "j": 1},
    "coupled_chain": {"j": 2},
    "coupled_bias": {"i": 2, "k": 1},
    "friends": {"user": 2},
    "friends_two_names": {"user": 2, "place": 1},
    "cp3_bias": {"i": 2},
    "pairwise": {"j": 2},
    "shared_factor": {"i": 1, "j": 1},
    "two_backgrounds": {"j": 2},
    "symmetric": {"user": 2},
    "symmetric_weighted": {"user": 2},
    "symmetric_coupled": {"user": 2, "place": 1},
    "rescal": {"user": 2},
    "rescal_bias": {"user": 1, "k": 1},
}
CASES = [(name, "all", "poisson", "vb") for name in LATE]
CASES += [(name, way, "poisson", "vb") for name in ("cp3", "friends") for way in ("listed", "zeros", "hidden")]
CASES += [("symmetric", way, "poisson", "vb") for way in ("listed", "zeros")]
CASES += [("matrix", "all", likelihood, "vb") for likelihood in ("bernoulli",)]
CASES += [("symmetric_coupled", "zeros", "bernoulli", "vb"), ("pairwise", "listed", "bernoulli", "vb")]
CASES += [(name, "all", "poisson", method) for name in ("cp3", "rescal", "pairwise") for method in ("em", "map")]


@pytest.mark.parametrize(("name", "way", "likelihood", "method"), CASES, ids=map("-".join, CASES))
def test_new_rows_are_those_of_dense_inference_with_all_others_held(name, way, likelihood, method):
    case = grow(name, LATE[name], way, likelihood)
    fit = case.fit(method)
    few, many = (fit.fold_in(case.rows, iterations=n) for n in (2, 1000))
    for folded in (few, many):
        old = oracle.objective(under(case.before, fit), state_of(fit), method)
        now = oracle.objective(under(case.after, folded), state_of(folded), method)
        slack = 1e-9 * (abs(old) + abs(now))
        assert fit.bound == pytest.approx(old, abs=slack)
        assert folded.bound == pytest.approx(now, abs=10 * slack)
    assert many.bound >= few.bound - 1e-9 * abs(few.bound)
    problem, state = under(case.after, many), state_of(many)
    counts = oracle.counts(problem, oracle._logs(problem, state, method))
    means = oracle.means(problem, state) if method == "vb" else state
    for factor in fit.factors:
        again = oracle._updated(problem, factor, counts[factor], means, method)
        for then, here in zip(*(value if method == "vb" else (value,) for value in (state[factor], again))):
            new = np.broadcast_to(case.new_rows(factor), np.shape(here))
            np.testing.assert_allclose(np.asarray(here)[new], np.asarray(then)[new], rtol=1e-3, atol=1e-6)
