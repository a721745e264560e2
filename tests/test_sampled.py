"""What `make test` runs of a large cross."""

import itertools

from tests.sampled import chosen

CROSS = list(itertools.product(range(36), range(7), range(2)))


def met(cases, *places):
    return {tuple(case[place] for place in places) for case in cases}


def test_a_sample_has_every_value_of_every_parameter():
    sample = [CROSS[n] for n in chosen(CROSS, 36)]
    assert len(sample) == 36
    assert all(met(sample, place) == met(CROSS, place) for place in range(3))


def test_a_larger_sample_has_pairs_of_values_that_a_smaller_one_has_not():
    few, more = ([CROSS[n] for n in chosen(CROSS, count)] for count in (36, 72))
    assert set(few) < set(more)
    assert met(more, 1, 2) == met(CROSS, 1, 2)
    assert len(met(more, 0, 1)) == len(more)
    assert met(more, 0, 2) == met(CROSS, 0, 2)


def test_cases_that_are_fewer_are_all_taken():
    assert chosen(CROSS[:5], 36) == [0, 1, 2, 3, 4]


def test_values_that_only_some_cases_have_are_taken_too():
    cases = [(0, 0), *((n, 1) for n in range(1, 30))]
    assert 0 in chosen(cases, 2)
