"""Marginal sums and diagonals of weights against dense arrays."""

from itertools import combinations

import numpy as np
import pytest

from plait.data.observation.weights import Weights, along, diagonal
from tests.support.weights import INDICES, SHAPE, dense_of, some_weights

OVERS = [over for n in range(4) for over in combinations(INDICES, n)] + [("k", "i"), ("k", "j", "i")]


@pytest.mark.parametrize("over", OVERS, ids=str)
def test_sums_along_indices_equal_dense_sums(over):
    for seed in range(5):
        weights, M = some_weights(seed)
        letters = "".join(over)
        np.testing.assert_allclose(along(weights, over), np.einsum(f"ijk->{letters}", M), atol=1e-12)


def test_a_row_hidden_cell_by_cell_sums_to_exactly_0():
    # Floating point: 0.6 · 3 · 5 differs from the sum of fifteen 0.6.
    row = np.argwhere(np.arange(4)[:, None, None] == np.zeros((1, 3, 5)))
    weights = Weights.constant(INDICES, SHAPE, 0.6) - Weights.from_table(INDICES, SHAPE, INDICES, row, 0.6)
    sums = along(weights, ["i"])
    assert sums[0] == 0.0
    assert (sums[1:] > 0).all()


@pytest.mark.parametrize(("a", "b"), [("i", "k"), ("k", "i"), ("i", "j"), ("j", "k")])
def test_the_diagonal_of_two_indices_equals_the_dense_diagonal(a, b):
    shape = (4, 4, 4)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        weights = Weights.constant(INDICES, shape, 0.5)
        for over in (("i",), ("k",), ("i", "k"), ("j", "k"), INDICES):
            coords = np.argwhere(rng.random([4] * len(over)) < 0.4)
            weights = weights * (1.0 - Weights.from_table(INDICES, shape, over, coords))
        weights = weights + Weights.from_table(INDICES, shape, INDICES, np.argwhere(rng.random(shape) < 0.2))
        M = dense_of(weights)
        left = [index for index in INDICES if index != b]
        expected = np.einsum(f"{''.join(INDICES).replace(b, a)}->{''.join(left)}", M)
        found = diagonal(weights, a, b)
        assert found.indices == tuple(left)
        np.testing.assert_allclose(dense_of(found), expected, atol=1e-12)
