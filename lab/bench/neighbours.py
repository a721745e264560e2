"""Evidence by neighbours: one fit with and without `evidence="auto"`, on test links (decision 36).

Gowalla is fitted on training and validation links, rank 32, as published results are; recall and NDCG at 20 over all
items that are not known.
"""

import time
import warnings
from collections.abc import Iterator

import numpy as np
import polars as pl

import plait
from lab.harness import sources
from lab.harness.table import show
from lab.quality import judge
from lab.quality.data import SOURCES
from lab.quality.methods.plait_ import EQUATIONS, Fitted, fitted

TEXTS = {
    **EQUATIONS,
    "triples": "X[h,p,t] = A[h,a] G[a,p,b] A[t,b]\nt: h",
    "graph": "X[a,b] = U[a,r] U[b,r]\nb: a",
}
SPLITS = 3
PUBLISHED = (
    ("item-based CF", 0.157, 0.121),
    ("EASE", 0.1765, 0.1467),
    ("LightGCN", 0.182, 0.1547),
    ("SimpleX", 0.187, 0.156),
)
LISTED = 20
QUERY_USERS = 1000  # whose lists are made at a time


def compare() -> None:
    """MRR (matrices: NDCG@10) and AP of test links, means over splits, and processor seconds of the fit."""
    rows = [row for name, source in SOURCES.items() if not source.absent for row in _rows(name)]
    show("Neighbours: test links", ["data", "fit", "MRR or NDCG@10", "AP", "seconds"], rows)
    if not sources.absent("gowalla"):
        show("Gowalla", ["method", "Recall@20", "NDCG@20", "seconds"], [*map(list, _gowalla()), *_published()])


def _rows(name: str) -> Iterator[list[object]]:
    for evidence in (None, "auto"):
        made = [_judged(name, split, evidence) for split in range(min(SPLITS, SOURCES[name].splits))]
        yield [name, evidence or "plain", *np.mean(made, axis=0)]


def _judged(name: str, split: int, evidence: str | None) -> tuple[float, float, float]:
    task = SOURCES[name].load(split, False)
    began = time.process_time()
    fit = fitted(task.seen, TEXTS[task.seen.kind], evidence=evidence, seed=split)
    seconds = time.process_time() - began
    figures = judge.judge(Fitted(fit), task.test)
    return judge.main(figures), figures["AP"]["value"], seconds


def _published() -> list[list[object]]:
    return [[f"{name} (published)", recall, ndcg, "–"] for name, recall, ndcg in PUBLISHED]


def _gowalla() -> Iterator[tuple[str, float, float, float]]:
    parts = [pl.read_parquet(sources.SHARED / "gowalla" / f"{part}.parquet") for part in ("train", "valid", "test")]
    train, test = pl.concat(parts[:2]), parts[2]
    for evidence in (None, "neighbours"):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", plait.PlaitWarning)
            fit = plait.fit(
                "visits[user, item] = U[user, r] I[item, r]", {"visits": train}, rank=32, seed=0, evidence=evidence,
                progress=False,
            )  # fmt: skip
        seconds = time.process_time() - began
        yield f"Plait, rank 32, {evidence or 'plain'}", *_at_20(fit, test), seconds


def _at_20(fit: plait.Fit, test: pl.DataFrame) -> tuple[float, float]:
    """Recall and NDCG of the first 20 items of every user with a test link."""
    wanted = {user: set(items) for user, items in test.group_by("user").agg("item").iter_rows()}
    users = [user for user in wanted if user in set(fit.entities["user"])]
    discount = 1 / np.log2(np.arange(2, LISTED + 2))
    recall, gain = [], []
    for start in range(0, len(users), QUERY_USERS):
        some = users[start : start + QUERY_USERS]
        listed = pl.DataFrame(fit.top("visits", LISTED, per="user", given={"user": some}))
        best = dict(listed.group_by("user", maintain_order=True).agg("item").iter_rows())
        for user in some:
            hits = np.array([item in wanted[user] for item in best.get(user, [])])
            recall.append(hits.sum() / len(wanted[user]))
            gain.append(hits @ discount[: len(hits)] / discount[: min(LISTED, len(wanted[user]))].sum())
    return float(np.mean(recall)), float(np.mean(gain))
