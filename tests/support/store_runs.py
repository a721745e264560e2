"""Fits to save, and comparison of saved fits."""

import os
from dataclasses import fields

import numpy as np
import polars as pl

import plait
from plait.storage import run_folder as folders

TEXT = """
    visits[user, place, hour] = V[user, place] U[user, r] P[place, r] H[hour, r]
    friends[user, friend]     = U[user, r] F[friend, r]
    friend: user
"""
MATRIX = "X[i,j] = A[i,r] B[j,r]"


def tables():
    visits = pl.DataFrame(
        {
            "user": ["ann", "ann", "bob", "cem lee", "dee", 'e"v,a'],
            "place": [1, 2, 2, 3, 1, 3],
            "hour": [8, 9, 8, 20, 9, 21],
            "value": [2.0, 1.0, 3.0, 1.0, 1.0, 4.0],
        }
    )
    friends = pl.DataFrame({"user": ["ann", "bob", "dee"], "friend": ["bob", "cem lee", "zoë"]})
    return {"visits": visits, "friends": plait.Relation(friends, likelihood="bernoulli")}


def fitted(seed=0):
    """A coupled fit with an exposure."""
    been = plait.Exposure(pl.DataFrame({"user": ["ann", "bob"], "place": [1, 2]}), default=0.1)
    return plait.fit(TEXT, tables(), rank=2 + seed, seed=seed, max_iter=5, warmup=0, fixed={"V": been})


def counts(seed=0, rows=40, columns=30):
    """Random links of `MATRIX`."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(rng.gamma(0.5, 1.0, (rows, 4)) @ rng.gamma(0.5, 1.0, (4, columns)))
    i, j = np.nonzero(X)
    return pl.DataFrame({"i": i, "j": j, "value": X[i, j]})


def assert_equal(left, right):
    """Assert that two fits are bitwise identical."""
    for word in ("method", "rank", "objective", "stop", "seed", "likelihood", "settings", "fingerprint", "history"):
        assert getattr(left, word) == getattr(right, word), word
    assert left.model == right.model
    assert dict(left.entities) == dict(right.entities)
    assert list(left.factors) == list(right.factors)
    for name, factor in left.factors.items():
        for field in fields(factor):
            assert np.array_equal(getattr(factor, field.name), getattr(right.factors[name], field.name)), field.name
    for name, prior in left.prior.items():
        assert np.array_equal(prior.concentration, right.prior[name].concentration)
        assert np.array_equal(prior.mean, right.prior[name].mean)
    for name, known in left.known.items():
        for word in ("shape", "cells", "values", "weights"):
            assert np.array_equal(getattr(known, word), getattr(right.known[name], word)), word


class PowerCutError(Exception):
    pass


def cut_power(patch, moment):
    """Raise PowerCutError at every change of the disk after the first `moment` ones, those of a clean-up too."""
    calls = 0

    def cut(function):
        def wrapper(*arguments, **named):
            nonlocal calls
            calls += 1
            if calls > moment:
                raise PowerCutError
            return function(*arguments, **named)

        return wrapper

    for name in ("fsync", "replace", "open"):
        patch.setattr(folders.os, name, cut(getattr(os, name)))
    patch.setattr(folders.Path, "unlink", cut(folders.Path.unlink))
    patch.setattr(folders.shutil, "rmtree", cut(folders.shutil.rmtree))
