"""The part of growth: time and memory against everything that can grow, with slopes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lab.bench.report import words
from lab.harness import plots
from lab.harness.results import Found
from lab.harness.table import NOTHING, text_table
from plait.rendering.document import Table

SERIES = ("nonzeros", "rank", "rows", "order", "threads")


def points(found: Found, series: str) -> list[tuple[int, dict[str, Any]]]:
    """What was measured of a series, its x rising."""
    rows = ((about["x"], figures) for about, figures in found.part("growth", series=series) if "seconds" in figures)
    return sorted(rows, key=lambda row: row[0])


def slope(xs: list[float], ys: list[float]) -> float | None:
    """Of a line through the logarithms."""
    if len(xs) < 2 or min(ys) <= 0:
        return None
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def rise(found: Found) -> float | None:
    """How much longer a nonzero takes at most, of 1e6 to 1e8 at fixed sides, than at 1e6; None without both ends."""
    per = {x: f["seconds"] / f["nonzeros"] for x, f in points(found, "nonzeros") if x >= 1_000_000}
    return max(per.values()) / per[1_000_000] - 1 if {1_000_000, 100_000_000} <= per.keys() else None


def _shown(value: float | None) -> str:
    return NOTHING if value is None else f"{value + 0.0:.2f}"


def tables(found: Found) -> Iterator[Table]:
    """One for slopes, one for the nonzeros."""
    made = []
    for series in SERIES:
        rows = points(found, series)
        if not rows:
            continue
        upper = rows if series != "nonzeros" else [row for row in rows if row[0] >= 1_000_000] or rows
        xs = [float(x) for x, _ in upper]
        fits = [_shown(slope(xs, [f[word] for _, f in upper])) for word in ("seconds", "over")]
        ends = [f"{words.number(x)}: {words.seconds(f['seconds'])}" for x, f in (rows[0], rows[-1])]
        made.append([series, str(len(rows)), *ends, *fits])
    if made:
        headings = ["against", "points", "first: a sweep", "last: a sweep", "slope of time", "slope of memory"]
        note = (
            "CP-3, listed, R = 5, a million nonzeros of 1000³, except for the axis of the plot; threads: 10 million "
            "and R = 20. Cells are in order, so nothing is sorted. Slopes are those of straight lines through the "
            "logarithms (nonzeros: from 1e6 on); memory is the peak minus that of Python and its libraries."
        )
        yield text_table("Growth", headings, made, note)
    rows = points(found, "nonzeros")
    if rows:
        yield _nonzeros(found, rows)


def _nonzeros(found: Found, rows: list[tuple[int, dict[str, Any]]]) -> Table:
    made = []
    for about, f in found.part("growth", series="nonzeros"):
        if "cannot" in f:
            made.append([words.number(about["x"]), f["cannot"], NOTHING, NOTHING])
    for x, f in rows:
        each = [words.significant(f[word] / f["nonzeros"] * scale) for word, scale in (("seconds", 1e9), ("over", 1))]
        made.append([words.number(x), words.seconds(f["seconds"], f["spread"]), *each])
    headings = ["nonzeros of 1000³", "sweep", "ns a nonzero", "bytes a nonzero at the peak"]
    return text_table("Nonzeros at fixed sides", headings, made)


def draw(found: Found, folder: Path) -> None:
    """Time above, memory below, a column for every series."""
    series = [name for name in SERIES if points(found, name)]
    if not series:
        return
    figure, panels = plots.panels(len(series), 2, width=2.1, height=1.9, sharey=False)
    with plots.styled():
        for column, name in enumerate(series):
            rows = points(found, name)
            for row, (word, label) in enumerate({"seconds": "a sweep, s", "over": "peak memory, GB"}.items()):
                axes, scale = panels[row, column], 1.0 if row == 0 else 1e-9
                xs, ys = [float(x) for x, _ in rows], [max(f[word], 1) * scale if row else f[word] for _, f in rows]
                axes.plot(xs, ys, **plots.look("PLTF-VB"))
                margin = max(
                    1.3, (10 * min(ys) / max(ys)) ** 0.5
                )  # a decade at least: noise is not to look like growth
                axes.set(
                    xscale="log",
                    yscale="log",
                    title=name if row == 0 else "",
                    ylim=(min(ys) / margin, max(ys) * margin),
                )
                if name in ("order", "threads"):
                    axes.set_xscale("linear")
                    axes.set_xticks(xs)
                if column == 0:
                    axes.set_ylabel(label)
    plots.save(figure, folder, "growth")
