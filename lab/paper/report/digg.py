"""Digg: both tasks next to the paper's figures, against any cell and against another story; seconds of a fit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from lab.harness import plots
from lab.harness.table import auc_and_ap, chosen, percent, spread, text_table
from lab.paper.digg import METHODS, MISSING, SINGLE
from lab.paper.published import DIGG, DIGG_SECONDS
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = (*METHODS, "truth")
TITLES = {"comment": "Who comments on which story", "digg": "Who diggs which story"}
AGAINST = {"auc_uniform": "any cell", "auc_corrupt": "another story", "auc_pair": "another story, pair by pair"}

NOTE = (
    "AUC of hidden links against as many non-links, mean ± sd over the runs; in brackets the average precision. In "
    "training, hidden links weigh what all other cells without a link do: nothing tells the two apart."
)
DRAWN = (
    " The paper's figures are for the real data: they can be compared among themselves, but not with ours. *truth*: "
    "the factors that the links were drawn from, so the best that any model could do."
)
PAIRS = (
    "AUC (average precision) against the same link with another story. Pairs: how often a link has a larger rate than "
    "itself with another story; user and comment are then the same on both sides, and do not matter."
)
SECONDS = "Seconds of a fit, reading the tables included; the paper gives them for GCTF-VB."


def tables(records: pl.DataFrame) -> list[Table]:
    """For each task: links against any cell, and against another story; then seconds."""
    found = [table for task in SINGLE for table in _task(chosen(records, task=task), task)]
    return [*found, _seconds(records)]


def _task(records: pl.DataFrame, task: str) -> list[Table]:
    shares = [missing for missing in MISSING if len(chosen(records, missing=missing))]
    headings, rows = [""], [[method] for method in ALL]
    for missing in shares:
        headings += [f"{percent(missing)} hidden", f"paper, {percent(missing)}"]
        for row in rows:
            own = chosen(records, missing=missing, method=row[0])
            paper = DIGG[task][missing].get(row[0])
            row += [auc_and_ap(own, "auc_uniform", "ap_uniform"), f"{paper:.3f}" if paper else ""]
    note = NOTE + (DRAWN if _drawn(records) else "")
    return [text_table(f"{TITLES[task]}: against any cell", headings, rows, note), _stories(records, task, shares)]


def _stories(records: pl.DataFrame, task: str, shares: Sequence[float]) -> Table:
    headings = ["", *(f"{percent(m)} hidden" for m in shares), *(f"{percent(m)}, pairs" for m in shares)]
    lines = [
        [
            method,
            *(auc_and_ap(chosen(records, missing=m, method=method), "auc_corrupt", "ap_corrupt") for m in shares),
            *(spread(records, "auc_pair", missing=m, method=method) for m in shares),
        ]
        for method in ALL
    ]
    return text_table(f"{TITLES[task]}: against another story", headings, lines, PAIRS)


def _drawn(records: pl.DataFrame) -> bool:
    """Whether the links were drawn from a model: only then is there a truth."""
    return len(chosen(records, method="truth")) > 0


def _seconds(records: pl.DataFrame) -> Table:
    methods = [method for method in METHODS if method != "popularity"]
    timed = records.filter(pl.col("method").is_in(methods)) if len(records) else records
    columns = [(t, m) for t in SINGLE for m in MISSING if len(chosen(timed, task=t, missing=m))]
    rows = [[m, *(spread(records, "seconds", 1, method=m, task=t, missing=f) for t, f in columns)] for m in methods]
    rows.append(["paper, GCTF-VB", *(f"{DIGG_SECONDS[task][missing]:.0f}" for task, missing in columns)])
    note = f" No fit took more than {max(timed['sweeps'])} sweeps." if columns else ""
    return text_table(
        "Seconds a fit", ["", *(f"{task}, {percent(missing)}" for task, missing in columns)], rows, SECONDS + note
    )


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """AUC over the share of hidden links: a row for each task, a column for each kind of non-link and the paper's."""
    figure, axes = plots.panels(len(AGAINST) + 1, len(SINGLE), sharex=True, sharey=True)
    with plots.styled():
        for down, task in enumerate(SINGLE):
            for across, (name, title) in enumerate(AGAINST.items()):
                for method in ALL:
                    own = chosen(records, task=task, method=method)
                    plots.points(axes[down, across], own, "missing", name, method, 2)
                axes[0, across].set_title(title)
            published = [
                {"missing": m, "method": way, "auc": a} for m, of in DIGG[task].items() for way, a in of.items()
            ]
            for method in METHODS[1:]:
                own = chosen(pl.DataFrame(published), method=method)
                plots.points(axes[down, -1], own, "missing", "auc", method)
            axes[0, -1].set_title("the paper, on the real data" if _drawn(records) else "the paper")
            axes[down, 0].set_ylabel(f"{task}: AUC")
        for panel in axes.flat:
            panel.set_xticks(MISSING, list(map(percent, MISSING)))
        for panel in axes[-1]:
            panel.set_xlabel("links hidden")
        plots.legend(figure, columns=6)
    return {"digg-auc": figure}
