"""Plait on a bench case: the pieces of a fit, callable one by one."""

import polars as pl

import plait
from lab.bench.data import Case
from plait.data.bound import Data
from plait.fitting.options import Options
from plait.fitting.prepare import prepare
from plait.inference.steps import sweep_once


def relations(case: Case) -> dict[str, plait.Relation]:
    """What a user would hand over; where everything is observed, that includes entities without any link."""
    universe = "missing" if case.observed == "listed" else "zero"
    found = {}
    for name, cells in case.relations.items():
        missing = pl.DataFrame(dict(zip(cells.axes, case.hidden[name].T))) if name in case.hidden else None
        found[name] = plait.Relation(
            cells.table(),
            observed="listed" if case.observed == "listed" else "all",
            unseen=universe,
            likelihood=case.likelihood,
            missing=missing,
        )
    return found


def bind(case: Case) -> Data:
    """The case as Plait sees it."""
    model = plait.Model(case.model)
    return model.bind(relations(case), entities={axis: range(case.sizes[axis]) for axis in model.axes})


class Engine:
    """A VB fit of a case, taken apart. The prior is fixed, as in `lab.bench.plain`."""

    def __init__(
        self, case: Case, threads: int | None = None, dtype: str = "float64", data: Data | None = None
    ) -> None:
        arguments = Options(rank=case.rank, seed=0, threads=threads, dtype=dtype, warmup=0)
        self.task = prepare(case.model, data or bind(case), arguments)
        self.problem = self.task.problem
        self.problem.recompute_elbo_terms()

    def counts(self) -> None:
        """One pass: the counts of all factors and the relations' part of the bound."""
        self.problem.expected_counts()

    def counts_only(self) -> None:
        """One pass without the bound."""
        self.problem.expected_counts(bound=False)

    def sweep(self) -> float:
        """All factors once; returns the bound of the state it began with."""
        counted = self.problem.expected_counts()
        bound = self.problem.objective(counted)
        sweep_once(self.problem, counted)
        return bound
