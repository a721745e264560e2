"""Larger than memory: a pass from disk beside one in memory, bytes a nonzero, peaks. `python -m lab.bench large`

--nonzeros 1e8 (the default) … 1e9 of 10^6 × 200 × 20,000, counts 1 … 5, R = 20, drawn without repeats and packed first.
Everything is measured in a process of its own; the page cache is dropped before every pass from disk, and how fast the
blocks can be read is measured in between. In memory only up to 2e8 nonzeros.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from lab.harness.table import show

SIZES = {"user": 1_000_000, "tag": 200, "place": 20_000}
MODEL = "v[user, tag, place] = U[user, r] T[tag, r] P[place, r]"
STEP = 2_472_135_954_999  # the golden section of all cells, and no divisor of their number: it meets each cell once
SHARD = 20_000_000
IN_MEMORY = 200_000_000

BEGIN = f"""
import json, os, sys, time
import numpy as np, polars as pl, plait
from pathlib import Path
from plait.fitting.begin import prepare
from plait.fitting.options import Options
from plait.machine import resident
home = Path(sys.argv[1])
MODEL = plait.Model({MODEL!r})

def spent(work, times=3):
    found = []
    for _ in range(times):
        drop()
        cpu, wall = time.process_time(), time.monotonic()
        work()
        found.append((time.process_time() - cpu, time.monotonic() - wall))
    return min(found)

def drop():
    for path in (home / "v.blocks").iterdir():
        handle = os.open(path, os.O_RDONLY)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)

def read():
    buffer = bytearray(1 << 24)
    for path in (home / "v.blocks").iterdir():
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
"""
PASS = """
task = prepare(MODEL, DATA, Options(rank=20, seed=0, start="random"))
problem = task.problem
problem.measure()
problem.count()
cpu, wall = spent(problem.count)
(table,) = problem.relations[0].counts.trees
size = sum(array.nbytes for array in table.arrays) or table.blocks.nbytes
reading = spent(read, 2)[1]
print(json.dumps({"cpu": cpu, "wall": wall, "reading": reading, "bytes": size / len(table)}))
"""
FIT = """
import threading
began = time.monotonic()
fit = plait.fit(MODEL, DATA, rank=20, seed=0, sweeps=3, start="random", tol=0.0, progress=False)
print(json.dumps({"peak": resident()[1], "seconds": time.monotonic() - began, "bound": fit.bound}))
"""
DISK, MEMORY = 'DATA = home / "v.blocks"\n', 'DATA = {"v": plait.read(str(home / "all.parquet"))}\n'


def compare(nonzeros: int = 100_000_000) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        packing = _pack(home, nonzeros)
        small = nonzeros <= IN_MEMORY
        disk, fitted = _run(home, DISK + PASS), _run(home, DISK + FIT)
        memory = _run(home, MEMORY + PASS) if small else None
        held = _run(home, MEMORY + FIT) if small else None
    rows = [
        ["a pass from disk", f"{disk['cpu']:.2f}", f"{disk['wall']:.2f}", f"{disk['bytes']:.2f}", ""],
        ["reading the blocks alone", "", f"{disk['reading']:.2f}", "", ""],
        ["3 sweeps from disk", "", f"{fitted['seconds']:.1f}", "", f"{fitted['peak'] / 1e9:.2f}"],
        ["pack, memory=4GB", f"{packing['cpu']:.0f}", f"{packing['wall']:.0f}", "", f"{packing['peak'] / 1e9:.2f}"],
    ]
    if memory is not None and held is not None:
        assert held["bound"] == fitted["bound"], "memory and disk have other bits"
        least = max(memory["wall"], disk["reading"])
        ratios = [f"{disk['cpu'] / memory['cpu']:.2f}", f"{disk['wall'] / least:.2f}"]
        rows += [
            ["a pass in memory", f"{memory['cpu']:.2f}", f"{memory['wall']:.2f}", f"{memory['bytes']:.2f}", ""],
            ["disk ÷ memory (wall: ÷ the larger of memory and reading)", *ratios, "", ""],
            ["3 sweeps in memory, reading included", "", f"{held['seconds']:.1f}", "", f"{held['peak'] / 1e9:.2f}"],
        ]
    show(
        f"{nonzeros:,} nonzeros of 10⁶ × 200 × 20,000, R = 20",
        ["", "processor s", "wall s", "bytes a nonzero", "peak GB"],
        rows,
    )


def _pack(home: Path, nonzeros: int) -> dict[str, float]:
    """Draw tables, and pack them."""
    (home / "tables").mkdir()
    for number, at in enumerate(range(0, nonzeros, SHARD)):
        _shard(at, min(at + SHARD, nonzeros)).write_parquet(home / "tables" / f"{number:04d}.parquet")
    if nonzeros <= IN_MEMORY:
        pl.scan_parquet(home / "tables" / "*.parquet").sink_parquet(home / "all.parquet")
    code = """
cpu, wall = time.process_time(), time.monotonic()
plait.pack(MODEL, {"v": plait.scan(str(home / "tables" / "*.parquet"))}, home / "v.blocks", memory="4GB")
print(json.dumps({"cpu": time.process_time() - cpu, "wall": time.monotonic() - wall, "peak": resident()[1]}))
"""
    return _run(home, code)


def _shard(lo: int, hi: int) -> pl.DataFrame:
    """Some of the cells, each once, in no order."""
    users, tags, places = SIZES.values()
    cells = users * tags * places
    numbers = np.arange(lo, hi, dtype=np.uint64)
    high, low = numbers >> np.uint64(15), numbers & np.uint64(0x7FFF)  # a product of all of it would overflow
    keys = (high * np.uint64((STEP << 15) % cells) + low * np.uint64(STEP)) % np.uint64(cells)
    values = 1 + keys * np.uint64(11) // np.uint64(7) % np.uint64(5)
    columns = {"user": keys // (tags * places), "tag": keys // places % tags, "place": keys % places}
    narrow = {"user": np.uint32, "tag": np.uint8, "place": np.uint16}
    return pl.DataFrame({**{name: columns[name].astype(kind) for name, kind in narrow.items()}, "value": values})


def _run(home: Path, code: str) -> dict[str, float]:
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGIN + code, str(home)], check=True, capture_output=True, text=True
    )
    measured: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return measured
