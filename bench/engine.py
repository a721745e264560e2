"""Plait on a bench case: the pieces of a fit, callable one by one."""

import plait
from bench.data import Case
from plait import settings
from plait.assemble import make_problem
from plait.data.bind import Data
from plait.data.exposure import bind_exposures
from plait.execute import Threads
from plait.fitting import DEFAULT_PRIOR
from plait.infer.run import sweep_once


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
        data = bind(case)
        layouts = settings.layouts(data.model, data, case.rank)
        priors = settings.priors(data.model, DEFAULT_PRIOR, DEFAULT_PRIOR, "vb", layouts, data.model.factors)
        exposures = bind_exposures(data, {})
        self.problem = make_problem(data, layouts, "vb", priors, exposures, {}, None, 0, Threads(threads))
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
