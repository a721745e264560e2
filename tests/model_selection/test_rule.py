"""The rule for ranks: no more than the data can use, and no more than time and memory allow."""

import numpy as np
import polars as pl
import pytest

import plait
from plait.model_selection import rank_rule
from plait.model_selection.rank_rule import rank_by_rule, scale_of
from tests.support.tuning import tuned

MATRIX = "X[i,j] = A[i,r] B[j,r]"
CP = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
TUCKER = "X[i,j,k] = A[i,p] B[j,q] C[k,s] G[p,q,s]"


def scale(text, array, given=None):
    return scale_of(plait.Model(text).bind({"X": array}), given or {})


def two_links():
    X = np.zeros((5, 5))
    X[0, 0] = X[2, 3] = 1.0
    return X


@pytest.mark.parametrize(
    ("text", "array", "max_rank"),
    [
        (MATRIX, np.ones((7, 40)), 7),  # the smaller side
        (CP, np.ones((3, 4, 9)), 12),  # cells of the smaller sides
        (MATRIX, two_links(), 2),  # links
    ],
)
def test_data_have_room_for_some_components(text, array, max_rank):
    assert scale(text, array).max_ranks == {"r": max_rank}


def test_an_index_of_a_core_is_no_longer_than_its_axis_and_keeps_a_given_size():
    assert scale(TUCKER, np.ones((3, 4, 9))).ranks(100) == {"p": 3, "q": 4, "s": 9}
    assert scale(TUCKER, np.ones((3, 4, 9)), {"q": 2}).ranks(3) == {"p": 3, "q": 2, "s": 3}


def test_the_rule_gives_about_three_numbers_for_every_two_coordinates_of_a_link():
    links = (np.random.default_rng(0).random((300, 300)) < 0.04).astype(float)
    found = scale(MATRIX, links)
    size = rank_by_rule(found)
    assert 0.6 < found.numbers(size) / (1.5 * found.coordinates) < 1.6


def test_the_rule_limits_the_time_of_a_sweep_and_memory(tuning):
    found = scale(MATRIX, (np.random.default_rng(0).random((300, 300)) < 0.2).astype(float))
    free = rank_by_rule(found)
    with tuned(max_sweep_products=found.work(free) / 3):
        assert found.work(rank_by_rule(found)) <= found.work(free) / 3
    tuning(memory_bytes=4 * 8 * rank_rule.ARRAYS_PER_FACTOR * found.numbers(4))
    assert rank_by_rule(found) <= 4 < free


def test_one_link_and_none_have_rank_1():
    assert rank_by_rule(scale(MATRIX, pl.DataFrame({"i": ["a"], "j": ["b"]}))) == 1
    assert rank_by_rule(scale(MATRIX, np.zeros((3, 4)))) == 1
