"""Data of a known rank: their total, their rank, and that a seed means the same data."""

import numpy as np
import pytest

from lab.paper.sources.drawn import draw

SHAPE = (12, 10, 5)


@pytest.mark.parametrize("counts", [500, 20_000])
def test_counts_add_up_to_what_was_asked_for(counts):
    X = draw(SHAPE, 3, counts, seed=0)
    assert X.shape == SHAPE
    assert X.dtype.kind == "i"
    assert abs(X.sum() - counts) < 5 * np.sqrt(counts)


def test_with_many_counts_the_rank_is_that_of_the_unfolded_array():
    X = draw((12, 10, 8), 3, 10**10, seed=1)
    values = np.linalg.svd(X.reshape(12, -1).astype(float), compute_uv=False)
    assert values[2] > 30 * values[3]  # what is left is Poisson noise


def test_a_seed_means_the_same_data_and_another_seed_others():
    first, again, other = (draw(SHAPE, 3, 2000, seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
