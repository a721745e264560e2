"""Executors: where the sums over blocks are done. Threads today; disks and clusters differ only here."""

from plait.execute.dense import Reference
from plait.execute.executor import Executor, Stats
from plait.execute.threads import Threads

__all__ = ["Executor", "Reference", "Stats", "Threads"]
