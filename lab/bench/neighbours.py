"""Evidence by neighbours: one fit with and without `evidence="auto"`, on test links (decision 36).

Larger data, with published figures: `python -m lab.quality Gowalla`.
"""

import time
from collections.abc import Iterator

import numpy as np

from lab.harness.table import show
from lab.quality import judge
from lab.quality.data import SOURCES
from lab.quality.methods.plait_ import SHARED, Fitted, fitted

SPLITS = 3


def compare() -> None:
    """MRR (matrices: NDCG@10) and AP of test links, means over splits, and processor seconds of the fit."""
    rows = [row for name, source in SOURCES.items() if not source.absent and not source.large for row in _rows(name)]
    show("Neighbours: test links", ["data", "fit", "MRR or NDCG@10", "AP", "seconds"], rows)


def _rows(name: str) -> Iterator[list[object]]:
    for evidence in (None, "auto"):
        made = [_judged(name, split, evidence) for split in range(min(SPLITS, SOURCES[name].splits))]
        yield [name, evidence or "plain", *np.mean(made, axis=0)]


def _judged(name: str, split: int, evidence: str | None) -> tuple[float, float, float]:
    task = SOURCES[name].load(split, False)
    began = time.process_time()
    fit = fitted(task.seen, SHARED[task.seen.kind], evidence=evidence, seed=split)
    seconds = time.process_time() - began
    figures = judge.judge(Fitted(fit), task.test)
    return judge.main(figures), figures["AP"]["value"], seconds
