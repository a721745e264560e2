"""Number formats for people."""

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from plait.rendering.document import Action, Details, Faint, IntervalBar, Ref, Several, Share

# C0 and C1 controls and DEL, which a terminal obeys; tabs and line feeds stay.
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)}


def without_controls(text: str) -> str:
    """Return text with visible control characters."""
    return text.translate(CONTROLS)


def write(value: Any) -> str:
    """A single value: 12,345 and 0.1235; anything else as text."""
    match value:
        case Share(fraction):
            return percent(fraction)
        case IntervalBar(value=number):
            return value.text or percent(number)
        case Faint(inner):
            return write(inner)
        case Ref(text, _) | Details(text, _) | Action(text):
            return text
        case Several(values):
            return ", ".join(map(write, values))
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, Real):
        return str(value)
    return f"{int(value):,}" if isinstance(value, Integral) else f"{float(value):,.4g}"


def align(values: Sequence[Any]) -> list[str]:
    """Cells of a column: numbers with equal decimals; text unchanged."""
    bare = [value.value if isinstance(value, Faint) else value for value in values]
    numbers = [float(value) for value in bare if is_fraction(value) and math.isfinite(value)]
    most = max(map(abs, numbers), default=0.0)
    decimals = 0 if all(value == round(value) for value in numbers) else max(0, 4 - max(0, len(f"{most:.0f}") - 1))
    return [_with(value, decimals) if is_fraction(value) else write(value) for value in bare]


def is_fraction(value: Any) -> bool:
    """Whether a value is a number that may have decimals."""
    return isinstance(value, Real) and not isinstance(value, Integral)


def _with(value: float, decimals: int) -> str:
    if 0 < abs(value) < 0.5 * 10**-decimals:  # not 0, but too small for a wide column
        return f"{value:.0e}"
    return f"{value:,.{decimals}f}"


def percent(fraction: float) -> str:
    """A share as a percentage."""
    if fraction < 0:
        return f"-{percent(-fraction)}"
    if 0.0 < fraction < 0.0005:
        return "<0.1 %"
    if 0.995 < fraction < 1.0 - 1e-9:
        return ">99 %"
    return f"{100 * fraction:.0f} %" if fraction == 0 or fraction > 0.0949 else f"{100 * fraction:.1f} %"


def objective_word(method: str) -> str:
    """The objective of a method: the ELBO of VB, the log-likelihood of EM, the log joint density of MAP."""
    return {"vb": "ELBO", "em": "log-likelihood", "map": "log joint density"}.get(method, "objective")


def likelihood_words(likelihoods: Mapping[str, Any], reasons: Mapping[str, str]) -> str:
    """Likelihoods that were chosen, each with its reason, by relation; nothing where all were given."""
    if len(likelihoods) == 1:
        return "".join(f"{likelihoods[name]} ({reason})" for name, reason in reasons.items())
    return ", ".join(f"{name} {likelihoods[name]} ({reason})" for name, reason in reasons.items())


def evidence_words(settings: Mapping[str, Any]) -> str:
    """Evidence terms of a fit, or that `evidence` chose none; nothing where none was asked for."""
    terms = [f"{term['kind']} of {term['relation']}" for term in settings.get("evidence_terms", {}).values()]
    return ", ".join(terms) or ("none: no term ranked held-out links higher" if settings.get("evidence") else "")


def plural(count: int, noun: str) -> str:
    """A count with its noun: ``1 table``, ``2 tables``, ``3 activities``."""
    if count == 1 or noun.endswith("s"):
        return f"{count:,} {noun}"
    ends = len(noun) > 1 and noun[-1] == "y" and noun[-2] not in "aeiou"
    return f"{count:,} {noun[:-1]}ies" if ends else f"{count:,} {noun}s"


def significant(value: float) -> str:
    """A single number: six digits, large ones in full."""
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def write_bytes(count: float) -> str:
    """Bytes: ``44 kB``."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def write_seconds(seconds: float) -> str:
    """A time in words, with about two digits."""
    if seconds < 1:
        return f"{1000 * seconds:.{1 if seconds < 0.01 else 0}f} ms"
    if seconds < 120:
        return f"{seconds:.{1 if seconds < 10 else 0}f} s"
    return f"{seconds / 60:,.0f} min" if seconds < 7200 else f"{seconds / 3600:,.1f} h"


def write_sizes(sizes: Any) -> str:
    """``user 20, place 50``."""
    return ", ".join(f"{name} {size:,}" for name, size in sizes.items()) or "none"


def write_shape(sizes: Sequence[int], of_one: str = "1") -> str:
    """``20 × 50``."""
    return " × ".join(f"{size:,}" for size in sizes) or of_one
