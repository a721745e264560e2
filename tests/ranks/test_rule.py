"""The rule for ranks: no more than the data can use, and no more than time and memory allow."""

import numpy as np
import polars as pl

import plait
from plait.fitting.ranks import rule
from plait.fitting.ranks.rule import by_rule, scale_of

MATRIX = "X[i,j] = A[i,r] B[j,r]"
CP = "X[i,j,k] = A[i,r] B[j,r] C[k,r]"
TUCKER = "X[i,j,k] = A[i,p] B[j,q] C[k,s] G[p,q,s]"


def scale(text, array, given=None):
    return scale_of(plait.Model(text).bind({"X": array}), given or {})


def test_a_matrix_holds_no_more_components_than_its_smaller_side():
    assert scale(MATRIX, np.ones((7, 40))).room == {"r": 7}


def test_a_tensor_of_rank_one_terms_holds_as_many_as_its_smaller_sides_have_cells():
    assert scale(CP, np.ones((3, 4, 9))).room == {"r": 12}


def test_an_index_of_a_core_is_no_longer_than_the_axis_that_it_describes():
    assert scale(TUCKER, np.ones((3, 4, 9))).ranks(100) == {"p": 3, "q": 4, "s": 9}


def test_there_are_no_more_components_than_links():
    one = np.zeros((5, 5))
    one[0, 0] = one[2, 3] = 1.0
    assert scale(MATRIX, one).room == {"r": 2}


def test_sizes_that_a_given_array_has_stay():
    assert scale(TUCKER, np.ones((3, 4, 9)), {"q": 2}).ranks(3) == {"p": 3, "q": 2, "s": 3}


def test_the_rule_gives_about_three_numbers_for_every_two_coordinates_of_a_link():
    links = (np.random.default_rng(0).random((300, 300)) < 0.04).astype(float)
    found = scale(MATRIX, links)
    size = by_rule(found)
    assert 0.6 < found.numbers(size) / (1.5 * found.coordinates) < 1.6


def test_the_rule_stays_within_what_a_sweep_may_take(monkeypatch):
    links = (np.random.default_rng(0).random((300, 300)) < 0.2).astype(float)
    found = scale(MATRIX, links)
    free = by_rule(found)
    monkeypatch.setattr(rule, "ENTRIES", found.work(free) / 3)
    assert found.work(by_rule(found)) <= found.work(free) / 3


def test_the_rule_stays_within_memory(monkeypatch):
    links = (np.random.default_rng(0).random((300, 300)) < 0.2).astype(float)
    found = scale(MATRIX, links)
    monkeypatch.setattr(rule, "memory", lambda: 4 * 8 * rule.ARRAYS * found.numbers(4))
    assert by_rule(found) <= 4


def test_one_link_and_none_have_rank_1():
    assert by_rule(scale(MATRIX, pl.DataFrame({"i": ["a"], "j": ["b"]}))) == 1
    assert by_rule(scale(MATRIX, np.zeros((3, 4)))) == 1
