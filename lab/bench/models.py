"""Resident memory of one process that fits 1,000 different models, each with a kernel of its own: decision 14."""

import ctypes
import gc
import os
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

import plait
from lab.harness.apart import call
from lab.harness.table import show
from plait.codegen import compiler
from plait.machine import resident

TEXTS = ("X[i,j] = A[i,r,s] B[j,r,s]", "X[i,j] = A[i,r] G[r,s] B[j,s]")
RANKS, EVERY = (25, 20), 100
FRESH, KEPT = "compiled", "from the cache folder"
MAX_SECONDS = 7200.0


def compare() -> None:
    """A line for every 100 models: kernels that are compiled, then the same from the cache folder; figures in MB."""
    chosen = os.environ.get("PLAIT_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PLAIT_CACHE_DIR"] = str(Path(folder) / "plait")
        try:
            found = {name: call("lab.bench.models:fit_all", MAX_SECONDS) for name in (FRESH, KEPT)}
        finally:
            del os.environ["PLAIT_CACHE_DIR"]
            if chosen is not None:
                os.environ["PLAIT_CACHE_DIR"] = chosen
    rows = [[when, *(found[name]["resident"][when] for name in (FRESH, KEPT))] for when in found[FRESH]["resident"]]
    seconds = ", ".join(f"{name} {found[name]['seconds']:.0f}" for name in found)
    note = f"At most {compiler.LOADED} kernels are kept. Seconds: {seconds}."
    show("Resident memory (MB) of one process by the number of models", ["models", FRESH, KEPT], rows, note)


def fit_all() -> dict[str, object]:
    """Fit every model, two sweeps on 12 cells; MB by the number of models, then after what could free some."""
    X = np.random.default_rng(0).poisson(1.0, (4, 3)).astype(float)
    found: dict[str, float] = {}
    began = os.times()
    for n, (r, s, text) in enumerate(product(*(range(1, size + 1) for size in RANKS), TEXTS), 1):
        plait.fit(text, {"X": X}, rank={"r": r, "s": s}, method="em", max_iter=2, seed=0, progress=False)
        if n == 1 or n % EVERY == 0:
            found[f"{n:,}"] = _megabytes()
    seconds = sum(os.times()[:2]) - sum(began[:2])
    _trim()
    found["… and malloc_trim"] = _megabytes()
    compiler.forget()
    gc.collect()
    _trim()
    found["… and no kernel kept"] = _megabytes()
    return {"resident": found, "seconds": seconds}


def _megabytes() -> float:
    now = resident()
    return now[0] / 1e6 if now else float("nan")


def _trim() -> None:
    """Give freed memory back to the system, where the C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim:
        trim(0)
