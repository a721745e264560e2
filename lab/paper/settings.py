"""Settings of fits; how a model is fitted to UCLAF, and which way did best on cells hidden from the training part."""

from dataclasses import dataclass
from typing import Any

import polars as pl

from lab.paper.experiment import Lab, Value
from plait.errors import ParameterError

AVERAGES = ("one", "rates", "logs")  # of the restarts: the first fit alone, the mean of the rates, of their logarithms
COLUMNS = ("model", "algorithm", "rank", "adapt", "visits", "features", "likelihood")

WARMUP = 50  # sweeps of EM before VB; the paper has none


def engine(method: str, *, starts_at_random: bool = True) -> dict[str, Any]:
    """Settings of Plait that the paper does not have, by name: a new default must not change a measurement.

    Fits that start elsewhere, or prune, have no warm-up. Relations name their likelihood: Poisson, as in the paper.
    """
    warmup = {"warmup": WARMUP if method == "vb" else 0} if starts_at_random else {}
    return {"adapt_prior": "auto", "restarts": 1, "accelerate": False} | warmup


@dataclass(frozen=True)
class Setting:
    """Everything about a fit that one may choose.

    model: a name in lab.paper.uclaf.MODELS. algorithm: "EM" or "VB". rank: "8", or "8 8 5" for the three latent
    indices of Tucker. adapt: a word of plait.fit, or "users" (see lab.paper.uclaf.ties). visits, features: weights of
    these relations. average: how restarts become one prediction, one of AVERAGES.
    """

    model: str
    algorithm: str
    rank: str
    adapt: str = "factor"
    visits: float = 1.0
    features: float = 1.0
    likelihood: str = "poisson"
    average: str = "logs"

    def cell(self) -> dict[str, Value]:
        """What names the setting in a results file; every average is measured, so it is not part of it."""
        return {name: getattr(self, name) for name in COLUMNS}

    def figures(self) -> dict[str, Value]:
        """What a cell that names only model and algorithm adds, so that its results say what was fitted."""
        return {name: getattr(self, name) for name in (*COLUMNS[2:], "average")}


def ranking(records: pl.DataFrame, model: str, algorithm: str) -> pl.DataFrame:
    """The settings of a model with their mean AUC and AP over all splits, best AUC first.

    Only settings measured on as many splits as any other compete: in a run that was broken off, one without its hardest
    splits would look best.
    """
    found = records.filter(pl.col("model") == model, pl.col("algorithm") == algorithm) if len(records) else records
    if not len(found):
        return pl.DataFrame()
    means = found.group_by(COLUMNS, maintain_order=True).agg(
        pl.len().alias("splits"),
        *(pl.col(f"{figure}_{average}").mean() for figure in ("auc", "ap") for average in AVERAGES),
    )
    means = means.filter(pl.col("splits") == pl.col("splits").max())
    each = [
        means.select(*COLUMNS, pl.lit(average).alias("average"), auc=f"auc_{average}", ap=f"ap_{average}")
        for average in AVERAGES
    ]
    return pl.concat(each).sort("auc", descending=True, maintain_order=True)


def settled(lab: Lab, model: str, algorithm: str) -> Setting:
    """The setting with the best mean AUC on validation cells, over all shares of missing cells: one for all columns."""
    best = ranking(lab.finished("choice"), model, algorithm)
    if not len(best):
        raise ParameterError(
            f"no setting has been chosen for {model} with {algorithm}.\n"
            f"Run the choice first: python -m lab.paper choice."
        )
    return Setting(**best.select(*COLUMNS, "average").row(0, named=True))
