"""Compiled loops of packing. They release the GIL."""

from typing import Any

import numpy as np

from plait.jit import kernel

Array = Any


@kernel
def tally(numbers: Array, least: int, counts: Array) -> None:
    """Count integers; counts: of least, least + 1, …."""
    for n in range(len(numbers)):
        counts[np.int64(numbers[n]) - least] += 1


@kernel
def look_up(numbers: Array, least: int, table: Array, rows: Array) -> bool:
    """Write the rows of integers, table: of least, least + 1, … (−1: none); whether all have one."""
    unknown = 0
    for n in range(len(numbers)):
        at = np.int64(numbers[n]) - least
        row = np.int64(table[at]) if 0 <= at < len(table) else np.int64(-1)
        rows[n] = row
        if row < 0:
            unknown += 1
    return unknown == 0


@kernel
def make_words(coords: Array, places: Array, shifts: Array, values: Array, words: Array) -> None:
    """Put cells (n, order) and whole values into one integer each; places: the columns, root first."""
    for n in range(len(words)):
        word = np.uint64(values[n])
        for level in range(len(places)):
            word |= np.uint64(coords[n, places[level]]) << np.uint64(shifts[level])
        words[n] = word


@kernel
def split_words(words: Array, shifts: Array, masks: Array, mask: int, coords: Array, values: Array) -> None:
    """Take them apart again, levels in tree order; mask: of the value."""
    for n in range(len(words)):
        word = words[n]
        values[n] = word & np.uint64(mask)
        for level in range(len(shifts)):
            coords[n, level] = (word >> np.uint64(shifts[level])) & np.uint64(masks[level])


@kernel
def count_parts(rows: Array, table: Array, parts: Array, counts: Array) -> None:
    """The part of every row, and how many each part has."""
    for n in range(len(rows)):
        part = table[np.int64(rows[n])]
        parts[n] = part
        counts[np.int64(part)] += 1


@kernel
def count_rows(rows: Array, counts: Array) -> None:
    """How often each row number occurs."""
    for n in range(len(rows)):
        counts[np.int64(rows[n])] += 1


@kernel
def order_parts(parts: Array, places: Array, order: Array) -> None:
    """The order that brings rows of one part together, each part as it was; places: where each begins."""
    for n in range(len(parts)):
        part = np.int64(parts[n])
        order[places[part]] = n
        places[part] += 1


@kernel
def deal_parts(parts: Array, places: Array, words: Array, dealt: Array) -> None:
    """Words in that order."""
    for n in range(len(parts)):
        part = np.int64(parts[n])
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
def descend(rows: Array, wanted: Array, lows: Array, highs: Array) -> None:
    """In rows lows[n] … highs[n], which ascend, the place of wanted[n]; low = high where there is none."""
    for n in range(len(wanted)):
        low, high = lows[n], highs[n]
        while low < high:
            middle = (low + high) // 2
            if np.int64(rows[middle]) < wanted[n]:
                low = middle + 1
            else:
                high = middle
        found = low < highs[n] and np.int64(rows[low]) == wanted[n]
        lows[n] = low
        highs[n] = low + 1 if found else low
