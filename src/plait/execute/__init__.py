"""Executors: where the sums over leaves are done: on threads, or on the workers of a cluster."""

from plait.execute.dask import Dask
from plait.execute.dense import Reference
from plait.execute.executor import Executor, Stats
from plait.execute.threads import Threads

__all__ = ["Dask", "Executor", "Reference", "Stats", "Threads"]
