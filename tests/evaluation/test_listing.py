"""Cells with a weight, listed as a dense array would have it."""

import numpy as np
import pytest

from plait.data.observation.weights import Weights
from plait.evaluation.strategies import cells_under, observed_cells
from tests.support.weights import INDICES, SHAPE, some_weights


@pytest.mark.parametrize("piece", [7, 2**20])
def test_listed_cells_are_those_with_a_weight(tuning, piece):
    tuning(listing_chunk=piece)
    weights, M = some_weights(0)
    np.testing.assert_array_equal(observed_cells(weights), np.argwhere(M > 0))
    under = cells_under(weights, [0, 2], np.array([[1, 4], [3, 0]]))
    expected = {(1, j, 4) for j in range(3) if M[1, j, 4] > 0} | {(3, j, 0) for j in range(3) if M[3, j, 0] > 0}
    assert {tuple(cell) for cell in under.tolist()} == expected


def test_too_many_cells_are_not_listed_but_a_table_of_them_is(tuning):
    tuning(max_listed_cells=10)
    assert observed_cells(some_weights(0)[0]) is None
    table = Weights.from_table(INDICES, SHAPE, INDICES, np.array([[0, 0, 0], [1, 2, 3]]))
    assert observed_cells(table).tolist() == [[0, 0, 0], [1, 2, 3]]
    assert len(observed_cells(Weights.constant(INDICES, SHAPE, 0.0))) == 0
