"""Evidence for links: features of entities, neighbours, paths between entities, and recurrence
(decisions 23, 36 and 51)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plait.evidence.entity_features import Features, features
    from plait.evidence.graph_walks import paths
    from plait.evidence.link_evidence import LinkEvidence, neighbours
    from plait.evidence.recurrences import recurrence
    from plait.evidence.rule_evidence import Rules, rules

__all__ = ["Features", "LinkEvidence", "Rules", "features", "neighbours", "paths", "recurrence", "rules"]

_LAZY = {
    "LinkEvidence": "plait.evidence.link_evidence",
    "Rules": "plait.evidence.rule_evidence",
    "Features": "plait.evidence.entity_features",
    "features": "plait.evidence.entity_features",
    "neighbours": "plait.evidence.link_evidence",
    "paths": "plait.evidence.graph_walks",
    "recurrence": "plait.evidence.recurrences",
    "rules": "plait.evidence.rule_evidence",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'plait.evidence' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
