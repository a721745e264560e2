"""Bayesian coupled tensor factorisation and link prediction.

Write a model as equations, pass one table per relation, and query the fit:
`fit`, `Fit.top`, `Fit.predict`, `Fit.explain`, `evaluate`.

Examples
--------
All examples in the documentation of Plait's objects start from this one.

>>> import numpy as np
>>> import polars as pl
>>> import plait
>>> visits = pl.DataFrame(
...     [("ann", "bar", 9), ("ann", "cafe", 7), ("ann", "club", 8), ("bob", "bar", 6),
...      ("bob", "cafe", 9), ("cem", "cafe", 5), ("cem", "club", 8), ("dee", "gym", 9),
...      ("dee", "pool", 8), ("eva", "gym", 7), ("eva", "pool", 9)],
...     schema=["user", "place", "value"], orient="row",
... )
>>> model = plait.Model("visits[user, place] = U[user, r] P[place, r]")
>>> fit = plait.fit(model, {"visits": visits}, rank=2, seed=0)

Some use a test and options for a short fit:

>>> train, test = plait.train_test_split({"visits": visits}, "visits", fraction=0.3, seed=0)
>>> quick = {"rank": 2, "max_iter": 5, "warmup": 0, "seed": 0}
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plait import errors as errors
from plait import forked as forked  # it has to see every fork
from plait.errors import PlaitError, PlaitWarning
from plait.model import Model
from plait.version import __version__ as __version__

if TYPE_CHECKING:
    from plait import datasets, evidence, executors, likelihood
    from plait.analysis.explain.explanation import Explanation
    from plait.data import Exposure, Relation
    from plait.evaluation import Comparison, Metrics, Split, compare, evaluate, train_test_split
    from plait.evaluation.rolling import evaluate_forecast
    from plait.files import read, write
    from plait.files.scan import scan
    from plait.fitting.fit import fit
    from plait.fitting.pack import pack
    from plait.inference.gamma import Gamma, GammaChain
    from plait.inference.state import Stop
    from plait.model_selection.grid import GridSearch, grid_search
    from plait.progress import Progress
    from plait.result import Fit, load
    from plait.storage.checkpoint import Checkpoint
    from plait.storage.fitted import Posterior

__all__ = [
    "Checkpoint",
    "Comparison",
    "Explanation",
    "Exposure",
    "Fit",
    "Gamma",
    "GammaChain",
    "GridSearch",
    "Metrics",
    "Model",
    "PlaitError",
    "PlaitWarning",
    "Posterior",
    "Progress",
    "Relation",
    "Split",
    "Stop",
    "compare",
    "datasets",
    "errors",
    "evaluate",
    "evaluate_forecast",
    "evidence",
    "executors",
    "fit",
    "grid_search",
    "likelihood",
    "load",
    "pack",
    "read",
    "scan",
    "train_test_split",
    "write",
]

# Imported when first used: numba and polars take longer to import than `plait --help` should.
_SUBMODULES = ("datasets", "evidence", "executors", "likelihood")
_LAZY = {
    "Checkpoint": "plait.storage.checkpoint",
    "Comparison": "plait.evaluation",
    "Explanation": "plait.analysis.explain.explanation",
    "Exposure": "plait.data",
    "Fit": "plait.result",
    "Gamma": "plait.inference.gamma",
    "GammaChain": "plait.inference.gamma",
    "GridSearch": "plait.model_selection.grid",
    "Metrics": "plait.evaluation",
    "Posterior": "plait.storage.fitted",
    "Progress": "plait.progress",
    "Relation": "plait.data",
    "Split": "plait.evaluation",
    "Stop": "plait.inference.state",
    "compare": "plait.evaluation",
    "evaluate": "plait.evaluation",
    "evaluate_forecast": "plait.evaluation.rolling",
    "fit": "plait.fitting.fit",
    "grid_search": "plait.model_selection.grid",
    "load": "plait.result",
    "pack": "plait.fitting.pack",
    "read": "plait.files",
    "scan": "plait.files.scan",
    "train_test_split": "plait.evaluation",
    "write": "plait.files",
}


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"plait.{name}")
    if name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'plait' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
