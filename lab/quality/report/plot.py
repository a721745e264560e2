"""The picture: a panel for each data set and measure, a dot for each method."""

from pathlib import Path
from typing import Any

from lab.harness import plots
from lab.harness.results import Found
from lab.quality.methods import METHODS, OURS
from lab.quality.report.entries import Lines, main_measure, measured

COLOURS = {
    "Plait": "#56B4E9",
    "Plait, five fits": "#0072B2",
    "Plait, evidence": "#E69F00",
    "Plait, evidence, five fits": "#D55E00",
}
MAX_COLUMNS = 5  # panels in a row


def draw(found: Found, folder: Path) -> None:
    """Rank and average precision of every method on every data set."""
    every = measured(found)
    if not every:
        return
    across = min(MAX_COLUMNS, len(every))
    bands = -(-len(every) // across)
    names = list(dict.fromkeys([*METHODS, *(method for own in every.values() for method in own)]))
    names = [method for method in names if any(method in own for own in every.values())]
    figure, axes = plots.panels(across, 2 * bands, width=2.1, height=0.19 * len(names) + 0.5, sharey=True)
    with plots.styled():
        for position, (data, own) in enumerate(every.items()):
            band, column = divmod(position, across)
            for down, measure in enumerate((main_measure(own), "AP")):
                _dots(axes[2 * band + down, column], own, names, measure)
                axes[2 * band + down, column].set_title(f"{data}: {measure}")
        for empty in axes.flat:
            if not empty.has_data():
                empty.set_visible(False)
        for row in axes:
            row[0].set_yticks(range(len(names)), names)
            row[0].set_ylim(len(names) - 0.5, -0.5)
    plots.save(figure, folder, "quality")


def _dots(panel: Any, own: Lines, names: list[str], measure: str) -> None:
    for y, method in enumerate(names):
        if method in own and measure in own[method].measures:
            entry = own[method].measures[measure]
            colour = COLOURS.get(method, "#666666")
            size = 5.5 if method in OURS else 4.5
            panel.errorbar(entry.value, y, xerr=entry.error or 0.0, fmt="o", color=colour, markersize=size)
