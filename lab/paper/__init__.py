"""Every experiment of Ermis & Cemgil (2013), rerun with Plait: `python -m lab.paper`, or `make paper`.

Each experiment is a short file of this folder: which cells it has (a model, a method, a share of missing cells, a run),
and how one is measured with `plait.train_test_split`, `plait.fit` and `plait.evaluate`. `sources/` has the data,
`report/` the tables and plots, `published.py` the figures of the paper.
"""

from importlib import import_module

from lab.paper.experiment import Experiment
from plait.errors import ParameterError, suggestion

# In the order of the report; an experiment comes after those that it needs.
NAMES = ("choice", "uclaf", "slices", "lastfm", "digg", "replies", "scaling", "growth", "order", "rank", "hyper")


def experiment(name: str) -> Experiment:
    """The experiment of that name."""
    if name not in NAMES:
        raise ParameterError(
            f"there is no experiment {name!r}.\n{suggestion(name, NAMES)}There are {', '.join(NAMES)}."
        )  # fmt: skip
    found = import_module(f"lab.paper.{name}").EXPERIMENT
    assert isinstance(found, Experiment)
    return found


def with_needs(names: tuple[str, ...]) -> list[Experiment]:
    """The experiments of these names and those that they need, in order; all, if no name is given."""
    wanted = {name: experiment(name) for name in names or NAMES}
    for one in list(wanted.values()):
        wanted |= {name: experiment(name) for name in one.needs}
    return [wanted[name] for name in NAMES if name in wanted]
