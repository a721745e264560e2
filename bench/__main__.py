"""`python -m bench [part …]`: what a sweep costs, beside the yardstick and plain NumPy, in one run.

Runs of one row are interleaved, so a noisy neighbour hits all of them alike: read ratios, not seconds.
"""

import argparse
import tempfile

import plait
from bench import data, measure, orders, plain, predict, starts, top, yardstick
from bench.engine import Engine

PARTS = ("counts", "sweep", "compile", "memory", "orders", "starts", "predict", "top")


def cases(nonzeros: int, side: int, observed: str) -> dict[str, data.Case]:
    """The rows of the sweep table."""
    rows = {f"CP-3, R = {rank}": data.cp3(nonzeros, side, rank, observed) for rank in (5, 20, 50)}
    rows["Tucker 5×5×5"] = data.tucker(nonzeros, side, 5, observed)
    rows["coupled, R = 20"] = data.digg(20, observed, scale=0.2)
    return rows


def counts(nonzeros: int, side: int) -> None:
    """The counts pass of CP-3 against the hand-written kernel: with and without the bound's part."""
    rows = []
    for rank in (5, 20, 50):
        case = data.cp3(nonzeros, side, rank)
        engine, factors = Engine(case), plain.start(case)
        cells = next(iter(case.relations.values()))
        hand = yardstick.build(cells.index, cells.x, list(factors.values()), measure.cores())
        runs = {"counts": engine.counts_only, "with bound": engine.counts, "yardstick": hand}
        times = measure.interleave(runs, repeats=15, warm=2)
        ratios = [times[name].median / times["yardstick"].median for name in ("counts", "with bound")]
        rows.append([f"R = {rank}", *(times[name].per_nonzero(case.nonzeros) for name in runs), *ratios])
    columns = ["CP-3", "counts", "with bound", "yardstick", "counts ratio", "with bound ratio"]
    measure.show(f"Counts pass, {nonzeros:,} nonzeros of {side}³: ns a nonzero", columns, rows, measure.machine())


def sweep(nonzeros: int, side: int) -> None:
    """Whole sweeps (counts, exposure, all updates, bound) against the same sweep in plain NumPy."""
    rows = []
    for observed in ("all", "listed"):
        for name, case in cases(nonzeros, side, observed).items():
            engine, peer = Engine(case), plain.Plain(case, plain.start(case))
            mine = measure.interleave({"counts": engine.counts, "sweep": engine.sweep}, repeats=9, warm=2)
            theirs = measure.interleave({"sweep": engine.sweep, "numpy": peer.sweep}, repeats=3, warm=0)
            ratio = theirs["numpy"].median / theirs["sweep"].median
            n = case.nonzeros
            figures = [mine["counts"].per_nonzero(n), mine["sweep"].per_nonzero(n), theirs["numpy"].per_nonzero(n)]
            rows.append([name, observed, f"{n:,}", *figures, mine["sweep"].median / mine["counts"].median, ratio])
    columns = ["model", "observed", "nonzeros", "counts", "sweep", "NumPy sweep", "sweep ÷ counts", "NumPy ÷ sweep"]
    measure.show("One sweep: ns a nonzero", columns, rows, measure.machine())


def compile_seconds() -> None:
    """A first fit of a small CP-3 in a fresh process: with an empty cache, then with a full one."""
    code = (
        "import time, numpy as np, plait; x = np.random.default_rng(0).poisson(1.0, (9, 8, 7)).astype(float); "
        "x[0, 0, 0] = np.nan; begin = time.perf_counter(); plait.fit('X[i,j,k] = A[i,r] B[j,r] C[k,r]', {'X': x}, "
        "rank=5, seed=0, sweeps=2); print(time.perf_counter() - begin)"
    )
    with tempfile.TemporaryDirectory() as folder:
        runs = [measure.apart(["-c", code], env={"PLAIT_CACHE_DIR": folder}) for _ in range(2)]
    rows = [[name, float(run.output), run.seconds] for name, run in zip(("cold", "cached"), runs)]
    measure.show("First fit of a process: seconds", ["kernels", "fit", "whole process"], rows)


def memory() -> None:
    """Peak memory of the two large cases of the engine, each in a process of its own."""
    rows = []
    for name, limit in (("digg", 2000), ("listed", 3000)):
        run = measure.apart(["-m", "bench.large", name])
        rows.append([name, run.output.strip().splitlines()[-1], run.peak_mb, limit])
    measure.show("Large fits", ["case", "what", "peak MB", "limit MB"], rows, measure.machine())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--nonzeros", type=lambda text: int(float(text)), default=1_250_000)
    parser.add_argument("--side", type=int, default=500)
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    runs = {
        "counts": lambda: counts(given.nonzeros, given.side),
        "sweep": lambda: sweep(given.nonzeros, given.side),
        "compile": compile_seconds,
        "memory": memory,
        "orders": orders.compare,
        "starts": starts.compare,
        "predict": predict.compare,
        "top": top.compare,
    }
    for part in given.parts or PARTS:
        runs[part]()


if __name__ == "__main__":
    print(f"plait {plait.__version__}")
    main()
