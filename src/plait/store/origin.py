"""What a fit comes from: all that is settled before its first sweep."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plait.data.exposure import Exposures
from plait.data.known import Known
from plait.data.labels import Labels
from plait.model import Model


@dataclass(frozen=True, eq=False)
class Origin:
    """Model, data as far as they are remembered, and the arguments of the fit; settings hold only what JSON can."""

    model: Model
    method: str
    seed: int
    labels: Mapping[str, Labels]
    likelihood: dict[str, str]
    exposures: Exposures
    known: dict[str, Known]
    settings: dict[str, Any]
    fingerprint: str
