"""Factors may have any name: none that the engine uses for itself collides with them."""

import numpy as np
import polars as pl
import pytest

import plait


@pytest.mark.parametrize("name", ["back", "reduced", "group", "mean"])
def test_names_of_factors_do_not_matter(name):
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, (6, 5, 4)).astype(float)
    hidden = pl.DataFrame({"i": [0, 2, 3], "j": [1, 1, 4]})
    data = {"X": plait.Relation(X, missing=hidden)}
    fits = [
        plait.fit(f"X[i,j,k] = {one}[i,k,r] {other}[j,k,r]", data, rank=2, seed=0, sweeps=5, tol=0.0, adapt=None)
        for one, other in (("U", "Q"), (name, "Q"), ("U", name))
    ]
    assert fits[0].bound == fits[1].bound == fits[2].bound
