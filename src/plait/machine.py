"""Machine: memory, processors, garbage collection, paths and the range of numbers; atomic files, locks of folders."""

import gc
import math
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from plait.tuning import TUNING

# Range of data: a value divided by an exposure, squared for its variance, is then a normal double.
MIN_NUMBER, MAX_NUMBER = 1e-75, 1e75


def in_range(number: Any) -> Any:
    """Whether a number, or each of an array, is 0 or from MIN_NUMBER to MAX_NUMBER; not NaN."""
    import numpy as np

    # In float64: float32 does not reach this far.
    return (number == 0) | ((number >= np.float64(MIN_NUMBER)) & (number <= np.float64(MAX_NUMBER)))


def memory() -> float:
    """Bytes of memory; infinite if unknown."""
    if TUNING.memory_bytes is not None:
        return TUNING.memory_bytes
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return math.inf


@contextmanager
def no_collections() -> Iterator[None]:
    """Pause Python's garbage collection, which walks through all modules again and again during imports."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def processors() -> int:
    """Number of processors of this process."""
    if TUNING.processors is not None:
        return TUNING.processors
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def resident() -> tuple[int, int] | None:
    """Resident bytes of this process, now and at its peak; None if unknown.

    Not `resource.getrusage`: a process inherits the peak of its parent.
    """
    try:
        with open("/proc/self/status") as file:
            words = dict(line.split(":", 1) for line in file)
        now, most = (1024 * int(words[word].split()[0]) for word in ("VmRSS", "VmHWM"))
        return now, most
    except (OSError, KeyError, ValueError):
        return None


def path_fault(path: str | os.PathLike[str]) -> str:
    """Why a path cannot be accessed: a name too long, a folder without permission; "" if it can."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return (error.strerror or str(error)).lower()
    except ValueError as error:  # a null byte
        return str(error)
    return ""


@contextmanager
def replacing(target: Path, *, sync: bool = True, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A new file that replaces the target once it is complete and on disk; removed on any error.

    Devices and pipes, such as /dev/stdout, are written directly.
    """
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            yield file
        return
    target = Path(os.path.realpath(target))  # a symbolic link stays
    draft = target.with_name(f".plait-{secrets.token_hex(4)}.part")
    try:
        with open(draft, "xb", opener=lambda path, flags: os.open(path, flags, mode)) as file:
            yield file
            file.flush()
            if sync:  # not for checksummed files that can be made again
                os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


@contextmanager
def folder_lock(folder: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock of a folder against other threads and processes; without `wait`, a held one is BlockingIOError.

    The system releases the lock when a process ends. Windows, and file systems without locks, have none.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)
