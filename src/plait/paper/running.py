"""Running experiments: cells that are not finished yet, one after the other."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from plait.errors import BoundWarning
from plait.paper.experiment import Cell, Experiment, Lab
from plait.paper.results import Results


@dataclass(frozen=True)
class Step:
    """How far an experiment is: the cell that comes next (None at the end), finished cells of all, seconds so far."""

    cell: Cell | None
    finished: int
    cells: int
    seconds: float


def run(experiment: Experiment, lab: Lab, command: str, watch: Callable[[Step], None]) -> Results:
    """Measure every cell that has no result yet."""
    results = Results(lab.file(experiment.name), experiment.name, experiment.source(lab), lab.quick, command)
    cells = experiment.cells(lab)
    todo = [cell for cell in cells if cell not in results]
    begin, before = time.perf_counter(), len(cells) - len(todo)
    for count, cell in enumerate(todo):
        watch(Step(cell, before + count, len(cells), time.perf_counter() - begin))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BoundWarning)  # poor settings are among what is measured
            results.add(cell, experiment.measure(lab, cell))
    watch(Step(None, len(cells), len(cells), time.perf_counter() - begin))
    return results
