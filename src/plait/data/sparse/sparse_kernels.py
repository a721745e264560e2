"""Kernels over cells: sorting, packing, random draws by cell. They release the GIL and take a range of
rows, for threads.
"""

import math
from typing import Any

import numpy as np

from plait._typing import AnyArray as Array
from plait.jit import exact_kernel, kernel


@kernel
def read_cells(words: Array, lo: int, hi: int, lows: Array, masks: Array, cells: Array) -> None:
    """Read coordinates (n, order) from words, column by column."""
    for e in range(lo, hi):
        for k in range(cells.shape[1]):
            cells[e, k] = (words[e] >> lows[k]) & masks[k]


@kernel
def place_bits(column: Array, order: Array, lo: int, hi: int, low: int, mask: int, at: int, words: Array) -> None:
    """Put some bits of a column, in an order (empty: as it is), into words."""
    for e in range(lo, hi):
        row = order[e] if len(order) else e
        words[e] |= ((np.uint64(column[row]) >> np.uint64(low)) & np.uint64(mask)) << np.uint64(at)


@kernel
def take(array: Array, order: Array, lo: int, hi: int, result: Array) -> None:
    """array[order], for a range of the order."""
    for e in range(lo, hi):
        result[e] = array[np.uint64(order[e])]


@kernel
def count_fibres(cells: Array, lo: int, hi: int, counts: Array) -> None:
    """Number of fibres of each level that start in a range of sorted cells; last: cells equal to the one before.
    `counts`: (order + 1,).
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
    """Write rows and starts of the fibres that start in a range; `begin`: offset of each level in the flat arrays.

    `places` (order,): number of fibres of each level before the range; cells are distinct.
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


@kernel
def count_levels(words: Array, before: Any, shifts: Array, mask: int, counts: Array) -> float:
    """Number of fibres of each level that start in sorted words; last: words of the same cell as the one before.

    `before`: the previous word, or one that differs in its highest bit; `shifts`: of each level's bits. Returns the
    largest value, in the bits of `mask` (none: 1), with equal cells summed.
    """
    depth, most, value = len(shifts), 0.0, 0.0
    for n in range(len(words)):
        word = words[n]
        own = 1.0 if mask == 0 else np.float64(word & np.uint64(mask))
        changed = word ^ np.uint64(before)
        before = word
        level = 0
        while level < depth and (changed >> np.uint64(shifts[level])) == 0:
            level += 1
        counts[depth] += level == depth
        for below in range(level, depth):
            counts[below] += 1
        value = value + own if level == depth else own
        most = max(most, value)
    return most


@kernel
def write_level_rows(words: Array, before: Any, shift: int, mask: int, at: int, rows: Array) -> None:
    """Write the rows of the fibres of a level that start in sorted words, from position `at` on."""
    for n in range(len(words)):
        word = words[n]
        if ((word ^ np.uint64(before)) >> np.uint64(shift)) != 0:
            rows[at] = (word >> np.uint64(shift)) & np.uint64(mask)
            at += 1
        before = word


@kernel
def write_level_starts(words: Array, before: Any, shift: int, below: int, at: int, child: int, starts: Array) -> None:
    """Write the first children of these fibres; `below`: shift of their level, `child`: number of the next one."""
    for n in range(len(words)):
        changed = words[n] ^ np.uint64(before)
        if (changed >> np.uint64(shift)) != 0:
            starts[at] = child
            at += 1
        if (changed >> np.uint64(below)) != 0:
            child += 1
        before = words[n]


@kernel
def write_values(words: Array, shift: int, mask: int, at: int, values: Array) -> None:
    """Write the values of the cells in sorted words, with equal cells summed; the first word starts a cell."""
    value = 0.0
    for n in range(len(words)):
        if n and ((words[n] ^ words[n - 1]) >> np.uint64(shift)) != 0:
            values[at] = value
            at, value = at + 1, 0.0
        value += 1.0 if mask == 0 else np.float64(words[n] & np.uint64(mask))
    if len(words):
        values[at] = value


@kernel
def descend(rows: Array, wanted: Array, lows: Array, highs: Array) -> None:
    """Position of wanted[n] in ascending rows lows[n] … highs[n]; low = high where there is none."""
    for n in range(len(wanted)):
        low, high = lows[n], highs[n]
        while low < high:
            middle = (low + high) // 2
            if np.int64(rows[middle]) < wanted[n]:
                low = middle + 1
            else:
                high = middle
        is_there = low < highs[n] and np.int64(rows[low]) == wanted[n]
        lows[n] = low
        highs[n] = low + 1 if is_there else low


STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64, whose finaliser this is (Steele, Lea, Flood 2014)


FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@exact_kernel
def mix(words: Array, rows: Array) -> None:
    """Mix one more row number into the hash of every cell."""
    for n in range(len(words)):
        word = (words[n] ^ np.uint64(rows[n])) + STEP
        word = (word ^ (word >> np.uint64(30))) * FIRST
        word = (word ^ (word >> np.uint64(27))) * SECOND
        words[n] = word ^ (word >> np.uint64(31))


@exact_kernel
def exponential(words: Array, least: float, draws: Array) -> None:
    """Exp(1) draws from hashes: −log of a number between 0 and 1, at least `least`."""
    for n in range(len(words)):
        uniform = (np.float64(words[n] >> np.uint64(11)) + 0.5) * 2.0**-53
        draws[n] = max(-math.log(uniform), least)
