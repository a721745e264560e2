"""How plots look: small multiples, error bars, no chart junk, readable in print and without colour."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One colour, marker and dash for every method in all plots (Okabe and Ito's colours, safe for the colour-blind).
LOOKS: dict[str, dict[str, Any]] = {
    "PLTF-EM": {"color": "#D55E00", "marker": "o", "linestyle": ":"},
    "PLTF-VB": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "GCTF-EM": {"color": "#E69F00", "marker": "s", "linestyle": ":"},
    "GCTF-VB": {"color": "#009E73", "marker": "s", "linestyle": "-"},
    "popularity": {"color": "#666666", "marker": "x", "linestyle": "--"},
}
OTHERS = (
    {"color": "#CC79A7", "marker": "D", "linestyle": "-."},
    {"color": "#56B4E9", "marker": "v", "linestyle": (0, (5, 1))},
    {"color": "#000000", "marker": "^", "linestyle": "--"},
    {"color": "#B59F00", "marker": "P", "linestyle": (0, (1, 1))},
    {"color": "#7A3E9D", "marker": "*", "linestyle": (0, (3, 1, 1, 1, 1, 1))},
)
STYLE: dict[str, Any] = {
    "font.family": "sans-serif", "font.size": 9, "axes.titlesize": 9, "axes.titlelocation": "left",
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": "#E3E3E3", "grid.linewidth": 0.6, "legend.frameon": False,
    "lines.linewidth": 1.4, "lines.markersize": 4.5, "errorbar.capsize": 2,
    "svg.fonttype": "path", "svg.hashsalt": "plait", "savefig.dpi": 150,
}  # fmt: skip


def look(name: str, position: int = 0) -> dict[str, Any]:
    """Colour, marker and dash of a method; others take theirs by position."""
    return LOOKS.get(name, OTHERS[position % len(OTHERS)])


def panels(
    columns: int, rows: int = 1, *, width: float = 2.6, height: float = 2.4, sharey: bool | str = "row", **options: Any
) -> "tuple[Figure, Any]":
    """A grid of small plots: the figure, and its axes as an array (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with styled():
        figure = Figure(figsize=(width * columns + 0.4, height * rows + 0.5), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey, **options)
    return figure, axes


@contextmanager
def styled() -> Iterator[None]:
    """Plait's look while something is drawn."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def points(axes: "Axes", records: pl.DataFrame, x: str, y: str, label: str, position: int = 0, **more: Any) -> None:
    """Mean and sd of y over the records at each x, as a line with error bars."""
    if not len(records) or y not in records.columns:
        return
    means = records.group_by(x).agg(mean=pl.col(y).mean(), sd=pl.col(y).std()).sort(x)
    spreads = means["sd"].fill_null(0.0).to_numpy()
    axes.errorbar(means[x].to_numpy(), means["mean"].to_numpy(), np.nan_to_num(spreads), label=label,
                  **(look(label, position) | more))  # fmt: skip


def dots(axes: "Axes", y: float, values: pl.Series, **look: Any) -> None:
    """Mean and sd of some values, as a dot with a horizontal bar; nothing for none."""
    if len(values.drop_nulls()):
        axes.errorbar(values.mean(), y, xerr=values.std() or 0.0, fmt="o", **look)


def legend(figure: "Figure", columns: int = 5) -> None:
    """One legend for all panels, below them, of everything that is drawn in some panel."""
    found: dict[str, Any] = {}
    for panel in figure.axes:
        for handle, label in zip(*panel.get_legend_handles_labels()):
            found.setdefault(label, handle)
    if found:
        figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=min(columns, len(found)))


def save(figure: "Figure", folder: Path, name: str) -> list[Path]:
    """Write a plot as SVG and as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    with styled():
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, metadata=metadata)
    return paths


def shares(values: Sequence[float]) -> list[str]:
    """Labels of shares on an axis."""
    return [f"{100 * value:.0f} %" for value in values]
