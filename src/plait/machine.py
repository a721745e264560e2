"""What this machine has: memory and processors."""

import math
import os


def memory() -> float:
    """Bytes of memory; infinite where nobody says."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


def processors() -> int:
    """Processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def resident() -> tuple[int, int] | None:
    """Bytes of memory that this process holds, now and at most so far; None where nobody says.

    Not `resource.getrusage`: a process begins with the peak of the one that started it.
    """
    try:
        with open("/proc/self/status") as file:
            words = dict(line.split(":", 1) for line in file)
        now, most = (1024 * int(words[word].split()[0]) for word in ("VmRSS", "VmHWM"))
        return now, most
    except (OSError, KeyError, ValueError):
        return None
