"""Bayesian coupled tensor factorisation and link prediction: models as equations, tables in, links out.

>>> import plait
>>> model = plait.Model("likes[user, film] = U[user, r] F[film, r]")
>>> fit = plait.fit(model, {"likes": table}, rank=10, seed=0)  # doctest: +SKIP
"""

from typing import TYPE_CHECKING, Any

from plait import forked as forked  # it has to see every fork
from plait.errors import (
    BoundWarning,
    ClosedWarning,
    DataError,
    EventAxisWarning,
    FitError,
    ForgottenFactorWarning,
    ForkError,
    GivenRowsWarning,
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
)
from plait.model import Model

if TYPE_CHECKING:
    from plait.choosing import Choice, choose
    from plait.data import Exposure, Relation
    from plait.data.features import Features, features
    from plait.data.paths import paths
    from plait.evaluation import Comparison, LeakWarning, Metrics, Split, compare, evaluate, hide
    from plait.explain import Explanation
    from plait.files import read, write
    from plait.fitted import Posterior
    from plait.fitting import fit
    from plait.infer.prior import Gamma
    from plait.progress import Progress
    from plait.result import Fit, load
    from plait.store.checkpoint import Checkpoint

__version__ = "0.1.0.dev0"

__all__ = [
    "BoundWarning",
    "Checkpoint",
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
    "StoreError",
    "choose",
    "compare",
    "evaluate",
    "features",
    "fit",
    "hide",
    "load",
    "paths",
    "read",
    "write",
]

# Loaded when first used: numba and polars take longer to import than `plait --help` should.
_LAZY = {
    "Checkpoint": "plait.store.checkpoint",
    "Comparison": "plait.evaluation",
    "Explanation": "plait.explain",
    "Exposure": "plait.data",
    "Features": "plait.data.features",
    "Choice": "plait.choosing",
    "Fit": "plait.result",
    "Gamma": "plait.infer.prior",
    "LeakWarning": "plait.evaluation",
    "Metrics": "plait.evaluation",
    "Posterior": "plait.fitted",
    "Progress": "plait.progress",
    "Relation": "plait.data",
    "Split": "plait.evaluation",
    "compare": "plait.evaluation",
    "choose": "plait.choosing",
    "evaluate": "plait.evaluation",
    "features": "plait.data.features",
    "fit": "plait.fitting",
    "hide": "plait.evaluation",
    "load": "plait.result",
    "paths": "plait.data.paths",
    "read": "plait.files",
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
