"""Boxes against dense arrays: they add up to the weights, and only ever add."""

import itertools

import numpy as np
import pytest

from plait.data.observing.cover import cover, gather, leaves, places, spread
from plait.data.observing.weights import Weights


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


def dense_of(weights):
    cells = np.array(list(itertools.product(*map(range, weights.shape))), np.uint32).reshape(-1, len(weights.shape))
    return weights.at(cells).reshape(weights.shape)


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


def random_weights(rng):
    """Like those of a relation: hidden tables over some indices, listed cells with weights, slices, an exposure."""
    order = rng.integers(1, 5)
    indices, shape = tuple("ijkl"[:order]), tuple(int(n) for n in rng.integers(1, 8, order))
    weights = Weights.constant(indices, shape, float(rng.choice([1.0, 0.3])))
    for index in indices:
        if rng.random() < 0.3:
            size = shape[indices.index(index)]
            weights = weights * Weights.from_vector(indices, shape, index, rng.choice([0.0, 1.0, 0.7], size))
    for _ in range(rng.integers(0, 3)):
        over = sorted(rng.choice(order, rng.integers(1, order + 1), replace=False).tolist())
        hidden = np.argwhere(rng.random([shape[k] for k in over]) < rng.choice([0.1, 0.5, 0.95]))
        weights = weights * (1.0 - Weights.from_table(indices, shape, [indices[k] for k in over], hidden))
    if rng.random() < 0.5:
        over = sorted(rng.choice(order, rng.integers(1, order + 1), replace=False).tolist())
        coords = np.argwhere(rng.random([shape[k] for k in over]) < 0.4)
        values = rng.choice([0.0, 1e-13, 0.5, 3.0], len(coords))
        default = Weights.from_table(indices, shape, [indices[k] for k in over], coords, -1.0) + 1.0
        weights = weights * (default + Weights.from_table(indices, shape, [indices[k] for k in over], coords, values))
    return weights


@pytest.mark.parametrize("seed", range(150))
def test_boxes_add_up_to_the_weights_and_meet_no_cell_twice(seed):
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


def test_one_hidden_cell_in_a_million_leaves_few_boxes():
    hidden = Weights.from_table(("i", "j"), (10**6, 10**6), "ij", np.array([[12_345, 678_901]]))
    assert len(cover(1.0 - hidden).values) <= 2 * 20
