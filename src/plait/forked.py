"""Forked processes: polars' threads do not survive a fork, so calls that need them would deadlock in the child.

Polars starts its threads on first use and cannot start them again. Such a child refuses calls that need polars; fits of
arrays, factors and draws work.
"""

import os
import sys
from pathlib import Path

from plait.errors import ForkError

_started = False  # whether polars had threads before the last fork
_lost = False  # whether this process is a child of one with threads


def is_lost() -> bool:
    """Whether polars would deadlock in this process."""
    return _lost


def refuse_in_fork(what: str) -> None:
    """Raise where polars would wait for threads lost in a fork; `what`: the call that needs them."""
    if _lost:
        raise ForkError(
            ("this process was forked after polars had started threads, so it would deadlock."),
            location=what,
            hint="Start processes with multiprocessing.get_context('spawn') or 'forkserver'.",
        )


def _has_threads() -> bool:
    """Whether polars has started its threads, called polars-0, polars-1, …."""
    if "polars" not in sys.modules:
        return False
    try:
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    except OSError:  # no list of threads, or one that ended meanwhile: assume so
        return True
    return any(name.removeprefix("polars-")[:1].isdigit() for name in names if name.startswith("polars-"))


def _before() -> None:
    global _started
    _started = _has_threads()


def _in_child() -> None:
    global _lost
    _lost = _lost or _started


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
