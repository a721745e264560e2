"""Counts drawn from a CP model whose rank is known."""

import numpy as np
from numpy.typing import NDArray

CONCENTRATION = 0.3  # of the Gamma distribution that the factors are drawn from: few large entries, many near 0


def draw(shape: tuple[int, int, int], rank: int, counts: int, seed: int) -> NDArray[np.int64]:
    """An array of the shape: Poisson counts that are expected to add up to `counts`."""
    rng = np.random.default_rng([seed, rank, counts])
    factors = [rng.gamma(CONCENTRATION, 1.0, (size, rank)) for size in shape]
    rate = np.einsum("ir,jr,kr->ijk", *factors)
    return np.asarray(rng.poisson(rate * (counts / rate.sum())), np.int64)
