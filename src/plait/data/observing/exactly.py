"""Sums in which large parts cancel and small ones must not be lost."""

from collections.abc import Sequence

import numpy as np

from plait.types import Array

# Parts are sums and products of a few numbers: what is left where they should cancel may be this much of them. What is
# meant to be small beside them is a part of its own (`terms.LOST`), and is kept however small it is.
ROUNDING = 1e-12


def add_up(parts: Sequence[Array]) -> Array:
    """Σ parts, entry by entry. Parts that cancel but for their rounding leave exactly 0, beside which the others count.

    So 1 − 1 + 1e-20 is 1e-20, and 0.3·0.7 − 0.7·0.3 is 0.
    """
    least = ROUNDING * np.max(np.abs(parts), axis=0)
    large, small = np.zeros(least.shape), np.zeros(least.shape)
    lost = np.zeros(least.shape)  # by rounding, in the sum of the large ones
    for part in parts:
        counts = np.abs(part) > least
        added = np.where(counts, part, 0.0)
        total = large + added
        virtual = total - large
        lost += (large - (total - virtual)) + (added - virtual)
        large = total
        small += np.where(counts, 0.0, part)
    large += lost
    large[np.abs(large) <= least] = 0.0
    return large + small
