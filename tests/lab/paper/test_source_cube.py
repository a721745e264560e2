"""The cube: different cells, a root mean square of 1, and noise of the size that is said."""

import numpy as np
import polars as pl

from lab.paper.sources.cube import NOISE, draw

CUBE = draw(40, 12_000, 3_000, seed=0)


def test_no_cell_is_drawn_twice_and_none_is_both_known_and_held_out():
    cells = pl.concat([CUBE.known, CUBE.held_out]).select("i", "j", "k")
    assert cells.n_unique() == len(cells) == 15_000
    assert cells.to_numpy().min() >= 0
    assert cells.to_numpy().max() < 40


def test_the_data_have_a_root_mean_square_of_1_and_noise_of_a_fifth():
    noise = CUBE.held_out["value"].to_numpy() - CUBE.truth
    inner = CUBE.truth > 4 * NOISE  # where nothing is clipped
    assert abs(np.sqrt(np.mean(CUBE.truth**2)) - 1) < 0.05
    assert abs(noise[inner].std() - NOISE) < 0.02
    assert abs(noise[inner].mean()) < 0.02
    assert CUBE.known["value"].min() == 0
    assert (CUBE.known["value"] == 0).mean() < 0.05


def test_the_data_have_rank_5():
    whole = draw(8, 511, 1, seed=1)
    cells = pl.concat([whole.known, whole.held_out]).sort("i", "j", "k")
    unfolded = cells["value"].to_numpy().reshape(8, 64)
    sizes = np.linalg.svd(unfolded, compute_uv=False)
    # Five singular values stand out of the noise, whose own are at most about NOISE (√64 + √8).
    assert sizes[0] > 5 * NOISE * (8 + np.sqrt(8))
    assert sizes[5] < NOISE * (8 + np.sqrt(8))


def test_a_seed_gives_the_same_cube():
    assert draw(10, 50, 5, seed=3).known.equals(draw(10, 50, 5, seed=3).known)
    assert not draw(10, 50, 5, seed=3).known.equals(draw(10, 50, 5, seed=4).known)
