"""What is claimed of a case, by its kind."""

from collections.abc import Callable

from tests.audit import answers, fits, splits
from tests.audit.drawn import Audited

CLAIMS: dict[str, Callable[[Audited], None]] = {
    "sweeps": fits.sweeps,
    "long": fits.long,
    "em": fits.em,
    "adapted": fits.adapted,
    "declared": fits.declared,
    "permuted": fits.permuted,
    "hidden": splits.hidden,
    "predicted": answers.predicted,
    "top": answers.top,
}
