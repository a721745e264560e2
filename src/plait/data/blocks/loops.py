"""Compiled loops of packing and of checking blocks. They release the GIL."""

from typing import Any

import numpy as np

from plait.jit import kernel

Array = Any


@kernel
def begin_words(values: Array, words: Array) -> None:
    """Whole values as the lowest bits of words."""
    for n in range(len(words)):
        words[n] = np.uint64(values[n])


@kernel
def add_bits(rows: Array, shift: int, words: Array) -> None:
    """Row numbers as some higher bits of words."""
    for n in range(len(words)):
        words[n] |= np.uint64(rows[n]) << np.uint64(shift)


@kernel
def some_bits(words: Array, shift: int, mask: int, numbers: Array) -> None:
    """Some bits of words, in a narrower type."""
    for n in range(len(words)):
        numbers[n] = (words[n] >> np.uint64(shift)) & np.uint64(mask)


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
def count_repeats(words: Array, low: int) -> int:
    """How many words equal the one before, but for their lowest bits."""
    found = 0
    for n in range(1, len(words)):
        if (words[n] >> np.uint64(low)) == (words[n - 1] >> np.uint64(low)):
            found += 1
    return found


@kernel
def write_level(words: Array, shift: int, mask: int, below: int, rows: Array, starts: Array) -> int:
    """Rows and starts of one level of sorted words, whose bits begin at shift, those of the next level at below.

    How many fibres it has.
    """
    fibres, children = 0, 0
    for n in range(len(words)):
        word = words[n]
        if n == 0 or (word >> np.uint64(shift)) != (words[n - 1] >> np.uint64(shift)):
            rows[fibres] = (word >> np.uint64(shift)) & np.uint64(mask)
            starts[fibres] = children
            fibres += 1
        if n == 0 or (word >> np.uint64(below)) != (words[n - 1] >> np.uint64(below)):
            children += 1
    starts[fibres] = children
    return fibres


@kernel
def add_word_marginals(
    words: Array, shift: int, mask: int, values: Array, weights: Array, value: Array, weight: Array
) -> None:
    """What `add_marginals` does, for rows that are some bits of words."""
    for n in range(len(words)):
        row = np.int64((words[n] >> np.uint64(shift)) & np.uint64(mask))
        own = weights[n] if len(weights) > 1 else weights[0]
        value[row] += own * values[n]
        weight[row] += own


@kernel
def count_parts(rows: Array, table: Array, counts: Array) -> None:
    """How many rows each part has; table: the part of every row."""
    for n in range(len(rows)):
        counts[np.int64(table[np.int64(rows[n])])] += 1


@kernel
def count_rows(rows: Array, counts: Array) -> None:
    """How often each row number occurs."""
    for n in range(len(rows)):
        counts[np.int64(rows[n])] += 1


@kernel
def order_parts(rows: Array, table: Array, places: Array, order: Array) -> None:
    """The order that brings rows of one part together, each part as it was; places: where each begins."""
    for n in range(len(rows)):
        part = np.int64(table[np.int64(rows[n])])
        order[places[part]] = n
        places[part] += 1


@kernel
def deal_words(rows: Array, table: Array, places: Array, words: Array, dealt: Array) -> None:
    """Words in that order."""
    for n in range(len(rows)):
        part = np.int64(table[np.int64(rows[n])])
        dealt[places[part]] = words[n]
        places[part] += 1


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
