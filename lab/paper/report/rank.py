"""A known rank, found again: how often each way is right, and how far off it is otherwise."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lab.harness import plots
from lab.harness.table import chosen, spread, text_table
from lab.paper.rank import COUNTS, PATIENCE, RANKS, SHAPE, STARTS, TOO_MANY, WAYS
from lab.paper.sources.drawn import CONCENTRATION
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOTE = (
    "How many runs found exactly the rank that the data were drawn with; in brackets the mean of what was found. "
    f"Factors are drawn from Gamma({CONCENTRATION:g}). *bound*: ranks 1, 2, … until {PATIENCE} in a row are no better, "
    f"{STARTS['bound']} starts each. *prune*: one fit that starts with too many components; *best*: of "
    f"{STARTS['prune, best']} starts. *drop*: prune, then leave out one component at a time and refit, as long as the "
    f"bound does not fall. A full run has {' × '.join(map(str, SHAPE))} cells and prunes from {TOO_MANY} components; "
    "with `--quick` both are smaller."
)


def tables(records: pl.DataFrame) -> list[Table]:
    """How often the right rank was found, and the seconds it took."""
    data = _data(records)
    headings = ["way", "priors per", *(f"R = {rank}, {counts:,} counts" for counts, rank in data)]
    found = [
        [
            way,
            tie,
            *(_right(chosen(records, way=way, adapt=tie, counts=counts, rank=rank)) for counts, rank in data),
        ]
        for way, tie in WAYS
    ]
    seconds = [
        [way, tie, *(spread(records, "seconds", 1, way=way, adapt=tie, counts=c, rank=rank) for c, rank in data)]
        for way, tie in WAYS
    ]
    return [
        text_table("The right rank found", headings, found, NOTE, left=2),
        text_table("Seconds of the whole search", headings, seconds, left=2),
    ]


def _data(records: pl.DataFrame) -> list[tuple[int, int]]:
    """Counts and rank of the data: those that were measured, or else those of a full run."""
    if not len(records):
        return [(counts, rank) for counts in COUNTS for rank in RANKS]
    return sorted(set(records.select("counts", "rank").rows()))


def _right(records: pl.DataFrame) -> str:
    """``9 of 10 (5.1)``."""
    if not len(records):
        return "–"
    right = (records["found"] == records["rank"]).sum()
    return f"{right} of {len(records)} ({np.mean(records['found'].to_numpy()):.1f})"


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """Every run as a point: the rank found, against the true rank."""
    levels = sorted({counts for counts, _ in _data(records)})
    figure, axes = plots.panels(len(WAYS), len(levels), width=1.5, height=2.2, sharey=True, sharex=True)
    with plots.styled():
        for down, counts in enumerate(levels):
            for across, (way, tie) in enumerate(WAYS):
                panel = axes[down, across]
                _found(panel, chosen(records, way=way, adapt=tie, counts=counts))
                if down == 0:
                    panel.set_title(f"{way}\n{tie}")
            axes[down, 0].set_ylabel(f"R found\n({counts:,} counts)")
        figure.supxlabel("R of the data", fontsize=9)
    return {"rank-found": figure}


def _found(panel: "Axes", records: pl.DataFrame) -> None:
    """Areas grow with the number of runs that found the same."""
    truth = sorted(set(records["rank"])) if len(records) else list(RANKS)
    panel.plot(truth, truth, color="#999999", linewidth=0.8, marker="_", markersize=14)
    panel.set_xticks(truth)
    panel.margins(x=0.25)
    panel.yaxis.get_major_locator().set_params(integer=True)
    if len(records):
        seen = records.group_by("rank", "found").len()
        right = (seen["rank"] == seen["found"]).to_numpy()
        colours = np.where(right, "#0072B2", "#D55E00")
        panel.scatter(seen["rank"], seen["found"], s=12 * seen["len"].to_numpy(), c=colours, alpha=0.85, zorder=3)
