"""Which rank ranks held-out links best, which one is found, and what finding it costs (docs/decisions/0019-rank.md).

Validation links of the data of `python -m lab.quality`, and two drawn data sets on which ranks have run away: bursts of
repeated purchases in 4 groups, and a network of co-authors.
"""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.table import show
from lab.paper.rank import COUNTS, MODEL, RANKS, SHAPE
from lab.paper.sources.drawn import draw
from lab.quality import data
from lab.quality.data import Asked, Task
from lab.quality.methods.plait_ import fitted
from plait.analysis.predict.moments import mean_rate
from plait.evaluation.metrics import average_precision

GRID = (4, 8, 16, 32, 64, 128, 256)
CP = "X[h,p,t] = H[h,r] P[p,r] T[t,r]"
MATRIX = "X[u,i] = U[u,r] I[i,r]"
SEEDS = range(5)
FRESH = range(10, 15)  # of data sets that no way was looked for on
MAX_PRODUCTS = 6e7  # of a sweep of five fits over the grid
FOUND = ["data", "links", "found", "AP", "best of the grid", "loss", "fits, s", "with the search, s", "ratio"]

Fitting = Callable[..., plait.Fit]  # of a rank and `restarts`


@dataclass(frozen=True)
class Case:
    """Links to fit on by a rank, and others to be judged by; `restarts`: how many fits are averaged."""

    name: str
    fit: Fitting
    asked: Asked
    restarts: int = 5

    def precision(self, fit: plait.Fit) -> float:
        """Average precision of the validation links."""
        cells = np.concatenate([self.asked.links, self.asked.others]).astype(np.int64)
        return average_precision(np.arange(len(cells)) < len(self.asked.links), mean_rate(fit, "X", cells))


def compare() -> None:
    """What is found next to the best of a grid of ranks; then known ranks by the ELBO."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        lines = []
        for case in _cases():
            lines.append(_found(case))
            show(case.name, FOUND, lines[-1:])
        show("Ranks that are found", FOUND, lines)
        rows = [_known(counts, rank, seeds) for seeds in (SEEDS, FRESH) for counts in COUNTS for rank in RANKS]
        show("A known rank by the bound", ["counts", "rank", "data sets", "found"], rows)


def _cases() -> Iterator[Case]:
    for name in ("nations", "kinships", "umls"):
        if not sources.absent(name):
            yield _case(f"{name}, Tucker-2", data.triples(name))
            yield _case(f"{name}, CP", data.triples(name), CP)
    for split in (0, 1):
        for name in () if sources.absent("graphs") else ("usair", "celegans"):
            yield _case(f"{name} {split}", data.graph(name, split))
        yield _case(f"communities {split}", data.communities(split, quick=False))
        yield _case(f"drawn {split}", data.drawn(split, quick=False))
        yield _case(f"co-authors {split}", coauthors(split))
        yield bursts(split)
    if not sources.absent("uclaf"):
        yield _case("UCLAF", data.uclaf(0))
    if not sources.absent("lastfm"):
        yield _case("Last.fm plays", data.plays(0, quick=False))
        yield _case("Last.fm tags, one fit", data.tags(0, quick=False), restarts=1)
    if not sources.absent("gowalla"):
        yield _case("Gowalla, one fit", data.gowalla(quick=False), restarts=1)


def _case(name: str, task: Task, text: str = "", restarts: int = 5) -> Case:
    def fit(rank: int | None, restarts: int) -> plait.Fit:
        return fitted(task.tuning, text, rank=rank, restarts=restarts, seed=0)

    return Case(name, fit, task.valid, restarts)


def bursts(seed: int) -> Case:
    """Repeated purchases: events of 4 groups, each a burst of geometric length; a tenth of the links hidden."""
    rng = np.random.default_rng(3000 + seed)
    shape = 4000, 1500
    users = rng.dirichlet([0.3] * 4, shape[0]) * rng.lognormal(0, 1, (shape[0], 1))
    rates = users @ rng.dirichlet([0.1] * shape[1], 4)
    events = rng.poisson(rates * (30_000 / rates.sum()))
    cells = rng.permutation(np.argwhere(events > 0))
    counts = np.array([rng.geometric(1 / 8, n).sum() for n in events[tuple(cells.T)]], float)
    hidden, kept = np.split(cells, [len(cells) // 10])
    table = pl.DataFrame(kept, schema=["u", "i"]).with_columns(value=counts[len(hidden) :])
    bound = plait.Model(MATRIX).bind(
        {"X": plait.Relation(table, unseen="zero")}, entities={"u": range(shape[0]), "i": range(shape[1])}
    )

    def fit(rank: int | None, restarts: int) -> plait.Fit:
        return plait.fit(MATRIX, bound, rank=rank, restarts=restarts, seed=0, threads=1, progress=False)

    return Case(f"bursts {seed}", fit, data.ask(hidden, [kept], shape, {}, 1))


def coauthors(seed: int, nodes: int = 1500, fields: int = 60, papers: int = 1800) -> Task:
    """A network of co-authors: papers of two to five authors of one field, some far more active than others."""
    rng = np.random.default_rng(4000 + seed)
    activity, own = rng.pareto(2, nodes) + 0.2, rng.integers(0, fields, nodes)
    edges: set[tuple[int, int]] = set()
    for _ in range(papers):
        chance = np.where(own == rng.integers(fields), activity, 0.01 * activity)
        authors = rng.choice(nodes, rng.integers(2, 6), replace=False, p=chance / chance.sum()).tolist()
        edges |= {(a, b) for a in authors for b in authors if a < b}
    return data.hidden_edges(nodes, np.array(sorted(edges)), seed)


def _found(case: Case) -> list[object]:
    """The rank that is found; kernels are compiled before anything is timed."""
    fit = case.fit(None, case.restarts)
    size = max(fit.rank.values())
    tried = ", ".join(str(rank) for rank, _ in fit.settings["rank_by"]["tried"])
    seconds = []
    for rank in (size, None):
        began = time.process_time()
        fit = case.fit(rank, case.restarts)
        seconds.append(time.process_time() - began)
    own = case.precision(fit)
    links = len(fit.known["X"].cells)
    grid = {rank: case.precision(case.fit(rank, case.restarts)) for rank in GRID if _is_short(fit, links, rank)}
    best = max(grid, key=lambda rank: grid[rank])
    return [
        case.name, links, f"{size} (of {tried})", f"{own:.4f}", f"{grid[best]:.4f} at {best}",
        f"{max(grid[best] - own, 0.0):.4f}", *(f"{one:.1f}" for one in seconds), f"{seconds[1] / seconds[0]:.2f}",
    ]  # fmt: skip


def _is_short(fit: plait.Fit, links: int, rank: int) -> bool:
    """Whether a sweep of a rank takes few products; cores are as large as a product of ranks."""
    return len(fit.members) == 1 or links * rank ** len(fit.rank) <= MAX_PRODUCTS


def _known(counts: int, rank: int, seeds: Sequence[int]) -> list[str]:
    """Ranks found by the bound in data of a known one."""
    found = []
    for seed in seeds:
        drawn = {"X": draw(SHAPE, rank, counts, seed=seed)}
        found.append(plait.fit(MODEL, drawn, rank="elbo", seed=0, threads=1, progress=False).rank["r"])
    return [f"{counts:,}", str(rank), f"{seeds[0]}–{seeds[-1]}", ", ".join(map(str, found))]
