"""Kernels that Python runs before numba compiles them: both give the same bits."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.jit import deferred

TEXT = "X[i, j, k] = U[i, r] V[j, r] W[k, r]"


@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
@pytest.mark.parametrize("restarts", [1, 2])
def test_python_and_compiled_code_predict_the_same_bits(likelihood, restarts, monkeypatch):
    rng = np.random.default_rng(0)
    cells = np.argwhere(rng.random((6, 5, 4)) < 0.5)
    values = np.ones(len(cells)) if likelihood == "bernoulli" else rng.integers(1, 400, len(cells))
    table = pl.DataFrame(cells, ["i", "j", "k"])
    data = {"X": plait.Relation(table.with_columns(value=values), likelihood=likelihood, unseen="zero")}
    fit = plait.fit(TEXT, data, rank=5, restarts=restarts, warmup=5, max_iter=5, seed=0, progress=False)
    compiled, ran = fit.predict("X", table), []

    def first(self, *args):
        ran.append(self.__name__)
        with np.errstate(all="ignore"):
            return self._first(*args)

    monkeypatch.setattr(deferred._Tiered, "__call__", first)
    in_python = fit.predict("X", table)
    assert len(set(ran)) >= 6
    assert in_python.equals(compiled)
    monkeypatch.setattr(deferred._Tiered, "__call__", lambda self, *args: self.compiled(*args))
    assert fit.predict("X", table).equals(compiled)
