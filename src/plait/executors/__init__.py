"""Executors: sums over leaves on threads, or on the workers of a Dask cluster."""

from typing import TYPE_CHECKING, Any

from plait.executors.executor import Executor, Reference, Stats
from plait.executors.threads import Threads

if TYPE_CHECKING:
    from plait.executors.dask import Dask

__all__ = ["Dask", "Executor", "Reference", "Stats", "Threads"]


def __getattr__(name: str) -> Any:
    if name == "Dask":  # imported at the first use: few fits need a cluster
        from plait.executors.dask import Dask

        return Dask
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
