"""How the settings for UCLAF are chosen: on validation cells, hidden from the training part of a split.

As in the experiment itself test cells are held out; then a quarter of the *remaining* ones are hidden too, and
settings are compared by how well these are found. So in each split the cells hidden there are not looked at; splits of
other runs and shares are drawn from the same data and overlap with them. The setting with the best mean AUC over all
three shares of missing cells is used for all of them. (The bound could not choose weights of relations: bounds of
different weights do not compare.)
"""

from itertools import product

import plait
from lab.harness.results import Cell, Figures
from lab.paper.acts import CP, hidden, judged
from lab.paper.experiment import Experiment, Lab
from lab.paper.settings import AVERAGES, Setting
from lab.paper.sources.uclaf import load, source
from lab.paper.uclaf import MISSING, averaged, predicted, suffixed

VALIDATION = 0.25
RUNS = 2
WEIGHTS = ((1.0, 1.0), (1.0, 0.1), (0.3, 0.1))  # of visits and of features
TIES = ("factor", "component", "rank-one", "users")
CUBES = ("3 3 3", "5 5 5", "8 8 5")


def settings() -> list[Setting]:
    """Everything that is tried."""
    tried = [Setting("PLTF", "EM", rank) for rank in ("2", "3", "5", "8")]
    tried += [Setting("PLTF", "VB", rank, adapt) for rank in ("3", "5", "8", "12", "20") for adapt in TIES[:3]]
    tried += [Setting("GCTF", "EM", rank, "factor", *both) for rank, both in product(("2", "5", "10"), WEIGHTS)]
    tried += [Setting("GCTF", "VB", *way, *both) for way in product(("8", "20"), TIES) for both in WEIGHTS]
    tried += [Setting("PLTF Tucker", "EM", rank) for rank in CUBES]
    tried += [Setting("PLTF Tucker", "VB", rank) for rank in CUBES]
    tried += [Setting("GCTF Tucker", "EM", rank, "factor", *both) for rank, both in product(CUBES, WEIGHTS)]
    tried += [Setting("GCTF Tucker", "VB", rank, "users", *both) for rank, both in product(CUBES, WEIGHTS)]
    tried += [
        Setting(model, "VB", rank, likelihood=likelihood)
        for model in ("exposure", "exposure and biases", "biases")
        for rank, likelihood in product(("5", "8", "12"), ("poisson", "bernoulli"))
    ]
    tried += [
        Setting("shared places", "VB", rank, adapt, weight)
        for rank, adapt, weight in product(("8", "20"), ("factor", "users"), (1.0, 0.3))
    ]
    tried += [Setting("GCTF evidence", "VB", "8 3", "factor", *both) for both in WEIGHTS[::2]]
    return tried + [Setting("Bernoulli", "VB", rank, likelihood="bernoulli") for rank in ("8", "12", "20")]


def cells(lab: Lab) -> list[Cell]:
    """Every setting at every share of missing cells, twice; quick: the first setting of every model."""
    tried = settings()
    if lab.quick:
        first = {(setting.model, setting.algorithm): setting for setting in reversed(tried)}
        return [setting.cell() | {"missing": MISSING[0], "run": 0} for setting in first.values()]
    return [
        setting.cell() | {"missing": missing, "run": run}
        for setting in tried
        for missing in MISSING
        for run in range(RUNS)
    ]


def measure(lab: Lab, cell: Cell) -> Figures:
    """Hide the test, hide validation cells of the others, fit the rest, rank the validation cells."""
    data, run = load(lab), int(cell["run"] or 0)
    setting = Setting(**{name: value for name, value in cell.items() if name not in ("missing", "run")})  # type: ignore[arg-type]
    training, _ = hidden(data, float(cell["missing"] or 0), run)
    train, validation = plait.train_test_split(
        training, "acts", fraction=VALIDATION, seed=1000 + run, model=CP, entities=data.entities
    )
    rates, costs = predicted(lab, setting, train, validation, run)
    figures: dict[str, float] = {}
    for average in AVERAGES:
        figures |= suffixed(average, judged(validation, averaged(rates, average)))
    return figures | costs


EXPERIMENT = Experiment("choice", "UCLAF: the choice of settings", cells, measure, source=source)
