"""Seconds to import Plait, to print its help, and to compile the first fit; each in processes of its own."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from lab.bench import measure

FIT = (
    "import time, numpy as np, plait; x = np.random.default_rng(0).poisson(1.0, (9, 8, 7)).astype(float); "
    "x[0, 0, 0] = np.nan; begin = time.perf_counter(); plait.fit('X[i,j,k] = A[i,r] B[j,r] C[k,r]', {'X': x}, "
    "rank=5, seed=0, max_iter=2); print(time.perf_counter() - begin)"
)


def seconds() -> dict[str, Any]:
    """In addition to an interpreter that does nothing."""
    command = str(Path(sys.executable).with_name("plait"))
    runs = {
        "python": [sys.executable, "-c", "pass"],
        "import plait": [sys.executable, "-c", "import plait"],
        "plait --help": [command, "--help"],
    }
    started = {
        name: lambda c=command: subprocess.run(c, stdout=subprocess.DEVNULL, check=True)
        for name, command in runs.items()
    }
    return {name: timing.figures() for name, timing in measure.interleave(started, repeats=7).items()}


def compiling() -> dict[str, Any]:
    """A first fit of a small CP-3: kernels that are compiled, then kernels of the cache on disk."""
    with tempfile.TemporaryDirectory() as folder:
        runs = [measure.apart(["-c", FIT], env={"PLAIT_CACHE_DIR": folder}) for _ in range(4)]
    cached = measure.Timing(tuple(float(run.output) for run in runs[1:]))
    return {"cold": float(runs[0].output), "cached": cached.median, "process cached": runs[-1].seconds}
