"""Random weights of observed cells, and the same as dense arrays."""

import itertools

import numpy as np

from plait.data.observation.weights import Weights

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


def dense_of(weights):
    cells = np.array(list(itertools.product(*map(range, weights.shape))), np.uint32).reshape(-1, len(weights.shape))
    return weights.at(cells).reshape(weights.shape)


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
