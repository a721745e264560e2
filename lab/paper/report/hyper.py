"""Hyperparameters: fixed priors, learnt ones, and none."""

from typing import TYPE_CHECKING

import polars as pl

from lab.harness import plots
from lab.harness.table import auc_and_ap, chosen, percent, spread, text_table
from lab.paper.acts import BASELINES
from lab.paper.hyper import CLAIMED, OTHERS, PUBLISHED
from lab.paper.order import MISSING, TIES
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEARNT = {"factor": "learnt, one per factor", "component": "learnt, one per component", "rank-one": "learnt, rank-one"}

NOTE = (
    "AUC, mean ± sd over the runs; in brackets the average precision. Coupled, R = 2, all weights 1. The paper has no "
    "figures, only the order of its three pairs (0.5, 10), (10, 10), (100, 1), the first being the best, and that "
    "A < 1 with B > 10 does better."
)


def tables(records: pl.DataFrame) -> list[Table]:
    """AUC and average precision of every prior, and seconds."""
    rows = [[name, *(auc_and_ap(chosen(own, missing=missing)) for missing in MISSING)] for name, own in _rows(records)]
    seconds = [
        [name, *(spread(own, "seconds", 2, missing=missing) for missing in MISSING)]
        for name, own in _rows(records)
        if name not in BASELINES
    ]
    headings = ["prior (A, B)", *(f"{percent(missing)} missing" for missing in MISSING)]
    return [
        text_table("Priors, coupled, R = 2", headings, rows, NOTE),
        text_table("Seconds a fit", headings, seconds),
    ]


def _rows(records: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """What a row of the table is called, and its records."""
    groups = {"paper": PUBLISHED, "A < 1, B > 10": CLAIMED, "to compare": OTHERS}
    fixed = [
        (f"({A:g}, {B:g}), {group}", chosen(records, method="GCTF-VB", adapt="none", A=A, B=B))
        for group, pairs in groups.items()
        for A, B in pairs
    ]
    learnt = [(LEARNT[tie], chosen(records, method="GCTF-VB", adapt=tie)) for tie in TIES]
    without = [("no prior: EM", chosen(records, method="GCTF-EM"))]
    return fixed + learnt + without + [(name, chosen(records, method=name)) for name in BASELINES]


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """Priors from top to bottom, AUC and average precision along."""
    measures = {"auc": "AUC", "ap": "average precision"}
    rows = [(name, own) for name, own in _rows(records) if len(own)]
    figure, axes = plots.panels(len(MISSING), len(measures), width=2.2, height=3.1, sharey=True, sharex="row")
    with plots.styled():
        for down, (measure, words) in enumerate(measures.items()):
            for across, missing in enumerate(MISSING):
                panel = axes[down, across]
                for at, (name, own) in enumerate(rows):
                    found = chosen(own, missing=missing)
                    if measure in found.columns:
                        plots.dots(panel, at, found[measure], color=_colour(name))
                panel.set_title(f"{percent(missing)} missing" if down == 0 else "")
                panel.set_xlabel(words)
            axes[down, 0].set_yticks(range(len(rows)), [name for name, _ in rows])
            if rows:
                axes[down, 0].set_ylim(len(rows) - 0.5, -0.5)
    return {"hyper-priors": figure}


def _colour(name: str) -> str:
    """Fixed priors, learnt ones, EM and baselines apart."""
    if name.startswith("("):
        return "#0072B2"
    if name in LEARNT.values():
        return "#009E73"
    return "#D55E00" if name == "no prior: EM" else "#666666"
