"""The arithmetic of a forecast for a cluster."""

import math

import numpy as np
import pytest

import plait
from plait.executors import Threads, dask_cost
from plait.executors.dask import LOCAL_ENTRIES
from plait.executors.dask_cost import Sum, Watched, forecast
from plait.tuning import TUNING

LARGE = Sum(LOCAL_ENTRIES, 8, 64, 6.4, 1_000_000, 2_000_000, 100_000, 200_000)


def test_the_forecast_of_a_large_sum():
    assert forecast([LARGE], 0.0, 2, 4, 1).computing == pytest.approx(6.4 / 8)
    assert forecast([LARGE], 0.0, 64, 4, 1).computing == pytest.approx(6.4 / 64)  # no more threads than leaves
    # rows with the root index are sent once, shared rows from peer to peer
    sending = 3e-3 + (100_000 * (1 + 3) + 200_000 * 16) / 1e9
    assert forecast([LARGE], 0.0, 8, 1, 1).sending == pytest.approx(sending)
    wide = Sum(LOCAL_ENTRIES, 8, 64, 6.4, 0, 0, 0, TUNING.join_bytes)  # is joined on the way
    assert forecast([wide], 0.0, 8, 1, 1).sending == pytest.approx(TUNING.join_bytes * 4 / 1e9)
    wait, task = dask_cost.WAIT_SECONDS, dask_cost.TASK_SECONDS
    assert forecast([LARGE], 0.0, 8, 1, 1).waiting == pytest.approx(wait + 16 * task)
    assert forecast([LARGE] * 3, 0.0, 512, 1, 1).waiting == pytest.approx(3 * (wait + 64 * task))


def test_a_small_sum_stays_here():
    small = Sum(100, 8, 2, 0.2, 1, 1, 1, 1)
    found = forecast([small], 0.5, 8, 4, 4)
    assert (found.computing, found.sending, found.waiting) == (0.1, 0.0, 0.0)
    assert found.seconds == found.here == 0.6
    assert not found.pays


def test_a_cluster_pays_where_sums_are_long_and_not_where_rows_are_many():
    assert forecast([LARGE], 0.01, 8, 1, 1).pays
    many_rows = Sum(LOCAL_ENTRIES, 8, 64, 6.4, 4_000_000_000, 4_000_000_000, 0, 0)
    assert not forecast([many_rows], 0.01, 8, 1, 1).pays
    assert not forecast([LARGE], 60.0, 8, 1, 1).pays


def test_a_watched_fit_has_the_same_bits():
    X = np.random.default_rng(0).poisson(0.7, (60, 30)).astype(float)
    settings = {"rank": 3, "seed": 0, "max_iter": 4, "progress": False}
    watched = Watched(Threads(2))
    fit = plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, executor=watched, **settings)
    assert fit.objective == plait.fit("X[i,j] = A[i,r] B[j,r]", {"X": X}, threads=1, **settings).objective
    first = watched.sums[0]
    assert (first.entries, first.columns) == (np.count_nonzero(X), 8)
    assert (first.rooted_out, first.shared_out) == (60 * 8 * 8, 30 * 8 * 8)
    assert (first.rooted_back, first.shared_back) == (first.rooted_out, first.shared_out)
    assert math.isfinite(watched.seconds)
    watched.forget()
    assert not watched.sums
