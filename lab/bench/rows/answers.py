"""Answers: what users wait for, in processor seconds. Commands, first fits, fits of a rank that is left out, evaluation
of ensembles, and how average precision rises with the seconds of a fit, next to peers on the same data.
"""

import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

import plait
from lab.harness import apart
from lab.harness.machine import peak
from lab.harness.results import Figures
from lab.harness.running import Done, Row
from lab.harness.sources import SHARED
from lab.quality.rows import absent
from plait import datasets

TUCKER = "facts[head, relation, tail] = H[head, a] P[a, relation, b] T[tail, b]; tail: head"
CP = "facts[head, relation, tail] = H[head, r] P[relation, r] T[tail, r]; tail: head"
MAX_ROW_SECONDS = 1800.0  # seconds of a row

COMMANDS = {
    "plait --help": ["--help"],
    "plait info": ["info", "run"],
    "plait top": ["top", "run", "relations"],
}
FITS = ("Nations", "Kinships", "UMLS", "Last.fm plays")  # with the rank left out
COURSES = ("USAir", "Celegans", "communities", "Nations", "Kinships", "UMLS", "Last.fm plays")
CONTENDERS = ("Plait", "NMF", "EASE", "ALS", "BPR", "ComplEx", "RESCAL")
EVALUATIONS = {
    "UMLS, five fits, rank 48 × 48": ("evaluate_umls", {}),
    "WN18RR, five CP of rank 100, means": ("rank_wn18rr", {"likelihood": "poisson", "every": 1}),
    "WN18RR, the same, closed form, 1 of 30 links": ("rank_wn18rr", {"likelihood": "bernoulli", "every": 30}),
}

FIRST_FIT = """
import json, time
marks = [time.process_time()]
import plait, plait.fitting.fit
from plait import datasets
marks.append(time.process_time())
nations = datasets.load("nations")
for _ in range(2):
    plait.fit(nations.model, nations.data, rank=8, seed=0, warmup=5, max_iter=5, progress=False)
    marks.append(time.process_time())
print(json.dumps([after - before for before, after in zip(marks, marks[1:])]))
"""


def rows(quick: bool) -> Iterator[Row]:
    """In the order of the page."""
    yield Row({"part": "answers", "what": "commands"}, lambda done: commands())
    yield Row({"part": "answers", "what": "first fit"}, lambda done: first_fits())
    for data in FITS[: 1 if quick else None]:
        yield _row({"what": "fit", "data": data}, "rank_left_out", data=data, quick=quick)
    for name, (function, arguments) in {} if quick else EVALUATIONS.items():
        yield _row({"what": "evaluate", "data": name}, function, **arguments)
    for data in COURSES[3:4] if quick else COURSES:
        for method in CONTENDERS:
            about = {"part": "answers", "what": "course", "data": data, "method": method}
            yield Row(about, partial(_course, data, method, quick))


def _row(about: dict[str, Any], function: str, **arguments: Any) -> Row:
    measured = partial(apart.call, f"lab.bench.rows.answers:{function}", MAX_ROW_SECONDS, 1)
    return Row({"part": "answers", **about}, lambda done: measured(**arguments))


def _processor_seconds(command: list[str], **environment: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=apart.environment(1) | environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def commands() -> Figures:
    """Commands on a saved run of Nations, the best of three; the demo with an empty and then a full cache."""
    program = [sys.executable, "-m", "plait"]
    with TemporaryDirectory() as folder:
        nations = datasets.load("nations")
        fit = plait.fit(nations.model, nations.data, rank=8, seed=0, warmup=5, max_iter=5, progress=False)
        fit.save(Path(folder) / "run")
        # Python keeps bytecode, as it does of an installed package.
        code = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": f"{folder}/code"}
        found = {}
        for name, words in COMMANDS.items():
            words = [str(Path(folder) / "run") if word == "run" else word for word in words]
            found[name] = min(_processor_seconds([*program, *words], **code) for _ in range(4))
        for name in ("plait demo, empty cache", "plait demo, full cache"):
            found[name] = _processor_seconds([*program, "demo"], PLAIT_CACHE_DIR=f"{folder}/kernels", **code)
    return {"seconds": found}


def first_fits() -> Figures:
    """Import, first and second fit (Nations, rank 8, ten sweeps) of a process with an empty, then a full cache."""
    found = {}
    with TemporaryDirectory() as folder:
        for cache in ("empty", "full"):
            environment = apart.environment(1) | {"PLAIT_CACHE_DIR": folder}
            done = subprocess.run(
                [sys.executable, "-c", FIRST_FIT], env=environment, capture_output=True, text=True, check=True
            )
            found[cache] = dict(zip(("import", "first", "again"), json.loads(done.stdout)))
    return found


def rank_left_out(data: str, quick: bool) -> dict[str, Any]:
    """Five fits with the rank left out, then the same fits with that rank given."""
    from lab.quality import judge
    from lab.quality.data import SOURCES
    from lab.quality.methods.plait_ import Fitted, fitted

    task = SOURCES[data].load(0, quick)
    fitted(task.seen, rank=2, max_iter=1, seed=0)  # nothing below waits for an import
    marks = [time.process_time()]
    fit = fitted(task.seen, restarts=5, seed=0)
    marks.append(time.process_time())
    again = fitted(task.seen, restarts=5, seed=0, rank=dict(fit.rank))
    marks.append(time.process_time())
    figures = judge.judge(Fitted(fit), task.test)
    assert again.rank == fit.rank
    return {"rank": dict(fit.rank), "seconds": marks[1] - marks[0], "five": marks[2] - marks[1], "figures": figures}


def _course(data: str, method: str, quick: bool, done: Done) -> Figures:
    from lab.quality.data import SOURCES
    from lab.quality.methods import find

    if SOURCES[data].kind not in find(method).kinds:
        return {"cannot": f"not for a {SOURCES[data].kind}"}
    if reason := absent(data, method):
        return {"cannot": reason}
    return apart.call("lab.bench.rows.answers:course", MAX_ROW_SECONDS, 1, data=data, method=method, quick=quick)


def course(data: str, method: str, quick: bool) -> dict[str, Any]:
    """Processor seconds and average precision of trainings from short to full.

    The setting is the one with the best figure on validation links.
    """
    from lab.quality import judge
    from lab.quality.data import SOURCES
    from lab.quality.methods import find
    from lab.quality.rows import attempt

    own, task = find(method)(), SOURCES[data].load(0, quick)
    settings = own.settings[:1] if quick else own.settings
    tries = [attempt(own, task, setting, 0, quick) for setting in settings] if len(settings) > 1 else [0.0]
    setting = settings[max(range(len(tries)), key=tries.__getitem__)]
    found = []
    own.fit(task.seen, setting | own.lengths[0], 0, quick)
    for length in own.lengths:
        begin = time.process_time()
        scores = own.fit(task.seen, setting | length, 0, quick)
        seconds = time.process_time() - begin
        found.append((seconds, float(judge.judge(scores, task.test)["AP"]["value"])))
    return {"setting": setting, "seconds": [s for s, _ in found], "AP": [ap for _, ap in found]}


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
