"""Packing keeps within `memory`, or is refused before it writes."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import plait

pytestmark = pytest.mark.filterwarnings("ignore::plait.errors.OverdispersionWarning")  # random values, few links
MODEL = "v[i, j, k] = A[i, r] B[j, r] C[k, r]"


def write_table(rows=400_000, sizes=(20_000, 50, 3000)):
    rng = np.random.default_rng(3)
    cells = {name: rng.integers(0, size, rows) for name, size in zip("ijk", sizes)}
    once = pl.DataFrame({**cells, "value": rng.integers(1, 6, rows)}).unique(list("ijk"), maintain_order=True)
    once.write_parquet("t.parquet", row_group_size=20_000)


PEAK = """
import sys, tracemalloc, plait
model, data, memory = sys.argv[1], {"v": plait.scan("t.parquet")}, int(sys.argv[2])
plait.pack(model, data, "x.blocks", memory=memory)  # compiles
tracemalloc.start()
packed = plait.pack(model, data, "y.blocks", memory=memory)
print(tracemalloc.get_traced_memory()[1], packed.fingerprint)
"""


@pytest.mark.budget(5)  # a process of its own: what earlier tests left in this one does not count
@pytest.mark.parametrize("memory", [8_000_000, 12_000_000])
def test_packing_keeps_within_memory(tmp_path, monkeypatch, memory):
    monkeypatch.chdir(tmp_path)
    write_table()
    done = subprocess.run([sys.executable, "-c", PEAK, MODEL, str(memory)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak, fingerprint = done.stdout.split()
    assert int(peak) < memory
    assert fingerprint == plait.pack(MODEL, {"v": plait.scan("t.parquet")}, "x.blocks").fingerprint


def test_too_little_memory_is_refused_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_table(60_000)
    data = {"v": plait.scan("t.parquet")}
    with pytest.raises(
        plait.errors.ParameterError, match=r"got \d+KB: \d+KB for the names of entities, \d+KB for one"
    ) as error:
        plait.pack(MODEL, data, "x.blocks", memory="300KB")
    assert not Path("x.blocks").exists()
    least = int(error.value.expected.split()[2].replace(",", ""))
    plait.pack(MODEL, data, "x.blocks", memory=least)
    with pytest.raises(plait.errors.ParameterError, match="for these tables, got"):
        plait.pack(MODEL, data, "y.blocks", memory=least - 1)


@pytest.mark.parametrize("memory", ["1KB", 99_999])
def test_less_than_100_kb_is_refused(tmp_path, memory):
    with pytest.raises(plait.errors.ParameterError, match="must be at least"):
        plait.pack(MODEL, {"v": plait.scan(__file__, kind="csv")}, tmp_path / "x", memory=memory)
    assert not (tmp_path / "x").exists()
