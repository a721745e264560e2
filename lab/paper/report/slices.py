"""Whole users and places hidden: what coupling is for."""

from typing import TYPE_CHECKING

import polars as pl

from lab.harness import plots
from lab.harness.table import chosen, percent, spread, text_table
from lab.paper.slices import FRACTIONS, METHODS
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INDICES = {"user": "users", "place": "places"}


def named(model: str, algorithm: str) -> str:
    """``GCTF-VB``; baselines and our own models go by their own names."""
    return f"{model}-{algorithm}" if model in ("PLTF", "GCTF") else model


def tables(records: pl.DataFrame) -> list[Table]:
    """AUC and AP, apart for users and places."""
    note = (
        "Mean ± sd over the runs, with the settings chosen for single cells. Popularity is that of the other two "
        "indices, since a hidden entity has no known act."
    )
    return [_table(records, index, words, note) for index, words in INDICES.items()]


def _table(records: pl.DataFrame, index: str, words: str, note: str) -> Table:
    rows = []
    for model, algorithm in METHODS:
        own = chosen(records, model=model, algorithm=algorithm, slices=index)
        figures = [spread(own, figure, missing=share) for figure in ("auc", "ap") for share in FRACTIONS]
        rows.append([named(model, algorithm), *figures])
    headings = ["", *(f"{figure}, {percent(share)} of {words}" for figure in ("AUC", "AP") for share in FRACTIONS)]
    return text_table(f"Hidden {words}", headings, rows, note)


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """AUC and AP of every method: a column of panels for each kind and share, a row of dots for each method."""
    measures = {"auc": "AUC", "ap": "average precision"}
    columns = [(index, share) for index in INDICES for share in FRACTIONS]
    figure, axes = plots.panels(len(columns), len(measures), width=2.2, height=2.2, sharey=True)
    names = [named(*method) for method in METHODS]
    with plots.styled():
        for down, (measure, words) in enumerate(measures.items()):
            for across, (index, share) in enumerate(columns):
                panel = axes[down, across]
                for y, (model, algorithm) in enumerate(METHODS):
                    own = chosen(records, model=model, algorithm=algorithm, slices=index, missing=share)
                    if measure in own.columns:
                        plots.dots(panel, y, own[measure], color=plots.look(names[y], y)["color"])
                if down == 0:
                    panel.set_title(f"{percent(share)} of {INDICES[index]}")
                panel.set_xlabel(words)
            axes[down, 0].set_yticks(range(len(names)), names)
        axes[0, 0].set_ylim(len(names) - 0.5, -0.5)
    return {"slices-auc": figure}
