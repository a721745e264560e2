"""Weights added up along indices and diagonals, as those of a dense array."""

from itertools import combinations

import numpy as np
import pytest

from plait.data.observing.along import along, diagonal
from plait.data.observing.weights import Weights

INDICES, SHAPE = ("i", "j", "k"), (4, 3, 5)


def some_weights(seed):
    """A sum of a constant, a vector and tables over two and three indices, and 0 in places; also as a dense array."""
    rng = np.random.default_rng(seed)
    vector = (rng.random(3) < 0.7).astype(float)
    pairs = np.argwhere(rng.random((4, 5)) < 0.3)
    cells = np.argwhere(rng.random(SHAPE) < 0.2)
    weights = Weights.constant(INDICES, SHAPE, 0.3) * Weights.from_vector(INDICES, SHAPE, "j", vector)
    weights = weights * (1.0 - Weights.from_table(INDICES, SHAPE, ("i", "k"), pairs))
    weights = weights + Weights.from_table(INDICES, SHAPE, INDICES, cells, 0.5)
    return weights, weights.at(np.argwhere(np.ones(SHAPE))).reshape(SHAPE)


OVERS = [over for n in range(4) for over in combinations(INDICES, n)] + [("k", "i"), ("k", "j", "i")]


@pytest.mark.parametrize("over", OVERS, ids=str)
def test_sums_along_indices_are_those_of_a_dense_array(over):
    for seed in range(5):
        weights, M = some_weights(seed)
        letters = "".join(over)
        np.testing.assert_allclose(along(weights, over), np.einsum(f"ijk->{letters}", M), atol=1e-12)


def test_a_row_that_is_hidden_cell_by_cell_adds_up_to_exactly_0():
    # 0.6 · 3 · 5 and the sum of fifteen 0.6 are not the same number.
    row = np.argwhere(np.arange(4)[:, None, None] == np.zeros((1, 3, 5)))
    weights = Weights.constant(INDICES, SHAPE, 0.6) - Weights.from_table(INDICES, SHAPE, INDICES, row, 0.6)
    sums = along(weights, ["i"])
    assert sums[0] == 0.0
    assert (sums[1:] > 0).all()


@pytest.mark.parametrize(("a", "b"), [("i", "k"), ("k", "i"), ("i", "j"), ("j", "k")])
def test_the_diagonal_of_two_indices_is_that_of_a_dense_array(a, b):
    shape = (4, 4, 4)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        weights = Weights.constant(INDICES, shape, 0.5)
        for over in (("i",), ("k",), ("i", "k"), ("j", "k"), INDICES):
            coords = np.argwhere(rng.random([4] * len(over)) < 0.4)
            weights = weights * (1.0 - Weights.from_table(INDICES, shape, over, coords))
        weights = weights + Weights.from_table(INDICES, shape, INDICES, np.argwhere(rng.random(shape) < 0.2))
        M = weights.at(np.argwhere(np.ones(shape))).reshape(shape)
        left = [index for index in INDICES if index != b]
        expected = np.einsum(f"{''.join(INDICES).replace(b, a)}->{''.join(left)}", M)
        found = diagonal(weights, a, b)
        assert found.indices == tuple(left)
        cells = np.argwhere(np.ones((4, 4)))
        np.testing.assert_allclose(found.at(cells).reshape(4, 4), expected, atol=1e-12)
