"""Growth: the time of one sweep against the number of known cells, from ten thousand to a hundred million."""

from functools import lru_cache
from typing import Any, Literal

import numpy as np

import plait
from lab.harness.results import Cell, Figures
from lab.paper.experiment import Experiment, Lab
from lab.paper.scaling import MODEL, entities
from lab.paper.settings import engine
from lab.paper.sources.cube import RANK, draw
from plait.machine import memory

KNOWN = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
SHARE = 0.0125  # of the cells of the cube are known, as in the larger cube of the paper
BYTES = 150  # of memory that a fit takes at its peak for every known cell, with something to spare
MAX_MEMORY_SHARE = 2 / 3  # of the memory may be taken: other programs have the rest
RUNS = 3  # of a fit that takes less than a second
SWEEPS = 15
ADAPTED = 11  # the first sweep that adapts priors as well: the later ones are all alike


def cells(lab: Lab) -> list[Cell]:
    """Cubes that this machine has the memory for."""
    known = (1_000, 10_000) if lab.quick else [known for known in KNOWN if known * BYTES < MAX_MEMORY_SHARE * memory()]
    return [
        {"known": n, "method": method, "run": run}
        for n in known
        for method in ("PLTF-EM", "PLTF-VB")
        for run in range(1 if lab.quick or n > 1_000_000 else RUNS)
    ]


def measure(lab: Lab, cell: Cell) -> Figures:
    """A few sweeps; the median of the last ones is the time of a sweep."""
    about = dict[str, Any](cell)
    method: Literal["vb", "em"] = "vb" if about["method"].endswith("VB") else "em"
    fit = plait.fit(
        MODEL,
        bound(about["known"]),
        rank=RANK,
        method=method,
        max_iter=SWEEPS,
        tol=0.0,
        **engine(method) | {"warmup": 0},  # a warm-up has sweeps of another kind
        seed=about["run"],
        progress=False,
    )
    seconds = [record.seconds for record in fit.history]
    return {"seconds_sweep": float(np.median(seconds[ADAPTED:])), "seconds": sum(seconds), "sweeps": SWEEPS}


@lru_cache(maxsize=1)
def bound(known: int) -> Any:
    """A cube whose cells are read once for all its fits."""
    side = round((known / SHARE) ** (1 / 3))
    cube = draw(side, known, 1, seed=0)
    return MODEL.bind(
        {"X": plait.Relation(cube.known, observed="listed", likelihood="poisson")}, entities=entities(side)
    )


EXPERIMENT = Experiment("growth", "Growth: time of a sweep against known cells", cells, measure)
