"""Bayesian coupled tensor factorisation and link prediction: models as equations, tables in, links out.

>>> import plait
>>> model = plait.Model("likes[user, film] = U[user, r] F[film, r]")
>>> fit = plait.fit(model, {"likes": table}, rank=10, seed=0)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from plait import forked as forked  # it has to see every fork
from plait.errors import (
    BoundWarning,
    CacheFolderWarning,
    CheckpointWarning,
    ClosedWarning,
    DataError,
    EventAxisWarning,
    FitError,
    ForgottenFactorWarning,
    ForkError,
    GivenRowsWarning,
    InterruptedWarning,
    LeakWarning,
    LoneLatentWarning,
    ModelError,
    NoCommonNamesWarning,
    NoLinksWarning,
    NoZerosWarning,
    OneWayWarning,
    PlaitError,
    PlaitWarning,
    RankWarning,
    SettingError,
    SpellingWarning,
    StoreError,
    UnlikeWorkersWarning,
)
from plait.model import Model

if TYPE_CHECKING:
    from plait.answer.explain import Explanation
    from plait.choosing import Choice, choose
    from plait.data import Exposure, Relation
    from plait.data.evidence.features import Features, features
    from plait.data.evidence.paths import paths
    from plait.evaluation import Comparison, Metrics, Split, compare, evaluate, hide
    from plait.files import read, write
    from plait.files.scan import scan
    from plait.fitting.fit import fit
    from plait.fitting.packing import pack
    from plait.fitting.progress import Progress
    from plait.infer.prior import Gamma
    from plait.infer.stop import Stop
    from plait.result import Fit, load
    from plait.run.checkpoint import Checkpoint
    from plait.run.record import Posterior

from plait.version import __version__ as __version__

__all__ = [
    "BoundWarning",
    "CacheFolderWarning",
    "Checkpoint",
    "CheckpointWarning",
    "Choice",
    "ClosedWarning",
    "Comparison",
    "DataError",
    "EventAxisWarning",
    "Explanation",
    "Exposure",
    "Features",
    "Fit",
    "FitError",
    "ForgottenFactorWarning",
    "ForkError",
    "Gamma",
    "GivenRowsWarning",
    "InterruptedWarning",
    "LeakWarning",
    "LoneLatentWarning",
    "Metrics",
    "Model",
    "ModelError",
    "NoCommonNamesWarning",
    "NoLinksWarning",
    "NoZerosWarning",
    "OneWayWarning",
    "PlaitError",
    "PlaitWarning",
    "Posterior",
    "Progress",
    "RankWarning",
    "Relation",
    "SettingError",
    "SpellingWarning",
    "Split",
    "Stop",
    "StoreError",
    "UnlikeWorkersWarning",
    "choose",
    "compare",
    "evaluate",
    "features",
    "fit",
    "hide",
    "load",
    "pack",
    "paths",
    "read",
    "scan",
    "write",
]

# Loaded when first used: numba and polars take longer to import than `plait --help` should.
_LAZY = {
    "Checkpoint": "plait.run.checkpoint",
    "Comparison": "plait.evaluation",
    "Explanation": "plait.answer.explain",
    "Exposure": "plait.data",
    "Features": "plait.data.evidence.features",
    "Choice": "plait.choosing",
    "Fit": "plait.result",
    "Gamma": "plait.infer.prior",
    "Metrics": "plait.evaluation",
    "Posterior": "plait.run.record",
    "Progress": "plait.fitting.progress",
    "Relation": "plait.data",
    "Split": "plait.evaluation",
    "Stop": "plait.infer.stop",
    "compare": "plait.evaluation",
    "choose": "plait.choosing",
    "evaluate": "plait.evaluation",
    "features": "plait.data.evidence.features",
    "fit": "plait.fitting.fit",
    "hide": "plait.evaluation",
    "load": "plait.result",
    "pack": "plait.fitting.packing",
    "paths": "plait.data.evidence.paths",
    "read": "plait.files",
    "scan": "plait.files.scan",
    "write": "plait.files",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        value = getattr(import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'plait' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
