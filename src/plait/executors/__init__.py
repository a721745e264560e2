"""Executors: sums over leaves on threads, or on the workers of a Dask cluster."""

from plait.executors.dask import Dask
from plait.executors.executor import Executor, Reference, Stats
from plait.executors.threads import Threads

__all__ = ["Dask", "Executor", "Reference", "Stats", "Threads"]
