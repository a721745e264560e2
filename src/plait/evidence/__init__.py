"""Evidence from data outside the factors: features of entities, and paths between them (decision 23)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.evidence.entity_features import Features, features
    from plait.evidence.graph_walks import paths

__all__ = ["Features", "features", "paths"]

_LAZY = {
    "Features": "plait.evidence.entity_features",
    "features": "plait.evidence.entity_features",
    "paths": "plait.evidence.graph_walks",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'plait.evidence' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
