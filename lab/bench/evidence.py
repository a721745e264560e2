"""Evidence next to components: five fits of a graph with common neighbours as evidence, judged by validation links.

The components alone, the evidence alone, and both, with evidence from the start and joining late (decision 20).
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import polars as pl

import plait
from lab.harness.table import show
from lab.quality import judge
from lab.quality.data import SOURCES
from lab.quality.methods.plait_ import Fitted
from plait.fitting import validation

COMPONENTS, EVIDENCE = "U[a,r] U[b,r]", "w[] N[a,b]"
DATA = ("USAir", "Celegans", "communities")
SPLITS = 3


def compare() -> None:
    """MRR and AP of validation links, means over splits."""
    shown = []
    for name in (name for name in DATA if not SOURCES[name].absent):
        for way, text, late in (
            ("components", COMPONENTS, True),
            ("evidence", f"{EVIDENCE} + c[]", True),
            ("both, from the start", f"{COMPONENTS} + {EVIDENCE}", False),
            ("both, evidence joins late", f"{COMPONENTS} + {EVIDENCE}", True),
        ):
            figures = np.mean([judged(name, split, text, late) for split in range(SPLITS)], axis=0)
            shown.append([name, way, *figures])
    show("Evidence: validation links", ["data", "fit", "MRR", "AP"], shown)


def judged(name: str, split: int, text: str, late: bool) -> tuple[float, float]:
    """MRR and AP of one split."""
    task = SOURCES[name].load(split, False)
    links = pl.DataFrame(task.tuning.links, schema=["a", "b"])
    fixed = {"N": plait.Exposure(plait.evidence.paths(links), default=0)} if "N[" in text else None
    relation = plait.Relation(links, unseen="zero", likelihood="bernoulli")
    labels = {"a": range(task.tuning.shape[0])}
    with warnings.catch_warnings(), joining(late):
        warnings.simplefilter("ignore", plait.PlaitWarning)
        fit = plait.fit(
            f"X[a,b] = {text}\nb: a", {"X": relation}, entities=labels, fixed=fixed, restarts=5, seed=split, threads=1,
            progress=False,
        )  # fmt: skip
    figures = judge.judge(Fitted(fit), task.valid)
    return figures["MRR"]["value"], figures["AP"]["value"]


@contextmanager
def joining(late: bool) -> Iterator[None]:
    """Whether evidence waits for components."""
    kept = validation.evidence_scales
    if not late:
        validation.evidence_scales = lambda *arguments: frozenset()
    try:
        yield
    finally:
        validation.evidence_scales = kept
