"""Sweeps of sums compared with those of their terms, of a repeated factor with two factors; processor seconds.

All over the same nonzeros, drawn uniformly, one thread, the runs in turn, so that the ratios hold on a busy machine.
"""

import time
from collections.abc import Callable

import numpy as np
import polars as pl

import plait
from lab.harness.table import show
from plait.fitting.options import Options
from plait.fitting.prepare import prepare
from plait.inference.steps import sweep_once

RANK = 20
TERMS = ("A[i,r] B[j,r] C[k,r]", "D[i,s] E[j,s]", "F[j,t] G[k,t]", "H[i,q] I[k,q]", "a[i] b[j] c[k]")
ROUNDS = 7


def compare(nonzeros: int = 1_000_000, side: int = 500) -> None:
    """Ratios of sweeps."""
    rng = np.random.default_rng(0)
    cells = np.unique(rng.integers(0, side, (nonzeros, 3)), axis=0)
    table = pl.DataFrame(cells, schema=list("ijk")).with_columns(value=pl.Series(rng.integers(1, 4, len(cells))))
    whole = sweep_of(f"X[i,j,k] = {' + '.join(TERMS)}", table)
    # A term that lacks an index cannot stand alone; a vector of ones, given, stands in for it.
    alone = [sweep_of(f"X[i,j,k] = {term} {ones(term)}".rstrip(), table) for term in TERMS]
    seconds = in_turn([whole, *alone])
    shown = [[f"{' + '.join(TERMS)}", seconds[0], seconds[0] / sum(seconds[1:])]]
    shown += [[term, own, own / sum(seconds[1:])] for term, own in zip(TERMS, seconds[1:])]
    show("A sweep of a sum ÷ the sweeps of its terms", ["terms", "seconds", "ratio"], shown)
    pairs = np.unique(np.sort(rng.integers(0, side * 40, (nonzeros, 2)), axis=1), axis=0)
    pairs = pl.DataFrame(pairs[pairs[:, 0] < pairs[:, 1]], schema=["i", "j"])
    texts = {"two factors": "X[i,j] = A[i,r] B[j,r]; j: i", "one factor twice": "X[i,j] = A[i,r] A[j,r]; j: i"}
    seconds = in_turn([sweep_of(text, pairs) for text in texts.values()])
    shown = [[name, own, own / seconds[0]] for name, own in zip(texts, seconds)]
    show("A sweep over the same pairs", ["equation", "seconds", "ratio"], shown)


def ones(term: str) -> str:
    """Given vectors of ones over the indices that a term lacks."""
    return " ".join(f"one_{index}[{index}]" for index in "ijk" if f"[{index}" not in term)


def sweep_of(text: str, table: pl.DataFrame) -> Callable[[], None]:
    """A sweep of a fit whose priors stay; nothing but the equation differs."""
    model = plait.Model(text)
    columns = [index for index in "ijk" if index in table.columns]
    axes = {axis: max(int(table[i].max()) for i in columns if model.axis(i) == axis) + 1 for axis in model.axes}
    given = {name: np.ones(axes[name[-1]]) for name in model.factors if name.startswith("one_")}
    arguments = Options(
        rank=dict.fromkeys(model.ranks, RANK) if model.ranks else None, seed=0, threads=1, warmup=0, adapt_prior=None,
        fixed=given or None, entities={axis: range(size) for axis, size in axes.items()},
    )  # fmt: skip
    relation = plait.Relation(table, unseen="zero", self_links="missing" if len(axes) == 1 else "auto")
    if len(axes) == 1 and model.equation("X").doubled:
        relation = plait.Relation(table, unseen="zero")
    problem = prepare(model, {"X": relation}, arguments, warn=False).problem
    problem.recompute_elbo_terms()

    def sweep() -> None:
        sweep_once(problem, problem.expected_counts())

    return sweep


def in_turn(runs: list[Callable[[], None]]) -> list[float]:
    """The least processor seconds of every run, over some rounds in which each has its turn."""
    best = [np.inf] * len(runs)
    for round_ in range(ROUNDS + 1):
        for n, run in enumerate(runs):
            begin = time.process_time()
            run()
            if round_:  # the first compiles
                best[n] = min(best[n], time.process_time() - begin)
    return best
