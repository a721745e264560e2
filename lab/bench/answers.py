"""Answers of a fitted model: evaluation of an ensemble, ranking among all entities of a large graph.

Each row runs in a process of its own: processor seconds of the first and of the second call, and the peak of memory.
"""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

import plait
from lab.harness import apart
from lab.harness.machine import peak
from lab.harness.sources import SHARED
from lab.harness.table import show

TUCKER = "facts[head, relation, tail] = H[head, a] P[a, relation, b] T[tail, b]; tail: head"
CP = "facts[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]; tail: head"
HEADINGS = ["answer", "first call, processor s", "second call", "peak, MB", "of that before", "MRR"]


def compare() -> None:
    """Processor seconds and memory of each row."""
    rows = []
    if SHARED.exists():
        rows.append(["evaluate, UMLS, five fits, rank 48 × 48", *_measured("evaluate_umls")])
        for likelihood, words, every in (("poisson", "means", 1), ("bernoulli", "closed form, 1 of 30 links", 30)):
            found = _measured("rank_wn18rr", likelihood=likelihood, every=every)
            rows.append([f"evaluate, WN18RR, five CP of rank 100, {words}", *found])
    show("Answers", HEADINGS, rows)


def _measured(function: str, **arguments: Any) -> list[Any]:
    found = apart.call(f"lab.bench.answers:{function}", 1800.0, 1, **arguments)
    first, second = found["seconds"]
    return [first, second, found["peak"] / 1e6, found["before"] / 1e6, found["mrr"]]


def evaluate_umls() -> dict[str, Any]:
    """Every link of the test ranked among 135 tails by an ensemble, with all other figures."""
    return _evaluated("umls", TUCKER, 48, "bernoulli", ["tail"], sweeps=200)


def rank_wn18rr(likelihood: str, every: int) -> dict[str, Any]:
    """6,268 queries, or one of `every`, among 40,943 entities. The fit is a short one: its figures are not meant."""
    return _evaluated("wn18rr", CP, 100, likelihood, ["head", "tail"], sweeps=2, every=every)


def _evaluated(
    name: str, text: str, rank: int, likelihood: str, target: list[str], sweeps: int, every: int = 1
) -> dict[str, Any]:
    train, valid, test = (_triples(name, part) for part in ("train", "valid", "test"))
    names = pl.concat([part[index] for part in (train, valid, test) for index in ("head", "tail")]).unique().sort()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plait.PlaitWarning)
        relation = plait.Relation(train, likelihood=likelihood, unseen="zero")
        fit = plait.fit(
            text, {"facts": relation}, rank=rank, restarts=5, warmup=min(50, sweeps), max_iter=sweeps, seed=0,
            entities={"head": names}, progress=False,
        )  # fmt: skip
        with TemporaryDirectory() as folder:
            fit.save(Path(folder) / "run")
            del fit
            fit, before = plait.load(Path(folder) / "run"), peak()
            asked = test[::every]
            found = _timed(lambda: plait.evaluate(fit, "facts", asked, target=target, known=valid, progress=False))
    return found | {"before": before}


def _timed(ask: Callable[[], plait.Metrics]) -> dict[str, Any]:
    seconds = []
    for _ in range(2):
        start = time.process_time()
        metrics = ask()
        seconds.append(time.process_time() - start)
    return {"seconds": seconds, "mrr": metrics["mrr"]}


def _triples(name: str, part: str) -> pl.DataFrame:
    columns = ["head", "relation", "tail"]
    if (SHARED / name / f"{part}.parquet").exists():
        return pl.read_parquet(SHARED / name / f"{part}.parquet").select(columns)
    return pl.read_csv(SHARED / name / f"{part}.txt", separator="\t", has_header=False, new_columns=columns)
