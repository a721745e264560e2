"""Coverage: truths drawn from the posterior lie in its intervals as often as these say."""

import numpy as np
import pytest

import plait
from lab.bench.coverage import EQUATIONS, Outcome, _judged

CELLS = np.argwhere(np.ones((20, 15)))


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_truths_drawn_from_the_posterior_are_covered_by_its_intervals(likelihood):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.5, (20, 15)).astype(float)
    data = {"X": plait.Relation(np.minimum(X, 1.0) if likelihood == "bernoulli" else X, likelihood=likelihood)}
    fit = plait.fit(EQUATIONS[2], data, rank=2, seed=0, max_iter=20)
    draws = fit.sample(20, seed=1)
    rates = np.einsum("nir,njr->nij", draws["A"], draws["B"]).reshape(20, -1)
    found = [Outcome("", "", "", *_judged(fit, CELLS, rate, rng.poisson(rate).astype(float), rng)) for rate in rates]
    covered, counts, factor = (np.mean([getattr(one, name) for one in found]) for name in ("all", "counts", "factor"))
    if likelihood == "bernoulli":
        assert covered == pytest.approx(0.9, abs=0.02)
        assert factor == pytest.approx(1.0, abs=0.1)
    else:  # mean ± 1.645 sd of a skewed rate holds a little more than 90 %
        assert 0.9 < covered < 0.95
        assert counts == pytest.approx(0.9, abs=0.02)
