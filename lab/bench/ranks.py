"""Which rank predicts best, and which one is found: the figures behind docs/decisions/0019-rank.md."""

import time
import warnings
from collections.abc import Sequence

import plait
from lab.bench import links
from lab.harness.table import show
from lab.paper.rank import COUNTS, MODEL, RANKS, SHAPE
from lab.paper.sources.drawn import draw

GRID = (2, 5, 10, 20, 40, 80)
SEEDS = range(5)
FRESH = range(10, 15)  # of data sets that no way was looked for on


def compare() -> None:
    """Every case over a grid of ranks and with the rank left out, five fits averaged; then known ranks by the bound."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        for case in links.cases():
            columns = ["rank", "log-likelihood", "AP", "MRR", "best bound", "processor seconds"]
            rows = [_row(case, rank) for rank in (*GRID, None)]
            show(case.name.rsplit(" ", 2)[0].rstrip(","), columns, rows)
        rows = [_known(counts, rank, seeds) for seeds in (SEEDS, FRESH) for counts in COUNTS for rank in RANKS]
        show("A known rank by the bound", ["counts", "rank", "data sets", "found"], rows)


def _row(case: links.Case, rank: int | None) -> list[str]:
    """The figures of five members of one rank; None: found."""
    began = time.process_time()
    fit = plait.fit(case.text, case.data, rank=rank, seed=0, restarts=len(SEEDS), threads=1, progress=False)
    seconds = time.process_time() - began
    word = str(rank) if rank else "auto: " + ", ".join(f"{size}" for size in fit.rank.values())
    figures = [f"{figure:.4f}" for figure in case.judge(links.mixed(fit.members))]
    return [word, *figures, f"{fit.objective:.0f}", f"{seconds:.1f}"]


def _known(counts: int, rank: int, seeds: Sequence[int]) -> list[str]:
    """Ranks found by the bound in data of a known one."""
    found = []
    for seed in seeds:
        data = {"X": draw(SHAPE, rank, counts, seed=seed)}
        found.append(plait.fit(MODEL, data, rank="elbo", seed=0, threads=1, progress=False).rank["r"])
    return [f"{counts:,}", str(rank), f"{seeds[0]}–{seeds[-1]}", ", ".join(map(str, found))]
