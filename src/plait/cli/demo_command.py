"""`plait demo`: hidden relations between countries, predicted from the rest."""

import time
from typing import Annotated, Any

import polars as pl
import typer

from plait import datasets
from plait.analysis.predict.lookup import rows_of
from plait.analysis.predict.prediction import score
from plait.cli.command_options import Json
from plait.cli.output import emit, grid, out
from plait.evaluation import Metrics, Split, evaluate, train_test_split
from plait.evaluation.measure import popularity
from plait.evaluation.metrics import average_precision, roc_auc
from plait.fitting.fit import fit
from plait.rendering.formatting import significant
from plait.rendering.text import show
from plait.result import Fit

ENSEMBLE_MEMBERS = 5
RANK = 32  # given: the search for a rank compiles four times as many kernels (decision 48)
HELD_OUT_FRACTION = 0.2


def split_nations(seed: int) -> Split:
    """Hide a fifth of all cells of the relations, links and non-links alike, and their mirror images."""
    nations = datasets.load("nations")
    return train_test_split(
        nations.data,
        "relations",
        fraction=HELD_OUT_FRACTION,
        by="cells",
        seed=seed,
        model=nations.model,
        leakage="remove",
    )


def fit_nations(parts: Split, seed: int) -> "Fit":
    """Fit the coupled model to the other cells: an average of five fits."""
    return fit(datasets.NATIONS, parts.train, rank=RANK, restarts=ENSEMBLE_MEMBERS, seed=seed)


def measure_nations(fitted: "Fit", parts: Split) -> dict[str, Metrics | dict[str, float]]:
    """Metrics of the hidden cells by the model, and by the popularity of the entities of a cell."""
    link, score = (parts.test["value"] > 0).to_numpy(), popularity(fitted, "relations", parts.test)
    baseline = {"roc_auc": roc_auc(link, score), "average_precision": average_precision(link, score)}
    return {"Plait": evaluate(fitted, "relations", parts.test), "popularity": baseline}


def best_cells(fitted: "Fit", parts: Split, count: int) -> "pl.DataFrame":
    """The hidden cells that most probably are links, best first, and whether they are (value)."""
    rows = rows_of(fitted, "relations", parts.test)[1]
    scored = parts.test.with_columns(probability=score(fitted, "relations", rows, "probability"))
    best = scored.sort("probability", descending=True, maintain_order=True).head(count)
    predictions: pl.DataFrame = fitted.predict("relations", best.drop("probability"))
    return predictions


def demo(
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed of the split and of the fit.")] = 0,
    top: Annotated[int, typer.Option(metavar="N", min=1, help="Number of predicted links to show.")] = 10,
    json: Json = False,
) -> None:
    """Fit a small data set and predict held-out links.

    Holds out a fifth of the cells, predicts them from the rest, and compares AUC and average precision with a baseline.

    \b
    Examples:
      plait demo
      plait demo --seed 1 --top 5
    """
    parts = split_nations(seed)
    if not json:
        hidden = f"{parts.chosen:,} are held out ({parts.links:,} links), with their mirror images"
        out(f"Nations: {parts.candidates:,} cells; {hidden}.\n")
        out(datasets.NATIONS, style="cyan")
    begin = time.perf_counter()
    fitted = fit_nations(parts, seed)
    seconds = time.perf_counter() - begin
    figures, best = measure_nations(fitted, parts), best_cells(fitted, parts, top)
    first = {index: best[index][0] for index in ("head", "relation", "tail")}
    explanation = fitted.explain("relations", first, top=3)
    if json:
        metrics = {name: {k: figure[k] for k in FIGURES} for name, figure in figures.items()}
        sweeps = fitted.history[-1].sweep
        emit({"seed": seed, "sweeps": sweeps, "seconds": seconds, "stop": str(fitted.stop), "metrics": metrics,
              "top": best.to_dicts(), "explanation": explanation.to_dict()})  # fmt: skip
        return
    rank, bound = fitted.rank["r"], significant(fitted.objective)
    out(f"{len(fitted.members)} fits of rank {rank} in {seconds:.1f} s, best ELBO {bound}\n")
    _show(figures, best)
    out()
    show(explanation.describe())


FIGURES = {"roc_auc": "AUC", "average_precision": "average precision"}


def _show(figures: dict[str, Any], best: "pl.DataFrame") -> None:
    rows = [[name, *(f"{value[figure]:.3f}" for figure in FIGURES)] for name, value in figures.items()]
    grid(["held-out cells", *FIGURES.values()], rows)
    out()
    links = [
        [
            f"{row['head']} —{row['relation']}→ {row['tail']}",
            f"{row['probability']:.3f}",
            "yes" if row["value"] else "no",
        ]
        for row in best.iter_rows(named=True)
    ]
    grid(["most probable held-out links", "probability", "link"], links)
