"""Clusters of workers in processes, which can be killed, or on threads of this process."""

import logging

import pytest


def _cluster(**settings):
    distributed = pytest.importorskip("distributed", reason="distributed is not installed: make setup")
    common = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    return distributed.LocalCluster(**common, **settings)


def _client(cluster):
    from distributed import Client

    return Client(cluster, set_as_default=False)


@pytest.fixture(scope="module")
def workers():
    """A cluster of one worker with one thread, to begin with."""
    with _cluster(n_workers=1, processes=True) as cluster:
        yield cluster


@pytest.fixture
def client(workers):
    with _client(workers) as client:
        yield client


@pytest.fixture(scope="module")
def quick():
    """A client of two workers in this process, which still send each other bytes."""
    with _cluster(n_workers=2, processes=False, protocol="tcp://") as cluster, _client(cluster) as client:
        yield client


@pytest.fixture
def sent(monkeypatch):
    """The objects that are sent to workers."""
    from plait.executors import Dask

    found, scatter = [], Dask._scatter
    monkeypatch.setattr(
        Dask, "_scatter", lambda self, things: found.extend(thing for _, thing in things) or scatter(self, things)
    )
    return found
