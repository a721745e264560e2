"""What `make test` runs of a large cross."""

import itertools

import pytest

from tests.models import MODELS
from tests.sampled import chosen, dearness, numbered, usual

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


def test_values_are_told_apart_whatever_they_are():
    arrays = [], []  # equal, and no keys
    cases = [{"a": a, "b": b} for a in ("x", "y") for b in arrays]
    assert numbered(cases) == [(0, 0), (0, 1), (1, 0), (1, 1)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("other", [{"a": 1}, {}], ids=str)
@pytest.mark.parametrize("one", ["a", "b", "c", "d"])
def test_this_very_sample_has_every_value_of_every_parameter(one, other, request):
    """As pytest makes the cases: what it says of their values has changed before."""
    here = request.node.nodeid.partition("[")[0]
    cases = [item.callspec.params for item in request.session.items if item.nodeid.startswith(f"{here}[")]
    if len(cases) >= 4:  # not where some were asked for
        assert {case["one"] for case in cases} == {"a", "b", "c", "d"}
        assert {len(case["other"]) for case in cases} == {0, 1}


# --- kernels are shared


def sample(names, count, **others):
    cases = [dict(zip(("name", *others), values)) for values in itertools.product(names, *others.values())]
    found = chosen(numbered(cases), count, [dearness(case) for case in cases])
    return [cases[n] for n in found]


LIKELIHOODS = {"likelihood": ["poisson", "bernoulli"]}


def test_samples_of_all_tests_have_a_model_under_the_same_likelihood():
    plain = sample(MODELS, 12, way=range(7), **LIKELIHOODS)
    assert all(case["likelihood"] == usual(case["name"], "likelihood") for case in plain)
    assert met(map(list, map(dict.values, plain)), 1) == {(way,) for way in range(7)}


def test_samples_of_all_tests_begin_with_the_same_models():
    few, more = ({case["name"] for case in sample(MODELS, count, **LIKELIHOODS)} for count in (6, 12))
    assert few < more
    assert {case["name"] for case in sample([*MODELS][::-1], 12, way=range(3), **LIKELIHOODS)} == more
