"""The choice of settings: what was tried, and what was taken."""

from typing import TYPE_CHECKING, Any

import polars as pl

from lab.harness import plots
from lab.harness.table import chosen, percent, spread, text_table
from lab.paper.choice import TIES, VALIDATION, WEIGHTS
from lab.paper.settings import ranking
from lab.paper.uclaf import MISSING, OWN, PAPER
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AVERAGE = {"one": "none: one fit", "rates": "of the rates", "logs": "of log rates"}
SCALES = {"rank": ["rank"], "weights": ["visits", "features"]}  # what may be at an edge


def tables(records: pl.DataFrame) -> list[Table]:
    """The settings taken, and how much some of them matter."""
    return [_taken(records), _ranks(records), _weights(records)]


def _taken(records: pl.DataFrame) -> Table:
    ways = [(model, algorithm) for model in PAPER for algorithm in ("EM", "VB")] + [(model, "VB") for model in OWN]
    note = (
        f"Chosen by the mean AUC over {_splits(records)}, on {percent(VALIDATION)} of the training cells, hidden from "
        "the fit: in each split the cells hidden there are not looked at; splits of other runs and shares are drawn "
        "from the same data and overlap with them. adapt: as in `plait.fit`; “users”: rank-one means for A and D, one "
        f"prior for each other factor.{_edges(records, ways)}"
    )
    headings = ["model", "rank", "adapt", "weight of visits", "of features", "likelihood", "average over restarts",
                "AUC", "AP"]  # fmt: skip
    return text_table("Settings taken", headings, [_best(records, *way) for way in ways], note)


def _splits(records: pl.DataFrame) -> str:
    """``2 splits each at 60 %, 80 %, 90 % missing``: those that were measured."""
    if not len(records):
        return "no split"
    runs, shares = records["run"].n_unique(), sorted(records["missing"].unique())
    return f"{runs} split{'s each' if runs > 1 else ''} at {', '.join(map(percent, shares))} missing"


def _edges(records: pl.DataFrame, ways: list[tuple[str, str]]) -> str:
    """A sentence on the models whose best rank or weights are the first or last that were tried."""
    found = []
    for model, algorithm in ways:
        tried = ranking(records, model, algorithm)
        words = [word for word, columns in SCALES.items() if len(tried) and _at_edge(tried.select(columns).rows())]
        found += [f"{model}, {algorithm} ({', '.join(words)})"] if words else []
    return f" At an edge of what was tried, so that others may be better: {'; '.join(found)}." if found else ""


def _at_edge(tried: list[tuple[Any, ...]]) -> bool:
    """Whether the first of some values, the best, is the smallest or the largest of several."""
    order = sorted(set(tried), key=_size)
    return len(order) > 1 and tried[0] in (order[0], order[-1])


def _size(values: tuple[Any, ...]) -> list[float]:
    """Weights are numbers, and a rank is a text of them: "8 8 5"."""
    return [float(number) for value in values for number in str(value).split()]


def _best(records: pl.DataFrame, model: str, algorithm: str) -> list[str]:
    best = ranking(records, model, algorithm)
    if not len(best):
        return [f"{model}, {algorithm}", *["–"] * 8]
    one = best.row(0, named=True)
    coupled, features = "GCTF" in model or model == "shared places", "GCTF" in model
    return [
        f"{model}, {algorithm}",
        one["rank"].replace(" ", " × "),
        "–" if algorithm == "EM" else one["adapt"],
        f"{one['visits']:g}" if coupled else "–",
        f"{one['features']:g}" if features else "–",
        one["likelihood"],
        AVERAGE[one["average"]],
        f"{one['auc']:.4f}",
        f"{one['ap']:.3f}",
    ]


def _ranks(records: pl.DataFrame) -> Table:
    own = chosen(records, model="PLTF", algorithm="VB")
    ranks = sorted(own["rank"].unique().to_list(), key=int) if len(own) else []
    ways = [(tie, figure) for figure in ("auc_one", "auc_logs") for tie in TIES[:3]]
    rows = [[f"R = {rank}", *(_mean(chosen(own, rank=rank, adapt=tie), figure) for tie, figure in ways)]
            for rank in ranks]  # fmt: skip
    words = {"auc_one": "one fit", "auc_logs": "restarts averaged"}
    headings = ["", *(f"{tie}, {words[figure]}" for tie, figure in ways)]
    note = f"The mean over {_splits(own)}, by which settings are chosen."
    return text_table("PLTF-VB: AUC by rank and by what shares a prior", headings, rows, note)


def _mean(records: pl.DataFrame, figure: str) -> str:
    """The mean alone: an sd over several shares would show how the shares differ."""
    return spread(records, figure).split(" ± ")[0]


def _weights(records: pl.DataFrame) -> Table:
    rank = _winner(records)["rank"]
    own = chosen(records, model="GCTF", algorithm="VB", rank=rank)
    rows = [
        [tie, f"{visits:g}, {features:g}",
         *(spread(own, "auc_logs", adapt=tie, visits=visits, features=features, missing=share) for share in MISSING)]
        for tie in TIES for visits, features in WEIGHTS
    ]  # fmt: skip
    headings = ["adapt", "weights of visits, features", *(f"{percent(share)} missing" for share in MISSING)]
    note = f"AUC on validation cells, restarts averaged, at the rank that was taken, R = {rank}: mean ± sd over splits."
    return text_table("GCTF-VB: AUC by what shares a prior and by weights", headings, rows, note, left=2)


def _winner(records: pl.DataFrame) -> dict[str, Any]:
    """The setting taken for GCTF-VB; nothing measured, the first that is tried."""
    best = ranking(records, "GCTF", "VB")
    visits, features = WEIGHTS[0]
    return best.row(0, named=True) if len(best) else {"rank": "", "visits": visits, "features": features}


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """AUC against the rank, for every way to share priors: PLTF-VB above, GCTF-VB below, with the weights taken."""
    taken = _winner(records)
    weights = {name: taken[name] for name in ("visits", "features")}
    sides: dict[str, dict[str, Any]] = {"PLTF": {}, "GCTF": weights}
    figure, axes = plots.panels(len(MISSING), 2, sharex=True, sharey="row")
    with plots.styled():
        for down, (model, weighed) in enumerate(sides.items()):
            for across, share in enumerate(MISSING):
                panel = axes[down, across]
                for position, tie in enumerate(TIES):
                    own = chosen(records, model=model, algorithm="VB", missing=share, adapt=tie, **weighed)
                    own = own.with_columns(pl.col("rank").cast(pl.Float64)) if len(own) else own
                    plots.points(panel, own, "rank", "auc_logs", tie, position)
                panel.set_title(f"{model}-VB, {percent(share)} missing")
                panel.set_xlabel("rank" if down else "")
            axes[down, 0].set_ylabel("AUC, validation cells")
        axes[1, 0].set_ylabel(f"AUC, validation cells\n(weights {weights['visits']:g}, {weights['features']:g})")
        plots.legend(figure)
    return {"choice-adaptation": figure}
