"""Plait on a bench case: the pieces of a fit, callable one by one."""

import polars as pl

import plait
from lab.bench.data import Case
from plait.data.bound import Data
from plait.fitting.begin import prepare
from plait.fitting.options import Options
from plait.infer.steps import sweep_once


def relations(case: Case) -> dict[str, plait.Relation]:
    """What a user would hand over; where everything is observed, that includes entities without any link."""
    universe = "relation" if case.observed == "listed" else "model"
    found = {}
    for name, cells in case.relations.items():
        missing = pl.DataFrame(dict(zip(cells.axes, case.hidden[name].T))) if name in case.hidden else None
        found[name] = plait.Relation(
            cells.table(),
            observed="listed" if case.observed == "listed" else "all",
            universe=universe,
            likelihood=case.likelihood,
            missing=missing,
        )
    return found


def bind(case: Case) -> Data:
    """The case as Plait sees it."""
    model = plait.Model(case.model)
    return model.bind(relations(case), labels={axis: range(case.sizes[axis]) for axis in model.axes})


class Engine:
    """A VB fit of a case, taken apart. The prior is fixed, as in `lab.bench.plain`."""

    def __init__(
        self, case: Case, threads: int | None = None, dtype: str = "float64", data: Data | None = None
    ) -> None:
        arguments = Options(rank=case.rank, seed=0, threads=threads, dtype=dtype, start="random")
        self.task = prepare(case.model, data or bind(case), arguments)
        self.problem = self.task.problem
        self.problem.measure()

    def counts(self) -> None:
        """One pass: the counts of all factors and the relations' part of the bound."""
        self.problem.count()

    def counts_only(self) -> None:
        """One pass without the bound."""
        self.problem.count(bound=False)

    def sweep(self) -> float:
        """All factors once; returns the bound of the state it began with."""
        counted = self.problem.count()
        bound = self.problem.bound(counted)
        sweep_once(self.problem, counted)
        return bound
