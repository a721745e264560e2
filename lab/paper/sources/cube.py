"""A cube of measurements: some cells of a CP model of rank 5, with noise."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

RANK = 5
CONCENTRATION = 2.0  # of the Gamma distribution that the factors are drawn from; its mean is 1
NOISE = 0.2  # its standard deviation, in units of the root mean square of the data: ‖noise‖ = 0.2 ‖X‖


@dataclass(frozen=True, eq=False)
class Cube:
    """Tables of cells (i, j, k, value): known ones, and others held out. truth: the held-out values without noise."""

    side: int
    known: pl.DataFrame
    held_out: pl.DataFrame
    truth: NDArray[np.float64]


def draw(side: int, known: int, held_out: int, seed: int) -> Cube:
    """Different cells of a cube, drawn at random.

    The data have a root mean square of 1. Gaussian noise is added, and what falls below 0 becomes 0 (2 % of the cells):
    the Poisson likelihood, which is the KL divergence, is one of numbers that are not negative.
    """
    rng = np.random.default_rng(seed)
    factors = [rng.gamma(CONCENTRATION, 1 / CONCENTRATION, (side, RANK)) for _ in range(3)]
    cells = rng.choice(side**3, known + held_out, replace=False)
    index = [axis.astype(np.int32) for axis in np.unravel_index(cells, (side, side, side))]
    clean = np.zeros(len(cells))
    for r in range(RANK):  # a component at a time: 10^8 cells × 5 would not fit
        clean += factors[0][index[0], r] * factors[1][index[1], r] * factors[2][index[2], r]
    clean /= np.sqrt(np.mean(clean**2))
    value = np.maximum(clean + NOISE * rng.standard_normal(len(cells)), 0)
    table = pl.DataFrame({**dict(zip("ijk", index)), "value": value})
    return Cube(side, table[:known], table[known:], clean[known:])
