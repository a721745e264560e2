"""Documents for programs: what JSON can hold."""

import datetime
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from plait.show.document import Action, Document, Faint, Picture, Ref, Several, Share


def render(document: Document) -> str:
    """One JSON text: the document's data, or its blocks where it has none."""
    return dump(document.data if document.data is not None else describe(document))


def dump(value: Any) -> str:
    """JSON that every reader takes; what is not finite is null, dates and times are text."""
    return json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False)


def describe(document: Document) -> dict[str, Any]:
    """Title and blocks, each with its kind."""
    return {"title": document.title, "blocks": [_described(block) for block in document.blocks]}


def _described(value: Any) -> Any:
    match value:
        case Share(fraction):
            return fraction
        case Ref(text, _) | Action(text):
            return text
        case Several(values):
            return [_described(one) for one in values]
        case Faint(inner):
            return _described(inner)
        case Picture():
            return {"kind": "picture", "title": value.title, "alt": value.alt, "note": value.note}
        case tuple() | list():
            return [_described(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        kept = {field.name: _described(getattr(value, field.name)) for field in fields(value)}
        return {"kind": type(value).__name__.lower(), **kept}
    return value


def plain(value: Any) -> Any:
    """A value as JSON knows it."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (str, bool, type(None), int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if hasattr(value, "tolist"):  # NumPy
        return plain(value.tolist())
    return [plain(one) for one in value]
