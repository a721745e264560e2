"""Processes that were forked while polars had threads: these do not live on in the child, where it would wait for ever.

Polars starts its threads when they are first needed, and cannot start them again. So what needs polars is refused at
once in such a child; what does not, works: fits of arrays, factors, draws.
"""

import os
import sys
from pathlib import Path

from plait.errors import ForkError

_started = False  # whether polars had threads when this process was last about to fork
_lost = False  # whether this process is a child of one in which it had


def is_lost() -> bool:
    """Whether polars would wait for ever in this process."""
    return _lost


def refuse_in_fork(what: str) -> None:
    """Raise where polars would wait for threads that a fork has lost; what: the call that needs them."""
    if _lost:
        raise ForkError(
            (
                "this process was forked from one in which polars had started its threads, and would wait for "
                "them for ever."
            ),
            location=what,
            hint="Start such processes anew: multiprocessing.get_context('spawn'), or 'forkserver'.",
        )


def _has_threads() -> bool:
    """Whether polars has started its threads, which are called polars-0, polars-1, …."""
    if "polars" not in sys.modules:
        return False
    try:
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    except OSError:  # no such list, or a thread that ended meanwhile: better refused than waited for
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
