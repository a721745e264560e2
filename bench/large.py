"""The two large cases of the engine, one a process, so that peak memory can be read: `python -m bench.large digg`."""

import sys
import time

import plait
from bench import data
from bench.engine import bind


def main(name: str) -> None:
    case = data.digg(20) if name == "digg" else data.cp3(12_500_000, 1000, 5, "listed")
    bound = bind(case)
    begin = time.perf_counter()
    fit = plait.fit(bound.model, bound, rank=case.rank, seed=0, sweeps=20, adapt="factor")
    seconds = time.perf_counter() - begin
    print(f"{case.nonzeros:,} nonzeros, 20 sweeps of VB with adaptation in {seconds:.1f} s, bound {fit.bound:.6g}")


if __name__ == "__main__":
    main(sys.argv[1])
