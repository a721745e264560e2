"""Larger than memory: a pass from disk compared with one in memory, bytes a nonzero, peaks.

--nonzeros 1e8 (the default) … 1e9 of 10^6 × 200 × 20,000, counts 1 … 5, R = 20, drawn without repeats and packed first.
Everything is measured in a process of its own; the page cache is dropped before every pass from disk, and how fast the
blocks can be read is measured in between. In memory only up to 2e8 nonzeros; what binding and a fit take there is said
in addition to the table, which is the user's own, and of a table that is scanned.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from lab.harness.results import Figures
from lab.harness.running import Done, Row

NONZEROS = 100_000_000
SIZES = {"user": 1_000_000, "tag": 200, "place": 20_000}
MODEL = "v[user, tag, place] = U[user, r] T[tag, r] P[place, r]"
STEP = 2_472_135_954_999  # the golden section of all cells, and no divisor of their number: it meets each cell once
SHARD = 20_000_000
IN_MEMORY = 200_000_000

BEGIN = f"""
import json, os, sys, time
import numpy as np, polars as pl, plait
from pathlib import Path
from plait.fitting.prepare import prepare
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

def held():
    try:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak, which reading the table has raised
    except OSError:
        pass
    return resident()[0]

def read():
    buffer = bytearray(1 << 24)
    for path in (home / "v.blocks").iterdir():
        with open(path, "rb", buffering=0) as file:
            while file.readinto(buffer):
                pass
"""
PASS = """
task = prepare(MODEL, DATA, Options(rank=20, seed=0, warmup=0))
problem = task.problem
problem.recompute_elbo_terms()
problem.expected_counts()
cpu, wall = spent(problem.expected_counts)
(table,) = problem.relations[0].counts.trees
size = sum(array.nbytes for array in table.arrays) or table.blocks.nbytes
reading = spent(read, 2)[1]
print(json.dumps({"cpu": cpu, "wall": wall, "reading": reading, "bytes": size / len(table)}))
"""
FIT = """
most, before, began = resident()[1], held(), time.monotonic()
fit = plait.fit(MODEL, DATA, rank=20, seed=0, max_iter=3, warmup=0, tol=0.0, progress=False)
peak, seconds = resident()[1], time.monotonic() - began
print(json.dumps({"peak": max(peak, most), "more": peak - before, "seconds": seconds, "bound": fit.objective}))
"""
BIND = """
before, cpu = held(), time.process_time()
MODEL.bind(DATA)
print(json.dumps({"cpu": time.process_time() - cpu, "more": resident()[1] - before}))
"""
DISK, MEMORY = 'DATA = home / "v.blocks"\n', 'DATA = {"v": plait.read(str(home / "all.parquet"))}\n'
SCANNED = 'DATA = {"v": plait.scan(str(home / "all.parquet"))}\n'


def rows(quick: bool, nonzeros: int | None = None) -> Iterator[Row]:
    """One size: by default 1e8 nonzeros."""
    count = nonzeros or (200_000 if quick else NONZEROS)
    yield Row({"part": "large", "nonzeros": count}, partial(_measured, count))


def _measured(nonzeros: int, done: Done) -> Figures:
    """Packing, passes and three sweeps from disk and, unless they are too many, in memory."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        packed = _pack(home, nonzeros)
        places = {"disk": DISK, "memory": MEMORY} if nonzeros <= IN_MEMORY else {"disk": DISK}
        found = {
            name: {"pass": _run(home, data + PASS), "fit": _run(home, data + FIT)} for name, data in places.items()
        }
        if "memory" in places:
            found["memory"]["bind"] = _run(home, MEMORY + BIND)
            found["scanned"] = {"bind": _run(home, SCANNED + BIND), "fit": _run(home, SCANNED + FIT)}
    if len({one["fit"]["bound"] for one in found.values()}) > 1:
        raise RuntimeError("memory and disk have other bits")
    return {"pack": packed, **found}


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
