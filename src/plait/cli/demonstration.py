"""The command demo."""

import time
from typing import Annotated, Any

import polars as pl
import typer

from plait import demo as nations
from plait.cli.options import Json
from plait.cli.output import emit, grid, out
from plait.show.text import show
from plait.show.words import significant


def demo(
    seed: Annotated[int, typer.Option(min=0, help="Which cells are hidden, and where the fit starts.")] = 0,
    top: Annotated[int, typer.Option(min=1, help="How many predicted links to show.")] = 10,
    json: Json = False,
) -> None:
    """Predict hidden relations between countries: a first look.

    A fifth of the cells is hidden and predicted from the rest; AUC and average precision stand beside a baseline.

    \b
    Examples:
      plait demo
      plait demo --seed 1 --top 5
    """
    parts = nations.split(seed)
    if not json:
        hidden = f"{parts.chosen:,} are hidden, {parts.links:,} of them links, and so are their mirror images"
        out(f"Nations: of {parts.candidates:,} cells {hidden}.\n")
        out(nations.MODEL, style="cyan")
    begin = time.perf_counter()
    fit = nations.fit(parts, seed)
    seconds = time.perf_counter() - begin
    figures, best = nations.figures(fit, parts), nations.best(fit, parts, top)
    first = {index: best[index][0] for index in ("head", "relation", "tail")}
    explanation = fit.explain("relations", first, top=3)
    if json:
        metrics = {name: {k: found[k] for k in FIGURES} for name, found in figures.items()}
        sweeps = fit.history[-1].sweep
        emit({"seed": seed, "sweeps": sweeps, "seconds": seconds, "stop": str(fit.stop), "metrics": metrics,
              "top": best.to_dicts(), "explanation": explanation.to_dict()})  # fmt: skip
        return
    rank, bound = fit.rank["r"], significant(fit.bound)
    out(f"{len(fit.members)} fits of rank {rank} in {seconds:.1f} s, the best bound {bound}\n")
    _show(figures, best)
    out()
    show(explanation.describe())


FIGURES = {"roc_auc": "AUC", "average_precision": "average precision"}


def _show(figures: dict[str, Any], best: "pl.DataFrame") -> None:
    rows = [[name, *(f"{found[figure]:.3f}" for figure in FIGURES)] for name, found in figures.items()]
    grid(["on the hidden cells", *FIGURES.values()], rows)
    out()
    links = [
        [
            f"{row['head']} —{row['relation']}→ {row['tail']}",
            f"{row['probability']:.3f}",
            "yes" if row["value"] else "no",
        ]
        for row in best.iter_rows(named=True)
    ]
    grid(["most probable hidden links", "probability", "is there"], links)
