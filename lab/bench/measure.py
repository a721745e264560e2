"""Timing: repeats in turn, median and spread, peak memory of a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.harness.apart import MAX_CALL_SECONDS


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
    command = [sys.executable, "-c", _WATCH, str(MAX_CALL_SECONDS), sys.executable, *arguments]
    done = subprocess.run(command, env={**os.environ, **(env or {})}, stdout=subprocess.PIPE, text=True, check=True)
    *output, last = done.stdout.splitlines()
    seconds, peak = last.split()
    unit = 1 if sys.platform == "darwin" else 1024
    return Process("\n".join(output), float(seconds), int(peak) * unit)
