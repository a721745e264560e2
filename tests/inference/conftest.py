"""Fixtures that look into a fit while it runs."""

import numpy as np
import pytest

import plait.fitting.ensemble
import plait.inference.expected_counts
from plait.inference import acceleration
from plait.inference.problem import Problem


@pytest.fixture
def working_set(monkeypatch):
    """Every fit's problem, as the loop left it."""
    problems, run = [], plait.fitting.ensemble.run
    monkeypatch.setattr(plait.fitting.ensemble, "run", lambda problem, *a: problems.append(problem) or run(problem, *a))
    return problems


@pytest.fixture
def underflow(monkeypatch):
    """How many entries took the log-sum-exp path, pass by pass."""
    seen, original = [], plait.inference.expected_counts.underflow_counts

    def counted(plan, order, stats, *others):
        seen.append(len(stats.underflow_entries))
        return original(plan, order, stats, *others)

    monkeypatch.setattr(plait.inference.expected_counts, "underflow_counts", counted)
    return seen


@pytest.fixture
def leaps(monkeypatch, tuning):
    """Whether each leap of the fits so far was accepted; small data, so they need not be calm to leap."""
    tuning(max_momentum_change=np.inf)
    seen, count = [], acceleration.Momentum.count

    def watched(self, problem, last, tol, max_iter):
        tried = len(started)
        found = count(self, problem, last, tol, max_iter)
        if len(started) > tried:
            seen.append(self.extrapolated)
        return found

    started, cache_exposures = [], Problem.cache_exposures
    monkeypatch.setattr(Problem, "cache_exposures", lambda self: started.append(1) or cache_exposures(self))
    monkeypatch.setattr(acceleration.Momentum, "count", watched)
    return seen
