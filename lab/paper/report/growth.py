"""Growth: the time of a sweep against the number of known cells."""

from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from lab.harness import plots
from lab.harness.table import chosen, mean_sd, text_table
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS = ("PLTF-EM", "PLTF-VB")
NOTE = (
    "Milliseconds of one sweep: the median of a fit's later ones, in which VB adapts its priors; mean ± sd over the "
    "runs. 1.25 % of the cells of a cube are known; rank 5."
)


def tables(records: pl.DataFrame) -> list[Table]:
    """One row for each number of known cells."""
    headings = ["known cells", *METHODS, *(f"{method}, ns a cell" for method in METHODS)]
    rows = []
    for known in records["known"].unique().sort() if len(records) else []:
        seconds = [chosen(records, known=known, method=method)["seconds_sweep"].to_numpy() for method in METHODS]
        whole = [mean_sd((1e3 * own).tolist(), 2) for own in seconds]
        each = [mean_sd([1e9 * own.mean() / known], 1) if len(own) else "–" for own in seconds]
        rows.append([f"{known:,}", *whole, *each])
    return [text_table("Time of a sweep", headings, rows, NOTE)]


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """Seconds against known cells, both on logarithmic scales, with a line of slope 1."""
    figure, axes = plots.panels(1, width=4.2, height=3.2)
    panel = axes[0, 0]
    with plots.styled():
        for method in METHODS:
            plots.points(panel, chosen(records, method=method), "known", "seconds_sweep", method)
        largest = records.filter(pl.col("known") == pl.col("known").max()) if len(records) else records
        if len(largest):
            end, seconds = float(largest["known"][0]), largest["seconds_sweep"].to_numpy().mean()
            known = np.geomspace(float(records["known"].to_numpy().min()), end, 2)
            panel.plot(known, seconds * known / end, color="#999999", linestyle="--", linewidth=1, label="linear")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("known cells")
        panel.set_ylabel("seconds a sweep")
        plots.legend(figure)
    return {"growth-sweep": figure}
