"""Growth: time and memory of a sweep against nonzeros, rank, rows, order and threads, each in a process of its own."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from lab.bench import data, measure
from lab.harness import machine
from lab.harness.apart import call
from lab.harness.results import Figures
from lab.harness.running import Done, Row
from plait.machine import memory, processors

BYTES = 80  # of memory that a fit takes at its peak for every nonzero, with something to spare
MAX_MEMORY_SHARE = 2 / 3  # of the memory may be taken

# All are of CP-3, listed, R = 5, a million nonzeros of 1000³, but for the varied quantity.
BASE: dict[str, Any] = {"nonzeros": 1_000_000, "sides": [1000] * 3, "rank": 5, "threads": None}
NONZEROS = (10_000, 100_000, 1_000_000, 3_000_000, 10_000_000, 100_000_000)
RANKS = (1, 2, 5, 20, 50, 100, 200)
ROWS = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
SIDES = {2: 10_000, 3: 1000, 4: 180, 5: 64, 6: 32}  # about as many cells each


def rows(quick: bool) -> Iterator[Row]:
    """Every series, its values rising."""
    for series, x, change in _points(quick):
        yield Row({"part": "growth", "series": series, "x": x}, partial(_measured, BASE | change, quick))


def _points(quick: bool) -> Iterator[tuple[str, int, dict[str, Any]]]:
    small = {"nonzeros": 20_000, "sides": [100] * 3} if quick else {}
    for count in (1_000, 10_000) if quick else NONZEROS:
        yield "nonzeros", count, small | {"nonzeros": count}
    for rank in RANKS[: 2 if quick else None]:
        yield "rank", rank, small | {"rank": rank}
    for threads in range(1, processors() + 1):
        large = small or {"nonzeros": 10_000_000}
        yield "threads", threads, large | {"threads": threads, "rank": 20}
    if quick:
        return
    for count in ROWS:
        yield "rows", count, {"sides": [count, 1000, 1000]}
    for order, side in SIDES.items():
        yield "order", order, {"sides": [side] * order}


def _measured(about: dict[str, Any], quick: bool, done: Done) -> Figures:
    available = min(MAX_MEMORY_SHARE * memory(), machine.free())
    if about["nonzeros"] * BYTES > available:
        return {"cannot": f"{available / 1e9:.0f} GB of memory are too few"}
    return call("lab.bench.rows.growth:sweep", least=0.0 if quick else 1.0, **about)


def sweep(nonzeros: int, sides: list[int], rank: int, threads: int | None, least: float) -> Figures:
    """Seconds of a sweep, its spread, and bytes at the peak beyond what Python and its libraries take."""
    from lab.bench.engine import Engine

    small = data.cp(100, (20,) * len(sides), rank, "listed")
    warm = Engine(small, threads)
    warm.sweep()
    start = machine.held()
    case = scattered(nonzeros, tuple(sides), rank)
    engine = Engine(case, threads)
    times = measure.interleave({"sweep": engine.sweep}, repeats=5, warm=1, least=least)["sweep"]
    return {**times.figures(), "nonzeros": case.nonzeros, "over": machine.peak() - start}


def scattered(nonzeros: int, sides: tuple[int, ...], rank: int, seed: int = 0) -> data.Case:
    """About this number of cells, uniform and in order: draws the gaps between them, in little memory."""
    rng = np.random.default_rng(seed)
    size = int(np.prod([float(side) for side in sides]))
    cells = np.cumsum(rng.geometric(nonzeros / size, nonzeros)) - 1
    cells = cells[: int(np.searchsorted(cells, size))]
    index = np.empty((len(cells), len(sides)), np.int32)
    for axis in reversed(range(len(sides))):
        cells, index[:, axis] = np.divmod(cells, sides[axis])
    case = data.cp(4, sides, rank, "listed")
    relation = data.Cells(case.relations["X"].axes, index, rng.poisson(2.0, len(index)) + 1.0)
    return case.but(relations={"X": relation})
