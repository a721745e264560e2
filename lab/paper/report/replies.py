"""Digg replies: hidden links against any cell, and against another addressee."""

from typing import TYPE_CHECKING

import polars as pl

from lab.harness import plots
from lab.harness.table import auc_and_ap, chosen, percent, spread, text_table
from lab.paper.replies import METHODS, MISSING
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AGAINST = {"uniform": "any cell", "corrupt": "another addressee"}
NOTE = (
    "AUC of hidden links against as many non-links; in brackets the average precision. In training, hidden links weigh "
    "what all other cells without a link do. Seconds are processor seconds of one fit, on one core."
)


def tables(records: pl.DataFrame) -> list[Table]:
    """AUC and AP by share of hidden links, and seconds of a fit."""
    shares = [missing for missing in MISSING if len(chosen(records, missing=missing))]
    rows = [
        [
            method,
            *(
                auc_and_ap(chosen(records, missing=missing, method=method), f"auc_{kind}", f"ap_{kind}")
                for kind in AGAINST
                for missing in shares
            ),
            spread(records, "seconds", 1, method=method),
        ]
        for method in METHODS
    ]
    headings = ["", *(f"{words}, {percent(m)} hidden" for words in AGAINST.values() for m in shares), "seconds a fit"]
    return [text_table("Who replies to whom", headings, rows, NOTE)]


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """AUC over the share of hidden links, by kind of non-link."""
    figure, axes = plots.panels(len(AGAINST), 1, sharex=True, sharey=True)
    with plots.styled():
        for panel, (kind, words) in zip(axes[0], AGAINST.items(), strict=True):
            for method in METHODS:
                plots.points(panel, chosen(records, method=method), "missing", f"auc_{kind}", method, 2)
            panel.set_title(words)
            panel.set_xticks(MISSING, list(map(percent, MISSING)))
            panel.set_xlabel("links hidden")
        axes[0, 0].set_ylabel("AUC")
        plots.legend(figure, columns=5)
    return {"replies-auc": figure}
