"""Covers of weights by boxes, against dense arrays."""

import numpy as np
import pytest

from plait.data.observation.cover import cover, gather, leaves, places, spread
from plait.data.observation.weights import Weights
from tests.support.weights import dense_of, random_weights


def ranges(size):
    """The entities of every place, by definition."""
    half = leaves(size)
    nodes = [[]]
    for node in range(1, 2 * half):
        low = high = node
        while low < half:
            low, high = 2 * low, 2 * high + 1
        nodes.append([e for e in range(low - half, high - half + 1) if e < size])
    return [[e] for e in range(size)] + nodes


def dense_of_cover(found, weights):
    total, times = np.zeros(weights.shape), np.zeros(weights.shape, int)
    for box, value in zip(found.boxes, found.values):
        sides = [ranges(size)[place] for place, size in zip(box, weights.shape)]
        part = np.array(value)
        for place, size, index, side in zip(box, weights.shape, weights.indices, sides):
            vector = found.vectors.get(index, np.ones(size))[side] if place >= size else np.ones(len(side))
            part = np.multiply.outer(part, vector)
        total[np.ix_(*sides)] += part
        times[np.ix_(*sides)] += 1
    return total, times


@pytest.mark.parametrize("seed", range(150))
def test_boxes_sum_to_the_weights_and_do_not_overlap(seed):
    weights = random_weights(np.random.default_rng(seed))
    found = cover(weights)
    total, times = dense_of_cover(found, weights)
    np.testing.assert_allclose(total, dense_of(weights), rtol=1e-14, atol=0)
    assert (found.values > 0).all()
    assert times.max(initial=0) <= 1
    assert (times[dense_of(weights) > 0] == 1).all()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9])
def test_sums_over_places_and_their_gradient_follow_the_definition(size):
    rng = np.random.default_rng(size)
    x, weights = rng.random((3, size, 2)), rng.random(size)
    table = np.zeros((places(size), size))
    for place, entities in enumerate(ranges(size)):
        table[place, entities] = weights[entities] if place >= size else 1.0
    np.testing.assert_allclose(gather(x, 1, weights), np.einsum("pe,aeb->apb", table, x), rtol=1e-14)
    y = rng.random((3, places(size), 2))
    np.testing.assert_allclose(spread(y, 1, size, weights), np.einsum("pe,apb->aeb", table, y), rtol=1e-14)
    assert gather(x, 1, None)[:, size + 1] == pytest.approx(x.sum(axis=1))


def test_one_hidden_cell_needs_few_boxes():
    hidden = Weights.from_table(("i", "j"), (10**6, 10**6), "ij", np.array([[12_345, 678_901]]))
    assert len(cover(1.0 - hidden).values) <= 2 * 20
