"""Cells with a weight: listed and added up along indices as a dense array would have it."""

from itertools import combinations

import numpy as np
import pytest

from plait.data.along import along
from plait.data.weights import Weights
from plait.evaluation import listing
from plait.evaluation.listing import cells_under, observed_cells

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


@pytest.mark.parametrize("piece", [7, 2**20])
def test_listed_cells_are_those_with_a_weight(monkeypatch, piece):
    monkeypatch.setattr(listing, "PIECE", piece)
    weights, M = some_weights(0)
    np.testing.assert_array_equal(observed_cells(weights), np.argwhere(M > 0))
    under = cells_under(weights, [0, 2], np.array([[1, 4], [3, 0]]))
    expected = {(1, j, 4) for j in range(3) if M[1, j, 4] > 0} | {(3, j, 0) for j in range(3) if M[3, j, 0] > 0}
    assert {tuple(cell) for cell in under.tolist()} == expected


def test_too_many_cells_are_not_listed_but_a_table_of_them_is(monkeypatch):
    monkeypatch.setattr(listing, "MOST_CELLS", 10)
    assert observed_cells(some_weights(0)[0]) is None
    table = Weights.from_table(INDICES, SHAPE, INDICES, np.array([[0, 0, 0], [1, 2, 3]]))
    assert observed_cells(table).tolist() == [[0, 0, 0], [1, 2, 3]]
    assert len(observed_cells(Weights.constant(INDICES, SHAPE, 0.0))) == 0
