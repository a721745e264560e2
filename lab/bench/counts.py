"""The counts pass of CP-3 against the hand-written kernel, in this process: quick to run while a kernel is changed."""

from lab.bench import data, measure, plain, yardstick
from lab.bench.engine import Engine
from lab.harness.table import show
from plait.machine import processors


def compare(nonzeros: int = 1_250_000, side: int = 500) -> None:
    """Nanoseconds a nonzero, with and without the bound's part."""
    rows = []
    for rank in (5, 20, 50):
        case = data.cp3(nonzeros, side, rank)
        engine, factors = Engine(case), plain.start(case)
        cells = next(iter(case.relations.values()))
        hand = yardstick.build(cells.index, cells.x, list(factors.values()), processors())
        runs = {"counts": engine.counts_only, "with bound": engine.counts, "yardstick": hand}
        times = measure.interleave(runs, repeats=15, warm=2)
        ratios = [times[name].median / times["yardstick"].median for name in ("counts", "with bound")]
        rows.append([f"R = {rank}", *(times[name].per_nonzero(case.nonzeros) for name in runs), *ratios])
    columns = ["CP-3", "counts", "with bound", "yardstick", "counts ratio", "with bound ratio"]
    show(f"Counts pass, {nonzeros:,} nonzeros of {side}³: ns a nonzero", columns, rows)
