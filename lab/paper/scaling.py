"""Scaling: how long does it take to fit millions of known cells, and how well are the others predicted?

The paper's two cubes: 500³ with 1.25 million known cells, 1000³ with 12.5 million. A fit is stopped after a few sweeps,
looked at, and goes on from the folder where it was saved, exactly as if it had not been stopped.
"""

import time
from functools import lru_cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import plait
from lab.harness.results import Cell, Figures
from lab.paper.experiment import Experiment, Lab
from lab.paper.settings import engine
from lab.paper.sources.cube import RANK, Cube, draw
from plait.evaluation.metrics import rmse

MODEL = plait.Model("X[i, j, k] = A[i, r] B[j, r] C[k, r]")
KNOWN = {500: 1_250_000, 1000: 12_500_000}
HELD_OUT = 100_000
RUNS = 10
STOPS = (1, 5, 10, 20, 50, 100, 300)  # sweeps; the last is the long run
NEAR = 1e-4  # of the bound of the long run


def cells(lab: Lab) -> list[Cell]:
    """Every run has data of its own and a start of its own."""
    if lab.quick:
        return [{"side": 40, "known": 20_000, "held_out": 5_000, "run": 0}]
    return [
        {"side": side, "known": known, "held_out": HELD_OUT, "run": run}
        for side, known in KNOWN.items()
        for run in range(RUNS)
    ]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Fit the known cells in stages, and predict the others after each."""
    about = dict[str, Any](cell)
    compiled()
    cube = draw(about["side"], about["known"], about["held_out"], seed=about["run"])
    begin = time.perf_counter()
    # Cells that are not listed are missing, not 0.
    data = MODEL.bind(
        {"X": plait.Relation(cube.known, observed="listed", likelihood="poisson")}, entities=entities(about["side"])
    )
    figures: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        for sweeps in STOPS:
            fit = plait.fit(
                MODEL,
                data,
                rank=RANK,
                max_iter=sweeps,
                tol=0.0,
                seed=about["run"],
                checkpoint=folder,
                **engine("vb"),
                init=folder if figures else None,
                progress=False,
            )
            if not figures:  # what was not spent on sweeps went into reading and sorting the cells
                read = time.perf_counter() - begin - sum(record.seconds for record in fit.history)
            figures[f"rmse_{sweeps}"] = error(fit, cube)
    return figures | summary(fit, cube) | {"seconds_read": read}


def error(fit: plait.Fit, cube: Cube) -> float:
    """Root mean square error on the held-out cells, which have noise themselves."""
    return rmse(cube.held_out["value"].to_numpy(), fit.predict("X", cube.held_out)["mean"].to_numpy())


def summary(fit: plait.Fit, cube: Cube) -> dict[str, float]:
    """What the long run came to, and when it was near: `fit.history` has the bound and the seconds of every sweep."""
    bounds = np.array([record.objective for record in fit.history if not record.warm_up])
    seconds = np.cumsum([record.seconds for record in fit.history])[-len(bounds) :]
    near = int(np.argmax(bounds >= fit.objective - NEAR * abs(fit.objective)))
    return {
        "rmse": error(fit, cube),
        "rmse_truth": rmse(cube.held_out["value"].to_numpy(), cube.truth),
        "seconds": float(seconds[-1]),
        "seconds_near": float(seconds[near]),
        "sweeps_near": near,
        "sweeps": fit.history[-1].sweep,
        "bound": fit.objective,
    }


def entities(side: int) -> dict[str, range]:
    """All entities of a cube, should one have no known cell."""
    return dict.fromkeys(("i", "j", "k"), range(side))


@lru_cache(maxsize=1)
def compiled() -> None:
    """Fit next to nothing, so that kernels are compiled before the clock starts."""
    few = draw(20, 1000, 10, seed=0).known
    plait.fit(
        MODEL,
        {"X": plait.Relation(few, observed="listed", likelihood="poisson")},
        rank=RANK,
        seed=0,
        max_iter=40,
        progress=False,
        **engine("vb"),
    )


EXPERIMENT = Experiment("scaling", "Scaling: millions of known cells", cells, measure)
