"""The rows: a method on one split of a data set, each measured in a process of its own."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.harness.apart import call
from lab.harness.packages import missing
from lab.harness.results import Figures
from lab.harness.running import Done, Row
from lab.quality import judge
from lab.quality.data import QUICK, SOURCES, Task
from lab.quality.methods import METHODS, Method, find

MAX_ROW_SECONDS = 3000.0  # seconds of a row, all tries
THREADS = 1  # of everybody


def rows(data: str, quick: bool) -> Iterator[Row]:
    """A row for every split and every method that is for such data."""
    source = SOURCES[data]
    for method in METHODS:
        if source.kind in find(method).kinds and (find(method).large or not source.large):
            for split in range(1 if quick else source.splits):
                about = {"data": data, "method": method, "split": split}
                yield Row({"part": data, "method": method, "split": split}, partial(measured, **about, quick=quick))


def names(quick: bool) -> tuple[str, ...]:
    """The data sets that are measured."""
    return QUICK if quick else tuple(SOURCES)


def absent(data: str, method: str) -> str:
    """Why a row cannot be measured here; nothing if it can."""
    return SOURCES[data].absent or missing(find(method).package)


def measured(done: Done, data: str, method: str, split: int, quick: bool) -> Figures:
    """The figures of a row, or why there are none."""
    if reason := absent(data, method):
        return {"absent": reason}
    return call(
        "lab.quality.rows:carry_out", MAX_ROW_SECONDS, THREADS, data=data, method=method, split=split, quick=quick
    )


def carry_out(data: str, method: str, split: int, quick: bool) -> Figures:
    """The figures of a split."""
    return in_split(find(method)(), SOURCES[data].load(split, quick), split, quick)


def in_split(own: Method, task: Task, split: int, quick: bool) -> Figures:
    """Choose settings by the links for that, fit with them, and be judged by the test."""
    settings = own.settings[:2] if quick else own.settings
    begin = time.process_time()
    tries = [] if len(settings) == 1 else [attempt(own, task, setting, split, quick) for setting in settings]
    best = settings[max(range(len(tries)), key=tries.__getitem__)] if tries else settings[0]
    chosen = time.process_time()
    scores = own.fit(task.seen, best, split, quick)
    seconds = {"fit": time.process_time() - chosen, "choice": chosen - begin}
    setting = best | scores.found
    return {"figures": judge.judge(scores, task.test), "setting": setting, "tries": tries, "seconds": seconds}


def attempt(own: Method, task: Task, setting: dict[str, Any], split: int, quick: bool) -> float:
    """How good a setting is by the links to choose by."""
    return judge.main(judge.judge(own.fit(task.tuning, setting, split, quick), task.valid))
