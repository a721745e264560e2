"""Compiled loops over sorted words and cells. They release the GIL and take a range of rows, so threads share them."""

from typing import Any

import numpy as np

from plait.jit import kernel

Array = Any


@kernel
def place_rows(order: Array, lo: int, hi: int, words: Array) -> None:
    """Begin words with the positions of an order (none: as they come)."""
    for e in range(lo, hi):
        words[e] = np.uint64(order[e]) if len(order) else np.uint64(e)


@kernel
def read_cells(words: Array, lo: int, hi: int, lows: Array, masks: Array, cells: Array) -> None:
    """Read the coordinates (n, order) that stand in words, one column after another."""
    for e in range(lo, hi):
        for k in range(cells.shape[1]):
            cells[e, k] = (words[e] >> lows[k]) & masks[k]


@kernel
def place_bits(column: Array, order: Array, lo: int, hi: int, low: int, mask: int, at: int, words: Array) -> None:
    """Put some bits of a column, read in an order (none: as it is), into words at a place."""
    for e in range(lo, hi):
        row = order[e] if len(order) else e
        words[e] |= ((np.uint64(column[row]) >> np.uint64(low)) & np.uint64(mask)) << np.uint64(at)


@kernel
def take(array: Array, order: Array, lo: int, hi: int, result: Array) -> None:
    """array[order], for a range of the order."""
    for e in range(lo, hi):
        result[e] = array[np.uint64(order[e])]


@kernel
def count_digits(words: Array, lo: int, hi: int, low: int, mask: int, counts: Array) -> None:
    """How often each digit occurs."""
    for e in range(lo, hi):
        counts[np.int64((words[e] >> np.uint64(low)) & np.uint64(mask))] += 1


@kernel
def deal_digits(words: Array, lo: int, hi: int, low: int, mask: int, places: Array, dealt: Array) -> None:
    """Write each word to the next place of its digit."""
    for e in range(lo, hi):
        word = words[e]
        digit = np.int64((word >> np.uint64(low)) & np.uint64(mask))
        dealt[places[digit]] = word
        places[digit] += 1


@kernel
def count_all_digits(words: Array, least: np.uint64, low: int, width: int, counts: Array) -> None:
    """How often each digit of words − least occurs, for all digits of so many bits from `low` on: (digits, values)."""
    mask = np.uint64((1 << width) - 1)
    for e in range(len(words)):
        left = (words[e] - least) >> np.uint64(low)
        for digit in range(len(counts)):
            counts[digit, np.int64(left & mask)] += 1
            left >>= np.uint64(width)


@kernel
def deal_differences(words: Array, least: np.uint64, low: int, mask: int, places: Array, dealt: Array) -> None:
    """Write each word to the next place of a digit of its difference from the least."""
    for e in range(len(words)):
        word = words[e]
        digit = np.int64(((word - least) >> np.uint64(low)) & np.uint64(mask))
        dealt[places[digit]] = word
        places[digit] += 1


@kernel
def count_fibres(cells: Array, lo: int, hi: int, counts: Array) -> None:
    """How many fibres of each level begin in a range of sorted cells; the last number: cells equal to the one before.

    counts: (order + 1,).
    """
    depth = cells.shape[1]
    for e in range(lo, hi):
        level = 0
        while e and level < depth and cells[e, level] == cells[e - 1, level]:
            level += 1
        counts[depth] += e > 0 and level == depth
        for below in range(level, depth):
            counts[below] += 1


@kernel
def write_fibres(cells: Array, lo: int, hi: int, begin: Array, places: Array, rows: Array, starts: Array) -> None:
    """Write rows and starts of the fibres that begin in a range; begin: where each level stands in the flat arrays.

    places (order,): how many fibres of each level begin before the range; the cells are distinct.
    """
    depth = cells.shape[1]
    for e in range(lo, hi):
        level = 0
        while e and cells[e, level] == cells[e - 1, level]:
            level += 1
        for above in range(level, depth - 1):
            rows[begin[above] + places[above]] = cells[e, above]
            starts[begin[above] + above + places[above]] = places[above + 1]
            places[above] += 1
        places[depth - 1] += 1
