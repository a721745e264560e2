"""Timing and printing: repeats in turn, median and spread, peak memory of a process of its own."""

import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

LONGEST = 300.0  # seconds of a call in a process of its own


@dataclass(frozen=True)
class Timing:
    """Seconds of each repeat of one thing."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return float(np.median(self.seconds))

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles."""
        low, high = np.quantile(self.seconds, [0.25, 0.75])
        return float(high - low) / 2

    def figures(self) -> dict[str, float]:
        """What is kept of it."""
        return {"seconds": self.median, "spread": self.spread, "repeats": len(self.seconds)}

    def per_nonzero(self, nonzeros: int) -> str:
        """Nanoseconds, as `3.41 ± 0.05`."""
        return f"{self.median / nonzeros * 1e9:.2f} ± {self.spread / nonzeros * 1e9:.2f}"


def interleave(
    runs: Mapping[str, Callable[[], object]], repeats: int = 9, warm: int = 1, least: float = 0.0
) -> dict[str, Timing]:
    """Time each run `repeats` times, in turn, so that a busy moment of the machine hits all of them alike.

    `warm` rounds are not counted. `least`: go on until every run has had that many seconds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(warm):
        for run in runs.values():
            run()
    while any(len(s) < repeats or sum(s) < least for s in seconds.values()):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - begin)
    return {name: Timing(tuple(s)) for name, s in seconds.items()}


@dataclass(frozen=True)
class Process:
    """What a process of its own printed and needed."""

    output: str
    seconds: float
    peak: int  # bytes of resident memory

    @property
    def peak_mb(self) -> float:
        return self.peak / 1e6


# Begins like a path, or has two slashes: and/or stays.
_PATH = r"""(?<!\w)(?:file:|~|\.{1,2}|[A-Za-z]:)?[\\/][^\s'"(),;]+|[\w.+-]+(?:[\\/][\w.+-]+){2,}[\\/]?"""

# On Linux a child begins with the peak of the process that started it. So a small Python stands in between.
_WATCH = """
import resource, subprocess, sys, time
begin = time.perf_counter()
code = subprocess.call(sys.argv[2:], stdin=subprocess.DEVNULL, timeout=float(sys.argv[1]))
seconds = time.perf_counter() - begin
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def apart(arguments: Sequence[str], env: Mapping[str, str] | None = None) -> Process:
    """Run `python arguments…` as a process of its own; `env` adds to the environment. Its errors go to stderr."""
    command = [sys.executable, "-c", _WATCH, str(LONGEST), sys.executable, *arguments]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, text=True, check=True)
    *output, last = done.stdout.splitlines()
    seconds, peak = last.split()
    unit = 1 if sys.platform == "darwin" else 1024
    return Process("\n".join(output), float(seconds), int(peak) * unit)


def call(function: str, longest: float = LONGEST, threads: int | None = None, /, **arguments: Any) -> dict[str, Any]:
    """Call `module:function` in a process of its own, with as many threads as there are cores unless told.

    What it returns, a dict, and its peak memory in bytes.
    """
    command = [sys.executable, "-m", "bench.apart", function, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(threads), timeout=longest)
    if done.returncode:
        raise RuntimeError(f"{function}: {last_line(done.stderr)}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def environment(threads: int | None = None) -> dict[str, str]:
    """The environment of a process that may use so many threads."""
    count = str(threads or cores())
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")
    more = {
        "OMP_PROC_BIND": "false",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).resolve().parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    return {**os.environ, **dict.fromkeys(names, count), **more}


def last_line(text: str) -> str:
    """The last line that says something: of a traceback, the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return without_paths(lines[-1])[:200] if lines else "it ended without a word"


def without_paths(text: str) -> str:
    """What a package or pip says, without paths and addresses of this machine: it goes onto a page."""
    return re.sub(_PATH, "…", text)


def peak() -> int:
    """Bytes that this process has held at its peak, since `forget_peak` where there is such a thing."""
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def held() -> int:
    """Bytes that this process holds now."""
    return _status("VmRSS") or peak()


def free() -> float:
    """Bytes of memory that nobody uses; without end where that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return float("inf")
    return next((int(line.split()[1]) * 1024.0 for line in lines if line.startswith("MemAvailable")), float("inf"))


def forget_peak() -> None:
    """From here on `peak` counts anew (Linux)."""
    with suppress(OSError):  # elsewhere the peak is that of the whole process
        Path("/proc/self/clear_refs").write_text("5")


def _status(name: str) -> int:
    """A figure of /proc/self/status in bytes; 0 where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def machine() -> str:
    """One line: cores, CPU, versions."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "numba"))
    return f"{cores()} cores, {cpu}, {platform.system()}, Python {platform.python_version()}, {versions}"


def show(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str | None = None) -> None:
    """Print a table; the first column is text, the others are figures."""
    table = Table(title=title, caption=note, title_justify="left", caption_justify="left")
    for m, column in enumerate(columns):
        table.add_column(column, justify="right" if m else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(f"{v:.2f}" if isinstance(v, float) else "" if v is None else str(v) for v in row))
    console = Console()
    if not console.is_terminal:
        console.width = 160  # a pipe has no width; do not cut columns
    console.print(table)
