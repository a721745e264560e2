"""Cost of packing: processor time per row and memory, compared with a sort alone. `python -m lab.bench pack`

10^7 rows of 10^6 × 200 × 20,000, counts 1 … 5, in no order; integers from Parquet and csv, strings from Parquet. Each
in a process of its own that has compiled before. DuckDB is asked where it is installed.
"""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl

from lab.harness.table import show

ROWS = 10_000_000
SIZES = {"user": 1_000_000, "tag": 200, "place": 20_000}
MODEL = "v[user, tag, place] = U[user, r] T[tag, r] P[place, r]"

BEGIN = """
import json, sys, time
import numpy as np, polars as pl, plait
from plait.machine import resident
source, memory, folder = sys.argv[1:]
"""
WORK = {
    "plait.pack": """
some = np.arange(60_000)
small = pl.DataFrame({"user": some % 1000, "tag": some % 7, "place": some // 7, "value": some % 5 + 1})
small.write_parquet(folder + ".parquet")
for one in (plait.scan(folder + ".parquet"), small):
    plait.pack(MODEL, {"v": one}, folder, memory="2MB")
def work():
    plait.pack(MODEL, {"v": plait.scan(source)}, folder, memory=memory)
""",
    "polars sort": """
def work():
    pl.scan_parquet(source).sort("user", "tag", "place").sink_parquet(folder + ".sorted")
""",
    "DuckDB sort": """
import duckdb
def work():
    with duckdb.connect(folder + ".db", config={"memory_limit": memory}) as base:
        base.execute(f"copy (select * from '{source}' order by all) to '{folder}.sorted' (format parquet)")
""",
}
END = """
before, spent, began = resident()[0], time.process_time(), time.monotonic()
work()
print(json.dumps([time.process_time() - spent, time.monotonic() - began, resident()[1] - before]))
"""


def compare(rows: int = ROWS) -> None:
    cases = [
        ("plait.pack", "parquet", "4GB"), ("plait.pack", "parquet", "500MB"), ("plait.pack", "parquet", "200MB"),
        ("plait.pack", "csv", "4GB"), ("plait.pack", "strings", "4GB"), ("polars sort", "parquet", "4GB"),
    ]  # fmt: skip
    if find_spec("duckdb") is not None:
        cases.append(("DuckDB sort", "parquet", "4GB"))
    with tempfile.TemporaryDirectory() as home:
        files = _files(Path(home), rows)
        measured = [[*case, *_measure(WORK[case[0]], files[case[1]], case[2], Path(home) / "x")] for case in cases]
    shown = [
        [work, kind, memory, f"{1e9 * spent / rows:.0f}", f"{seconds:.1f}", f"{taken / 1e6:,.0f}"]
        for work, kind, memory, spent, seconds, taken in measured
    ]
    show("Packing", ["", "rows from", "memory=", "processor ns a row", "seconds", "MB taken"], shown)


def _files(home: Path, rows: int) -> dict[str, Path]:
    rng = np.random.default_rng(0)
    cells = {name: rng.integers(0, size, rows) for name, size in SIZES.items()}
    table = pl.DataFrame({**cells, "value": rng.integers(1, 6, rows)}).unique(list(cells), maintain_order=True)
    table.write_parquet(home / "t.parquet")
    table.write_csv(home / "t.csv")
    table.with_columns(pl.format(f"{name}{{}}", name) for name in cells).write_parquet(home / "s.parquet")
    return {"parquet": home / "t.parquet", "csv": home / "t.csv", "strings": home / "s.parquet"}


def _measure(work: str, source: Path, memory: str, folder: Path) -> list[float]:
    code = BEGIN + f"MODEL = {MODEL!r}\n" + work + END
    found = subprocess.run(
        [sys.executable, "-c", code, str(source), memory, str(folder)], check=True, capture_output=True, text=True
    )
    measured: list[float] = json.loads(found.stdout.splitlines()[-1])
    return measured
