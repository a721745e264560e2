"""Contenders run in processes of their own, and one that fails is a line of the table."""

import subprocess
import sys

import numpy as np
import pytest

from lab.bench import data, plain, team
from lab.bench.engine import Engine
from lab.bench.rows.likelihood import log_likelihood, planted

# Of a few listed cells all may be links.
pytestmark = pytest.mark.filterwarnings("ignore::plait.errors.NoZerosWarning")


def test_a_contender_that_dies_or_hangs_is_out():
    for code, reason in (
        ("", "its process ended with code 0"),
        ("import time; time.sleep(60)", "no iteration measured within 1 s"),
    ):
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        member = team.Member("someone", process)
        member.tell({"run": True})
        member.answer(limit=1.0 if code else 20.0)
        assert reason in member.figures()["cannot"]
        assert member.process is None


@pytest.mark.parametrize("observed", ["all", "listed", "missing"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_the_sweep_of_the_engine_is_the_plain_one(observed, likelihood):
    """The same likelihood, weights and prior: otherwise the rows compare different work."""
    case = data.cp3(300, 12, 3, observed, likelihood)
    engine, other = Engine(case, 1), plain.Plain(case, plain.start(case))
    other.E = {name: factor.mean[:, :3].copy() for name, factor in engine.problem.factors.items()}
    other.L = {name: np.exp(factor.log_geomean[:, :3]) for name, factor in engine.problem.factors.items()}
    ours, theirs = ([one.sweep() for _ in range(5)][1:] for one in (engine, other))
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_the_log_likelihood_is_that_of_the_dense_array():
    case = planted("CP-3", True)
    rng = np.random.default_rng(0)
    factors = [rng.gamma(1.0, 1.0, (20, 3)) for _ in range(3)]
    rate, cells = np.einsum("ir,jr,kr->ijk", *factors), case.relations["X"]
    X = np.zeros(rate.shape)
    X[tuple(cells.index.T)] = cells.x
    assert log_likelihood(case, factors) == pytest.approx((X * np.log(rate) - rate).sum())
