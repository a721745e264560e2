"""Compiled loops of packing and of checking blocks. They release the GIL."""

from typing import Any

import numpy as np

from plait.jit import kernel

Array = Any


@kernel
def look_at(values: Array, most: float) -> tuple[float, bool, bool]:
    """The largest of some values and `most`, whether all are whole, and whether floats hold them all."""
    fractions, wide = 0, 0
    for n in range(len(values)):
        value = values[n]
        most = max(most, value)
        if value != np.floor(value):
            fractions += 1
        if np.float64(np.float32(value)) != value:
            wide += 1
    return most, fractions == 0, wide == 0


@kernel
def count_rows(rows: Array, counts: Array) -> None:
    """How often each row number occurs."""
    for n in range(len(rows)):
        counts[np.int64(rows[n])] += 1


@kernel
def add_marginals(rows: Array, values: Array, weights: Array, value: Array, weight: Array) -> None:
    """Add M·x and M of entries to the totals of their rows; a single weight is everyone's."""
    for n in range(len(rows)):
        row = np.int64(rows[n])
        own = weights[n] if len(weights) > 1 else weights[0]
        value[row] += own * values[n]
        weight[row] += own


@kernel
def count_falls(numbers: Array, starts: Array) -> int:
    """Count the numbers that are not larger than the one before, but for the first ones of runs.

    starts: where each run begins, and after it the end of the last; all within the numbers, which is not checked.
    """
    falls = 0
    for e in range(1, len(numbers)):
        falls += numbers[e] <= numbers[e - 1]
    for f in range(1, len(starts) - 1):
        at = np.int64(starts[f])
        falls -= numbers[at] <= numbers[at - 1]
    return falls
