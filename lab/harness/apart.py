"""One call in a process of its own, so that its peak is known: `python -m lab.harness.apart module:function '{…}'`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from lab.harness.machine import peak
from lab.harness.packages import load, without_paths
from plait.machine import processors

ROOT = Path(__file__).resolve().parents[2]
MAX_CALL_SECONDS = 300.0  # seconds of a call
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")


def call(
    function: str, longest: float = MAX_CALL_SECONDS, threads: int | None = None, /, **arguments: Any
) -> dict[str, Any]:
    """Call `module:function` in a process of its own, by default with one thread per processor.

    What it returns, a dict, and its peak memory in bytes.
    """
    command = [sys.executable, "-m", "lab.harness.apart", function, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(threads), timeout=longest)
    if done.returncode:
        raise RuntimeError(f"{function}: {last_line(done.stderr)}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def environment(threads: int | None = None) -> dict[str, str]:
    """The environment of a process with this number of threads."""
    more = {
        "OMP_PROC_BIND": "false",
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    return {**os.environ, **dict.fromkeys(THREADS, str(threads or processors())), **more}


def why(error: Exception) -> str:
    """Why something failed, in a few words and without paths."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"not done within {error.timeout:.0f} s"
    if isinstance(error, subprocess.CalledProcessError):
        return f"a process ended with code {error.returncode}"
    return last_line(str(error) or type(error).__name__)


def last_line(text: str) -> str:
    """The last line that says something: of a traceback, the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return without_paths(lines[-1])[:200] if lines else "it ended without a word"


def main(function: str, arguments: str) -> None:
    """Call the function; what others print is not the answer."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    found = load(function)(**json.loads(arguments))
    print(json.dumps({"peak": peak()} | found), file=answer, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
