"""Plait on a bench case: the pieces of a fit, callable one by one."""

import plait
from bench.data import Case
from plait.data.bind import Data
from plait.infer.run import sweep_once
from plait.prepare import Arguments, prepare


def bind(case: Case) -> Data:
    """The case as Plait sees it; where everything is observed, that includes entities without any link."""
    model = plait.Model(case.model)
    universe = "model" if case.observed == "all" else "relation"
    relations = {
        name: plait.Relation(cells.table(), observed=case.observed, universe=universe)
        for name, cells in case.relations.items()
    }
    return model.bind(relations, labels={axis: range(case.sizes[axis]) for axis in model.axes})


class Engine:
    """A VB fit of a case, taken apart. The prior is fixed, as in `bench.plain`."""

    def __init__(self, case: Case, threads: int | None = None) -> None:
        self.problem = prepare(case.model, bind(case), Arguments(rank=case.rank, seed=0, threads=threads)).problem
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
        sweep_once(self.problem, counted, "one-pass")
        return bound
