"""Compiled loops of `draws`."""

import math
from typing import Any

import numpy as np

from plait.jit import exact_kernel

Array = Any

STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64, whose finaliser this is (Steele, Lea, Flood 2014)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@exact_kernel
def mix(words: Array, rows: Array) -> None:
    """One more row number into the word of every cell."""
    for n in range(len(words)):
        word = (words[n] ^ np.uint64(rows[n])) + STEP
        word = (word ^ (word >> np.uint64(30))) * FIRST
        word = (word ^ (word >> np.uint64(27))) * SECOND
        words[n] = word ^ (word >> np.uint64(31))


@exact_kernel
def exponential(words: Array, least: float, draws: Array) -> None:
    """Exp(1) draws from words: −log of a number between 0 and 1, at least `least`."""
    for n in range(len(words)):
        uniform = (np.float64(words[n] >> np.uint64(11)) + 0.5) * 2.0**-53
        draws[n] = max(-math.log(uniform), least)
