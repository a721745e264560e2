"""Scaling: seconds and error next to the paper's, and the error against sweeps."""

from typing import TYPE_CHECKING

import polars as pl

from lab.harness import plots
from lab.harness.table import chosen, spread, text_table
from lab.paper.published import SCALING
from lab.paper.scaling import NEAR, STOPS
from lab.paper.sources.cube import NOISE
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTE = (
    f"Mean ± sd over the runs. The data have a root mean square of 1, the noise a standard deviation of {NOISE:g}, and "
    "what falls below 0 is 0. RMSE: on held-out cells, which have noise themselves; *truth* is that of the data "
    "without noise. The paper does not state the scale of its data, so its RMSE compares only roughly with ours. "
    f"Reading: from the table in memory to the first sweep. Near: the bound is within {NEAR:g}, relatively, of that "
    f"after {STOPS[-1]} sweeps. The paper does not say when its fits were stopped."
)


def tables(records: pl.DataFrame) -> list[Table]:
    """One row for each size."""
    headings = [
        "known cells", "RMSE", "truth", "paper's RMSE", "reading, s", "sweeps until near", "seconds until near",
        f"seconds of {STOPS[-1]} sweeps", "paper's seconds",
    ]  # fmt: skip
    rows = []
    for side, known in _sizes(records):
        own = chosen(records, side=side, known=known)
        seconds, rmse = SCALING.get(side, ("", None))
        ours = [spread(own, "rmse", 4), spread(own, "rmse_truth", 4), f"{rmse:.2f}" if rmse else ""]
        times = [("seconds_read", 1), ("sweeps_near", 0), ("seconds_near", 1), ("seconds", 1)]
        rows.append([f"{known:,} of {side}³", *ours, *(spread(own, *time) for time in times), seconds])
    return [text_table("Time and error", headings, rows, NOTE)]


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """The error on held-out cells at each stop of the fits: a panel for each size, a thin line for each run."""
    sizes = _sizes(records)
    figure, axes = plots.panels(max(1, len(sizes)), width=3.4, height=2.8)
    with plots.styled():
        for panel, (side, known) in zip(axes[0], sizes):
            own = chosen(records, side=side, known=known)
            for run in own.iter_rows(named=True):
                panel.plot(STOPS, [run[f"rmse_{stop}"] for stop in STOPS], color="#9DC3DC", linewidth=0.7)
            means = [own[f"rmse_{stop}"].mean() for stop in STOPS]
            panel.plot(STOPS, means, label="mean of the runs", **plots.look("PLTF-VB"))
            panel.axhline(own["rmse_truth"].mean(), color="#000000", linestyle="--", linewidth=1, label="truth")
            if side in SCALING:
                panel.axhline(
                    SCALING[side][1], color="#D55E00", linestyle=":", linewidth=1.2, label="paper, at its end"
                )
            panel.set_title(f"{side}³, {known:,} known cells")
            panel.legend(loc="upper right")
            panel.set_xscale("log")
            panel.set_xticks(STOPS, [str(stop) for stop in STOPS])
            panel.minorticks_off()
            panel.set_xlabel("sweeps")
        axes[0, 0].set_ylabel("RMSE on held-out cells")
    return {"scaling-rmse": figure}


def _sizes(records: pl.DataFrame) -> list[tuple[int, int]]:
    """Side and known cells of the cubes that there are results for."""
    return records.select("side", "known").unique().sort("known").rows() if len(records) else []
