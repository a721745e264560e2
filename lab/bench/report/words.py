"""Figures as text."""

import math
from typing import Any

from lab.harness.table import NOTHING


def seconds(value: float | None, spread: float | None = None) -> str:
    """``1.24 ± 0.03 ms``, ``3.2 s``; a dash for nothing."""
    if value is None:
        return NOTHING
    scale, unit = (1.0, "s") if value >= 1 else (1e3, "ms")
    shown = significant(value * scale)
    if not spread:
        return f"{shown} {unit}"
    decimals = len(shown.partition(".")[2])
    return f"{shown} ± {spread * scale:.{max(decimals, 0)}f} {unit}"


def significant(value: float | None, digits: int = 3) -> str:
    """A number of digits, never an exponent: 0.00123, 1.23, 1,234."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def times(value: float | None) -> str:
    """``3.1 ×``."""
    if value is None:
        return NOTHING
    return "∞" if value == math.inf else f"{significant(value)} ×"


def size(count: float | None) -> str:
    """``1.2 GB``, ``250 MB``."""
    if count is None:
        return NOTHING
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def number(count: float) -> str:
    """``12.5 million``, ``10,000``."""
    return f"{count / 1e6:g} million" if count >= 1e6 else f"{count:,.0f}"


def ratio(top: float | None, bottom: float | None) -> float | None:
    """A quotient; None where something is missing."""
    return None if top is None or not bottom else top / bottom


def rounds_of(figures: dict[str, Any] | None, action: str = "sweep") -> list[float]:
    """The seconds of a contender's action in each round."""
    return [] if not figures else figures.get(action, {}).get("rounds", [])


def time_of(figures: dict[str, Any] | None, action: str = "sweep") -> float | None:
    """The median seconds of a contender's action, if there is one."""
    return None if not figures else figures.get(action, {}).get("seconds")
