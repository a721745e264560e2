"""`plait report` at the size of Digg: how long the command takes, how large the page is, and whether two are the same.

The data are drawn, for Digg's own are not to be had (`lab.bench.data`): 309,153 entities in three coupled relations.
"""

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import plait
from lab.bench.data import digg
from lab.harness.table import show

SWEEPS = 30
REPORT = [sys.executable, "-c", "from plait.cli import app; app()", "report", "run", "--force", "-o"]
KINDS = {"static": (), "the same again": (), "interactive": ("--interactive",)}


def compare() -> None:
    """A line for each kind of page, each written by a process of its own."""
    case = digg()
    data = {name: cells.table() for name, cells in case.relations.items()}
    with tempfile.TemporaryDirectory() as folder:
        plait.fit(case.model, data, rank=case.rank, max_iter=SWEEPS, seed=0).save(Path(folder) / "run")
        rows = [[kind, *_written(Path(folder), f"{n}.html", more)] for n, (kind, more) in enumerate(KINDS.items())]
        same = (Path(folder) / "0.html").read_bytes() == (Path(folder) / "1.html").read_bytes()
    entities = sum(case.sizes.values()) - sum(case.rank.values())
    note = f"Two reports are {'the same bytes' if same else '**not** the same bytes'}."
    show(f"Reports on a run of {entities:,} entities", ["page", "seconds", "of processors", "MB"], rows, note)


def _written(folder: Path, name: str, more: tuple[str, ...]) -> tuple[float, float, float]:
    """Seconds by the clock and of processors, and megabytes of the page."""
    spent, began = _processors(), time.perf_counter()
    subprocess.run([*REPORT, name, *more], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    return seconds, _processors() - spent, (folder / name).stat().st_size / 1e6


def _processors() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
