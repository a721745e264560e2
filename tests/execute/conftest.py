"""A real cluster for tests: workers in processes of their own."""

import logging

import pytest


@pytest.fixture(scope="module")
def workers():
    """A cluster of one worker with one thread, to begin with."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed: make setup")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=logging.CRITICAL
    ) as cluster:
        yield cluster


@pytest.fixture
def client(workers):
    from distributed import Client

    with Client(workers, set_as_default=False) as client:
        yield client
