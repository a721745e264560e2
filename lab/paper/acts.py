"""UCLAF as every experiment uses it: the paper's two models, hidden cells, baselines and metrics."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

import plait
from lab.paper.sources.uclaf import Uclaf
from plait.evaluation.metrics import average_precision, roc_auc

CP = "acts[user, place, activity] = A[user, r] B[place, r] C[activity, r]"
COUPLED_CP = f"""
    {CP}
    visits[user, visited]   = A[user, r] D[visited, r]
    features[place, feature] = B[place, r] E[feature, r]
"""
INDICES = ("user", "place", "activity")
BASELINES = ("popularity", "popularity + 1", "visited", "visited × activity")


def hidden(data: Uclaf, fraction: float, run: int, by: Any = "cells") -> tuple[Any, pl.DataFrame]:
    """The acts with some of their cells missing, and those cells, links and zeros: the same ones for every model."""
    # Only acts are hidden: visits of a user stay known, as in the paper.
    acts = {"acts": plait.Relation(data.links, unseen="zero", likelihood="poisson")}
    train, test = plait.train_test_split(
        acts, "acts", fraction=fraction, by=by, seed=run, model=CP, entities=data.entities
    )
    return train, test


def baseline(data: Uclaf, name: str, test: pl.DataFrame) -> NDArray[np.float64]:
    """Scores that need no model.

    popularity: the product of the known links of user, place and activity. + 1: of those counts, each one larger.
    visited: 1 where the user visited the place, else 0; or that times the known links of the activity.
    """
    known = data.links.join(test, on=INDICES, how="anti")
    if name.startswith("popularity"):
        return popular(known, test, INDICES, more=1 if name == "popularity + 1" else 0)
    visited = test.join(data.visits, on=["user", "place"], how="left", maintain_order="left")["value_right"]
    been = visited.is_not_null().to_numpy().astype(float)
    return been if name == "visited" else been * popular(known, test, ("activity",))


def popular(known: pl.DataFrame, test: pl.DataFrame, indices: Sequence[str], more: int = 0) -> NDArray[np.float64]:
    """The product over some indices of how many known links the entity of a cell has. One more for each keeps the
    others' say where one has none, and is the harder baseline.
    """
    score = np.ones(len(test))
    for index in indices:
        counts = test.join(known.group_by(index).len(), on=index, how="left", maintain_order="left")["len"]
        score *= counts.fill_null(0).to_numpy() + more
    return score


def judged(test: pl.DataFrame, scores: NDArray[np.float64]) -> dict[str, float]:
    """How well scores rank the links of a test above its zeros."""
    link = test["value"].to_numpy() > 0
    return {"auc": roc_auc(link, scores), "ap": average_precision(link, scores)}
