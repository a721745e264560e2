"""UCLAF: our figures next to the paper's."""

from typing import TYPE_CHECKING, Any

import polars as pl

from lab.harness import plots
from lab.harness.table import chosen, percent, spread, text_table
from lab.paper.acts import BASELINES
from lab.paper.published import UCLAF, UCLAF_SECONDS
from lab.paper.uclaf import MISSING, OWN
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Way = tuple[str, dict[str, Any]]  # a row: what it is called, which cells it has

FOUR = [(f"{family}-{algorithm}", family, algorithm) for family in ("PLTF", "GCTF") for algorithm in ("EM", "VB")]
CELLS = "Mean ± sd over the runs, over all hidden cells; "
VISITED = (
    "V is 1 where a user has been; elsewhere 0.01 as an exposure, 0 as evidence (+ V F H). "
    "Every link of these data is at a visited place, so V "
    "alone rules out most cells: compare with the baselines that know the visits too."
)


def ways(form: str = "") -> list[Way]:
    """The paper's four methods in one form (CP is "", Tucker " Tucker"), and the coupled ones with all weights 1."""
    found: list[Way] = [
        (name, {"model": family + form, "algorithm": how, "weights": "chosen"}) for name, family, how in FOUR
    ]
    return found + [
        (f"{name}, weights 1", {"model": family + form, "algorithm": how, "weights": "1"})
        for name, family, how in FOUR
        if family == "GCTF"
    ]


def others(names: tuple[str, ...]) -> list[Way]:
    """Our own models, or the baselines."""
    return [(name, {"model": name, "weights": "chosen"}) for name in names]


def tables(records: pl.DataFrame) -> list[Table]:
    """CP next to the published figures, Tucker, our own models, and a single fit."""
    baselines = others(BASELINES)
    return [
        _published(records),
        _both("CP", records, [*ways(), *baselines], CELLS + "restarts averaged as chosen."),
        _both("Tucker", records, ways(" Tucker"), CELLS + "the paper gives no figures for Tucker on these data."),
        _both("Our own models", records, others((*OWN, *BASELINES[2:])), CELLS + VISITED),
        _single(records),
    ]


def _published(records: pl.DataFrame) -> Table:
    rows = []
    for name, cell in ways()[:4]:
        row = [name]
        for share in MISSING:
            mean, sd = UCLAF[share][name]
            row += [f"{mean:.3f} ± {sd:.3f}", spread(records, "auc", missing=share, **cell)]
        seconds = spread(records, "seconds", 2, **cell)
        rows.append([*row, UCLAF_SECONDS[name[:4]], seconds])
    headings = ["AUC, CP"]
    for share in MISSING:
        headings += [f"paper, {percent(share)}", f"Plait, {percent(share)}"]
    note = "Seconds of one fit; Plait's are processor seconds. The paper does not say which rank it used."
    return text_table("Next to the published figures", [*headings, "paper, s", "Plait, s"], rows, note)


def _both(title: str, records: pl.DataFrame, rows: list[Way], note: str) -> Table:
    """AUC and AP of some rows at every share, and seconds of a fit."""
    headings = ["", *(f"{figure}, {percent(share)}" for figure in ("AUC", "AP") for share in MISSING), "seconds a fit"]
    cells = [
        [name, *(spread(records, figure, missing=share, **cell) for figure in ("auc", "ap") for share in MISSING),
         spread(records, "seconds", 2, **cell)]
        for name, cell in rows
    ]  # fmt: skip
    return text_table(title, headings, cells, note)


def _single(records: pl.DataFrame) -> Table:
    headings = ["", *(f"{figure}, {percent(share)}" for figure in ("AUC", "AP") for share in MISSING)]
    rows = [
        [name, *(spread(records, f"{figure}_one", missing=share, **cell)
                 for figure in ("auc", "ap") for share in MISSING)]
        for name, cell in [*ways()[:4], *others(OWN)]
    ]  # fmt: skip
    return text_table("The same from one fit, without averaging", headings, rows, "The first of the restarts.")


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """AUC of the paper's methods next to the published; AUC and AP of all."""
    return {"uclaf-auc": _dots(records, "auc", "AUC"), "uclaf-ap": _dots(records, "ap", "average precision")}


def _dots(records: pl.DataFrame, measure: str, words: str) -> "Figure":
    """A panel for every share: a row for every method, its mean and sd; published means as open diamonds."""
    rows = [
        *others(BASELINES),
        *ways(),
        *((f"{name}, Tucker", cell) for name, cell in ways(" Tucker")[:4]),
        *others(OWN),
    ]
    figure, axes = plots.panels(len(MISSING), 1, height=4.6, sharex=True, sharey=True)
    with plots.styled():
        for across, share in enumerate(MISSING):
            panel = axes[0, across]
            _draw(panel, chosen(records, missing=share), rows, measure)
            if measure == "auc":
                published = [(UCLAF[share][name][0], y) for y, (name, _) in enumerate(rows) if name in UCLAF[share]]
                x, y = zip(*published, strict=True)
                panel.plot(x, y, "D", mfc="none", mec="#444444", ms=5.5, ls="none", label="paper")
            panel.set_title(f"{percent(share)} missing")
            panel.set_xlabel(words)
        axes[0, 0].set_yticks(range(len(rows)), [name for name, _ in rows])
        axes[0, 0].set_ylim(len(rows) - 0.5, -0.5)
        plots.legend(figure)
    return figure


def _draw(panel: "Axes", records: pl.DataFrame, rows: list[Way], measure: str) -> None:
    for y, (name, cell) in enumerate(rows):
        found = chosen(records, **cell)
        if measure in found.columns:
            colour = plots.look(name.split(",")[0], y)["color"]
            plots.dots(panel, y, found[measure], color=colour, label="Plait, mean ± sd")
