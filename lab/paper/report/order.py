"""Model order: AUC, average precision and the bound as the rank grows; which rank is chosen, and what it predicts."""

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from lab.harness import plots
from lab.harness.table import auc_and_ap, chosen, percent, spread, text_table
from lab.paper.acts import BASELINES
from lab.paper.order import LARGE, LIGHT, MISSING, SMALL, TIES
from plait.rendering.document import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUPLINGS = {"PLTF": "PLTF, the tensor alone", "GCTF": "GCTF, coupled"}
LOOKS: dict[str, dict[str, Any]] = {
    "EM": plots.LOOKS["PLTF-EM"],
    "VB, factor": {"color": "#56B4E9", "marker": "v", "linestyle": "--"},
    "VB, component": {"color": "#009E73", "marker": "s", "linestyle": "-."},
    "VB, rank-one": plots.LOOKS["PLTF-VB"],
}
LEVELS = {"popularity + 1": "--", "visited × activity": ":"}  # the baselines that are hardest to beat


def tables(records: pl.DataFrame) -> list[Table]:
    """A small R against a large one, R chosen, and seconds."""
    rows = _rows(records)
    ends = sorted(set(chosen(records, part="long")["rank"])) if "part" in records.columns else []
    small, large = (ends[0], ends[-1]) if len(ends) > 1 else (SMALL, LARGE)
    columns = [(missing, rank) for missing in MISSING for rank in (small, large)]
    headings = ["", *(f"{percent(missing)}, R = {rank}" for missing, rank in columns)]
    body = [
        [name, *(auc_and_ap(chosen(own, missing=m, rank=rank)) for m, rank in columns)] for name, own in rows.items()
    ]
    body += [
        [name, *(auc_and_ap(chosen(records, part="baseline", method=name, missing=m)) for m, _ in columns)]
        for name in BASELINES
    ]
    seconds = [
        [name, *(spread(own, "seconds", 2, missing=m, rank=r) for m, r in columns)] for name, own in rows.items()
    ]
    return [
        text_table(f"R = {small} against R = {large}", headings, body, _about_ends(records)),
        _choices(records),
        text_table("Seconds a fit", headings, seconds),
    ]


def _about_ends(records: pl.DataFrame) -> str:
    most = {part: _values(records, part, "sweeps", adapt="none")[-1:] for part in ("curve", "long")}
    sweeps = f" ({most['long'][0]} at most, not {most['curve'][0]})" if all(most.values()) else ""
    return (
        "AUC, mean ± sd over the runs; in brackets the average precision. EM in full: with many more sweeps"
        f"{sweeps}. VB learns one prior for each factor, each component, or entity × component (rank-one). The paper "
        "has no figures here, only a plot of GCTF: EM falls from R = 2 to R = 20, VB stays."
    )


def _about_choices(records: pl.DataFrame) -> str:
    ranks, prune, drop = (
        ", ".join(map(str, _values(records, part, "rank"))) or "–" for part in ("curve", "prune", "drop")
    )
    return (
        f"Mean R, and the AUC with the average precision in brackets. Bound: of the ranks {ranks} that with the best "
        f"bound, run by run; no hidden cell is looked at. Prune: one fit from {prune} components with `prune=True`. "
        f"Drop: from {drop}, leaving out one by one (see *A known rank, found again*). Best: the rank with the best "
        "AUC on the test cells, which a user does not have."
    )


def _values(records: pl.DataFrame, part: str, name: str, **cell: object) -> list[int]:
    """What was measured in a part of the experiment, in order."""
    found = chosen(records, part=part, **cell)
    return sorted(found[name].drop_nulls().unique()) if name in found.columns else []


def _rows(records: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Fits at the small and the large rank."""
    curve, long, light = (chosen(records, part=part) for part in ("curve", "long", "light"))
    found = {}
    for coupling in COUPLINGS:
        found[f"{coupling}-EM"] = chosen(curve, method=f"{coupling}-EM")
        found[f"{coupling}-EM, in full"] = chosen(long, method=f"{coupling}-EM")
        found |= {f"{coupling}-VB, {tie}": chosen(curve, method=f"{coupling}-VB", adapt=tie) for tie in TIES}
    words = f"sides weigh {LIGHT:g}"
    found[f"GCTF-EM, {words}"] = chosen(light, method="GCTF-EM")
    return found | {f"GCTF-VB, {tie}, {words}": chosen(light, method="GCTF-VB", adapt=tie) for tie in TIES}


def _choices(records: pl.DataFrame) -> Table:
    rows = []
    for coupling in COUPLINGS:
        for tie in TIES:
            own = chosen(records, method=f"{coupling}-VB", adapt=tie)
            curve = chosen(own, part="curve")
            ways = {
                "bound": _best(curve, "bound"),
                "prune": chosen(own, part="prune"),
                "drop": chosen(own, part="drop"),
            }
            ways["best"] = _best(curve, "auc")
            rows += [
                [f"{coupling}-VB", tie, way, *(_choice(chosen(one, missing=m)) for m in MISSING)]
                for way, one in ways.items()
                if len(one)
            ]
    headings = ["model", "priors per", "R by", *(f"{percent(missing)} missing" for missing in MISSING)]
    return text_table("R chosen", headings, rows, _about_choices(records), left=3)


def _best(curve: pl.DataFrame, figure: str) -> pl.DataFrame:
    """Of every run that has all ranks, the fit with the largest figure."""
    if not len(curve):
        return curve
    runs = curve.group_by("missing", "run").agg(ranks=pl.col("rank").n_unique())
    whole = runs.filter(pl.col("ranks") == pl.col("ranks").max())
    return (
        curve.join(whole, on=["missing", "run"], how="semi")
        .sort(figure, descending=True)
        .unique(["missing", "run"], keep="first", maintain_order=True)
    )


def _choice(records: pl.DataFrame) -> str:
    """``4.2: 0.968 ± 0.003 (0.420)``."""
    if not len(records):
        return "–"
    return f"{np.mean(records['found'].to_numpy()):.1f}: {auc_and_ap(records)}"


def figures(records: pl.DataFrame) -> "dict[str, Figure]":
    """AUC, average precision and the bound against the rank."""
    curve, bare = chosen(records, part="curve"), chosen(records, part="baseline")
    return {
        "order-auc": _curves(curve, "auc", "AUC", bare),
        "order-ap": _curves(curve, "ap", "average precision", bare),
        "order-bound": _curves(_below_best(curve), "below", "bound, below the best", bare.clear()),
    }


def _below_best(curve: pl.DataFrame) -> pl.DataFrame:
    """By how much the bound of a fit is below the best of its run: bounds of different data do not compare."""
    if not len(curve):
        return curve
    own = ["method", "adapt", "missing", "run"]
    vb = curve.filter(pl.col("adapt") != "none")
    return vb.with_columns(below=pl.col("bound") - pl.col("bound").max().over(own))


def _curves(curve: pl.DataFrame, figure: str, words: str, bare: pl.DataFrame) -> "Figure":
    """Couplings down, shares of missing cells across, a line for each method."""
    picture, axes = plots.panels(len(MISSING), len(COUPLINGS), sharex=True)
    with plots.styled():
        for down, (coupling, title) in enumerate(COUPLINGS.items()):
            for across, missing in enumerate(MISSING):
                panel, here = axes[down, across], chosen(curve, missing=missing)
                plots.points(panel, chosen(here, method=f"{coupling}-EM"), "rank", figure, "EM", **LOOKS["EM"])
                for tie in TIES:
                    name = f"VB, {tie}"
                    own = chosen(here, method=f"{coupling}-VB", adapt=tie)
                    plots.points(panel, own, "rank", figure, name, **LOOKS[name])
                for name, dashes in LEVELS.items():
                    level = chosen(bare, missing=missing, method=name)
                    if len(level):
                        panel.axhline(level[figure].mean(), color="#666666", linestyle=dashes, linewidth=1, label=name)
                panel.set_title(f"{title}, {percent(missing)}" if across == 0 else f"{percent(missing)} missing")
            axes[down, 0].set_ylabel(words)
        for panel in axes[-1]:
            panel.set_xlabel("rank R")
        plots.legend(picture)
    return picture
