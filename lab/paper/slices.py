"""Whole slices missing, which the paper names as the hard case: users, or places, of whom no act is known at all.

Nothing in the acts tells one such user from another; visits do. So here coupling must pay.
"""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from lab.harness.results import Cell, Figures
from lab.paper.acts import INDICES, baseline, hidden, judged, popular
from lab.paper.experiment import Experiment, Lab
from lab.paper.settings import settled
from lab.paper.sources.uclaf import Uclaf, load, source
from lab.paper.uclaf import averaged, predicted

METHODS = (
    ("popularity", "none"), ("visited × activity", "none"), ("PLTF", "EM"), ("PLTF", "VB"), ("GCTF", "EM"),
    ("GCTF", "VB"), ("shared places", "VB"), ("exposure", "VB"),
)  # fmt: skip
FRACTIONS = (0.1, 0.3)


def cells(lab: Lab) -> list[Cell]:
    """Users or places, a tenth or three tenths of them, every method, ten times."""
    return [
        {"model": model, "algorithm": algorithm, "slices": index, "missing": fraction, "run": run}
        for run in range(1 if lab.quick else 10)
        for index in ("user", "place")
        for fraction in (FRACTIONS[1:] if lab.quick else FRACTIONS)
        for model, algorithm in METHODS
    ]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Hide all acts of some entities, fit with the settings chosen for single cells, rank what was hidden."""
    data, model, run = load(lab), str(cell["model"]), int(cell["run"] or 0)
    index = str(cell["slices"])
    train, test = hidden(data, float(cell["missing"] or 0), run, by=("index", index))
    if cell["algorithm"] == "none":
        return judged(test, scores(data, model, test, index))
    setting = settled(lab, model, str(cell["algorithm"]))
    rates, costs = predicted(lab, setting, train, test, run)
    return judged(test, averaged(rates, setting.average)) | costs | setting.figures()


def scores(data: Uclaf, name: str, test: pl.DataFrame, index: str) -> NDArray[np.float64]:
    """Baselines: the hidden entities have no known act, so popularity is that of the other two indices."""
    if name != "popularity":
        return baseline(data, name, test)
    known = data.links.join(test, on=INDICES, how="anti")
    return popular(known, test, [other for other in INDICES if other != index])


EXPERIMENT = Experiment(
    "slices", "UCLAF: users and places without any act", cells, measure, source=source, needs=("choice",)
)
